"""``view=records`` of a LevelDB store: what stands in its log, a row for each record and each damage.

One task reads one directory, for what a record is about was said further in front, or in the index. Commands have the
names that ``jdbcstore journal dump`` shows: a message is a ``Data``, and its ``AddEntry`` says in which queue it is.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import InputPartition
from pyspark.sql.types import StructType

from jdbcstore.errors import CodecError, JournalDamaged
from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import unmarshal, unmarshal_message
from jdbcstore.spark.columns import CORRUPT, arrow_schema
from jdbcstore.spark.cycles import no_cycles
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.inspection import units_of
from jdbcstore.store.journal.leveldb.log import LogFlaw, Record
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    DATA,
    HEADER_BYTES,
    KIND_NAMES,
    REMOVE_COLLECTION,
    SUBSCRIPTION,
    TRACE,
    TRANSACTION,
    CollectionRecord,
    EntryRecord,
    SubscriptionRecord,
    XaAck,
    message_bytes,
    removed_collection,
)
from jdbcstore.store.journal.leveldb.recovery import Recovered, recover
from jdbcstore.store.journal.leveldb.varints import Malformed

__all__ = ["LogTask", "read_log"]

#: Rows of a batch.
_ROWS_MAX: Final = 10_000


@dataclass(frozen=True)
class LogTask(InputPartition):
    """What one task reads.

    Args:
        path: of the directory, on this machine.
        log_directory: where its log is, if that is elsewhere.
    """

    path: str
    log_directory: str | None


@dataclass(slots=True)
class _About:
    """What a collection is, as the columns say it."""

    destination: str | None = None
    subscription_key: str | None = None
    xid: XATransactionId | None = None

    def row(self) -> dict[str, Any]:
        xid = self.xid
        found: dict[str, Any] = {"destination": self.destination, "subscriptionKey": self.subscription_key}
        if xid is not None:
            found["transactionId"] = str(xid)
            parts = {"globalId": xid.global_transaction_id, "branch": xid.branch_qualifier}
            found["xa"] = {"formatId": xid.format_id, **parts}
        return found


def read_log(task: LogTask, options: KahaDBOptions, schema: StructType) -> Iterator[pa.RecordBatch]:
    """Batches of the schema, in the order of the log.

    Raises:
        JournalDamaged: there is damage, and it is to be an error or there is no column for it.
        StoreError: a file cannot be read.
    """
    arrow = arrow_schema(schema)
    takes_corrupt = CORRUPT in schema.names and options.on_corrupt == "column"
    rows: list[dict[str, Any]] = []
    size = 0
    with no_cycles():
        for row in _Log(task, schema).rows():
            if row.get(CORRUPT) is not None and not takes_corrupt:
                raise JournalDamaged(
                    f"file {row['file']} of the log, at {row['offset']}: {row[CORRUPT]['error']}. To get damage in a"
                    f" column of its own ask for {CORRUPT}, with onCorrupt=column"
                )
            rows.append(row)
            size += row["size"]
            if size >= options.batch_bytes or len(rows) >= _ROWS_MAX:
                yield _batch(rows, arrow)
                rows, size = [], 0
    if rows:
        yield _batch(rows, arrow)


def _batch(rows: list[dict[str, Any]], schema: pa.Schema) -> pa.RecordBatch:
    columns = [pa.array([row.get(field.name) for row in rows], field.type) for field in schema]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


@dataclass(slots=True)
class _Log:
    task: LogTask
    schema: StructType
    _found: Recovered = field(init=False)
    #: By the key of a collection: those of the index, and those that the log has made so far.
    _collections: dict[int, _About] = field(default_factory=dict)

    def rows(self) -> Iterator[dict[str, Any]]:
        """All of them, by the names of the columns."""
        log_directory = self.task.log_directory
        self._found = found = recover(Path(self.task.path), None if log_directory is None else Path(log_directory))
        for one in found.state.collections.values():
            self._name(CollectionRecord(one.key, one.type, one.meta))
        numbers = {base: number for number, base in enumerate(found.files, 1)}
        last = max(found.files, default=0)
        reader = MessageReader(found.log_directory, found.files)
        try:
            for base, unit in units_of(found):
                if isinstance(unit, LogFlaw):
                    if not (unit.at_the_end and base == last):  # how a killed broker leaves it
                        damage = {"error": unit.what, "atTheEnd": unit.at_the_end}
                        yield {"file": numbers[base], "offset": unit.offset, "size": unit.length, CORRUPT: damage}
                    continue
                for record in unit.records:
                    row: dict[str, Any] = {"file": numbers[base], "offset": record.position - base}
                    row["command"] = KIND_NAMES.get(record.kind, str(record.kind))
                    try:
                        row |= self._data(reader, record) if record.kind == DATA else self._facts(record)
                    except (CodecError, Malformed) as error:
                        row |= {"command": None, CORRUPT: {"error": str(error), "atTheEnd": False}}
                    row.setdefault("size", HEADER_BYTES + len(record.data or b""))
                    yield row
        finally:
            reader.close()

    def _data(self, reader: MessageReader, record: Record) -> dict[str, Any]:
        data = reader.data(record.position, 0)
        plain = message_bytes(data)[0]
        found = {"size": HEADER_BYTES + len(data), "messageBytes": len(plain), "message": plain}
        if "messageId" in self.schema.names:
            found["messageId"] = str(unmarshal_message(plain).message_id)
        return found

    def _facts(self, record: Record) -> dict[str, Any]:
        data = record.data or b""
        if record.kind == TRACE:
            return {}
        if record.kind == ADD_COLLECTION:
            return self._name(CollectionRecord.read(data)).row()
        if record.kind == REMOVE_COLLECTION:
            return self._about(removed_collection(data)).row()
        entry = EntryRecord.read(data)
        about = self._about(entry.collection)
        found = about.row()
        if about.xid is not None and entry.meta is not None:
            ack = XaAck.read(entry.meta)
            taken, by = self._about(ack.collection), self._about(ack.subscription)
            found |= {"destination": taken.destination, "subscriptionKey": by.subscription_key}
            found["acknowledgement"] = ack.ack
        return found

    def _about(self, key: int) -> _About:
        return self._collections.get(key) or _About()

    def _name(self, record: CollectionRecord) -> _About:
        about = _About()
        if record.type == TRANSACTION:
            xid = unmarshal(record.meta)
            about.xid = xid if isinstance(xid, XATransactionId) else None
        elif record.type == SUBSCRIPTION:
            told = SubscriptionRecord.read(record.meta)
            about.destination = told.destination_name or self._about(told.topic_key).destination
            about.subscription_key = f"{told.client_id}:{told.subscription_name}"
        elif record.meta:
            about.destination = record.meta.decode("utf-8", "replace")
        self._collections[record.key] = about
        return about
