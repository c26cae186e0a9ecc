"""``view=records``: what stands in the journal, a row for each record and each damage.

One task reads one file, several small ones, or a part of a large one. Where a file is cut is found beforehand, by a
walk over its control records (`JournalFile.starts`). The parts together give what the file as a whole gives, damage
included.

Damage is never dropped: it is a row with ``_corrupt``, and where this column is not asked for the reading stops. Only
the torn end of the last file is none, because that is how a killed broker leaves it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Final, TypeAlias

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jdbcstore.errors import JournalDamaged
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.spark.columns import CORRUPT, arrow_schema
from jdbcstore.spark.cycles import modules_aside, no_cycles
from jdbcstore.spark.kahadb.columns import check_schema
from jdbcstore.spark.kahadb.files import JournalDirectory, RemoteFile, local_path
from jdbcstore.spark.kahadb.leveldb_log import LevelDBDirectory
from jdbcstore.spark.kahadb.leveldb_records import LogTask, read_log
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.stores import stores_of
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.journal.commands import (
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
from jdbcstore.store.journal.kahadb.journal import Damage, Record

__all__ = ["Part", "RecordsReader", "Task", "parts_of", "read_part", "tasks_of", "without_the_torn_end"]

#: Smaller files are read several by one task.
TASK_BYTES: Final = 8 << 20
#: Rows of a batch.
_ROWS_MAX: Final = 10_000


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
                starts = file.starts(source, split_bytes)
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
        parts: list[Part] = []
        logs: list[InputPartition] = []
        for store in stores_of(options):
            directory = store.directory()
            if isinstance(directory, LevelDBDirectory):
                logs.append(LogTask(str(local_path(store.uri)), store.log_directory))
            else:
                parts += parts_of(directory, options.split_bytes)
        return [*tasks_of(parts, min(options.split_bytes, TASK_BYTES)), *logs]

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Task):
            with one_line(), modules_aside():
                for part in partition.parts:
                    yield from read_part(part, self._options, self._schema)
        elif isinstance(partition, LogTask):
            with one_line(), modules_aside():
                yield from read_log(partition, self._options, self._schema)


def read_part(part: Part, options: KahaDBOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Batches of the schema.

    Raises:
        JournalDamaged: there is damage, and it is to be an error or there is no column for it.
        StoreError: the file cannot be read.
    """
    arrow = arrow_schema(schema)
    takes_corrupt = CORRUPT in schema.names and options.on_corrupt == "column"
    records: list[Record] = []
    size = 0
    with no_cycles(), part.file.opened() as source:
        file = part.file.read(source, start=part.start, stop=part.stop)
        for record in file.records():
            records.append(record)
            size += record[0].size
            if size >= options.batch_bytes or len(records) >= _ROWS_MAX:
                yield _batch(records, arrow)
                records.clear()
                size = 0
            if file.damages and not takes_corrupt:
                break
    if records:
        yield _batch(records, arrow)
    damages = without_the_torn_end(file.damages, file.number) if part.is_last else file.damages
    if damages and not takes_corrupt:
        raise JournalDamaged(
            f"{damages[0]}. To get damage in a column of its own ask for {CORRUPT}, with onCorrupt=column"
        )
    if file.damages_unlisted:
        end = damages[-1].end
        damages.append(Damage(file.number, end, end, f"{file.damages_unlisted} more damages behind this one"))
    if damages:
        yield _damages(damages, arrow)


# --- columns ----------------------------------------------------------------------------------------------------------

_Get: TypeAlias = Callable[[Any], Any]


def _names(adds: _Get) -> dict[type[Command], _Get]:
    """The same of a message and of the one in an update."""
    return {AddMessage: adds, UpdateMessage: lambda command: command.message and adds(command.message)}


def _text(transaction: TransactionId | None) -> str | None:
    return None if transaction is None else str(transaction)


def _xa(transaction: TransactionId | None) -> dict[str, object] | None:
    if not isinstance(transaction, XATransactionId):
        return None
    format_id, global_id, branch = (
        transaction.format_id,
        transaction.global_transaction_id,
        transaction.branch_qualifier,
    )
    return {"formatId": format_id, "globalId": global_id, "branch": branch}


def _size(add: AddMessage) -> int | None:
    return None if add.message is None else len(add.message)


def _destination(command: Any) -> str | None:
    """The name with its prefix, also where it has a comma."""
    destination = command.destination
    return None if destination is None else destination.prefix + destination.physical_name


def _same(get: _Get, *commands: type[Command]) -> dict[type[Command], _Get]:
    return dict.fromkeys(commands, get)


def _of_transactions(get: Callable[[TransactionId | None], object]) -> dict[type[Command], _Get]:
    def of(command: Any) -> object:
        return get(command.transaction)

    return _same(of, RemoveMessage, Commit, Prepare, Rollback) | _names(of)


#: By column and command: how to get a value; what is not here is null.
_VALUES: Final[Mapping[str, Mapping[type[Command], _Get]]] = {
    "destination": _names(_destination) | _same(_destination, RemoveMessage, RemoveDestination, Subscription),
    "messageId": _names(attrgetter("message_id"))
    | {RemoveMessage: attrgetter("message_id"), AddScheduledJob: attrgetter("job_id")},
    "subscriptionKey": _same(attrgetter("subscription_key"), RemoveMessage, Subscription),
    "transactionId": _of_transactions(_text),
    "xa": _of_transactions(_xa),
    "priority": _names(attrgetter("priority")),
    "prioritySupported": _names(attrgetter("priority_supported")),
    "messageBytes": _names(_size) | {AddScheduledJob: lambda command: command.payload and len(command.payload)},
    "retroactive": {Subscription: attrgetter("retroactive")},
    "subscriptionInfo": {Subscription: attrgetter("info")},
    "sourceFile": {RewrittenDataFile: attrgetter("source")},
    "skipIfSourceExists": {RewrittenDataFile: attrgetter("skip_if_source_exists")},
    "message": _names(attrgetter("message")) | {AddScheduledJob: attrgetter("payload")},
    "acknowledgement": {RemoveMessage: attrgetter("ack")},
}


def _batch(records: list[Record], schema: pa.Schema) -> pa.RecordBatch:
    """Rows for records."""
    locations, commands = zip(*records, strict=True)
    files, offsets, sizes = zip(*locations, strict=True)
    types = list(map(type, commands))
    there = set(types)
    known = {"file": files, "offset": offsets, "size": sizes}
    arrays = []
    for field in schema:
        name = field.name
        if name in known:
            values: Sequence[object] = known[name]
        elif name == "command":
            values = [cls.__name__ for cls in types]
        elif name == CORRUPT or there.isdisjoint(_VALUES[name]):
            arrays.append(pa.nulls(len(records), field.type))
            continue
        else:
            getters = {cls: _VALUES[name].get(cls, _nothing) for cls in there}
            values = [getters[cls](command) for cls, command in zip(types, commands, strict=True)]
        arrays.append(pa.array(values, field.type))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _nothing(command: Command) -> None:
    return None


def _damages(damages: list[Damage], schema: pa.Schema) -> pa.RecordBatch:
    """Rows for damages."""
    rows = [
        {
            "file": damage.file,
            "offset": damage.offset,
            "size": damage.end - damage.offset,
            CORRUPT: {"error": damage.what, "atTheEnd": damage.at_the_end},
        }
        for damage in damages
    ]
    return pa.RecordBatch.from_arrays(
        [pa.array([row.get(field.name) for row in rows], field.type) for field in schema], schema=schema
    )
