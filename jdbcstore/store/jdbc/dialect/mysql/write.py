"""A batch on MySQL and MariaDB, with PyMySQL.

A batch is one packet: BEGIN, one INSERT of all rows, the removes, COMMIT, with everything as literals; a packet the
server takes and answers in one round trip. Only what is larger than the server's max_allowed_packet goes in several.
"""

from __future__ import annotations

from binascii import hexlify
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any, Final

from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import LeaseLost, MessageTooLarge
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.fence import Fence, lock_session_name
from jdbcstore.store.jdbc.rows import MessageRow
from jdbcstore.store.jdbc.writes import Batch

__all__ = ["PACKET_MARGIN_BYTES", "WROTE_ONE", "MySQLStatements", "is_certified"]

#: Fails unless the statement before it has met one row: two rows where one may be.
WROTE_ONE: Final = b"SELECT IF(ROW_COUNT()=1,1,(SELECT 1 UNION SELECT 2))"

#: Room in a packet for everything that is not message bytes.
PACKET_MARGIN_BYTES: Final = 1 << 14
#: Ids in one DELETE; from some hundred on the server plans longer than it deletes.
_REMOVES_AT_ONCE: Final = 500
#: For more IDs than that without a gap one range takes less of the server than a list: a quarter less with 500.
_LISTED_MOST: Final = 16
#: Producers in one statement, which cannot be cut to fit a packet.
_MARKS_AT_ONCE: Final = 100
#: A server's packet is at least 1 MiB unless somebody made it smaller.
_HEXADECIMAL_BYTES_MAX: Final = 256 << 10


class _Remove(bytes):
    """A statement that removes messages: the rows that it meets are counted."""

    __slots__ = ()


class MySQLStatements(Dialect):
    """What is sent to MySQL and MariaDB to read and write messages."""

    index_hint = "FORCE INDEX ({index})"
    # Else the servers may prefer to look at all rows, and wait for those that somebody is writing just now.
    delete_by_key = "DELETE t FROM {table} t FORCE INDEX (PRIMARY) WHERE"
    no_table_words = ("42S02", "(1146,")
    # Not by way of local time, which goes through one hour twice in autumn.
    epoch_ms = "(TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000)"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._packet_bytes_max = 1 << 20

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        # In a cluster the row of the lock is written. Else the first of the new rows proves the term by its ID, which
        # takes half the time of a statement for it; a row that comes alone takes less still. Not before a purge: that
        # may take long, and renewals would wait for the lock.
        certified = is_certified(connection)
        if fence is not None and batch.is_one_add and not certified:
            if not self._insert_alone(connection, batch.adds[0], fence):
                raise LeaseLost(f"the row of {self.statements.lock} is gone")
            return 0
        by_id = fence is not None and bool(batch.adds) and not batch.purges and not certified
        proof = [] if fence is None or by_id else self.proof(connection, fence)
        packets = self._written(connection, batch, fence if by_id else None, proof)
        if fence is not None and by_id and len(packets) > 1:  # the lock would be held from one to the next
            packets = self._written(connection, batch, None, self.proof(connection, fence))
        return sum(self._send(connection, packet) for packet in packets)

    def _written(
        self, connection: DBAPIConnection, batch: Batch, by_id: Fence | None, proof: Sequence[bytes]
    ) -> list[list[bytes]]:
        """The packets of a batch; the first row proves `by_id`, or the proof is in the last packet, with the end."""
        words = [*self._inserts(connection, batch.adds, by_id), *self._rest(batch)]
        end = [*proof, b"COMMIT"]
        if len(words) + len(end) <= 2:  # one statement is a transaction by itself
            return [words]
        packets = _packets([b"BEGIN", *words], self._packet_bytes_max - 64 - sum(map(len, end)))
        packets[-1] += end
        return packets

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        self._send(connection, self.proof(connection, fence))

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        words = [statement.encode() for statement in statements]
        proof = [] if fence is None else self.proof(connection, fence)
        self._send(connection, [b"BEGIN", *words, *proof, b"COMMIT"])

    def _send(self, connection: DBAPIConnection, words: Sequence[bytes]) -> int:
        """Send statements as one packet, read every answer; returns how many rows the removes among them removed."""
        raw: Any = connection
        removed = 0
        affected = raw.query(b";".join(words))
        for word in words:
            if word is not words[0]:
                affected = raw.next_result()
            if isinstance(word, _Remove):
                removed += affected
        return removed

    def _inserts(self, connection: DBAPIConnection, rows: Sequence[MessageRow], fence: Fence | None) -> list[bytes]:
        head = self.statements.message_insert.encode()
        words: list[list[bytes]] = []
        values: list[bytes] = []
        room = 0
        for row in rows:
            proof = None if fence is None else b"(SELECT %s FROM %s)" % self._proof(connection, row[0], fence)
            value = b"(%s)" % self._values(row, proof)
            fence = None
            room -= len(value) + 1
            if room < 0:
                room = self._packet_bytes_max - PACKET_MARGIN_BYTES - len(value)
                values = []
                words.append(values)
            values.append(value)
        return [head + b",".join(values) for values in words]

    def _insert_alone(self, connection: DBAPIConnection, row: MessageRow, fence: Fence) -> int:
        """Insert one row in a transaction of its own; returns how many it were: none if there is no row of the lock."""
        raw: Any = connection
        head = self.statements.message_insert.removesuffix("VALUES ").encode()
        id, locked_row = self._proof(connection, row[0], fence)
        return int(raw.query(b"%sSELECT %s FROM %s" % (head, self._values(row, id), locked_row)))

    def _values(self, row: MessageRow, id: bytes | None) -> bytes:
        """The values of a row as literals, the ID in another wording if there is one."""
        number, producer, sequence, container, expiration, priority, blob = row
        values = b"%s,%s,%d,%s,%d,%d,%s" % (
            id or b"%d" % number,
            _literal(producer),
            sequence,
            _literal(container),
            expiration,
            priority,
            _binary(blob),
        )
        if len(values) + PACKET_MARGIN_BYTES > self._packet_bytes_max:
            raise MessageTooLarge(
                f"message {number} takes {len(values)} bytes on the way to the server, its max_allowed_packet is"
                f" {self._packet_bytes_max}: raise it"
            )
        return values

    def proof(self, connection: DBAPIConnection, fence: Fence) -> list[bytes]:
        """Statements of which one fails unless the row names us, which it then does until the end of the transaction.

        A share lock keeps the row as it is. In a cluster it does so on one member only: there the row is written, as
        `Fence` says. Of TIME the last bit changes, so that there is something to write: a millisecond, one way and back
        again.
        """
        if is_certified(connection):
            change = b"UPDATE %s SET TIME=TIME^1 WHERE ID=1 AND BROKER_NAME=%s"
            return [change % (self.statements.lock.encode(), _literal(fence.holder)), WROTE_ONE]
        proof = b"(SELECT %s FROM %s)" % self._proof(connection, 1, fence)
        return [b"SELECT IF(%s=1,1,(SELECT 1 UNION SELECT 2))" % proof]

    def _proof(self, connection: DBAPIConnection, id: int, fence: Fence) -> tuple[bytes, bytes]:
        """An id that becomes NULL, which no id may be, unless a row names us; and that row, locked."""
        names = self.statements
        row, holder = (names.lock, b"BROKER_NAME") if fence.by_lease else (names.term, b"HOLDER")
        condition = b"%s=%s" % (holder, _literal(fence.holder))
        waiting: str = getattr(connection, "waiting", "")
        if waiting and self.options.require_replication != "none":  # the locker looks at all of it, not at each commit
            condition += b" AND %s" % waiting.encode()
        if fence.lock_session is not None:
            # Within an INSERT no binary log by statements could repeat it. READ COMMITTED is logged by rows.
            name = _literal(lock_session_name(fence.holder))
            condition += b" AND IS_USED_LOCK(%s)=%d" % (name, fence.lock_session)
        named = b"IF(%s,%d,NULL)" % (condition, id)
        return named, b"%s WHERE ID=1 LOCK IN SHARE MODE" % row.encode()

    def _rest(self, batch: Batch) -> list[bytes]:
        table = self.statements.messages.encode()
        container = self.statements.container.encode()
        words = [b"UPDATE %s SET MSG=%s WHERE ID=%d" % (table, _binary(blob), id) for id, blob in batch.updates]
        words += [
            b"DELETE FROM %s WHERE CONTAINER=%s AND %s=%s AND ID<=%d AND XID IS NULL"
            % (table, _literal(name), container, _literal(name), last)
            for name, last in batch.purges
        ]
        words += self._marks(batch)
        words += map(self.filled, batch.changes)
        words += self._removes(batch.removes)
        return words

    def _removes(self, ids: Sequence[int]) -> list[bytes]:
        """The removes of messages, sorted by ID. What was added in a row and is removed together is a range."""
        table = self.statements.messages.encode()
        ranged = self.delete_by_key.format(table=self.statements.messages).encode()
        words: list[bytes] = []
        single: list[int] = []

        def end_list() -> None:
            for start in range(0, len(single), _REMOVES_AT_ONCE):
                some = ",".join(map(str, single[start : start + _REMOVES_AT_ONCE])).encode()
                words.append(_Remove(b"DELETE FROM %s WHERE ID IN (%s)" % (table, some)))
            single.clear()

        for first, last in _ranges(ids):
            if last - first + 1 <= _LISTED_MOST:
                single += range(first, last + 1)
            else:
                end_list()  # in their order, so that two batches never lock crosswise
                words.append(_Remove(b"%s ID BETWEEN %d AND %d" % (ranged, first, last)))
        end_list()
        return words

    def _marks(self, batch: Batch) -> list[bytes]:
        """What a batch remembers and forgets of producers."""
        table, now = self.statements.producers.encode(), self.epoch_ms.encode()
        words = []
        marks = list(batch.producers.items())
        for start in range(0, len(marks), _MARKS_AT_ONCE):
            rows = [b"SELECT %s AS name,%d AS seq" % (_literal(n), s) for n, s in marks[start : start + _MARKS_AT_ONCE]]
            # Both servers know this wording; of the shorter ones each knows another.
            words.append(
                b"INSERT INTO %s (PRODUCER,LAST_SEQ,LAST_USED_MS) SELECT new.name,new.seq,%s FROM (%s) new ON DUPLICATE"
                b" KEY UPDATE LAST_SEQ=GREATEST(LAST_SEQ,new.seq),LAST_USED_MS=%s"
                % (table, now, b" UNION ALL ".join(rows), now)
            )
        if batch.forgets:
            words.append(
                b"DELETE FROM %s WHERE LAST_USED_MS<%s-%d AND PRODUCER IN (%s)"
                % (table, now, self.options.producer_memory_ms, b",".join(map(_literal, batch.forgets)))
            )
        return words

    def literal(self, value: str | int | bytes | None) -> bytes:
        if isinstance(value, bytes):
            return _binary(value)
        return _literal(value) if isinstance(value, str) else b"NULL" if value is None else b"%d" % value


def is_certified(connection: DBAPIConnection) -> bool:
    """Whether the server is a member of a cluster, where commits are certified: the session was asked when it began."""
    return getattr(connection, "is_certified", False)


def _ranges(ids: Sequence[int]) -> Iterator[tuple[int, int]]:
    """The ranges without a gap, first and last, that sorted numbers make; one may be there twice."""
    first = last = None
    for id in ids:
        if first is None or last is None:
            first = last = id
        elif id - last > 1:
            yield first, last
            first = last = id
        else:
            last = id
    if first is not None and last is not None:
        yield first, last


def _packets(words: Sequence[bytes], bytes_max: int) -> list[list[bytes]]:
    """Cut a list of statements into packets that the server takes."""
    packets: list[list[bytes]] = []
    room = 0
    for word in words:
        room -= len(word) + 1
        if room < 0:
            packets.append([])
            room = bytes_max - len(word)
        packets[-1].append(word)
    return packets


def _binary(blob: bytes) -> bytes:
    """A binary literal: hexadecimal, so that whoever reads the server's process list or logs sees text.

    Only what is so long that twice its length may not fit a packet goes as bytes. The session's sql_mode lets the
    backslash escape; NUL needs none in a packet with a length.
    """
    if 0 < len(blob) <= _HEXADECIMAL_BYTES_MAX:
        return b"0x" + hexlify(blob)
    return b"_binary'" + blob.replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"


@lru_cache(maxsize=8192)
def _literal(value: str) -> bytes:
    """A string literal in the connection's character set."""
    return b"'" + value.encode().replace(b"\\", b"\\\\").replace(b"'", b"\\'") + b"'"
