"""The tests of the programs that we plug into, as `scripts/host-suites` has unpacked them."""

from __future__ import annotations

import importlib.util
import os
import sys
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from tests.servers.mysql import FOLDER_VARIABLE
from tests.servers.server import CHECKOUT, ServerMissing

__all__ = ["host_suite"]


def host_suite(host: str, file: str) -> ModuleType:
    """A module of a host's tests, of the version that is installed.

    Args:
        host: ``kombu`` or ``coilmq``.
        file: in its source distribution.

    Raises:
        ServerMissing: it is not there; the text says what to do.
    """
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / f"{host}-{version(host)}"
    if not (folder / "ready").exists():
        raise ServerMissing(f"the tests of {host}")
    name = f"{host}_suite.{file.removesuffix('.py').replace('/', '.')}"
    spec = importlib.util.spec_from_file_location(name, folder / file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
