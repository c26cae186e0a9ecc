"""The tests of the programs that we plug into, as `scripts/host-suites` has unpacked them."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from types import ModuleType

from tests.servers.mysql import FOLDER_VARIABLE
from tests.servers.server import CHECKOUT, ServerMissing

__all__ = ["host_package", "host_suite"]


def _folder(host: str) -> Path:
    folder = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / f"{host}-{version(host)}"
    if not (folder / "ready").exists():
        raise ServerMissing(f"the tests of {host}")
    return folder


@contextmanager
def host_package(host: str, package: str) -> Iterator[Callable[[str], ModuleType]]:
    """Import modules of a host's tests that import each other, by a name that ours have, too: only in this block.

    Args:
        host: as for `host_suite`.
        package: the top of their names.

    Yields:
        What imports one of them by its name.
    """

    def is_theirs(name: str) -> bool:
        return name == package or name.startswith(f"{package}.")

    ours = {name: sys.modules.pop(name) for name in list(sys.modules) if is_theirs(name)}
    sys.path.insert(0, str(_folder(host)))
    try:
        yield importlib.import_module
    finally:
        sys.path.pop(0)
        for name in [name for name in sys.modules if is_theirs(name)]:
            del sys.modules[name]
        sys.modules.update(ours)


def host_suite(host: str, file: str) -> ModuleType:
    """A module of a host's tests, of the version that is installed.

    Args:
        host: ``kombu`` or ``coilmq``.
        file: in its source distribution.

    Raises:
        ServerMissing: it is not there; the text says what to do.
    """
    folder = _folder(host)
    name = f"{host}_suite.{file.removesuffix('.py').replace('/', '.')}"
    spec = importlib.util.spec_from_file_location(name, folder / file)
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
