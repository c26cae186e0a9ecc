"""Transactions of a journal: what is prepared is in the journal as brokers write it, under its XA id.

Local transactions, and XA transactions that are committed at once, need none of that: they are one batch.
"""

from __future__ import annotations

from typing import Protocol

from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter, PreparedTransaction
from jdbcstore.store.journal.index import Operation, Row
from jdbcstore.store.journal.messages import JournalMessageStore
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_host import StoreHost
from jdbcstore.store.journal.topics import JournalTopicMessageStore
from jdbcstore.store.journal.work import Decide, Meant, PrepareAll
from jdbcstore.store.transactions import BufferedTransaction, BufferedTransactionStore, OwnStores

__all__ = ["JournalTransactionStore"]


class TransactionHost(StoreHost, OwnStores[JournalMessageStore, JournalTopicMessageStore], Protocol):
    """A store that is open, as its transactions see it."""


class JournalTransactionStore(BufferedTransactionStore):
    """Created by the adapter only.

    Args:
        adapter: whose.
        host: the same, as the parts of the store see it.
    """

    def __init__(self, adapter: PersistenceAdapter, host: TransactionHost) -> None:
        super().__init__(adapter, host.options)
        self._host = host

    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        return transaction_id in self._host.reading().prepared()

    def prepared_transactions(self) -> list[PreparedTransaction]:
        index = self._host.reading()
        with index.lock:  # of one moment
            found = [(xid, self._rows(index.operations(id))) for xid, id in index.prepared().items()]
            keys = {one.id: one.info.key for known in index.known for one in known.subscriptions.values()}
        return [
            PreparedTransaction(
                xid,
                [self._message(row, xid) for operation, row in rows if operation.adds],
                [
                    (self._destination(row), _id(row))
                    for operation, row in rows
                    if not operation.adds and not operation.subscription
                ],
                [
                    (self._destination(row), keys[operation.subscription], _id(row))
                    for operation, row in rows
                    if operation.subscription
                ],
            )
            for xid, rows in found
        ]

    def _rows(self, operations: list[Operation]) -> list[tuple[Operation, Row]]:
        index = self._host.reading()
        return [(one, row) for one in operations if (row := index.row(one.sequence)) is not None]

    def _message(self, row: Row, xid: XATransactionId) -> Message:
        message = self._host.reader.message(Location(row.file, row.offset, row.size), row.sequence)
        message.transaction_id = xid
        return message

    def _destination(self, row: Row) -> Destination:
        return self._host.reading().known.by_id(row.destination).destination

    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        adapter, xid = self._host, transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        adapter.opened()
        targets = []
        for store, message in transaction.adds:
            message.transaction_id = xid
            own = adapter.own(store)
            targets.append((own, message, own.prepare(message, xid)))
        removes = [(adapter.own(store).known, Meant.of(one, adapter.format)) for store, one in transaction.removes]
        done = [
            (adapter.own_topic(store).known, adapter.format.subscription_text(key), one)
            for store, key, one in transaction.acknowledged
        ]
        with adapter.order:
            adds = [own.add_of(message, prepared) for own, message, prepared in targets]
            acknowledged = [(known, text, Meant.of(one, adapter.format)) for known, text, one in done]
            part = PrepareAll(xid, adds, removes, acknowledged, adapter.wire_version)
            return adapter.committer.write(part, is_alone=True)

    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        adapter, index = self._host, self._host.reading()
        with adapter.order:
            operations = index.operations(index.prepared()[transaction_id])
            numbers = [adapter.next_sequence() for operation in operations if operation.adds]
            part = Decide(transaction_id, numbers, commits=True)
            return adapter.committer.write(part, is_alone=True)

    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        part = Decide(transaction_id, (), commits=False)
        return self._host.committer.write(part, is_alone=True)


def _id(row: Row) -> MessageId:
    return MessageId(None, 0, row.sequence)
