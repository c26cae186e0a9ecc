"""The directories of the vectors, unpacked once."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.unit.kahadb.journals import VECTORS, unpack


@pytest.fixture(scope="session")
def vectors(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, dict[str, Any]]:
    """Directories of message stores, and what ActiveMQ found in them."""
    found = {}
    for archive in sorted(VECTORS.glob("*.tar.xz")):
        folder = tmp_path_factory.mktemp(archive.name.removesuffix(".tar.xz"), numbered=False)
        (store,) = [one for one in unpack(folder.name, folder)["stores"] if one["kind"] != "scheduler"]
        found[folder / store["path"]] = store["replay"]
    assert len(found) == 13
    return found
