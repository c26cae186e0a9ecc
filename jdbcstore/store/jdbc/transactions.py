"""Transactions of the SQL store: what is prepared is rows, and its outcome is a write like any other."""

from __future__ import annotations

from typing import Protocol

from jdbcstore.destination import Destination, Topic
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter, PreparedTransaction
from jdbcstore.store.jdbc.messages import JdbcMessageStore
from jdbcstore.store.jdbc.outcomes import Decide, Prepare
from jdbcstore.store.jdbc.prepared import AddedRow, Prepared, messages_of
from jdbcstore.store.jdbc.rows import MessageRow
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.topic_work import Acknowledge
from jdbcstore.store.jdbc.topics import JdbcTopicMessageStore
from jdbcstore.store.jdbc.writes import Write
from jdbcstore.store.jdbc.xid import check_xid
from jdbcstore.store.transactions import BufferedTransaction, BufferedTransactionStore, OwnStores
from jdbcstore.subscription import SubscriptionKey

__all__ = ["JdbcTransactionStore"]


class TransactionHost(StoreHost, OwnStores[JdbcMessageStore, JdbcTopicMessageStore], Protocol):
    """A store that is open, as its transactions see it."""


class JdbcTransactionStore(BufferedTransactionStore):
    """Created by the adapter only.

    Args:
        adapter: whose.
        host: the same, as the parts of the store see it.
    """

    def __init__(self, adapter: PersistenceAdapter, host: TransactionHost) -> None:
        super().__init__(adapter, host.options)
        self._jdbc = host

    def check(self, transaction_id: XATransactionId) -> None:
        check_xid(transaction_id)

    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        self._jdbc.require_open()
        return transaction_id in self._jdbc.doubts.by_xid

    def prepared_transactions(self) -> list[PreparedTransaction]:
        doubts = self._jdbc.doubts
        with self._jdbc.reading() as connection:
            found = doubts.read(connection)
            return [
                PreparedTransaction(
                    xid,
                    [message for _, message in messages_of(connection, self._jdbc.statements, _rows(prepared))],
                    [(self._jdbc.destination_of(container), _id(id)) for id, container in prepared.removed],
                    _acknowledged(prepared),
                )
                for xid, prepared in found.items()
            ]

    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        adapter, xid = self._jdbc, transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        adapter.require_open()
        targets = [(adapter.own(store), message) for store, message in transaction.adds]
        sources = [(adapter.own(store), message_id) for store, message_id in transaction.removes]
        known = [(store.container, one.broker_sequence_id) for store, one in sources if one.broker_sequence_id > 0]
        keys = [(store.container, store.key_of(one)) for store, one in sources if one.broker_sequence_id <= 0]
        done = [(adapter.own_topic(store), key, one) for store, key, one in transaction.acknowledged]
        if done:
            adapter.require_acked()
            adapter.doubts.require_table()
        completion: Completion[None] = Completion()
        with adapter.order:
            rows: list[MessageRow] = []
            added: list[AddedRow] = []
            for store, message in targets:
                message.transaction_id = xid
                rows.append(store.row_of(message))
                added.append(AddedRow(rows[-1][0], store.container, rows[-1][5]))
            works = [work for store, key, one in done for work in store.acknowledgement(key, (one,))]
            acknowledges = [work for work in works if isinstance(work, Acknowledge)]
            prepare = Prepare(xid, adapter.doubts, added, known, keys, acknowledges)
            adapter.writer.submit(Write(completion, adds=rows, topics=(prepare,)))
        return completion

    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        adapter = self._jdbc
        completion: Completion[None] = Completion()
        with adapter.order:
            new_ids = {
                row.id: adapter.next_sequence()
                for row in adapter.doubts.by_xid[transaction_id].added
                if not row.container.name.startswith(Topic.prefix) or adapter.registry.state(row.container).is_needed
            }
            decide = Decide(transaction_id, adapter.doubts, True, new_ids, adapter.registry)
            adapter.writer.submit(Write(completion, topics=(decide,)))
        return completion

    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        adapter = self._jdbc
        completion: Completion[None] = Completion()
        decide = Decide(transaction_id, adapter.doubts, False, {}, adapter.registry)
        adapter.writer.submit(Write(completion, topics=(decide,)))
        return completion


def _rows(prepared: Prepared) -> list[tuple[AddedRow, None]]:
    return [(row, None) for row in prepared.added]


def _acknowledged(prepared: Prepared) -> list[tuple[Destination, SubscriptionKey, MessageId]]:
    return [
        (subscription.info.destination, subscription.info.key, _id(last))
        for subscription, rows in prepared.acknowledged.items()
        for last in sorted({one.last for ranges in rows.values() for one in ranges})
    ]


def _id(sequence: int) -> MessageId:
    return MessageId(None, 0, sequence)
