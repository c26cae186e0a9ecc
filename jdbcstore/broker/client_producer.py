"""What a client sends: `ClientProducer` is the producing part of a client (`jdbcstore.broker.client`)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from functools import partial
from typing import Final, TypeGuard

from jdbcstore.broker.amendment import amendment
from jdbcstore.broker.answers import SendAnswer, SendAnswers
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.client_requests import ClientRequests
from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.memory import NUMBERED_BYTES, WRITE_BYTES
from jdbcstore.broker.message_division import MessageDivision, size_of
from jdbcstore.broker.prepared import Prepared
from jdbcstore.broker.producers import Number, Numbering
from jdbcstore.broker.route import Route
from jdbcstore.broker.transaction import OpenTransactions, Transaction
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, NoSuchDestination, ProtocolError
from jdbcstore.identifiers import LocalTransactionId, MessageId, ProducerId
from jdbcstore.message import Message

__all__ = ["ClientProducer"]


#: How many messages that arrive together become one write, and their bytes; one alone may have more. While more were
#: gathered the thread that commits would have nothing to do.
_GATHERED_MAX: Final = 32
_GATHERED_BYTES_MAX: Final = 256 << 10


class _Gathered:
    """Messages to one queue that are going to be stored in one go.

    Args:
        producer_id: who has numbered them; None if nobody has.

    Attributes:
        messages, requests, sizes: what is sent, what is completed for each, and the bytes of each on its way to the
            store.
    """

    __slots__ = ("messages", "producer_id", "requests", "sizes")

    def __init__(self, producer_id: ProducerId | None) -> None:
        self.producer_id = producer_id
        self.messages: list[Message] = []
        self.requests: list[object] = []
        self.sizes: list[int] = []

    def append(self, message: Message, request: object, size: int) -> None:
        """One more."""
        self.messages.append(message)
        self.requests.append(request)
        self.sizes.append(size)

    def has_room_for(self, message: Message, size: int, producer_id: ProducerId | None) -> bool:
        """Whether another one may join them."""
        destination, theirs = message.destination, self.messages[0].destination
        return (
            (destination is theirs or destination == theirs)
            and producer_id == self.producer_id
            and len(self.messages) < _GATHERED_MAX
            and sum(self.sizes) + size <= _GATHERED_BYTES_MAX
            and (producer_id is None or self._comes_before(message))
        )

    def _comes_before(self, message: Message) -> bool:
        """Whether a message of the same producer has a higher number. If not, it is there twice, or too late."""
        last, new = self.messages[-1].message_id, message.message_id
        return last is not None and new is not None and last.producer_sequence_id < new.producer_sequence_id


class ClientProducer:
    """Sends for one client.

    Args:
        broker: where to.
        client: who asks, waits and is answered.
        transactions: its open ones.

    Attributes:
        numbering: what is missing of producers that number their messages.
    """

    def __init__(self, broker: ClientHost, client: ClientRequests, transactions: OpenTransactions) -> None:
        self.numbering = Numbering()
        self._broker = broker
        self._client = client
        self._access = client.access
        self._memory = client.memory
        self._transactions = transactions
        self._division = MessageDivision(broker)
        self._statistics = broker.statistics if broker.options.statistics_support else None
        self._amend = amendment(broker.options, client.access, broker.now_ms)
        self._producer = ProducerId(client.connection_id, 1, -1)
        self._sent = 0
        #: What is going to be stored in one go; None if nothing is.
        self.gathered: _Gathered | None = None
        #: Makes the answer to a message.
        self._answer: Callable[..., Answer] = SendAnswer
        #: Producers that the store could not be asked about.
        self._unlearned: dict[ProducerId, BaseException] = {}

    def part_from_client(self, remains: ClientRequests) -> None:
        """The client is gone for good: nobody but this, which is left of it, is known any more."""
        self._client = remains

    def may_send(self, *, is_persistent: bool, is_temporary: bool, is_in_transaction: bool) -> bool:
        """Whether a message may be sent now. If not, the client is held until there is memory, or room elsewhere.

        Need not be asked unless there is little memory: ``memory.uncommitted > memory.uncommitted_max`` or
        ``memory.is_short``.

        Args:
            is_persistent: its delivery mode.
            is_temporary: whether a destination of it is temporary, so that the broker's store does not get it.
            is_in_transaction: whether it is kept until `commit`.
        """
        memory = self._memory
        is_spooled = not (is_in_transaction or (is_persistent and not is_temporary))
        # The spool is another store, which may answer meanwhile.
        if memory.uncommitted > memory.uncommitted_max * (2 if is_spooled else 1):
            self._client.hold()
            memory.senders.append(self._client.let_go)
            return False
        if memory.is_short and is_spooled:
            return not self.waits_for_spool()
        return True

    def waits_for_spool(self) -> bool:
        """Whether what does not fit into memory has to wait until the spool is open, or cannot be opened."""
        opening = self._broker.spool_opening()
        if opening is None:
            return False
        self._client.hold()
        opening.add_done_callback(lambda _: self._client.let_go())
        return True

    @property
    def sent(self) -> int:
        """How many messages it has sent without numbering them."""
        return self._sent

    def next_message_id(self) -> MessageId:
        """The id of the next message that it sends, if its producer does not number them."""
        self._sent += 1
        return MessageId(self._producer, self._sent)

    def send(self, message: Message, request: object, transaction: str | None = None) -> None:
        """Publish a message; see `may_send`.

        Args:
            message: complete, with destination and `next_message_id`; it belongs to the broker from now on.
            request: completed when the message is safe, or kept in the transaction.
            transaction: which one it is part of; None for none. An order to the scheduler is carried out at once.

        Raises:
            NotAuthorized: the client may not send there.
            ProtocolError: there is no such transaction, or it is full; or the destination cannot be sent to.
        """
        self.settle()
        destination = message.destination
        if destination is None:
            raise ValueError("a message needs a destination before it can be sent")
        self._check_send(destination)
        if self._amend is not None:
            self._amend(message)
        if self._broker.scheduler.is_management(destination):
            if transaction is not None:
                self._transactions.named(transaction)  # has to be there, though orders are no part of it
            self._access.check_management(message.reply_to)
            if message.reply_to is not None:
                self._check_reply(message.reply_to)
            self._broker.scheduler.manage(message, self._answer(self._client, request, message.size + WRITE_BYTES))
            return
        if message.reply_to is not None and self._statistics is not None and self._statistics.answers(message):
            self._check_reply(message.reply_to)
            if destination.is_composite:
                self._broker.check_parts(destination)
            self._statistics.answer(message, self._client)
            self._client.complete(request)
            return
        if transaction is not None:
            self._transactions.named(transaction).send(self._division.singles(message, destination))
            self._client.complete(request)
            return
        routes = self._division.routes(message, destination)
        if destination.is_queue and not destination.is_composite and routes[0].is_plain:  # nothing to be made ready
            answer = self._answer(self._client, request, message.size + WRITE_BYTES)
            self._broker.publish(routes[0], self._client, answer)
            return
        answer = self._answer(self._client, request, size_of(routes))

        def publish(prepared: Prepared | None = None) -> None:
            if message.persistent or routes[0].is_later:
                self._broker.commit(routes, [], self._client, answer, prepared=prepared)
            else:
                self._broker.publish_each(routes, self._client, answer)

        if self._division.needs_preparing(routes):
            self._prepare(routes, publish)
        elif len(routes) == 1:
            self._broker.publish(routes[0], self._client, answer)
        else:
            publish()

    def gather(self, message: Message, request: object) -> None:
        """As `send`, outside of transactions; what comes one after the other for one queue is stored in one go, each
        message for itself. `settle` does that. It has to be called before the next request of another kind, and when
        all that has arrived at once is done; not if nothing is `gathered`."""
        if self._amend is not None:
            self._amend(message)
        size, is_plain = message.size + WRITE_BYTES, self._is_plain(message)
        gathered = self._room_for(message, size, None) if is_plain else None
        if gathered is None:
            destination = message.destination
            if not (is_plain and self._is_one_queue(destination)) or self._broker.scheduler.is_management(destination):
                self.send(message, request)
                return
            self._check_send(destination)
            self._division.check_targets(destination)
            gathered = self._begin_anew(None)
        gathered.append(message, request, size)

    def _room_for(self, message: Message, size: int, producer_id: ProducerId | None) -> _Gathered | None:
        """What a message may join; None if it has to begin anew."""
        gathered = self.gathered
        return gathered if gathered is not None and gathered.has_room_for(message, size, producer_id) else None

    def _begin_anew(self, producer_id: ProducerId | None) -> _Gathered:
        self.settle()
        gathered = self.gathered = _Gathered(producer_id)
        return gathered

    def _is_plain(self, message: Message) -> bool:
        """Whether there is nothing to be done with a message but to store it where it is sent to."""
        is_answered = self._statistics is not None and message.reply_to is not None
        return message.persistent and not is_answered and not self._broker.scheduler.takes(message)

    def _is_one_queue(self, destination: Destination | None) -> TypeGuard[Destination]:
        """Whether what is sent to a destination is stored in one queue, and that is all, unless it is an order."""
        return (
            destination is not None
            and destination.is_queue
            and not (destination.is_composite or destination.is_temporary)
            and not self._broker.interceptors.takes(destination)
        )

    def settle(self) -> None:
        """Store what was gathered, if anything was."""
        gathered, self.gathered = self.gathered, None
        if gathered is None:
            return
        if gathered.producer_id is not None:
            self._settle_numbered(gathered, gathered.producer_id)
        elif len(gathered.messages) == 1:
            answer = self._answer(self._client, gathered.requests[0], gathered.sizes[0])
            self._broker.publish(Route(gathered.messages[0]), self._client, answer)
        else:
            answers = SendAnswers(self._client, gathered.requests, gathered.sizes)
            self._broker.publish_together(gathered.messages, self._client, answers)

    def _settle_numbered(self, gathered: _Gathered, producer_id: ProducerId) -> None:
        """Store messages that their producer has numbered, in one commit; one by one if that is refused at once, which
        is because of one of them."""
        answers = SendAnswers(self._client, gathered.requests, gathered.sizes)
        routes = [Route(message) for message in gathered.messages]
        each = [partial(self._answer_numbered, answers, place, route.message) for place, route in enumerate(routes)]

        def answered(error: BaseException | None) -> None:
            if error is None:
                answers.stored()
            else:
                for answer in each:
                    answer(error)

        if self._commit_numbered(producer_id, routes, answered) is not None:
            for route, answer in zip(routes, each, strict=True):
                self._store_numbered(producer_id, [route], answer)

    def _store_numbered(
        self, producer_id: ProducerId, routes: Sequence[Route], answer: Answer, prepared: Prepared | None = None
    ) -> None:
        error = self._commit_numbered(producer_id, routes, answer, prepared)
        if error is not None:
            answer(error)

    def _commit_numbered(
        self, producer_id: ProducerId, routes: Sequence[Route], answer: Answer, prepared: Prepared | None = None
    ) -> BaseException | None:
        """As `Producers.commit`."""
        is_strict = self.numbering.is_strict
        return self._broker.producers.commit(
            routes, [], self._client, answer, [producer_id], prepared, is_strict=is_strict
        )

    def _answer_numbered(self, answers: SendAnswers, place: int, message: Message, error: BaseException | None) -> None:
        message_id = message.message_id
        try:
            if error is not None and message_id is not None and message_id.producer_id is not None:
                self.numbering.refused((message_id.producer_id, message_id.producer_sequence_id))
        finally:
            answers.answered(place, error)

    def _prepare(self, routes: Sequence[Route], commit: Callable[..., object]) -> None:
        """Make what is stored for a message ready in slices, then store it."""
        prepared = Prepared(routes)

        def submit() -> None:
            with closing(prepared):
                commit(prepared=prepared)

        self._client.work(self._division.preparing(prepared), None, submit)

    def send_numbered(
        self,
        number: Number,
        make: Callable[[], Message],
        request: object,
        transaction: str | None = None,
        *,
        is_gathered: bool = False,
    ) -> bool:
        """Publish a message of a producer that numbers them itself; `jdbcstore.broker.producers` has the theory.

        Args:
            number: producer and number.
            make: gives the message, with the id that its number makes. What it raises costs the message and those
                behind it, until it is sent again.
            request, transaction: as `send`.
            is_gathered: whether it may be stored with those that come next, as by `gather`. If they cannot be stored
                together, all of them fail; so that is for clients that send again none of what has failed.

        Returns:
            False if the store has to be asked about the producer first: the client is held, make this request again.

        Raises:
            NotAuthorized, ProtocolError: as `send`; or the number may not come now.
        """
        producer_id, sequence = number
        among = self._transactions.get(transaction)
        if (failure := self.failure_of((producer_id,))) is not None:
            self._refuse(number, among, failure)
            self._client.complete(request, failure)
            return True
        self.numbering.check(number)
        if self.has_to_learn((producer_id,)):
            return False
        try:
            self.numbering.admit(number)
            self._check_turn(producer_id, sequence, among)
            message = make()
            destination = message.destination
            if destination is None:
                raise ValueError("a message needs a destination before it can be sent")
            self._check_send(destination)
            if self._broker.scheduler.is_management(destination):
                raise ProtocolError(f"Messages to {destination} are orders: send them without a number")
            if self._amend is not None:
                self._amend(message)
            is_one = is_gathered and transaction is None and self._is_plain(message) and self._is_one_queue(destination)
            if is_one:
                self._division.check_targets(destination)
                routes = [Route(message)]
            elif transaction is None:
                routes = self._division.routes(message, destination)
            else:
                singles = self._division.singles(message, destination)
                among = self._transactions.named(transaction)
                among.number(producer_id, sequence)
                among.send(singles)
        except JdbcStoreError as error:
            self._refuse(number, among, error)
            raise
        if among is not None:
            self._client.complete(request)
            return True
        size = size_of(routes) + NUMBERED_BYTES
        if is_one:
            gathered = self._room_for(message, size, producer_id) or self._begin_anew(producer_id)
            gathered.append(message, request, size)
            return True
        self.settle()
        answer = self._answer(self._client, request, size, partial(self.numbering.refused, number))
        if self._broker.producers.is_last(number):
            self._complete(number, routes, answer)
            return True
        commit = partial(self._store_numbered, producer_id, routes, answer)
        if self._division.needs_preparing(routes):
            self._prepare(routes, commit)
        else:
            commit()
        return True

    def _complete(self, number: Number, routes: Sequence[Route], answer: Answer) -> None:
        """Answer a message that is there already when all of its destinations have it; nothing overtakes it."""

        def completed(error: BaseException | None) -> None:
            try:
                answer(error)
            finally:
                self._client.let_go()

        self._broker.producers.duplicates += 1
        self._client.hold()
        try:
            self._broker.complete(number, routes, self._client, completed)
        except JdbcStoreError as error:
            completed(error)

    def _check_send(self, destination: Destination) -> None:
        if not self._broker.gate.is_open:
            self._broker.gate.check(destination)
        permissions = self._access.permissions
        if permissions is not None and destination not in permissions.sendable:
            permissions.check_send(destination)

    def check(self, destination: Destination) -> None:
        """Raise NotAuthorized, NoSuchDestination or ProtocolError if nothing can be sent there."""
        if destination.is_composite:
            self._broker.check_parts(destination)
        for element in destination.elements():
            if element.is_temporary and not self._broker.knows_temporary(element):
                raise NoSuchDestination(str(element))
        self._check_send(destination)

    def _check_reply(self, reply_to: Destination) -> None:
        """The broker is going to send there for this client. Raises as `check`, or since it is a wildcard."""
        self.check(reply_to)
        self._division.check_targets(reply_to)

    def spoil(self, transaction: str | None, why: BaseException, *, is_send: bool = True) -> None:
        """A message of a transaction is refused, and nobody waits for the answer, or it is numbered and cannot be read:
        the transaction cannot be committed any more.

        Args:
            transaction: which.
            why: what is told of it.
            is_send: whether that was a message, not an acknowledgement.
        """
        among = self._transactions.get(transaction)
        if among is not None:
            among.refuse(_refused(why) if is_send else f"an acknowledgement in it was refused: {why}")

    def _refuse(self, number: Number, transaction: Transaction | None, why: BaseException) -> None:
        """The client will hear an error for a numbered message."""
        self.numbering.refused(number)
        if transaction is not None:
            transaction.refused.append(number)
            transaction.refuse(_refused(why))

    def _check_turn(self, producer_id: ProducerId, sequence: int, transaction: Transaction | None) -> None:
        """Lower numbers of the producer may wait in another open transaction.

        A session of JMS has one local transaction at a time: when the client was interrupted while it wanted to end
        one, it begins the next one, after a failover too, and never ends the other.

        Raises:
            ProtocolError: that one may still be committed.
        """
        for other in self._transactions:
            waiting = other.numbers.get(producer_id)
            if other is transaction or not waiting or waiting[0] >= sequence:
                continue
            if not self.numbering.is_strict and isinstance(other.transaction_id, LocalTransactionId):
                other.abandon()
            else:
                raise ProtocolError(
                    f"Message {sequence} would be stored before message {waiting[0]} of the same"
                    f" producer, which waits in transaction {other.name}: commit that first"
                )

    def failure_of(self, producers: Iterable[ProducerId]) -> BaseException | None:
        """Why the store could not be asked about one of these producers, told once; None if it could."""
        return next((self._unlearned.pop(producer) for producer in producers if producer in self._unlearned), None)

    def has_to_learn(self, producers: Iterable[ProducerId]) -> bool:
        """Whether the broker has to ask the store about a producer first. The client is held until it knows."""
        unknown = next((producer for producer in producers if not self._broker.producers.knows(producer)), None)
        if unknown is None:
            return False

        def learned(error: BaseException | None) -> None:
            if error is not None:
                self._unlearned[unknown] = error
            self._client.let_go()

        self._client.hold()
        self._broker.producers.learn(unknown, learned)
        return True


def _refused(why: BaseException) -> str:
    """What a transaction lacks."""
    return f"a message in it was refused: {why}"


@subject.register
def _subject(gathered: _Gathered) -> str:
    return f"SEND {gathered.messages[0].destination}"
