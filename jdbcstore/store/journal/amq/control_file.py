"""``data-control``: what a broker knows of its journal without reading it, twice, so that one copy is always whole.

A copy is an int64 version, an int32 length, so many bytes, and at its end the version again. The second one counts if
its two versions agree, else the first. What stands in it: a checkpoint mark and the last record, each a flag and a
location.

A broker trusts the last record: if it lies in the last file, it looks for more records from there on only. What we
write makes that wrong. So it is taken out before anything is written (`forget_places`): a broker then reads its last
file from the beginning, and removes none before it has made a mark of its own.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Final, NamedTuple

from jdbcstore.store.journal.file_errors import reading, writing
from jdbcstore.store.journal.file_replacement import replaced_file

__all__ = ["NAME", "ControlFile", "Place", "forget_places", "read_control_file"]

NAME: Final = "data-control"
_RECORD_MAX: Final = 1024
_HEAD: Final = struct.Struct(">qi")
_VERSION: Final = struct.Struct(">q")
_PLACE: Final = struct.Struct(">iiib")
#: Where each copy begins, and where its second version stands.
_COPIES: Final = ((1044, 2080), (0, 1036))
_SIZE: Final = 2088


class Place(NamedTuple):
    """Where a record stands."""

    file: int
    offset: int
    size: int
    type: int


class ControlFile(NamedTuple):
    """What stands in it."""

    version: int
    mark: Place | None
    last: Place | None


def read_control_file(directory: Path) -> ControlFile | None:
    """What the file of a journal says; None if there is none, or it says nothing that can be read.

    Raises:
        StoreError: it cannot be read.
    """
    path = directory / NAME
    if not path.exists():
        return None
    with reading(str(path)):
        data = path.read_bytes()
    for start, end in _COPIES:
        try:
            version, length = _HEAD.unpack_from(data, start)
            if _VERSION.unpack_from(data, end)[0] != version or not 0 <= length <= _RECORD_MAX:
                continue
            content = data[start + _HEAD.size : start + _HEAD.size + length]
            mark, o = _place(content, 0)
            last, o = _place(content, o)
        except (struct.error, IndexError):
            continue
        return ControlFile(version, mark, last)
    return None


def _place(content: bytes, o: int) -> tuple[Place | None, int]:
    if not content[o]:
        return None, o + 1
    return Place(*_PLACE.unpack_from(content, o + 1)), o + 1 + _PLACE.size


def forget_places(directory: Path, file_pattern: str) -> None:
    """Make sure that the file of a journal names no record.

    Raises:
        StoreError: it cannot be read or written.
    """
    known = read_control_file(directory)
    if known is not None and known.mark is None and known.last is None:
        return
    version = 1 if known is None else known.version + 1
    data = bytearray(_SIZE)
    for start, end in _COPIES:
        _HEAD.pack_into(data, start, version, 2)
        _VERSION.pack_into(data, end, version)
    path = directory / NAME
    with writing(str(path)), replaced_file(path, file_pattern) as file:
        file.write(data, 0)
