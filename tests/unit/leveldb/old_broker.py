"""What an ActiveMQ 5.16 makes of a LevelDB directory when it starts, written from its rules and not from this project's
reader: the newest snapshot as LevelDB itself reads it, and the log behind, up to the first removed collection.

Of `jdbcstore` only OpenWire is used.
"""

from __future__ import annotations

import shutil
import struct
import zlib
from bisect import bisect_right
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import plyvel

from jdbcstore.openwire import unmarshal, unmarshal_message


def fields(data: bytes) -> dict[int, Any]:
    """A protobuf message with varints and bytes, each field once."""
    found: dict[int, Any] = {}
    o = 0
    while o < len(data):
        tag, o = varint(data, o)
        if tag & 7 == 0:
            found[tag >> 3], o = varint(data, o)
        else:
            assert tag & 7 == 2, f"wire type {tag & 7}"
            size, o = varint(data, o)
            found[tag >> 3], o = data[o : o + size], o + size
            assert o <= len(data)
    return found


def varint(data: bytes, o: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while True:
        value |= (data[o] & 0x7F) << shift
        o, shift = o + 1, shift + 7
        if data[o - 1] < 0x80:
            return value, o


class OldBroker:
    """The state after a start.

    Args:
        directory: of the store.
    """

    def __init__(self, directory: Path) -> None:
        shutil.rmtree(directory / "dirty.index", ignore_errors=True)
        assert (directory / "store-version.txt").read_text().strip() == "activemq_leveldb_store:1"
        self.logs = {int(path.stem, 16): path.read_bytes() for path in sorted(directory.glob("*.log"))}
        self.collections: dict[int, tuple[int, bytes]] = {}
        self.entries: dict[int, dict[bytes, dict[int, Any]]] = {}
        #: Where the replay ended before the log did; None if it did not.
        self.died_at: int | None = None
        start = self._snapshot(directory)
        for position, kind, data in self._units(start):
            if kind == 2:
                self.died_at = position
                return
            self._take(kind, data)

    def _snapshot(self, directory: Path) -> int:
        newest = max((path for path in directory.glob("*.index") if len(path.stem) == 16), default=None)
        if newest is None:
            return min(self.logs)
        working = Path(shutil.copytree(newest, directory / "dirty.index", dirs_exist_ok=False))
        with plyvel.DB(str(working)) as database:
            for key, value in database:
                if key[:1] == b"c":
                    record = fields(value)
                    self.collections[record[1]] = record[2], record.get(3, b"")
                elif key[:1] == b"e":
                    (collection,) = struct.unpack(">q", key[1:9])
                    self.entries.setdefault(collection, {})[key[9:]] = fields(value)
        shutil.rmtree(working)
        return int(newest.stem, 16)

    def _units(self, start: int) -> Iterator[tuple[int, int, bytes]]:
        """Records of whole units of work from a position on."""
        held: list[tuple[int, int, bytes]] = []
        for base, log in self.logs.items():
            following = min((one for one in self.logs if one > base), default=None)
            o = max(0, start - base)
            while o + 10 <= len(log) and log[o : o + 1] == b"*":
                kind, checksum, size = struct.unpack_from(">bIi", log, o + 1)
                data = log[o + 10 : o + 10 + size]
                assert len(data) == size
                assert zlib.crc32(data) == checksum
                if kind == -1:
                    assert not held or held[0][0] == struct.unpack(">q", data)[0], "a unit begins elsewhere"
                    yield from held
                    held.clear()
                else:
                    held.append((base + o, kind, data))
                o += 10 + size
            assert following is None or base + o >= following or not any(log[o:]), "the log has a gap"
        assert not held

    def _take(self, kind: int, data: bytes) -> None:
        if kind in (5, 6):
            return
        record = fields(data)
        if kind == 1:
            self.collections[record[1]] = record[2], record.get(3, b"")
        elif kind in (3, 7):
            self.entries.setdefault(record[1], {})[record[2]] = record
        elif kind == 4:
            self.entries.get(record[1], {}).pop(record[2], None)
        else:
            raise AssertionError(f"kind {kind}")

    def _id(self, entry: dict[int, Any]) -> str:
        bases = sorted(self.logs)
        base = bases[bisect_right(bases, entry[3]) - 1]
        log, o = self.logs[base], entry[3] - base
        star, kind, _, size = struct.unpack_from(">cbIi", log, o)
        assert (star, kind) == (b"*", 5)
        assert entry.get(4, size) == size
        return str(unmarshal_message(log[o + 10 : o + 10 + size]).message_id)

    def _of(self, kind: int) -> list[tuple[int, bytes]]:
        return [(key, meta) for key, (found, meta) in self.collections.items() if found == kind]

    def _messages(self, key: int, after: int = 0) -> list[str]:
        entries = sorted(self.entries.get(key, {}).items())
        return [self._id(entry) for number, entry in entries if int.from_bytes(number, "big") > after]

    def queues(self) -> dict[str, list[str]]:
        """Message ids by queue, those of prepared transactions hidden."""
        hidden = {
            struct.unpack_from(">qq", entry[6], 12)
            for key, _ in self._of(3)
            for entry in self.entries.get(key, {}).values()
            if 6 in entry
        }
        found = {}
        for key, meta in self._of(1):
            entries = sorted(self.entries.get(key, {}).items())
            found[meta.decode()] = [
                self._id(entry) for number, entry in entries if (key, int.from_bytes(number, "big")) not in hidden
            ]
        return {name: ids for name, ids in found.items() if ids}

    def subscriptions(self) -> dict[str, list[str]]:
        """What each durable subscription gets."""
        found = {}
        for key, meta in self._of(4):
            record = fields(meta)
            position = self.entries.get(key, {}).get(b"p", {}).get(3, 0)
            found[f"{record[2].decode()}:{record[3].decode()}"] = self._messages(record[1], position)
        return found

    def prepared(self) -> list[str]:
        """Transactions in doubt."""
        return [str(unmarshal(meta)) for _, meta in self._of(3)]
