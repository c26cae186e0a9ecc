"""``view=records``: what stands in the journal, a row for each record and each damage.

One task reads one file, several small ones, or a part of a large one. Where a file is cut is found beforehand, by a
walk over its control records (`JournalFile.starts`). The parts together give what the file as a whole gives, damage
included.

Damage is never dropped: it is a row with ``_corrupt``, and where this column is not asked for the reading stops. Only
the torn end of the last file is none, because that is how a killed broker leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jdbcstore.destination import Destination
from jdbcstore.errors import JournalDamaged
from jdbcstore.identifiers import XATransactionId
from jdbcstore.spark.columns import CORRUPT, arrow_schema
from jdbcstore.spark.kahadb.columns import check_schema
from jdbcstore.spark.kahadb.files import JournalDirectory, RemoteFile
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.kahadb.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
    Subscription,
    UpdateMessage,
)
from jdbcstore.store.kahadb.journal import Damage, JournalFile, Location

__all__ = ["Part", "RecordsReader", "Task", "parts_of", "read_part", "tasks_of", "without_the_torn_end"]

#: Smaller files are read several by one task.
TASK_BYTES: Final = 8 << 20
#: Rows of a batch.
_ROWS_MAX: Final = 20_000


@dataclass(frozen=True, slots=True)
class Part:
    """A file, or a part of one.

    Args:
        file: the file.
        start, stop: see `JournalFile`.
        is_last: whether it is the last file of its directory.
    """

    file: RemoteFile
    start: int
    stop: int | None
    is_last: bool

    @property
    def size(self) -> int:
        """In bytes."""
        return (self.file.size if self.stop is None else self.stop) - self.start


@dataclass(frozen=True)
class Task(InputPartition):
    """What one task reads.

    Args:
        parts: at least one.
    """

    parts: tuple[Part, ...]


def parts_of(directory: JournalDirectory, split_bytes: int) -> list[Part]:
    """All files of a directory, those that are larger than `split_bytes` in parts of about this size.

    Raises:
        StoreError: a file cannot be read.
    """
    parts = []
    for number, file in directory.files.items():
        starts = [0]
        if file.size > split_bytes:
            with file.opened() as source:
                starts = JournalFile(source, number).starts(split_bytes)
        is_last = number == max(directory.files)
        parts += [Part(file, *ends, is_last) for ends in zip(starts, [*starts[1:], None], strict=True)]
    return parts


def tasks_of(parts: list[Part], bytes_min: int) -> list[Task]:
    """One task for each part; for several if they are together not larger than `bytes_min`, since a task has a price.

    Args:
        parts: in any order.
        bytes_min: of a task.
    """
    tasks: list[Task] = []
    size = bytes_min
    for part in parts:
        if size + part.size > bytes_min:
            tasks.append(Task((part,)))
            size = part.size
        else:
            tasks[-1] = Task((*tasks[-1].parts, part))
            size += part.size
    return tasks


def without_the_torn_end(damages: list[Damage], last_file: int) -> list[Damage]:
    """All but what a kill leaves behind in the last file."""
    return [damage for damage in damages if not (damage.at_the_end and damage.file == last_file)]


class RecordsReader(DataSourceReader):
    """Reads records.

    Args:
        options: what was asked for.
        schema: columns of `jdbcstore.spark.kahadb.columns.RECORDS`.
    """

    def __init__(self, options: KahaDBOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema

    @one_line()
    def partitions(self) -> list[InputPartition]:
        options = self._options
        parts = [
            part
            for path in options.paths
            for part in parts_of(JournalDirectory(path, options.archive), options.split_bytes)
        ]
        return list(tasks_of(parts, min(options.split_bytes, TASK_BYTES)))

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Task):
            with one_line():
                for part in partition.parts:
                    yield from read_part(part, self._options, self._schema)


def read_part(part: Part, options: KahaDBOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Batches of the schema.

    Raises:
        JournalDamaged: there is damage, and it is to be an error or there is no column for it.
        StoreError: the file cannot be read.
    """
    rows = _Rows(arrow_schema(schema))
    takes_corrupt = CORRUPT in schema.names and options.on_corrupt == "column"
    size = 0
    with part.file.opened() as source:
        file = JournalFile(source, part.file.number, start=part.start, stop=part.stop)
        for location, command in file.records():
            rows.append(location, command)
            size += location.size if rows.keeps_payload else 0
            if len(rows) >= _ROWS_MAX or size >= options.batch_bytes:
                yield rows.batch()
                size = 0
            if file.damages and not takes_corrupt:
                break
    damages = without_the_torn_end(file.damages, file.number) if part.is_last else file.damages
    if damages and not takes_corrupt:
        raise JournalDamaged(
            f"{damages[0]}. To get damage in a column of its own ask for {CORRUPT}, with onCorrupt=column"
        )
    if file.damages_unlisted:
        end = damages[-1].end
        damages.append(Damage(file.number, end, end, f"{file.damages_unlisted} more damages behind this one"))
    for damage in damages:
        rows.append_damage(damage)
    yield rows.batch()


# --- rows -------------------------------------------------------------------------------------------------------------

#: destination, messageId, subscriptionKey, transaction, priority, prioritySupported, retroactive, subscriptionInfo,
#: sourceFile, skipIfSourceExists, message, acknowledgement
_Row: TypeAlias = tuple[Any, ...]
_NOTHING: Final[_Row] = (None,) * 12


def _name(destination: Destination | None) -> str | None:
    """The name with its prefix, also where it has a comma."""
    return None if destination is None else destination.prefix + destination.physical_name


def _add(command: AddMessage) -> _Row:
    transaction, destination, message_id, message, priority, supported = command
    return (
        _name(destination), message_id, None, transaction, priority, supported, None, None, None, None, message, None,
    )  # fmt: skip


def _remove(command: RemoveMessage) -> _Row:
    transaction, destination, message_id, ack, key = command
    return _name(destination), message_id, key, transaction, None, None, None, None, None, None, None, ack


def _end(command: Commit | Prepare | Rollback) -> _Row:
    return (None, None, None, command.transaction, *_NOTHING[4:])


def _subscription(command: Subscription) -> _Row:
    destination, key, retroactive, info = command
    return _name(destination), None, key, None, None, None, retroactive, info, None, None, None, None


_ROW_OF: Final[dict[type[Command], Callable[[Any], _Row]]] = {
    AddMessage: _add,
    UpdateMessage: lambda command: _NOTHING if command.message is None else _add(command.message),
    RemoveMessage: _remove,
    Commit: _end,
    Prepare: _end,
    Rollback: _end,
    RemoveDestination: lambda command: (_name(command.destination), *_NOTHING[1:]),
    Subscription: _subscription,
    RewrittenDataFile: lambda command: (*_NOTHING[:8], command.source, command.skip_if_source_exists, None, None),
    AddScheduledJob: lambda command: (None, command.job_id, *_NOTHING[2:10], command.payload, None),
}


class _Rows:
    """Rows until there are enough for a batch."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self.keeps_payload: Final = bool({"message", "acknowledgement"} & set(schema.names))
        self._clear()

    def _clear(self) -> None:
        self._locations: list[Location] = []
        self._names: list[str | None] = []
        self._damages: list[dict[str, object] | None] = []
        self._rows: list[_Row] = []
        self._bytes: list[int | None] = []

    def __len__(self) -> int:
        return len(self._rows)

    def append(self, location: Location, command: Command) -> None:
        cls = type(command)
        make = _ROW_OF.get(cls)
        row = _NOTHING if make is None else make(command)
        self._put(location, cls.__name__, row, None)

    def append_damage(self, damage: Damage) -> None:
        location = Location(damage.file, damage.offset, damage.end - damage.offset)
        self._put(location, None, _NOTHING, {"error": damage.what, "atTheEnd": damage.at_the_end})

    def _put(self, location: Location, name: str | None, row: _Row, damage: dict[str, object] | None) -> None:
        message = row[10]
        self._bytes.append(None if message is None else len(message))
        self._rows.append(row if self.keeps_payload else row[:10])
        self._locations.append(location)
        self._names.append(name)
        self._damages.append(damage)

    def batch(self) -> pa.RecordBatch:
        """All of them; then there are none."""
        files, offsets, sizes = zip(*self._locations, strict=True) if self._rows else ((), (), ())
        columns: dict[str, Any] = {"file": files, "offset": offsets, "size": sizes, "messageBytes": self._bytes}
        parts = list(zip(*self._rows, strict=True)) if self._rows else [()] * 12
        columns |= dict(zip(_PARTS, parts, strict=False))
        transactions = columns.pop("transaction")
        columns["transactionId"] = [None if one is None else str(one) for one in transactions]
        columns["xa"] = [_xa(one) for one in transactions]
        columns["command"] = self._names
        columns[CORRUPT] = self._damages
        arrays = [pa.array(columns[field.name], field.type) for field in self._schema]
        self._clear()
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


_PARTS: Final = (
    "destination",
    "messageId",
    "subscriptionKey",
    "transaction",
    "priority",
    "prioritySupported",
    "retroactive",
    "subscriptionInfo",
    "sourceFile",
    "skipIfSourceExists",
    "message",
    "acknowledgement",
)


def _xa(transaction: object) -> dict[str, object] | None:
    if not isinstance(transaction, XATransactionId):
        return None
    format_id, global_id, branch = (
        transaction.format_id,
        transaction.global_transaction_id,
        transaction.branch_qualifier,
    )
    return {"formatId": format_id, "globalId": global_id, "branch": branch}
