"""The open transactions of one client: what it sent and acknowledged in them, until COMMIT.

Several clients may take part in a distributed transaction before it is prepared: a transaction manager that meets one
broker behind two connections starts the branch on one, joins it with the other, and tells only one of them the outcome.
What the others have done is that one's from then on (`OpenTransactions.gather`). One that joined may go before, and
what it has done stays. If the one that began goes nothing of the branch takes effect, as with ActiveMQ.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol

from jdbcstore.broker.client_account import ClientAccount
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.memory import DELIVERY_BYTES, TRANSACTION_BYTES
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.prepared import Prepared
from jdbcstore.errors import ProtocolError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, ProducerId, TransactionId, XATransactionId
from jdbcstore.message import Message

__all__ = ["Branches", "OpenTransactions", "Transaction"]


class Rememberer(Protocol):
    """Knows the producers that number their messages."""

    def hold(self, producer_id: ProducerId) -> None:
        """A transaction has a first message of a producer, who is not forgotten until `release`."""

    def release(self, producer_ids: Iterable[ProducerId]) -> None:
        """A transaction needs its producers no more."""


class Transaction:
    """Sends and acknowledgements that count together or not at all.

    Args:
        name: what the client calls it.
        transaction_id: what its messages call it.
        options: how much it may hold.
        account: what its connection keeps, which it is part of.
        producers: remember those that number their messages in it until it ends.
    """

    __slots__ = (
        "_account",
        "_bytes",
        "_held",
        "_kept",
        "_named",
        "_names",
        "_options",
        "_producers",
        "_withheld",
        "acknowledged",
        "found",
        "is_incomplete",
        "lacks",
        "name",
        "numbers",
        "prepared",
        "refused",
        "sends",
        "transaction_id",
    )

    def __init__(
        self,
        name: str,
        transaction_id: TransactionId,
        options: BrokerOptions,
        account: ClientAccount,
        producers: Rememberer,
    ) -> None:
        self.name = name
        self.transaction_id = transaction_id
        self.sends: list[Message] = []
        self.acknowledged: list[Delivery] = []
        #: By producer that numbers its messages: its numbers among the sends, in order.
        self.numbers: dict[ProducerId, list[int]] = {}
        #: Numbered messages that were refused.
        self.refused: list[tuple[ProducerId, int]] = []
        #: Whether something is missing in it that its client may believe to be there: it cannot be committed.
        self.is_incomplete = False
        #: What that is.
        self.lacks = ""
        #: Whether what it sends is in the store already, because its client repeats what was committed; or why the
        #: store could not be asked. None if nobody has asked.
        self.found: bool | BaseException | None = None
        #: What was done ahead for its COMMIT.
        self.prepared: Prepared | None = None
        self._options = options
        self._bytes = 0
        self._account = account
        self._producers = producers
        #: Those that do not make room for others.
        self._held: list[ProducerId] = []
        self._kept = TRANSACTION_BYTES + len(name)
        #: How many messages consumers would have got for what is acknowledged in it, but do not get before it ends.
        self._withheld: Counter[Consumer] = Counter()
        #: The names of the first acknowledged ones, and how many those are.
        self._names: set[str] = set()
        self._named = 0

    def send(self, messages: Sequence[Message]) -> None:
        """Keep what a SEND has become until COMMIT, all of it or nothing.

        Raises:
            ProtocolError: the transaction is full.
        """
        size = sum([message.size for message in messages])
        self._check(len(messages), size)
        self._keep(size)
        for message in messages:
            message.transaction_id = self.transaction_id
        self._bytes += size
        self.sends += messages

    @property
    def room(self) -> int:
        """How many more messages it may hold."""
        return self._options.transaction_messages_max - len(self.sends) - len(self.acknowledged)

    def acknowledge(self, consumer: Consumer, deliveries: list[Delivery]) -> None:
        """Keep acknowledgements of a consumer until COMMIT. Raises ProtocolError when there are none because it has no
        room."""
        if not deliveries:
            raise self._full()
        size = len(deliveries) * DELIVERY_BYTES
        self._account.count(size)
        self._kept += size
        self.acknowledged.extend(deliveries)
        if consumer.prefetch and not consumer.is_extended:
            self._withheld[consumer] += len(deliveries)
            consumer.withhold(len(deliveries))

    def has_acknowledged(self, name: str) -> bool:
        """Whether a delivery of this name (`Delivery.key`) is acknowledged in it.

        That is a look into a set, which has first to be told what was acknowledged since the last time.
        """
        self._names.update([delivery.key for delivery in self.acknowledged[self._named :]])
        self._named = len(self.acknowledged)
        return name in self._names

    def number(self, producer_id: ProducerId, number: int) -> None:
        """Keep the number of a message that is being sent. Raises ProtocolError when it comes after a higher one."""
        numbers = self.numbers.setdefault(producer_id, [])
        if numbers and number <= numbers[-1]:
            raise ProtocolError(
                f"Message {number} comes after message {numbers[-1]} in transaction {self.name}: the numbers of a"
                " producer grow"
            )
        numbers.append(number)
        if len(numbers) == 1 and not self.is_incomplete:
            self._held.append(producer_id)
            self._producers.hold(producer_id)

    def refuse(self, lacks: str) -> None:
        """A message of it was refused, or something else is missing: it cannot be committed. The first reason is told,
        which may be that of all others."""
        if not self.is_incomplete:
            self.is_incomplete, self.lacks = True, lacks
        self._release()

    def abandon(self) -> None:
        """Its client has forgotten it: it cannot be committed, and of what was sent in it nothing is kept."""
        self.refuse("its producer has gone on without it")
        self._account.give_up(self._bytes)
        self._kept -= self._bytes
        self._bytes = 0
        self.sends = []
        self.numbers = {}

    def absorb(self, other: Transaction) -> None:
        """Take over what another client has done in the same distributed transaction, which that closes then."""
        self.sends += other.sends
        self.acknowledged += other.acknowledged
        if other.is_incomplete:
            self.refuse(other.lacks)
        self._bytes += other._bytes
        self._account.count(other._kept)
        self._kept += other._kept
        self._withheld += other._withheld
        other._withheld.clear()

    def close(self) -> None:
        """It has come to its end: nothing is kept for it."""
        self._account.give_up(self._kept)
        self._kept = 0
        for consumer, count in self._withheld.items():
            consumer.grant(count)
        self._withheld.clear()
        self._release()
        self.forget_prepared()

    def forget_prepared(self) -> None:
        """It is not committed now: nothing stays prepared for that."""
        if self.prepared is not None:
            self.prepared.close()
            self.prepared = None

    def _release(self) -> None:
        self._producers.release(self._held)
        self._held = []

    def all_numbers(self) -> list[tuple[ProducerId, int]]:
        """The numbers of all messages in it, refused ones too."""
        return [(producer, number) for producer, of in self.numbers.items() for number in of] + self.refused

    def _keep(self, size: int) -> None:
        self._account.keep(size, f"Transaction {self.name}", "Commit or abort it first")
        self._kept += size

    def _check(self, count: int, size: int) -> None:
        options = self._options
        if count > self.room:
            raise self._full()
        if self._bytes + size > options.transaction_bytes_max:
            raise ProtocolError(
                f"Transaction {self.name} is full: transaction_bytes_max is {options.transaction_bytes_max}."
                " Commit earlier"
            )

    def _full(self) -> ProtocolError:
        most = self._options.transaction_messages_max
        return ProtocolError(f"Transaction {self.name} is full: transaction_messages_max is {most}. Commit earlier")


class Branches:
    """The open distributed transactions of a broker, and the clients that take part in them."""

    __slots__ = ("_clients",)

    def __init__(self) -> None:
        self._clients: dict[XATransactionId, dict[OpenTransactions, None]] = {}

    def enter(self, transaction_id: XATransactionId, client: OpenTransactions) -> None:
        """A client takes part."""
        self._clients.setdefault(transaction_id, {})[client] = None

    def leave(self, transaction_id: XATransactionId, client: OpenTransactions) -> None:
        """A client does not any more."""
        clients = self._clients[transaction_id]
        del clients[client]
        if not clients:
            del self._clients[transaction_id]

    def of(self, transaction_id: XATransactionId) -> list[OpenTransactions]:
        """Who takes part, in the order in which they came: the first one has begun it."""
        return list(self._clients.get(transaction_id, ()))


class OpenTransactions:
    """Those of one client, by the names that it gave them.

    Args:
        connection_id: what their ids begin with.
        options: how many there may be, and how much each may hold.
        account: what the connection keeps, which they are part of.
        producers: as for `Transaction`.
        branches: knows in which ones others take part.
    """

    __slots__ = ("_account", "_branches", "_by_name", "_connection_id", "_count", "_options", "_producers")

    def __init__(
        self,
        connection_id: str,
        options: BrokerOptions,
        account: ClientAccount,
        producers: Rememberer,
        branches: Branches,
    ) -> None:
        self._branches = branches
        self._by_name: dict[str, Transaction] = {}
        self._connection_id = connection_id
        self._count = 0
        self._options = options
        self._account = account
        self._producers = producers

    def __iter__(self) -> Iterator[Transaction]:
        return iter(self._by_name.values())

    def __len__(self) -> int:
        return len(self._by_name)

    def begin(self, name: str, transaction_id: TransactionId | None = None) -> None:
        """Begin a transaction, whose messages say `transaction_id` if the client has given one.

        Raises:
            ProtocolError: there is one of this name, or there are too many.
        """
        if name in self._by_name:
            raise ProtocolError(f"The transaction was already started: {name}. Commit or abort it first")
        options = self._options
        if len(self._by_name) >= options.transactions_max:
            raise ProtocolError(
                f"Too many transactions: transactions_max is {options.transactions_max} for a connection. Commit or"
                " abort one first"
            )
        if transaction_id is None:
            self._count += 1
            transaction_id = LocalTransactionId(self._count, ConnectionId(self._connection_id))
        self._account.keep(TRANSACTION_BYTES + len(name), f"Transaction {name}", "Commit or abort one first")
        self._by_name[name] = Transaction(name, transaction_id, options, self._account, self._producers)
        if isinstance(transaction_id, XATransactionId):
            self._branches.enter(transaction_id, self)

    def gather(self, transaction_id: XATransactionId) -> None:
        """A distributed transaction is about to have its outcome: what other clients have done in it is this one's.

        Raises:
            ProtocolError: this one takes no part in it yet, and has too many.
        """
        name = transaction_id.name
        for other in self._branches.of(transaction_id):
            if other is self:
                continue
            if name not in self._by_name:
                self.begin(name, transaction_id)
            theirs = other.named(name)
            self._by_name[name].absorb(theirs)
            other.end(theirs)

    def get(self, name: str | None) -> Transaction | None:
        """The one of this name, if there is one."""
        return None if name is None else self._by_name.get(name)

    def named(self, name: str) -> Transaction:
        """The one of this name. Raises ProtocolError if there is none."""
        transaction = self._by_name.get(name)
        if transaction is None:
            raise ProtocolError(f"Invalid transaction id: {name}. Begin it first")
        return transaction

    def end(self, transaction: Transaction) -> None:
        """It is committed or rolled back: nothing is kept for it."""
        del self._by_name[transaction.name]
        self._close(transaction)

    def end_all(self) -> list[Delivery]:
        """The client is gone. Returns what was acknowledged in them, and is acknowledged no more."""
        acknowledged: list[Delivery] = []
        for transaction in self._by_name.values():
            if not self._is_left_to_others(transaction):
                acknowledged += transaction.acknowledged
            self._close(transaction)
        self._by_name.clear()
        return acknowledged

    def _is_left_to_others(self, transaction: Transaction) -> bool:
        if not isinstance(transaction.transaction_id, XATransactionId):
            return False
        first, *others = self._branches.of(transaction.transaction_id)
        if first is not self:
            first.named(transaction.name).absorb(transaction)
            return True
        for other in others:
            other.named(transaction.name).refuse("who began it is gone")
        return False

    def _close(self, transaction: Transaction) -> None:
        if isinstance(transaction.transaction_id, XATransactionId):
            self._branches.leave(transaction.transaction_id, self)
        transaction.close()
