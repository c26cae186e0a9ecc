"""Rows of ``view=records`` without messages, back to records, to feed `jdbcstore.store.journal.replay`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, TransactionId, XATransactionId
from jdbcstore.spark.columns import CORRUPT
from jdbcstore.store.journal.commands import (
    COMMANDS,
    AddMessage,
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
from jdbcstore.store.journal.kahadb.journal import Damage, KahaDBDamage, KahaDBLocation, Record

__all__ = ["records_of"]

_PREFIXES: Final = {kind.prefix: kind for kind in (Queue, Topic, TempQueue, TempTopic)}
_REMEMBERED_MAX: Final = 4096


def records_of(batches: Iterable[pa.RecordBatch], damages: list[Damage]) -> Iterator[Record]:
    """The records of these rows; messages are empty, acknowledgements are missing.

    Args:
        batches: rows with `jdbcstore.spark.kahadb.columns.OPERATIONS`.
        damages: where to put the damages among them.
    """
    destinations = _Destinations()
    for batch in batches:
        columns = [batch.column(name).to_pylist() for name in _COLUMNS]
        for file, offset, size, name, destination, id, key, transaction, *rest in zip(*columns, strict=True):
            xa, priority, supported, message_bytes, retroactive, info, source, skips, damage = rest
            if damage is not None:
                damages.append(KahaDBDamage(file, offset, offset + size, damage["error"], damage["atTheEnd"]))
                continue
            at = KahaDBLocation(file, offset, size)
            to = None if destination is None else destinations[destination]
            if name == "RemoveMessage":
                within = None if transaction is None else _transaction(transaction, xa)
                yield at, RemoveMessage(within, to, id, None, key)
            elif name in _ADDS:
                within = None if transaction is None else _transaction(transaction, xa)
                message = None if message_bytes is None else b""
                yield at, _ADDS[name](AddMessage(within, to, id, message, priority, supported))
            elif name in _ENDS:
                yield at, _ENDS[name](None if transaction is None else _transaction(transaction, xa))
            elif name == "Subscription":
                yield at, Subscription(to, key, retroactive, info)
            elif name == "RemoveDestination":
                yield at, RemoveDestination(to)
            elif name == "RewrittenDataFile":
                yield at, RewrittenDataFile(source, 0, skips)
            else:
                yield at, _OTHERS[name]()


_COLUMNS: Final = (
    "file",
    "offset",
    "size",
    "command",
    "destination",
    "messageId",
    "subscriptionKey",
    "transactionId",
    "xa",
    "priority",
    "prioritySupported",
    "messageBytes",
    "retroactive",
    "subscriptionInfo",
    "sourceFile",
    "skipIfSourceExists",
    CORRUPT,
)
_ADDS: Final[dict[str, Callable[[AddMessage], Command]]] = {
    "AddMessage": lambda add: add,
    # An update without message comes as one without destination, which is as bad.
    "UpdateMessage": UpdateMessage,
}
_ENDS: Final[dict[str, Callable[[TransactionId | None], Command]]] = {
    "Commit": Commit,
    "Prepare": Prepare,
    "Rollback": Rollback,
}
#: They concern no message, but they are there.
_OTHERS: Final = {command.__name__: command for command in COMMANDS}


class _Destinations(dict[str, Destination]):
    def __missing__(self, name: str) -> Destination:
        if len(self) >= _REMEMBERED_MAX:
            self.clear()
        prefix, separator, physical = name.partition("://")
        destination = _PREFIXES[prefix + separator].decoded(physical)
        self[name] = destination
        return destination


def _transaction(text: str, xa: dict[str, Any] | None) -> TransactionId:
    if xa is not None:
        return XATransactionId(xa["formatId"], xa["globalId"], xa["branch"])
    connection, _, value = text.removeprefix("TX:").rpartition(":")
    return LocalTransactionId(int(value), ConnectionId(connection))
