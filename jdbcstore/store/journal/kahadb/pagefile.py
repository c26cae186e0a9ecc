"""The index of a KahaDB directory, ``db.data``: what its broker knew when it last wrote it. Reading only.

A file of pages. Page 0 of the content says where the tree of destinations begins, and up to which record of the journal
the index goes; each destination has trees of its own for its messages, a topic four more for its subscriptions. What
the broker was writing when it was killed stands in ``db.redo``, too: pages from there count before those of the file.

An index that was not closed cleanly is merely old: what the journal says after `PageFile.last_update` is not in it.
Every page is visited once, so a damaged file ends in an error, and in no loop.

Source of the format: directories of ActiveMQ 5.17.2; the same in 5.16 to 6.3, and but for the statistics in 5.12.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple, Self, TypeVar, cast

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError, IndexDamaged
from jdbcstore.modified_utf8 import decode_any_utf8
from jdbcstore.store.journal.commands import COMMANDS, Command, Subscription
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.decoding import READERS, Malformed, varint
from jdbcstore.store.journal.kahadb.journal import KahaDBLocation, Location
from jdbcstore.store.journal.sequences import SequenceSet
from jdbcstore.store.journal.state import LastAck, Tier

__all__ = ["IndexDestination", "IndexMessage", "IndexPlace", "IndexSubscription", "PageFile", "stored_wire_version"]

_HEADER_BYTES: Final = 4096
_HEADER_COPY_BYTES: Final = 2048
_PAGE_HEAD: Final = struct.Struct(">bqqi")
_PAGE_PART, _PAGE_END = 1, 2
_PAGE_BYTES_MAX: Final = 1 << 20
_REDO_HEAD: Final = struct.Struct(">qqi")
_REDO_HEAD_BYTES: Final = 4096
_VERSIONS: Final = (6, 7)
_ACK_MAP_SINCE: Final = 5
#: What brokers wrote before their index told it.
_OPENWIRE_BEFORE_5_12: Final = 6
_DESTINATION_KINDS: Final = (Queue, Topic, TempQueue, TempTopic)
_FILE_TYPE: Final = "org.apache.activemq.store.kahadb.disk.page.PageFile"

_T = TypeVar("_T")


class IndexPlace(NamedTuple):
    """Where a record of the journal stands; the index does not always say how long it is."""

    file: int
    offset: int

    def __str__(self) -> str:
        return f"db-{self.file}.log:{self.offset}"


class IndexMessage(NamedTuple):
    """A message of a destination."""

    message_id: str
    sequence: int
    location: Location
    tier: Tier


@dataclass(slots=True)
class IndexSubscription:
    """A durable subscription."""

    key: str
    command: Subscription
    """The record that made it."""
    location: IndexPlace | None
    last_ack: LastAck | None
    pending: SequenceSet
    """As `jdbcstore.store.journal.state.StoredSubscription.pending`."""


@dataclass(slots=True)
class IndexDestination:
    """A destination; its messages are read when somebody asks for them."""

    destination: Destination
    subscriptions: dict[str, IndexSubscription]
    _read: Callable[[], Iterator[IndexMessage]] = field(repr=False)

    def messages(self) -> Iterator[IndexMessage]:
        """Its messages in the order in which the broker reads them.

        Raises:
            IndexDamaged: the trees cannot be read.
            StoreError: the file cannot be read.
        """
        return self._read()


class PageFile:
    """The index of a directory. Close it, or use it as a context manager.

    Args:
        directory: where ``db.data`` is (the broker's ``indexDirectory``, if it has one).

    Attributes:
        closed_cleanly: whether the broker was stopped in order.
        redone: pages that were taken from ``db.redo``.
        state: 1 closed, 2 open, as the broker wrote it.
        last_update: the last record of the journal that is in the index; None of an empty one.
        first_in_progress: the first record of the transactions that were open then.
        producer_audit, ack_map: where the newest records of these kinds stand.
        version: of the index: 7 since ActiveMQ 5.16, 6 since 5.12.
        openwire_version: in which the messages are written.

    Raises:
        IndexDamaged: it is no index, of an unknown version, or damaged.
        StoreError: it cannot be read.
    """

    def __init__(self, directory: Path | str) -> None:
        self.path: Final = Path(directory) / "db.data"
        with reading(str(self.path)):
            self._file: BinaryIO = self.path.open("rb")
        try:
            self._open()
        except BaseException:
            self._file.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let the file go."""
        self._file.close()

    def _open(self) -> None:
        with reading(str(self.path)):
            self._pages_bytes = self._file.seek(0, 2) - _HEADER_BYTES
            self._file.seek(0)
            header = self._file.read(_HEADER_BYTES)
        properties = _properties(header[:_HEADER_COPY_BYTES]) or _properties(header[_HEADER_COPY_BYTES:])
        if properties is None:
            raise self._damaged("its header cannot be read")
        try:
            self._page_bytes = int(properties["pageSize"])
        except (KeyError, ValueError):
            raise self._damaged("its header names no page size") from None
        if not _PAGE_HEAD.size < self._page_bytes <= _PAGE_BYTES_MAX:
            raise self._damaged(f"its header says that pages have {self._page_bytes} bytes")
        self.closed_cleanly = properties.get("cleanShutdown") == "true"
        self._redo = {} if self.closed_cleanly else self._redo_pages()
        self.redone = len(self._redo)
        self._owners: dict[int, int] = {}
        self._metadata()

    def _metadata(self) -> None:
        read = _Reader(self._content(0, owner=0, seen=set()), self._damaged)
        self.state, self._root = read.unpack(_METADATA)
        self.last_update = read.optional_place()
        self.first_in_progress = read.optional_place()
        self.producer_audit = read.optional_place() if read.remain else None
        self.version = read.int32() if read.remain else 1
        self._check_version()
        self.ack_map = read.optional_place() if self.version >= _ACK_MAP_SINCE else None
        self.openwire_version = read.int32() if read.remain else _OPENWIRE_BEFORE_5_12

    def _check_version(self) -> None:
        if self.version not in _VERSIONS:
            raise self._damaged(
                f"the index is of version {self.version}, and 6 and 7 can be read (brokers since 5.12);"
                " the journal does not need it"
            )

    # -- destinations --------------------------------------------------------------------------------------------

    def destinations(self) -> Iterator[IndexDestination]:
        """All destinations, in the order of their names.

        Raises:
            IndexDamaged: the trees cannot be read.
            StoreError: the file cannot be read.
        """
        roots: set[int] = {0}
        for key, value in self._tree(self._own(self._root, roots), _text, self._destination_value):
            kind, _, name = key.partition(":")
            if kind not in ("0", "1", "2", "3") or not name:
                raise self._damaged(f"{key!r} is no destination")
            for page in value:
                if page is not None:
                    self._own(page, roots)
            subscriptions = {} if value.subscriptions is None else self._subscriptions(value)
            destination = _DESTINATION_KINDS[int(kind)].decoded(name)
            yield IndexDestination(destination, subscriptions, partial(self._messages, value))

    def _messages(self, roots: _Roots) -> Iterator[IndexMessage]:
        for root, tier in ((roots.high, Tier.HIGH), (roots.order, Tier.DEFAULT), (roots.low, Tier.LOW)):
            for sequence, (message_id, location) in self._tree(root, _Reader.int64, _message):
                yield IndexMessage(message_id, sequence, location, tier)

    def _own(self, page: int, roots: set[int]) -> int:
        if page in roots:
            raise self._damaged(f"page {page} begins two trees")
        roots.add(page)
        return page

    def _destination_value(self, read: _Reader) -> _Roots:
        order, location, id_ = read.unpack(_THREE_PAGES)
        topic = read.unpack(_FOUR_PAGES) if read.flag() else (None,) * 4
        low, high = read.unpack(_TWO_PAGES)
        if self.version >= 7:
            read.int64()  # statistics
        return _Roots(order, location, id_, low, high, *topic)

    def _subscriptions(self, roots: _Roots) -> dict[str, IndexSubscription]:
        assert roots.subscriptions is not None
        assert roots.acks is not None
        assert roots.positions is not None
        assert roots.places is not None
        acks = dict(self._tree(roots.acks, _text, _last_ack))
        positions = dict(self._list(roots.positions, _text, _positions))
        places = dict(self._list(roots.places, _text, _place))
        return {
            key: IndexSubscription(key, command, places.get(key), acks.get(key), positions.get(key, SequenceSet()))
            for key, command in self._tree(roots.subscriptions, _text, _subscription)
        }

    # -- trees and lists -----------------------------------------------------------------------------------------

    def _tree(
        self, root: int, key: Callable[[_Reader], _T], value: Callable[[_Reader], Any]
    ) -> Iterator[tuple[_T, Any]]:
        """Keys and values of all leaves, in their order."""
        seen: set[int] = set()
        left = [root]
        while left:
            page = left.pop()
            read = _Reader(self._content(page, root, seen), self._damaged)
            keys = [key(read) for _ in range(read.count())]
            if read.flag():
                left += reversed([read.int64() for _ in range(len(keys) + 1)])
            else:
                values = [value(read) for _ in keys]
                yield from zip(keys, values, strict=True)

    def _list(
        self, root: int, key: Callable[[_Reader], _T], value: Callable[[_Reader], Any]
    ) -> Iterator[tuple[_T, Any]]:
        seen: set[int] = set()
        page = root
        while page >= 0:
            read = _Reader(self._content(page, root, seen), self._damaged)
            page = read.int64()
            for _ in range(read.count()):
                yield key(read), value(read)

    # -- pages ---------------------------------------------------------------------------------------------------

    def _content(self, page: int, owner: int, seen: set[int]) -> bytes:
        """What stands on this page and those that continue it."""
        parts: list[bytes] = []
        while True:
            if page in seen or self._owners.setdefault(page, owner) != owner:
                raise self._damaged(f"page {page} is used twice")
            seen.add(page)
            data = self._page(page)
            kind, _, following, _ = _PAGE_HEAD.unpack_from(data)
            if kind == _PAGE_END:
                if not _PAGE_HEAD.size <= following <= self._page_bytes:
                    raise self._damaged(f"page {page} ends at its byte {following}")
                parts.append(data[_PAGE_HEAD.size : following])
                return b"".join(parts)
            if kind != _PAGE_PART:
                raise self._damaged(f"page {page} is needed and {'free' if kind == 0 else f'of type {kind}'}")
            parts.append(data[_PAGE_HEAD.size :])
            page = following

    def _page(self, page: int) -> bytes:
        redone = self._redo.get(page)
        if redone is not None:
            return redone
        if not 0 <= page * self._page_bytes <= self._pages_bytes - self._page_bytes:
            raise self._damaged(f"page {page} is not in the file")
        with reading(str(self.path)):
            self._file.seek(_HEADER_BYTES + page * self._page_bytes)
            data = self._file.read(self._page_bytes)
        if len(data) < self._page_bytes:
            raise self._damaged(f"page {page} is not in the file")
        return data

    def _redo_pages(self) -> dict[int, bytes]:
        """Pages of ``db.redo``; none if there is no such file, or if it was not written to its end."""
        path = self.path.with_name("db.redo")
        if not path.is_file():
            return {}
        entry = 8 + self._page_bytes
        with reading(str(path)), path.open("rb") as source:
            head = source.read(_REDO_HEAD_BYTES)
            if len(head) < _REDO_HEAD_BYTES:
                return {}
            _, checksum, count = _REDO_HEAD.unpack_from(head)
            if not 0 < count <= (path.stat().st_size - _REDO_HEAD_BYTES) // entry:
                return {}
            pages: dict[int, bytes] = {}
            found = 1
            for _ in range(count):
                data = source.read(entry)
                if len(data) < entry:
                    return {}
                pages[int.from_bytes(data[:8], "big", signed=True)] = data[8:]
                found = zlib.adler32(data[8:], found)
        return pages if found == checksum else {}

    def _damaged(self, what: str) -> IndexDamaged:
        return IndexDamaged(f"{self.path}: {what}")


class _AnyVersion(PageFile):
    """Only the metadata of an index, of any version."""

    def _check_version(self) -> None:
        pass


def stored_wire_version(directory: Path | str) -> int:
    """The OpenWire version of a directory's messages, which its index tells, also one of a broker before 5.12.

    Raises:
        IndexDamaged: it is no index, or damaged.
        StoreError: it cannot be read.
    """
    with _AnyVersion(directory) as index:
        return index.openwire_version


class _Roots(NamedTuple):
    """First pages of a destination's trees."""

    order: int
    location: int
    id: int
    low: int
    high: int
    subscriptions: int | None
    acks: int | None
    positions: int | None
    places: int | None


_METADATA: Final = struct.Struct(">iq")
_TWO_PAGES: Final = struct.Struct(">qq")
_THREE_PAGES: Final = struct.Struct(">qqq")
_FOUR_PAGES: Final = struct.Struct(">qqqq")
_PLACE: Final = struct.Struct(">ii")
_LOCATION: Final = struct.Struct(">iii")
_LAST_ACK: Final = struct.Struct(">qb")
_INT16: Final = struct.Struct(">h")
_INT32: Final = struct.Struct(">i")
_INT64: Final = struct.Struct(">q")


class _Reader:
    """Values of a node, one after the other."""

    __slots__ = ("_damaged", "_data", "_o")

    def __init__(self, data: bytes, damaged: Callable[[str], IndexDamaged]) -> None:
        self._data = data
        self._o = 0
        self._damaged = damaged

    @property
    def remain(self) -> int:
        """Bytes that were not read."""
        return len(self._data) - self._o

    def unpack(self, what: struct.Struct) -> tuple[Any, ...]:
        o = self._o
        if len(self._data) - o < what.size:
            raise self.ended()
        self._o = o + what.size
        return what.unpack_from(self._data, o)

    def ended(self) -> IndexDamaged:
        return self._damaged("a node ends within a value")

    def int32(self) -> int:
        value: int = self.unpack(_INT32)[0]
        return value

    def int64(self) -> int:
        value: int = self.unpack(_INT64)[0]
        return value

    def count(self) -> int:
        value: int = self.unpack(_INT16)[0]
        if value < 0:
            raise self._damaged(f"a node of {value} keys")
        return value

    def flag(self) -> bool:
        return self.take(1) != b"\x00"

    def optional_place(self) -> IndexPlace | None:
        return _place(self) if self.flag() else None

    def take(self, length: int) -> bytes:
        o = self._o
        if not 0 <= length <= len(self._data) - o:
            raise self.ended()
        self._o = o + length
        return self._data[o : o + length]

    def text(self) -> str:
        data = self.take(int.from_bytes(self.take(2), "big"))
        try:
            return decode_any_utf8(data)
        except CodecError as error:
            raise self._damaged(f"a text that cannot be read: {error}") from None

    def framed(self, command: type[Command]) -> Command:
        try:
            length, start = varint(self._data, self._o)
        except IndexError:
            raise self.ended() from None
        except Malformed as error:
            raise self._damaged(str(error)) from None
        self._o = start
        body = self.take(length)
        try:
            return READERS[COMMANDS.index(command)](body, 0, len(body))
        except Malformed as error:
            raise self._damaged(f"a {command.__name__} that cannot be read: {error}") from None


def _text(read: _Reader) -> str:
    return read.text()


def _place(read: _Reader) -> IndexPlace:
    return IndexPlace(*read.unpack(_PLACE))


def _message(read: _Reader) -> tuple[str, Location]:
    return read.text(), KahaDBLocation(*read.unpack(_LOCATION))


def _last_ack(read: _Reader) -> LastAck:
    sequence, priority = read.unpack(_LAST_ACK)
    return LastAck(sequence, Tier.of(priority))


def _positions(read: _Reader) -> SequenceSet:
    found = SequenceSet()
    for _ in range(read.int32()):
        is_range = read.flag()
        first = read.int64()
        found.add(first, read.int64() if is_range else first)
    return found


def _subscription(read: _Reader) -> Subscription:
    return cast(Subscription, read.framed(Subscription))


def _properties(data: bytes) -> dict[str, str] | None:
    """The header's properties, None if this copy is none."""
    import javaproperties  # takes a tenth of a broker's start, and few need it

    try:
        found = javaproperties.loads(data.decode("latin-1"))
    except ValueError:
        return None
    return found if found.get("fileType") == _FILE_TYPE else None
