"""What every store does with transactions that are not prepared: it keeps them in memory, within limits.

A store subclasses `BufferedTransactionStore` and says how its prepared transactions are kept; the rest, who may do what
when, is here and the same for all of them.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Callable
from typing import Final, Protocol, TypeVar

from jdbcstore.errors import OutcomeUnknown, StoreError, UnknownTransaction
from jdbcstore.identifiers import MessageId, TransactionId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Commit,
    MessageStore,
    PersistenceAdapter,
    TopicMessageStore,
    Transaction,
    TransactionStore,
)
from jdbcstore.subscription import SubscriptionKey

__all__ = ["BufferedTransaction", "BufferedTransactionStore", "OwnStores", "TransactionLimits"]

S_co = TypeVar("S_co", bound=MessageStore, covariant=True)
T_co = TypeVar("T_co", bound=TopicMessageStore, covariant=True)


class OwnStores(Protocol[S_co, T_co]):
    """Whose message stores a transaction may name: an adapter that is open."""

    def own(self, store: MessageStore) -> S_co:
        """A store that was made here and is open. Raises `StoreError` when it is another."""

    def own_topic(self, store: TopicMessageStore) -> T_co:
        """The same, of a topic."""


class BufferedTransaction(Transaction):
    """A transaction in memory, until it is prepared, committed or rolled back.

    Args:
        owner: its store.
        transaction_id: local or XA.
    """

    def __init__(self, owner: BufferedTransactionStore, transaction_id: TransactionId) -> None:
        self.transaction_id = transaction_id
        self.adds: list[tuple[MessageStore, Message]] = []
        self.removes: list[tuple[MessageStore, MessageId]] = []
        self.acknowledged: list[tuple[TopicMessageStore, SubscriptionKey, MessageId]] = []
        self._owner = owner
        self._bytes = 0
        # What it was last asked to become, and the answer.
        self._aim = ""
        self._answer: Completion[None] | None = None

    def add_message(self, store: MessageStore, message: Message) -> None:
        self._require_open()
        most = self._owner.limits.transaction_bytes_max
        if self._bytes + message.size > most:
            raise StoreError(
                f"transaction {self.transaction_id} is full: its messages take more than transaction_bytes_max,"
                f" {most} bytes"
            )
        self._take_place()
        self._bytes += message.size
        self.adds.append((store, message))

    def remove_message(self, store: MessageStore, message_id: MessageId) -> None:
        self._require_open()
        if isinstance(store, TopicMessageStore) and isinstance(self.transaction_id, XATransactionId):
            raise StoreError(
                f"an XA transaction cannot remove messages of {store.destination}: acknowledge them for a subscription"
            )
        self._take_place()
        self.removes.append((store, message_id))

    def acknowledge(self, store: TopicMessageStore, key: SubscriptionKey, message_id: MessageId) -> None:
        self._require_open()
        self._take_place()
        self.acknowledged.append((store, key, message_id))

    def prepare(self) -> Completion[None]:
        if not isinstance(self.transaction_id, XATransactionId):
            raise StoreError(f"transaction {self.transaction_id} is a local one: it cannot be prepared")
        self._require_open()
        return self._begin_to("prepared", self._owner.prepare_transaction(self))

    def commit(self) -> Completion[None]:
        if self.state == "prepared" and isinstance(self.transaction_id, XATransactionId):
            return self._owner.commit_prepared(self.transaction_id)
        self._require_open()
        return self._begin_to("committed", self._owner.commit_at_once(self))

    def rollback(self) -> Completion[None]:
        if self.state == "prepared" and isinstance(self.transaction_id, XATransactionId):
            return self._owner.rollback_prepared(self.transaction_id)
        self._require_open()
        return self._begin_to("rolled back", Completion.resolved(None))

    @property
    def state(self) -> str:
        """What became of it, or is about to; empty while it takes everything."""
        if self._answer is None:
            return ""
        if self._answer.done and self._answer.error is not None and not isinstance(self._answer.error, OutcomeUnknown):
            return ""  # nothing was done: it may be tried again, or rolled back
        return self._aim

    def _begin_to(self, aim: str, answer: Completion[None]) -> Completion[None]:
        self._aim, self._answer = aim, answer
        answer.add_done_callback(lambda _: self._forget_if_over())
        return answer

    def _forget_if_over(self) -> None:
        if self.state:
            self.adds, self.removes, self.acknowledged = [], [], []
            self._owner.forget(self)

    def _take_place(self) -> None:
        most = self._owner.limits.transaction_messages_max
        if len(self.adds) + len(self.removes) + len(self.acknowledged) >= most:
            raise StoreError(
                f"transaction {self.transaction_id} is full: it may add, remove and acknowledge"
                f" transaction_messages_max, {most} messages"
            )

    def _require_open(self) -> None:
        if self.state:
            raise StoreError(f"transaction {self.transaction_id} is {self.state} already")


class TransactionLimits(Protocol):
    """Options of a store, as far as they are about transactions."""

    @property
    def transaction_messages_max(self) -> int:
        """The most messages that one transaction adds, removes and acknowledges."""

    @property
    def transaction_bytes_max(self) -> int:
        """The most message bytes in one transaction."""


class BufferedTransactionStore(TransactionStore):
    """Begins transactions and keeps them apart. A subclass keeps those that are prepared.

    Args:
        adapter: whose.
        limits: of one transaction.
    """

    def __init__(self, adapter: PersistenceAdapter, limits: TransactionLimits) -> None:
        self.limits: Final = limits
        self._adapter = adapter
        self._lock = threading.Lock()
        self._begun: dict[TransactionId, BufferedTransaction] = {}
        #: What is being done to prepared transactions; None as the answer while it is being asked for.
        self._at_work: dict[XATransactionId, tuple[str, Completion[None] | None]] = {}

    # -- what a subclass does ------------------------------------------------------------------------------------

    @abstractmethod
    def is_prepared(self, transaction_id: XATransactionId) -> bool:
        """Whether a transaction is in doubt: prepared, or perhaps so."""

    @abstractmethod
    def _prepare(self, transaction: BufferedTransaction) -> Completion[None]:
        """Make a transaction durable but invisible."""

    @abstractmethod
    def _commit(self, transaction_id: XATransactionId) -> Completion[None]:
        """Second phase; it `is_prepared`."""

    @abstractmethod
    def _roll_back(self, transaction_id: XATransactionId) -> Completion[None]:
        """Second phase; it `is_prepared`."""

    def check(self, transaction_id: XATransactionId) -> None:
        """Raise `StoreError` unless the store can keep this id."""

    # -- what everybody calls ------------------------------------------------------------------------------------

    def begin(self, transaction_id: TransactionId) -> Transaction:
        if isinstance(transaction_id, XATransactionId):
            self.check(transaction_id)
        with self._lock:
            known = self._begun.get(transaction_id)
            if known is not None and not known.state:
                raise StoreError(f"transaction {transaction_id} has begun already")
            if isinstance(transaction_id, XATransactionId) and (
                self._doing(transaction_id) or self.is_prepared(transaction_id)
            ):
                raise StoreError(f"transaction {transaction_id} is prepared already: commit it or roll it back")
            transaction = self._begun[transaction_id] = BufferedTransaction(self, transaction_id)
        return transaction

    def commit_prepared(self, transaction_id: XATransactionId) -> Completion[None]:
        return self._decided(transaction_id, "committed")

    def rollback_prepared(self, transaction_id: XATransactionId) -> Completion[None]:
        return self._decided(transaction_id, "rolled back")

    # -- what transactions call ----------------------------------------------------------------------------------

    def forget(self, transaction: BufferedTransaction) -> None:
        """It is not in memory any more."""
        with self._lock:
            if self._begun.get(transaction.transaction_id) is transaction:
                del self._begun[transaction.transaction_id]

    def commit_at_once(self, transaction: BufferedTransaction) -> Completion[None]:
        """Commit in one phase."""
        return self._adapter.commit_together(
            Commit(adds=transaction.adds, removes=transaction.removes, acknowledged=transaction.acknowledged)
        )

    def prepare_transaction(self, transaction: BufferedTransaction) -> Completion[None]:
        """Prepare, alone."""
        xid = transaction.transaction_id
        assert isinstance(xid, XATransactionId)
        with self._lock:
            self._at_work[xid] = "prepared", None
        return self._worked(xid, "prepared", lambda: self._prepare(transaction))

    def _decided(self, xid: XATransactionId, outcome: str) -> Completion[None]:
        with self._lock:
            if doing := self._doing(xid):
                raise StoreError(f"transaction {xid} is being {doing}: wait for the answer")
            if not self.is_prepared(xid):
                raise UnknownTransaction(f"no transaction {xid} is prepared")
            self._at_work[xid] = outcome, None
        return self._worked(xid, outcome, lambda: self._commit(xid) if outcome == "committed" else self._roll_back(xid))

    def _doing(self, xid: XATransactionId) -> str:
        """What is being done to a prepared transaction; who has heard the answer is not kept waiting."""
        doing, answer = self._at_work.get(xid, ("", None))
        return "" if answer is not None and answer.done else doing

    def _worked(self, xid: XATransactionId, doing: str, action: Callable[[], Completion[None]]) -> Completion[None]:
        try:
            answer = action()
        except BaseException:
            with self._lock:
                del self._at_work[xid]
            raise
        work = doing, answer
        with self._lock:
            self._at_work[xid] = work
        answer.add_done_callback(lambda _: self._rests(xid, work))
        return answer

    def _rests(self, xid: XATransactionId, work: tuple[str, Completion[None] | None]) -> None:
        with self._lock:
            if self._at_work.get(xid) is work:
                del self._at_work[xid]
