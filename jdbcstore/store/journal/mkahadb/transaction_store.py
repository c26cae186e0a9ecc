"""Prepared transactions of several stores: each is prepared in those that it concerns, and decided in all of them."""

from __future__ import annotations

from typing import Any

from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter, PreparedTransaction
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.journal.mkahadb.steps import decided_in_each, order_of, prepared_in_each
from jdbcstore.store.journal.mkahadb.store_host import StoreHost
from jdbcstore.store.journal.work import Decide, Meant, PrepareAll
from jdbcstore.store.transactions import BufferedTransaction, BufferedTransactionStore

__all__ = ["SharedTransactionStore"]


class SharedTransactionStore(BufferedTransactionStore):
    """Prepared transactions, each in the stores that it concerns.

    Args:
        adapter: whose.
        host: the same, as the parts of the store see it.
    """

    def __init__(self, adapter: PersistenceAdapter, host: StoreHost) -> None:
        super().__init__(adapter, host.options)
        self._host = host

    def _with(self, xid: XATransactionId) -> list[Child]:
        found = [child for child in self._host.children() if xid in child.reading().prepared()]
        return sorted(found, key=lambda one: one.directory)

    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        return bool(self._with(transaction_id))

    def prepared_transactions(self) -> list[PreparedTransaction]:
        found: dict[XATransactionId, PreparedTransaction] = {}
        for child in self._host.children():
            for one in child.transaction_store().prepared_transactions():
                known = found.get(one.transaction_id)
                if known is not None:
                    one = PreparedTransaction(
                        one.transaction_id,
                        [*known.added, *one.added],
                        [*known.removed, *one.removed],
                        [*known.acknowledged, *one.acknowledged],
                    )
                found[one.transaction_id] = one
        for one in found.values():
            assert isinstance(one.added, list)
            one.added.sort(key=_number)
        return list(found.values())

    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        xid = transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        parts: dict[Child, BufferedTransaction] = {}

        def part(child: Child) -> BufferedTransaction:
            if child not in parts:
                parts[child] = BufferedTransaction(child.transactions, xid)
            return parts[child]

        for store, message in transaction.adds:
            part(self._host.child_of_store(store)).adds.append((store, message))
        for store, message_id in transaction.removes:
            part(self._host.child_of_store(store)).removes.append((store, message_id))
        for topic, key, message_id in transaction.acknowledged:
            part(self._host.child_of_store(topic)).acknowledged.append((topic, key, message_id))
        if not parts:
            part(self._host.any_child())
        if len(parts) == 1:
            child, one = next(iter(parts.items()))
            return child.transactions.prepare_transaction(one)
        return self._prepare_several(transaction, xid, sorted(parts, key=lambda one: one.directory))

    def _prepare_several(
        self, transaction: BufferedTransaction, xid: XATransactionId, children: list[Child]
    ) -> Completion[None]:
        """Numbers are given in the order of the transaction, whichever store a message goes to."""
        made = []
        for store, message in transaction.adds:
            message.transaction_id = xid
            child = self._host.child_of_store(store)
            own = child.own(store)
            made.append((child, own, message, own.prepare(message, xid)))
        completion: Completion[None] = Completion()
        held = order_of(children)
        try:
            adds: dict[Child, list[Any]] = {child: [] for child in children}
            for child, own, message, record in made:
                adds[child].append(own.add_of(message, record))
            parts = [(child, [self._part(transaction, xid, child, adds[child])]) for child in children]
        except BaseException:
            held.close()
            raise
        self._host.run(lambda: prepared_in_each(xid, parts), completion, held.close)
        return completion

    def _part(self, transaction: BufferedTransaction, xid: XATransactionId, child: Child, adds: list[Any]) -> Any:
        removes = [
            (child.own(store).known, Meant.of(one, child.format))
            for store, one in transaction.removes
            if self._host.child_of_store(store) is child
        ]
        acknowledged = [
            (child.own_topic(topic).known, child.format.subscription_text(key), Meant.of(one, child.format))
            for topic, key, one in transaction.acknowledged
            if self._host.child_of_store(topic) is child
        ]
        return PrepareAll(xid, adds, removes, acknowledged, child.wire_version)

    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        children = self._with(transaction_id)
        if len(children) == 1:
            return children[0].transactions.commit_prepared(transaction_id)
        completion: Completion[None] = Completion()
        # What the thread does never waits for somebody who gives numbers: they may wait for the thread.
        held = order_of(children)
        try:
            work = [
                (child, Decide(transaction_id, child.numbers_for(transaction_id), commits=True)) for child in children
            ]
        except BaseException:
            held.close()
            raise
        self._host.run(lambda: decided_in_each(work), completion, held.close)
        return completion

    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        children = self._with(transaction_id)
        if len(children) == 1:
            return children[0].transactions.rollback_prepared(transaction_id)
        completion: Completion[None] = Completion()
        work = [(child, Decide(transaction_id, (), commits=False)) for child in children]
        self._host.run(lambda: decided_in_each(work), completion)
        return completion


def _number(message: Message) -> int:
    return 0 if message.message_id is None else message.message_id.broker_sequence_id
