"""MySQL and MariaDB with PyMySQL, which connects and sends; the rows are read from its socket here.

A row that PyMySQL reads costs a dozen Python objects. Here a buffer is filled from the socket, a short loop finds where
its packets begin, and NumPy and Arrow make columns of them: faster than a driver in C that makes objects. The statement
is a prepared one, since its rows have numbers in eight bytes instead of digits.

Source of the format: MySQL's "Client/Server Protocol", pages "COM_STMT_PREPARE", "COM_STMT_EXECUTE" and "Binary
Protocol Resultset Row".
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pymysql
from pymysql.constants import COMMAND, CR, FIELD_TYPE
from pymysql.protocol import FieldDescriptorPacket

from jdbcstore.store.jdbc.dialect.base.scan import TableScan
from jdbcstore.store.jdbc.dialect.base.scan_columns import PADDING, Bools, Bytes, Places, gathered, integers, values
from jdbcstore.store.jdbc.dialect.mysql.session import SESSION_SETTINGS, connected

__all__ = ["batches"]

_HEAD: Final = struct.Struct("<I")
_HEAD_BYTES: Final = 4
#: A packet of this length goes on in the next one.
_PACKET_BYTES_MAX: Final = 0xFFFFFF
_END: Final = 0xFE
#: In the place of a length: it follows in so many bytes.
_TWO_BYTES: Final = 0xFC
#: Less than the smallest buffer.
_LOOKAHEAD_BYTES: Final = 1 << 15
_PREPARED: Final = struct.Struct("<xIHH")
_EXECUTE: Final = struct.Struct("<IBI")
#: How long the server waits for us while Spark is busy; its default of a minute ends reads.
_PATIENCE_S: Final = 24 * 3600


def batches(scan: TableScan) -> Iterator[pa.RecordBatch]:
    """The rows of a scan; see `jdbcstore.spark.scan.Scan.batches`."""
    _, keywords = scan.url.get_dialect()().create_connect_args(scan.url)
    defaults = {"charset": "utf8mb4", "connect_timeout": scan.options.connect_timeout_s}
    given = {**defaults, **keywords, "read_from": scan.options.read_from}
    connection: Any = connected(given, lambda line: line.close())
    try:
        connection.query(f"SET SESSION {SESSION_SETTINGS},net_write_timeout={_PATIENCE_S}")
        connection.query("SET SESSION TRANSACTION READ ONLY")
        _execute(connection, scan)
        yield from _Rows(connection._rfile, scan.schema, scan.batch_bytes)
    finally:
        connection._force_close()  # there may be rows that nobody wants


def _execute(connection: Any, scan: TableScan) -> None:
    """Prepare and execute; what comes next are rows, with all numbers in eight bytes."""
    number, types = _prepared(connection, scan.bare_statement)
    if any(each != FIELD_TYPE.LONGLONG for each, field in zip(types, scan.schema, strict=True) if _is_number(field)):
        number, _ = _prepared(connection, scan.statement)
    connection._execute_command(COMMAND.COM_STMT_EXECUTE, _EXECUTE.pack(number, 0, 1))
    _types(connection, connection._read_packet().read_length_encoded_integer())


def _prepared(connection: Any, statement: str) -> tuple[int, list[int]]:
    """Prepare; returns the statement's number and the types of the columns."""
    connection._execute_command(COMMAND.COM_STMT_PREPARE, statement)
    number, columns, _ = _PREPARED.unpack_from(connection._read_packet().get_all_data())
    return number, _types(connection, columns)


def _types(connection: Any, columns: int) -> list[int]:
    """Read the definitions of columns, and what ends them."""
    types = [connection._read_packet(FieldDescriptorPacket).type_code for _ in range(columns)]
    connection._read_packet()
    return types


def _is_number(field: pa.Field) -> bool:
    return bool(field.type == pa.int64())


class _Rows:
    """The rows of a result, a buffer at a time.

    Args:
        file: reads from the server.
        schema: of the batches.
        batch_bytes: how large the buffer is; a row that does not fit has one of its own.
    """

    def __init__(self, file: Any, schema: pa.Schema, batch_bytes: int) -> None:
        self._file = file
        self._schema = schema
        self._batch_bytes = batch_bytes
        self._buffer = bytearray(batch_bytes + PADDING)

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        # A buffered file blocks for more although it has something. What it has is taken once, then it is passed by.
        first = self._file.read1(_LOOKAHEAD_BYTES)
        self._buffer[: len(first)] = first
        filled = len(first)
        while True:
            starts, place, filled = self._fill(filled)
            buffer = self._buffer
            last = starts.pop() if starts and buffer[starts[-1]] else None  # rows begin with 0
            if starts:
                yield _batch(buffer, starts, self._schema)
            if last is not None:
                if buffer[last] != _END:
                    pymysql.err.raise_mysql_exception(bytes(buffer[last:place]))
                return
            left = bytes(memoryview(buffer)[place:filled])
            if _length(left) == _PACKET_BYTES_MAX:
                row, left = self._large_row(left)
                yield _batch(row, [0], self._schema)
            self._resize(max(_HEAD_BYTES + _length(left), len(left)))
            self._buffer[: len(left)] = left
            filled = len(left)

    def _fill(self, filled: int) -> tuple[list[int], int, int]:
        """Read until the buffer is full or the result is over.

        Returns:
            Where the packets begin behind their heads, where the first packet begins that is not all there, and how
            much there is.
        """
        buffer, size = self._buffer, len(self._buffer) - PADDING
        room, unpack = memoryview(buffer), _HEAD.unpack_from
        starts: list[int] = []
        found = starts.append
        place, length = 0, 0
        while True:
            while place <= filled - _HEAD_BYTES:
                length = unpack(buffer, place)[0] & _PACKET_BYTES_MAX
                start = place + _HEAD_BYTES
                if start + length > filled or length == _PACKET_BYTES_MAX:
                    break
                found(start)
                place = start + length
            if (starts and buffer[starts[-1]]) or place + _HEAD_BYTES + length > size or filled == size:
                return starts, place, filled
            filled += self._read(room[filled:size])
            length = 0

    def _read(self, room: memoryview) -> int:
        got: int = self._file.raw.readinto(room)
        if not got:
            raise pymysql.err.OperationalError(CR.CR_SERVER_LOST, "the server closed the connection during the read")
        return got

    def _large_row(self, left: bytes) -> tuple[bytearray, bytes]:
        """A row of several packets: without their heads, and what was read behind it."""
        row = bytearray()
        length = _PACKET_BYTES_MAX
        while length == _PACKET_BYTES_MAX:
            head, left = self._exactly(_HEAD_BYTES, left)
            length = _length(head)
            part, left = self._exactly(length, left)
            row += part
        row += bytes(PADDING)
        return row, left

    def _exactly(self, count: int, left: bytes) -> tuple[bytes, bytes]:
        if len(left) >= count:
            return left[:count], left[count:]
        found = bytearray(count)
        room = memoryview(found)
        filled = len(left)
        room[:filled] = left
        while filled < count:
            filled += self._read(room[filled:])
        return bytes(found), b""

    def _resize(self, bytes_min: int) -> None:
        size = max(bytes_min, self._batch_bytes) + PADDING
        if len(self._buffer) != size:
            self._buffer = bytearray(size)


def _length(packet: bytes | bytearray) -> int:
    """The length in a packet's head, 0 if the head is not all there."""
    return int(_HEAD.unpack_from(packet)[0] & _PACKET_BYTES_MAX) if len(packet) >= _HEAD_BYTES else 0


def _batch(rows: bytearray, starts: list[int], schema: pa.Schema) -> pa.RecordBatch:
    """Rows as a batch, which keeps nothing of the buffer.

    Args:
        rows: the buffer.
        starts: where in it rows begin.
        schema: of the batch.
    """
    buffer = np.frombuffer(rows, np.uint8)
    begin = np.array(starts, np.int64) + 1
    bitmap_bytes = (len(schema) + 9) // 8
    has_nulls = any(buffer[begin + at].any() for at in range(bitmap_bytes))
    places = begin + bitmap_bytes
    columns = []
    for number, field in enumerate(schema, 2):  # the bits of nulls begin with two that mean nothing
        nulls: Bools | None = None
        if has_nulls:
            nulls = (buffer[begin + number // 8] >> (number % 8) & 1).astype(bool)
        if _is_number(field):
            if nulls is None:
                columns.append(integers(gathered(buffer, places, "<i8"), None))
                places += 8
            else:
                columns.append(integers(gathered(buffer, np.where(nulls, 0, places), "<i8"), nulls))
                places += np.where(nulls, 0, 8)
            continue
        lengths, heads = _lengths(buffer, places)
        if nulls is not None:
            lengths, heads = np.where(nulls, 0, lengths), np.where(nulls, 0, heads)
        places += heads
        columns.append(values(buffer, places, lengths, nulls, field.type))
        places += lengths
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def _lengths(buffer: Bytes, places: Places) -> tuple[Places, Places | int]:
    """Length-encoded integers, and how many bytes each of them takes."""
    marks = buffer[places]
    lengths = marks.astype(np.int64)
    longest = marks.max()
    if longest < _TWO_BYTES:
        return lengths, 1
    if longest == marks.min() == _TWO_BYTES:
        return gathered(buffer, places + 1, "<u2"), 3
    heads = np.ones_like(lengths)
    for mark, size in ((_TWO_BYTES, 2), (0xFD, 3), (0xFE, 8)):
        if (chosen := marks == mark).any():
            found = gathered(buffer, places[chosen] + 1, "<u8")
            lengths[chosen] = found if size == 8 else found & ((1 << 8 * size) - 1)
            heads[chosen] = 1 + size
    return lengths, heads
