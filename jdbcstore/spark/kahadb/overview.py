"""``view=subscriptions`` and ``view=files``: who waits for what, and what keeps each journal file from being deleted.

Both replay where Spark plans, in one process; their rows are few.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, JournalDamaged
from jdbcstore.identifiers import TransactionId
from jdbcstore.spark.columns import CORRUPT, arrow_schema
from jdbcstore.spark.kahadb.columns import check_schema
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.leveldb_log import LevelDBDirectory
from jdbcstore.spark.kahadb.live import replayed, unlisted
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.records import without_the_torn_end
from jdbcstore.spark.kahadb.stores import Directory, ReadStore, stores_of
from jdbcstore.spark.one_line import one_line
from jdbcstore.store.journal.commands import (
    AckMessageFileMap,
    AddMessage,
    Commit,
    ProducerAudit,
    RemoveMessage,
    RewrittenDataFile,
    Rollback,
)
from jdbcstore.store.journal.kahadb.journal import Record
from jdbcstore.store.journal.replay import Replay
from jdbcstore.store.journal.state import State, StoredMessage

__all__ = ["OverviewReader"]

_TIME_MS_MAX: Final = 253_402_300_799_999  # the year 9999


@dataclass(frozen=True)
class Rows(InputPartition):
    """Rows that were made in planning.

    Args:
        batch: in Arrow's stream format.
    """

    batch: bytes


class OverviewReader(DataSourceReader):
    """Gives out what planning has found.

    Args:
        options: what was asked for.
        schema: columns of `jdbcstore.spark.kahadb.columns.SUBSCRIPTIONS` or `FILES`.
    """

    def __init__(self, options: KahaDBOptions, schema: StructType) -> None:
        check_schema(options, schema)
        self._options = options
        self._schema = schema

    @one_line()
    def partitions(self) -> list[InputPartition]:
        options, schema = self._options, arrow_schema(self._schema)
        make = _subscriptions if options.view == "subscriptions" else _files
        parts: list[InputPartition] = []
        for store in stores_of(options):
            rows = [{name: row.get(name) for name in schema.names} for row in make(store, options)]
            with pa.BufferOutputStream() as sink:
                with pa.ipc.new_stream(sink, schema) as writer:
                    writer.write_batch(pa.RecordBatch.from_pylist(rows, schema))
                parts.append(Rows(sink.getvalue().to_pybytes()))
        return parts

    def read(self, partition: InputPartition | None) -> Iterator[pa.RecordBatch]:
        if isinstance(partition, Rows):
            with pa.ipc.open_stream(partition.batch) as batches:
                yield from batches


def _refuse_damage(state: State, options: KahaDBOptions) -> None:
    if state.damages and options.on_corrupt == "fail":
        raise JournalDamaged(f"{state.damages[0]}. To see what else there is use onCorrupt=column")


# --- subscriptions ----------------------------------------------------------------------------------------------------


def _subscriptions(store: ReadStore, options: KahaDBOptions) -> Iterator[dict[str, Any]]:
    partition = store.partition
    state = replayed(store.directory(), store.tx_store)
    _refuse_damage(state, options)
    chooses = options.chooses()
    for destination, stored in state.destinations.items():
        if not chooses(destination.qualified_name):
            continue
        for key, subscription in stored.subscriptions.items():
            pending = state.pending(destination, key)
            row: dict[str, Any] = {
                "topic": destination.qualified_name,
                "partition": partition,
                "subscriptionKey": key,
                "retroactive": subscription.retroactive,
                "pending": len(pending),
                "firstPending": pending[0].message_id if pending else None,
                "lastAck": subscription.last_ack.sequence,
                "file": subscription.location.file,
                "offset": subscription.location.offset,
            }
            try:
                info = subscription.info
            except CodecError as error:
                row[CORRUPT] = f"{subscription.location}: {error}"
            else:
                row |= {
                    "clientId": info.client_id,
                    "subscriptionName": info.subscription_name,
                    "selector": info.selector,
                    "noLocal": info.no_local,
                }
            yield row
    for damage in state.damages:
        yield {"partition": partition, "file": damage.file, "offset": damage.offset, CORRUPT: str(damage)}
    if state.damages_unlisted:
        yield {"partition": partition, "file": 0, "offset": 0, CORRUPT: unlisted(state)}


# --- files ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Scan:
    """What the records of a journal tell of its files, besides the state."""

    counts: dict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    used: Counter[int] = field(default_factory=Counter)
    #: Files of the newest audit and of the newest map of acknowledgements.
    audits: dict[type, int] = field(default_factory=dict)
    #: First and last file of the operations of transactions that have not ended.
    open: dict[TransactionId, tuple[int, int]] = field(default_factory=dict)
    #: Files that begin with copies.
    compacted: set[int] = field(default_factory=set)

    def over(self, records: Iterator[Record]) -> Iterator[Record]:
        """The same records, looked at."""
        for record in records:
            (file, _, size), command = record
            if not size:  # of a reference store beside the journal
                yield record
                continue
            cls = type(command)
            if cls is RewrittenDataFile and file not in self.counts:
                self.compacted.add(file)
            self.counts[file][cls.__name__] += 1
            self.used[file] += size
            if isinstance(command, AddMessage | RemoveMessage):
                if command.transaction is not None:
                    first, _ = self.open.get(command.transaction, (file, file))
                    self.open[command.transaction] = first, file
            elif isinstance(command, Commit | Rollback):
                if command.transaction is not None:
                    self.open.pop(command.transaction, None)
            elif cls in (ProducerAudit, AckMessageFileMap):
                self.audits[cls] = file
            yield record


def _files(store: ReadStore, options: KahaDBOptions) -> Iterator[dict[str, Any]]:
    directory = store.directory()
    if isinstance(directory, LevelDBDirectory):
        state = directory.state()
        _refuse_damage(state, options)
        rows = directory.file_rows(state)
    else:
        rows = _journal_files(directory, store.tx_store, options)
    for row in rows:
        pins = [_pin(directory, destination, messages) for destination, messages in row["live"].items()]
        yield row | {
            "partition": store.partition,
            "liveMessages": sum(pin["messages"] for pin in pins),
            "liveBytes": sum(pin["bytes"] for pin in pins),
            "destinations": pins,
        }


def _journal_files(
    directory: JournalDirectory, tx_store: str | None, options: KahaDBOptions
) -> Iterator[dict[str, Any]]:
    scan, progress = _Scan(), Replay(directory.files)
    progress.apply(scan.over(directory.records()))
    if tx_store is not None:
        progress.decide(JournalDirectory(tx_store))
    directory.correct(progress)
    state = progress.finish()
    last = max(directory.files, default=0)
    state.damages = sorted([*without_the_torn_end(directory.damages, last), *state.damages])
    state.damages_unlisted += directory.damages_unlisted
    _refuse_damage(state, options)
    damages: dict[int, list[str]] = defaultdict(list)
    for damage in state.damages:
        damages[damage.file].append(str(damage))
    if state.damages_unlisted:
        damages[last].append(unlisted(state))

    live: dict[int, dict[Destination, list[StoredMessage]]] = defaultdict(lambda: defaultdict(list))
    for destination, stored in state.destinations.items():
        for message in stored.messages():
            live[message.location.file][destination].append(message)
    subscriptions: dict[int, list[str]] = defaultdict(list)
    idle: dict[int, bool] = defaultdict(lambda: True)
    for stored in state.destinations.values():
        for key, subscription in stored.subscriptions.items():
            subscriptions[subscription.location.file].append(key)
            idle[subscription.location.file] &= not stored.pending(subscription)
    spans: dict[int, list[str]] = defaultdict(list)
    for transaction in (*state.prepared, *state.unfinished):
        for file in range(scan.open[transaction][0], scan.open[transaction][1] + 1):
            spans[file].append(str(transaction))
    removable = _removable(directory, state, scan, {*live, *spans}, subscriptions, idle)
    for number, remote in directory.files.items():
        yield {
            "file": number,
            "path": remote.path,
            "bytes": remote.size,
            "usedBytes": scan.used[number],
            "records": list(scan.counts[number].items()),
            "live": live[number],
            "acknowledges": sorted(set(state.ack_files.get(number, ())) & set(directory.files) - {number}),
            "subscriptions": subscriptions[number],
            "transactions": spans[number],
            "removable": number in removable,
            "damages": damages[number],
        }


def _pin(directory: Directory, destination: Destination, messages: list[StoredMessage]) -> dict[str, Any]:
    first = min(messages, key=lambda message: message.order)
    try:
        timestamp = directory.message(first.location).timestamp
    except CodecError:
        timestamp = 0
    return {
        "topic": destination.qualified_name,
        "messages": len(messages),
        "bytes": sum(message.location.size for message in messages),
        "firstMessageId": first.message_id,
        "firstTimestamp": datetime.fromtimestamp(timestamp / 1000, UTC) if 0 < timestamp <= _TIME_MS_MAX else None,
    }


def _removable(
    directory: JournalDirectory,
    state: State,
    scan: _Scan,
    needed: set[int],
    subscriptions: dict[int, list[str]],
    idle: dict[int, bool],
) -> set[int]:
    """Files that the next cleanup of a broker removes.

    The rules are those of ActiveMQ 5.17: a file is kept from the one that is written on, and while it holds a live
    message, operations of an open transaction, the newest audit, a durable subscription, or an acknowledgement of a
    message whose file is kept. What of these alone keeps the first file, and nothing is pending for, is written anew.
    """
    append = max((number for number in directory.files if number not in scan.compacted), default=0)
    candidates = [number for number in directory.files if number < append]
    first = candidates[0] if candidates else None
    left = set(candidates) - needed
    left -= {number for number in scan.audits.values() if number != first}
    left -= {number for number in subscriptions if number != first or not idle[number]}
    for number in candidates:
        if number in left and any(
            other in directory.files and other not in left for other in state.ack_files.get(number, ())
        ):
            left.discard(number)
    return left
