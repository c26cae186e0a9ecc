"""Ranges of ids: what one transaction copies, and what is compared at a time."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from sqlalchemy import text

from jdbcstore.store.jdbc.connection import Opened

__all__ = ["MESSAGE_COLUMNS", "Digest", "MessageRow", "digests", "ranges_of", "rows_of"]

#: All columns of ACTIVEMQ_MSGS.
MESSAGE_COLUMNS: Final = ("ID", "CONTAINER", "MSGID_PROD", "MSGID_SEQ", "EXPIRATION", "PRIORITY", "XID", "MSG")
#: Their values. All but the first two may be None in tables of other brokers.
MessageRow: TypeAlias = tuple[int, str, str | None, int | None, int | None, int | None, str | None, bytes | None]

#: What a range has about.
_RANGE_BYTES: Final = 32 << 20
_RANGE_ROWS_MAX: Final = 50_000
#: What is in memory at a time, or one message that is larger.
_PAGE_BYTES: Final = 4 << 20
_64_BITS: Final = (1 << 64) - 1


def ranges_of(store: Opened) -> list[tuple[int, int]]:
    """Ranges, both ends included, that hold about equally many rows; together all ids that there are."""
    messages = store.statements.messages
    count, size, first, last = store.connection.execute(
        text(f"SELECT COUNT(*), SUM(LENGTH(MSG)), MIN(ID), MAX(ID) FROM {messages}")
    ).one()
    if not count:
        return []
    rows = max(1, min(_RANGE_ROWS_MAX, _RANGE_BYTES * count // max(int(size or 0), 1)))
    following = text(f"SELECT ID FROM {messages} WHERE ID >= :first ORDER BY ID LIMIT 1 OFFSET :rows")
    found = []
    begin = int(first)
    while True:
        end = store.connection.execute(following, {"first": begin, "rows": rows}).scalar()
        if end is None:
            found.append((begin, int(last)))
            return found
        found.append((begin, int(end) - 1))
        begin = int(end)


def rows_of(store: Opened, first: int, last: int) -> Iterator[MessageRow]:
    """The rows of a range in the order of their ids, a page at a time."""
    messages = store.statements.messages
    lengths = store.connection.execute(
        text(f"SELECT ID, LENGTH(MSG) FROM {messages} WHERE ID BETWEEN :first AND :last ORDER BY ID"),
        {"first": first, "last": last},
    ).all()
    page = text(f"SELECT {', '.join(MESSAGE_COLUMNS)} FROM {messages} WHERE ID BETWEEN :first AND :last ORDER BY ID")
    for begin, end in _pages(lengths):
        for id, container, producer, sequence, expiration, priority, xid, blob in store.connection.execute(
            page, {"first": begin, "last": end}
        ):
            yield (
                int(id),
                _text(container) or "",
                _text(producer),
                sequence,
                expiration,
                priority,
                _text(xid),
                None if blob is None else bytes(blob),
            )


def _pages(lengths: Iterable[tuple[int, int | None]]) -> Iterator[tuple[int, int]]:
    begin = end = None
    size = 0
    for id, length in lengths:
        if begin is not None and end is not None and size + (length or 0) > _PAGE_BYTES:
            yield begin, end
            begin, size = None, 0
        begin = id if begin is None else begin
        end = id
        size += length or 0
    if begin is not None and end is not None:
        yield begin, end


@dataclass(slots=True)
class Digest:
    """What messages of one destination come to.

    Args:
        messages, bytes: how many, and what they take.
        content: the sum of their hashes, 64 bits. An id is hashed with its message, so another order is another sum.
    """

    messages: int = 0
    bytes: int = 0
    content: int = 0

    @property
    def words(self) -> str:
        """The sum as reports show it."""
        return f"{self.content:016x}"

    def add(self, messages: int, size: int, content: int) -> None:
        """Put others to these."""
        self.messages += messages
        self.bytes += size
        self.content = (self.content + content) & _64_BITS


def digests(rows: Iterable[MessageRow]) -> dict[str, Digest]:
    """Destinations and what is in them: every column counts."""
    found: dict[str, Digest] = defaultdict(Digest)
    for row in rows:
        hashed = hashlib.sha256(repr(row[:7]).encode())
        hashed.update(b"NULL" if row[7] is None else row[7])
        found[row[1]].add(1, len(row[7] or b""), int.from_bytes(hashed.digest()[:8]))
    return dict(found)


def _text(value: str | bytes | None) -> str | None:
    """Drivers give bytes for columns with a binary collation."""
    return value.decode() if isinstance(value, bytes) else value
