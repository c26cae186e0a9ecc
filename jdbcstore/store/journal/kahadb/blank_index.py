"""An empty ``db.data``: it tells a Java broker in which OpenWire version the messages are written, and nothing else.

The journal does not say the version; a broker knows it from its index only. One that finds no index takes its default,
11, and fails on the first record of another. So where the messages are of another version, ours leaves this in the
place of the index that it has overtaken: a broker reads the version, finds nothing else, and makes its index from the
journal. It is the same bytes for one version, so a broker that opened it (it writes at once) is noticed.

The layout is that of `jdbcstore.store.journal.kahadb.pagefile`: page 0 with no place in the journal, page 1 an empty
tree. A real 5.17.2 is started on it by ``tests/compat``.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final

from jdbcstore.errors import IndexDamaged
from jdbcstore.openwire import STORE_VERSION
from jdbcstore.store.disk import force_directory, remove
from jdbcstore.store.journal.file_errors import reading, writing
from jdbcstore.store.journal.file_replacement import replaced_file
from jdbcstore.store.journal.kahadb.journal import FILE_PATTERN
from jdbcstore.store.journal.kahadb.pagefile import stored_wire_version

__all__ = ["NAMES", "is_blank_index", "is_brokers_index", "leave_blank_index", "wire_version_of"]

#: What a broker's index consists of. The first is what it looks for.
NAMES: Final = ("db.data", "db.redo", "db.free")

_PAGE_BYTES: Final = 4096
_HEADER_COPY_BYTES: Final = 2048
_PROPERTIES: Final = {
    "fileType": "org.apache.activemq.store.kahadb.disk.page.PageFile",
    "fileTypeVersion": "1",
    "metaDataTxId": "1",
    "pageSize": str(_PAGE_BYTES),
    "cleanShutdown": "true",  # so neither redo buffer nor list of free pages is looked at
    "lastTxId": "2",
    "freePages": "0",
}
_PAGE_HEAD: Final = struct.Struct(">bqqi")
_PAGE_END: Final = 2
#: State "closed", page of the tree, no place of the last update, of open transactions and of the producer audit,
#: version of the index, no place of the map of acknowledgements, OpenWire version.
_METADATA: Final = struct.Struct(">iq???i?i")
#: Of the index: that of brokers since 5.16. Earlier ones can read it since it is empty.
_INDEX_VERSION: Final = 7
#: No keys, a leaf, no next leaf.
_EMPTY_TREE: Final = struct.pack(">h?q", 0, False, -1)
_INT32: Final = struct.Struct(">i")
_WIRE_VERSION_OFFSET: Final = _PAGE_BYTES + _PAGE_HEAD.size + _METADATA.size - 4


def blank_index(wire_version: int) -> bytes:
    """The whole file.

    Args:
        wire_version: the OpenWire version that it tells.
    """
    header = "#\n" + "".join(f"{name}={value}\n" for name, value in _PROPERTIES.items())
    metadata = _METADATA.pack(1, 1, False, False, False, _INDEX_VERSION, False, wire_version)
    return header.encode().ljust(_HEADER_COPY_BYTES) * 2 + _page(metadata) + _page(_EMPTY_TREE)


def _page(content: bytes) -> bytes:
    head = _PAGE_HEAD.pack(_PAGE_END, 1, _PAGE_HEAD.size + len(content), 0)
    return (head + content).ljust(_PAGE_BYTES, b"\0")


def is_blank_index(directory: Path) -> bool:
    """Whether the ``db.data`` of a directory is one of ours that no broker has opened.

    Raises:
        StoreError: it cannot be read.
    """
    path = directory / NAMES[0]
    with reading(str(path)):
        if not path.is_file() or path.stat().st_size != len(blank_index(STORE_VERSION)):
            return False
        data = path.read_bytes()
    return data == blank_index(
        int.from_bytes(data[_WIRE_VERSION_OFFSET : _WIRE_VERSION_OFFSET + 4], "big", signed=True)
    )


def is_brokers_index(directory: Path) -> bool:
    """Whether a directory has the index of a broker. Raises `StoreError` when it cannot be read."""
    return (directory / NAMES[0]).exists() and not is_blank_index(directory)


def wire_version_of(directory: Path) -> int | None:
    """In which OpenWire version the messages of a directory are, by its ``db.data``; None if there is none to tell.

    Args:
        directory: of the index.

    Raises:
        StoreError: it cannot be read.
    """
    if not (directory / NAMES[0]).is_file():
        return None
    try:
        return stored_wire_version(directory)
    except IndexDamaged:  # brokers make a new one, of the version that they are told
        return None


def leave_blank_index(directory: Path, wire_version: int | None) -> None:
    """Put an empty index in the place of a broker's, or remove that. After a crash there is the one or the other.

    Args:
        directory: of the index.
        wire_version: what it tells; None for no index.

    Raises:
        StoreError: the disk refuses.
    """
    with writing(str(directory / NAMES[0])):
        if wire_version is not None:
            with replaced_file(directory / NAMES[0], FILE_PATTERN) as file:
                file.write(blank_index(wire_version), 0)
        gone = [remove(directory / name) for name in NAMES[wire_version is not None :]]
        if any(gone):
            force_directory(directory)
