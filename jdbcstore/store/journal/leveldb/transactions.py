"""Transactions of the LevelDB store: what is prepared is a collection of the log, as ActiveMQ writes it.

Local transactions, and XA transactions that are committed at once, need none of that: they are one unit of work.
"""

from __future__ import annotations

from typing import Protocol

from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter, PreparedTransaction
from jdbcstore.store.journal.leveldb.live import LiveTransaction
from jdbcstore.store.journal.leveldb.messages import LevelDBMessageStore
from jdbcstore.store.journal.leveldb.store_host import StoreHost
from jdbcstore.store.journal.leveldb.topics import LevelDBTopicMessageStore
from jdbcstore.store.journal.leveldb.work import Decide, PrepareAll
from jdbcstore.store.transactions import BufferedTransaction, BufferedTransactionStore, OwnStores

__all__ = ["LevelDBTransactionStore"]


class TransactionHost(StoreHost, OwnStores[LevelDBMessageStore, LevelDBTopicMessageStore], Protocol):
    """A store that is open, as its transactions see it."""


class LevelDBTransactionStore(BufferedTransactionStore):
    """Created by the adapter only.

    Args:
        adapter: whose.
        host: the same, as the parts of the store see it.
    """

    def __init__(self, adapter: PersistenceAdapter, host: TransactionHost) -> None:
        super().__init__(adapter, host.options)
        self._host = host

    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        return transaction_id in self._host.reading().transactions

    def prepared_transactions(self) -> list[PreparedTransaction]:
        live = self._host.reading()
        with live.lock:  # of one moment
            found = [(one, list(one.adds), list(one.acks)) for one in live.transactions.values()]
            removed = {
                one.xid: [
                    (ack.destination, _id(ack.sequence)) for ack in acks if ack.subscription is None and ack.hides
                ]
                for one, _, acks in found
            }
            acknowledged = {
                one.xid: [
                    (ack.destination, ack.subscription.info.key, _id(ack.hides[-1]))
                    for ack in acks
                    if ack.subscription is not None and ack.hides
                ]
                for one, _, acks in found
            }
        return [
            PreparedTransaction(one.xid, self._added(one), removed[one.xid], acknowledged[one.xid])
            for one, _, _ in found
        ]

    def _added(self, transaction: LiveTransaction) -> list[Message]:
        messages = []
        for add in transaction.adds:
            found = add.message
            try:
                messages.append(self._host.reader.message(found.location, found.length, 0))
            except CodecError as error:
                raise StoreError(f"a message of transaction {transaction.xid} cannot be read: {error}") from error
        return messages

    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        host, xid = self._host, transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        adds = []
        for store, message in transaction.adds:
            message.transaction_id = xid
            own = host.own(store)
            found, data = own.prepare(message)
            adds.append((own.where, found, data, message.destination != own.destination))
        removes = [(host.own(store).where, one) for store, one in transaction.removes]
        done = [(host.own_topic(store).where, key, one) for store, key, one in transaction.acknowledged]
        with host.order:
            part = PrepareAll(xid, adds, removes, done)
            return host.committer.write(part, is_alone=True)

    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        host, live = self._host, self._host.reading()
        with host.order:
            numbers = [host.next_sequence() for _ in live.transactions[transaction_id].adds]
            part = Decide(transaction_id, numbers, commits=True)
            return host.committer.write(part, is_alone=True)

    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        part = Decide(transaction_id, (), commits=False)
        return self._host.committer.write(part, is_alone=True)


def _id(sequence: int) -> MessageId:
    return MessageId(None, 0, sequence)
