"""``view=messages``: the messages that a broker would have, in the columns of ``format("activemq")``.

There are two ways to them. The format replays where Spark plans, in one process, which needs nothing but the option;
`jdbcstore.spark.kahadb.distributed` lets Spark's workers do it. Both end in `read_live`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jdbcstore.errors import JournalDamaged
from jdbcstore.spark.columns import CORRUPT, SIZE, arrow_schema
from jdbcstore.spark.columns import schema_of as activemq_schema_of
from jdbcstore.spark.cycles import modules_aside, no_cycles
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.kahadb.columns import SUBSCRIBERS, check_schema
from jdbcstore.spark.kahadb.files import MessageFile, RemoteFile
from jdbcstore.spark.kahadb.live import LIVE, live_table, replayed
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.stores import stores_of
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.journal.commands import AddMessage, UpdateMessage
from jdbcstore.store.journal.records import Location

__all__ = ["TASK_BYTES", "MessagesReader", "read_live", "reads_messages", "takes_corrupt"]

_ROWS_MAX: Final = 10_000
#: Of messages; what a task reads at least, if there is so much.
TASK_BYTES: Final = 32 << 20
#: What a journal tells of a message only within it.
_LACKS: Final = frozenset({"EXPIRATION"})


@dataclass(frozen=True)
class LivePart(InputPartition):
    """Live messages of one directory, as many as one task reads.

    Args:
        files: the files of the directory that they are in, by number.
        partition: which directory it is.
        live: the list, in Arrow's stream format.
    """

    files: dict[int, RemoteFile]
    partition: int
    live: bytes


class MessagesReader(DataSourceReader):
    """Reads live messages.

    Args:
        options: what was asked for.
        schema: columns of `jdbcstore.spark.kahadb.columns.MESSAGES`.
    """

    def __init__(self, options: KahaDBOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema

    @one_line()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        is_taken = takes_corrupt(options, self._schema)
        parts: list[InputPartition] = []
        for store in stores_of(options):
            directory = store.directory()
            table = live_table(replayed(directory, store.tx_store), options, takes_corrupt=is_taken)
            for batch in _cut(table, min(options.split_bytes, TASK_BYTES)):
                with pa.BufferOutputStream() as sink:
                    with pa.ipc.new_stream(sink, LIVE) as writer:
                        writer.write_batch(batch)
                    numbers = set(batch.column("FILE").to_pylist()) & set(directory.files)
                    files = {number: directory.files[number] for number in numbers}
                    parts.append(LivePart(files, store.partition, sink.getvalue().to_pybytes()))
        return parts

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, LivePart):
            with modules_aside(), pa.ipc.open_stream(partition.live) as live:
                yield from read_live(live, partition.files, partition.partition, self._options, self._schema)


def takes_corrupt(options: KahaDBOptions, schema: StructType) -> bool:
    """Whether messages that cannot be decoded are rows."""
    return CORRUPT in schema.names and options.on_corrupt == "column"


def reads_messages(options: KahaDBOptions, schema: StructType) -> bool:
    """Whether a schema needs more than what the list of live messages has."""
    return _Reading(options, schema, 0).needs_messages


def _cut(table: pa.Table, task_bytes: int) -> Iterator[pa.RecordBatch]:
    """The list in parts with about so many bytes of messages."""
    begin = size = 0
    for row, message_bytes in enumerate(table.column("BYTES").to_pylist()):
        size += message_bytes
        if size >= task_bytes or row == len(table) - 1:
            yield table.slice(begin, row + 1 - begin).combine_chunks().to_batches()[0]
            begin, size = row + 1, 0


def read_live(
    live: Iterable[pa.RecordBatch],
    files: dict[int, RemoteFile],
    partition: int,
    options: KahaDBOptions,
    schema: StructType,
) -> Iterator[pa.RecordBatch]:
    """Messages of a list, as batches of the schema.

    Raises:
        CodecError: a message cannot be decoded, and it is to be an error or there is no column for it.
        StoreError: a file cannot be read, or no longer has the record.
    """
    reading = _Reading(options, schema, partition)
    with one_line(), no_cycles(), ExitStack() as opened:
        file: MessageFile | None = None
        for batch in live:
            rows = _RawRows(reading.needs)
            for row in batch.to_pylist():
                if row["DAMAGE"] is not None:
                    yield reading.damage(row)
                    continue
                message = None
                if reading.needs_messages:
                    number = row["FILE"]
                    if file is None or file.number != number:
                        opened.close()
                        source = opened.enter_context(files[number].opened())
                        file = files[number].messages(source)
                    message = _message(file, files[number].location(row["RECORD"], row["BYTES"]))
                rows.append(row, message)
                if len(rows) >= _ROWS_MAX or rows.bytes >= options.batch_bytes:
                    yield reading.batch(rows)
                    rows = _RawRows(reading.needs)
            if len(rows):
                yield reading.batch(rows)


def _message(file: MessageFile, location: Location) -> bytes:
    command = file.read(location)
    add = command.message if isinstance(command, UpdateMessage) else command
    if not isinstance(add, AddMessage) or add.message is None:
        raise JournalDamaged(f"{location}: no message stands there any more; copy the files of a running broker first")
    return add.message


class _Reading:
    """The decoder of a schema, and the columns that it does not have."""

    def __init__(self, options: KahaDBOptions, schema: StructType, partition: int) -> None:
        self._schema = arrow_schema(schema)
        self._partition = partition
        names = [name for name in schema.names if name != SUBSCRIBERS]
        # By their ids rows are found again that a selector has left.
        self._decoder = Decoder(
            activemq_schema_of(list(dict.fromkeys([*names, "offset"]))),
            on_corrupt=options.on_corrupt,
            selector=options.selector,
            lacks=_LACKS,
        )
        self.needs: Final = self._decoder.table_columns
        self.needs_messages: Final = bool({"MSG", SIZE} & set(self.needs))

    def batch(self, rows: _RawRows) -> pa.RecordBatch:
        decoded = self._decoder.decode(rows.batch())
        columns: dict[str, pa.Array] = dict(zip(decoded.schema.names, decoded.columns, strict=True))
        if "partition" in columns:
            columns["partition"] = pa.repeat(pa.scalar(self._partition, pa.int32()), decoded.num_rows)
        if SUBSCRIBERS in self._schema.names:
            found = [rows.subscribers[id] for id in columns["offset"].to_pylist()]
            columns[SUBSCRIBERS] = pa.array(found, self._schema.field(SUBSCRIBERS).type)
        return pa.RecordBatch.from_arrays([columns[name] for name in self._schema.names], schema=self._schema)

    def damage(self, row: dict[str, Any]) -> pa.RecordBatch:
        given = {
            "offset": row["ID"],
            "partition": self._partition,
            "size": row["BYTES"],
            CORRUPT: {"error": row["DAMAGE"], "message": None},
        }
        return pa.RecordBatch.from_arrays(
            [pa.array([given.get(field.name)], field.type) for field in self._schema], schema=self._schema
        )


class _RawRows:
    """Rows like those of the message table, until there are enough for a batch."""

    def __init__(self, needs: tuple[str, ...]) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in ("ID", *needs)}
        self.subscribers: dict[int, list[str] | None] = {}
        self.bytes = 0

    def __len__(self) -> int:
        return len(self._columns["ID"])

    def append(self, row: dict[str, Any], message: bytes | None) -> None:
        producer, sequence = _parts(row["MESSAGE_ID"])
        values = {
            "ID": row["ID"],
            "CONTAINER": row["CONTAINER"],
            "XID": row["XID"],
            "PRIORITY": row["TIER"],
            "MSGID_PROD": producer,
            "MSGID_SEQ": sequence,
            "MSG": message,
            SIZE: None if message is None else len(message),
        }
        for name, column in self._columns.items():
            column.append(values[name])
        self.subscribers[row["ID"]] = row["SUBSCRIBERS"]
        self.bytes += 0 if message is None else len(message)

    def batch(self) -> pa.RecordBatch:
        return pa.RecordBatch.from_pydict(
            {name: pa.array(column, _TYPES[name]) for name, column in self._columns.items()}
        )


_TYPES: Final = {
    "ID": pa.int64(),
    "CONTAINER": pa.string(),
    "XID": pa.string(),
    "PRIORITY": pa.int64(),
    "MSGID_PROD": pa.string(),
    "MSGID_SEQ": pa.int64(),
    "MSG": pa.binary(),
    SIZE: pa.int64(),
}


def _parts(message_id: str) -> tuple[str, int | None]:
    """Producer and number; the whole id, and no number, where both together would not be the id again."""
    producer, colon, number = message_id.rpartition(":")
    if colon and number.isascii() and number.isdigit() and len(number) < 19 and str(int(number)) == number:
        return producer, int(number)
    return message_id, None
