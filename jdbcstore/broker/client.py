"""The face of the broker to whoever brings clients: everything that a transport needs, in no protocol's words.

A transport makes one `Client` for each of its clients and gives it a `ClientCallbacks` (`jdbcstore.broker.callbacks`),
by which the broker talks back. Everything happens in the broker's event loop, on both sides.

**A client's life** has the phases of `jdbcstore.broker.phase`::

    client = Client(broker, callbacks)                # while ``broker.is_running``, and in the broker's event loop
    broker.clients.add(client)                        # so that it is told of the end; `close` takes it out again
    client.open(client_id, credentials, told)         # told(None): let in; told(error): tell the client, and end
    …                                                 # requests
    client.leave(request, told)                       # it says goodbye: told() when everything before is answered
    client.close()                                    # it is gone, for whatever reason; always, and once is enough

What a client had not acknowledged when it left or was closed goes back to its queues and is delivered again, first and
in its old order, with its count of redeliveries raised; its open transactions are rolled back; its temporary
destinations are removed. What it had sent or acknowledged before stays sent and acknowledged, whether the store has
answered or not. After `close` no callback is called any more but `ClientCallbacks.closed`: requests that were not
completed by then never are, who waits for one has to be told there. The broker calls `close`, too, when it stops; when
it has to end a client it calls ``callbacks.dismiss``, and leaves `end` and `close` to the transport. A transport looks
at ``broker.trusted_until_ns`` before it makes requests, and calls ``broker.distrust()`` when that time has passed: a
process that was stopped, and goes on, may not be master any more.

**Requests.** Those that take a ``request`` are answered once by ``callbacks.completed(request, error)``: when they have
taken effect, which for a persistent message is after the store's commit, or when they have failed. That may be before
the method returns. ``request`` is whatever the transport likes (a receipt, a future); with None only errors are told.
A request that is refused at once *raises* a `JdbcStoreError` instead, and nothing was done; then nothing is completed.
`error_of` tells what to do with any exception.

==================== ===============================================================================================
`send`               a message to queue or topic, also to several (composite), scheduled, or in a transaction
`send_numbered`      the same for a producer that numbers its messages, which are stored once however often they come
`subscribe`          queues, topics, wildcards, durable subscriptions, browsers: `SubscriptionRequest`
`unsubscribe`        end a subscription; what it has goes back
`remove_durable`     remove a durable subscription for good
`acknowledge`        a delivery is done with, and those before it in mode cumulative; also in a transaction
`reject`             a delivery becomes a dead letter
`begin`              a transaction of this name; then `commit` or `abort`
`temporary`          a temporary destination, made at the first use and removed with the client
==================== ===============================================================================================

**Order.** Requests take effect in the order in which they are made, with one thing for the transport to do:
acknowledgements are collected, so that those that arrive together are one write. Call `settle` before the first request
that is none, and when all that has arrived at once is done; `acknowledged` tells whether there is anything to settle,
and `settle` is not called when there is not. `acknowledge` settles by itself what is more than `ACKNOWLEDGED_MAX`, and
what has a request: that answers for all that was collected, so who waits for the commit of a collected one gives a
request to `settle`. Only what is pending may be acknowledged or rejected, which is what the transport has to know:
``consumer.unacknowledged.get(delivery.key) is delivery``, or its `DeliveryNames`.

**Flow control.** When the client has to wait (for the store, for slow subscribers, for memory, for a request that takes
long) the broker *holds* it: `is_held` becomes true and ``callbacks.pause()`` is called, perhaps in the middle of a
request. Make no other request then, until ``callbacks.resume()``. Some requests may have to wait before they have
begun: `may_send`, which is asked before a message when memory is short, `send_numbered` and `commit` return False then.
Make the same request again when the client is resumed, before any other. A transport that has to wait for reasons of
its own uses `hold` and `let_go`, too.

In the other direction: ``callbacks.deliver`` is called as long as the subscription has credit and `is_choked` is false.
Set it when the client does not read (`choke`), and call `unchoke` when it does. Call `flushed` when everything that was
delivered has left: messages of mode AUTO are acknowledged then, and not before. `choke` is for all subscriptions of the
client; ``consumer.withhold()`` and ``consumer.grant()`` for one. What the transport keeps for requests that are not
complete is told to ``client.holding``: ``frame_is`` while one arrives, ``backlog_is`` while they wait for their turn.

**Examples** are `jdbcstore.client.port`, the whole of a transport without a protocol, and
`jdbcstore.transport.stomp.session`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import Final

from jdbcstore.broker.access import Access
from jdbcstore.broker.answers import AcknowledgementAnswer, NumberedAnswer, SendAnswer
from jdbcstore.broker.browser import Browser
from jdbcstore.broker.callbacks import ClientCallbacks
from jdbcstore.broker.client_host import ClientHost
from jdbcstore.broker.delivery import Consumer, Delivery, by_lane, giving_back
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.holding import Holding
from jdbcstore.broker.memory import TRANSACTION_BYTES, WRITE_BYTES
from jdbcstore.broker.pending_acks import DeliveryNames, PendingAcks
from jdbcstore.broker.phase import NEXT, Phase
from jdbcstore.broker.prepared import PREPARED_LEAST, Prepared
from jdbcstore.broker.producers import Number, Numbering
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.subscribing import consumer_for, subscription_bytes
from jdbcstore.broker.subscription_request import SubscriptionRequest
from jdbcstore.broker.takeover import contend
from jdbcstore.broker.temporaries import Temporaries
from jdbcstore.broker.transaction import Transaction
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, LoginRefused, NotAuthorized, ProtocolError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.subscription import SubscriptionKey

__all__ = ["ACKNOWLEDGED_MAX", "Client"]

log = logging.getLogger(__name__)

#: How many messages that were acknowledged one after the other become one write.
ACKNOWLEDGED_MAX: Final = 1000


class Client:
    """One client of the broker. The module's docstring says how a transport uses it.

    Args:
        broker: whose client it is.
        callbacks: the transport's side.
        names: gives deliveries the names by which the client will acknowledge them; a transport that keeps the
            deliveries themselves needs none.

    Attributes:
        connection_id: unique among all brokers and for ever.
        client_id: what the client calls itself; None before it is let in, or if it has no name.
        phase: where it is in its life.
        is_choked: whether it does not read what it was sent.
        is_held: whether it has to wait: no requests now.
        subscriptions: by the keys of their requests.
        acknowledged: what is to be settled.
        access: who it is, and what it may do.
        holding: what it makes the broker keep.
        numbering: what is missing of producers that number their messages.
    """

    def __init__(self, broker: ClientHost, callbacks: ClientCallbacks, names: DeliveryNames | None = None) -> None:
        options = broker.options
        self.connection_id = broker.next_connection_id()
        self.client_id: str | None = None
        self.callbacks = callbacks
        self.phase = Phase.OPENING
        self.is_choked = self.is_held = False
        self.subscriptions: dict[str, Consumer] = {}
        #: Their keys by destination, in order: some clients have no other name for them.
        self._by_destination: dict[Destination, dict[str, None]] = {}
        self.acknowledged: list[Delivery] = []
        self.memory = broker.memory
        self.access = Access(broker, callbacks.peer)
        self.holding = Holding(self, broker.memory, options, broker.loop)
        self.numbering = Numbering()
        self._broker = broker
        self._deliver = callbacks.deliver
        #: Who waits for it to be gone, to have its client id.
        self._successors: list[Callable[[bool], object]] = []
        self._holds = 0
        self._is_over_uncommitted = False
        self._uncommitted_bytes = 0
        self._uncommitted_bytes_max = options.uncommitted_bytes_max
        self._answers_due = 0
        self._said_goodbye: Callable[[], object] = lambda: None
        self._producer = ProducerId(self.connection_id, 1, -1)
        self._sent = 0
        self._pending_acks = PendingAcks(names)
        #: Sent to subscriptions that acknowledge by themselves; settled when the bytes have left.
        self._unflushed: list[Delivery] = []
        self._transactions: dict[str, Transaction] = {}
        self._transaction_count = 0
        #: Producers that the store could not be asked about.
        self._unlearned: dict[ProducerId, BaseException] = {}
        self._temporaries = Temporaries(broker, self.connection_id, self.access, self.holding)
        broker.memory.connections += 1

    def __repr__(self) -> str:
        return f"<client {self.connection_id} {self.peer}>"

    @property
    def peer(self) -> str:
        """Its address."""
        return self.callbacks.peer

    # -- its life --------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether it was let in, and is not on its way out."""
        return self.phase is Phase.OPEN

    @property
    def is_closed(self) -> bool:
        """Whether it is gone."""
        return self.phase is Phase.CLOSED

    @property
    def is_over(self) -> bool:
        """Whether nothing reaches it any more."""
        return self.phase is Phase.ENDING or self.phase is Phase.CLOSED

    @property
    def owes(self) -> bool:
        """Whether it has messages, or a transaction, that others wait for."""
        return bool(self._transactions) or any(consumer.unacknowledged for consumer in self.subscriptions.values())

    def _advance(self, phase: Phase) -> None:
        """Go on to a later phase. There is no way back: who is ending is not let in any more."""
        if phase in NEXT[self.phase]:
            self.phase = phase

    def open(
        self, client_id: str | None, credentials: Credentials, told: Callable[[JdbcStoreError | None], object]
    ) -> None:
        """Let the client in. It is held until that is decided, perhaps at once.

        Args:
            client_id: what it calls itself; no two clients have the same at a time. None for nothing.
            credentials: by which it proves who it is.
            told: called once, with None if it is let in; else with what to tell it before it is ended. Never if the
                client is gone by then.
        """
        if self._broker.authentication is None:
            self._take_client_id(client_id, told)
            return
        self.hold()
        self.access.login(credentials, partial(self._logged_in, client_id, told))

    def _logged_in(
        self,
        client_id: str | None,
        told: Callable[[JdbcStoreError | None], object],
        refusal: LoginRefused | None,
    ) -> None:
        if self.is_over:
            return
        if refusal is None:
            self._take_client_id(client_id, told)
        else:
            told(refusal)
        self.let_go()

    def _take_client_id(self, client_id: str | None, told: Callable[[JdbcStoreError | None], object]) -> None:
        if client_id is not None:
            other = self._broker.client_ids.get(client_id)
            if other is not None:
                self.hold()
                decided = partial(self._contended, client_id, told, other.peer)
                if other.is_closed:
                    other.when_gone(decided)  # it is on its way out
                else:
                    contend(self._broker.options, other, self.peer, decided)
                return
            self.client_id = client_id
            self._broker.client_ids[client_id] = self
        self._advance(Phase.OPEN)
        told(None)

    def _contended(
        self,
        client_id: str,
        told: Callable[[JdbcStoreError | None], object],
        holder: str,
        holder_keeps_it: bool,  # `contend` tells it so
    ) -> None:
        """It is decided who has the client id."""
        if self.is_over:
            return
        if holder_keeps_it:
            name = self._broker.options.broker_name
            told(ProtocolError(f"Broker: {name} - Client: {client_id} already connected from {holder}"))
        else:
            self._take_client_id(client_id, told)
        self.let_go()

    def leave(self, request: object, told: Callable[[], object]) -> None:
        """The client says goodbye: nothing more is delivered, what it did not acknowledge is for others.

        Args:
            request: completed only if that fails.
            told: called when everything that it has asked for is answered.
        """
        self._said_goodbye = told
        consumers = list(self.subscriptions.values())
        self.subscriptions.clear()
        self._work(chain.from_iterable(map(self._unsubscribing, consumers)), request, self._left)

    def _left(self) -> None:
        self._advance(Phase.LEAVING)
        if not self._answers_due:
            self._said_goodbye()

    def end(self) -> None:
        """The transport has said its last word: what is delivered would not reach the client any more."""
        self._advance(Phase.ENDING)
        self.is_choked = True

    def close(self) -> None:
        """The client is gone: what was not acknowledged goes back, what it opened is closed."""
        if self.is_closed:
            return
        self._advance(Phase.CLOSED)
        self.is_choked = True
        self.holding.close()
        self.callbacks.closed()
        self.memory.connections -= 1
        self.access.end()
        self._broker.slices.run(self._closing(), self._gone)

    def when_gone(self, told: Callable[[bool], object]) -> None:
        """Call this with False when everything that it had is given back; it is closed already."""
        self._successors.append(told)

    def _gone(self) -> None:
        """Everything is given back: who wants the client id may have it."""
        self._broker.forget(self)
        successors, self._successors = self._successors, []
        for told in successors:
            told(False)

    def _closing(self) -> Iterator[None]:
        returned: list[Delivery] = []
        for transaction in self._transactions.values():
            returned += transaction.acknowledged
            transaction.close()
        self._transactions.clear()
        returned += [d for d in self._unflushed if d.lane is not None]
        self._unflushed.clear()
        consumers = list(self.subscriptions.values())
        self.subscriptions.clear()
        for consumer in consumers:
            returned += consumer.unacknowledged.values()
            consumer.unacknowledged = {}
        yield from giving_back(returned, chain.from_iterable(map(self._broker.unsubscribing, consumers)))
        yield from self._temporaries.removing()

    # -- the broker ends it ----------------------------------------------------------------------------------------

    def disconnect(self, text: str, *, reason: str) -> None:
        """End the connection with an error.

        Args:
            text: what the client is told.
            reason: what the log says.
        """
        log.warning("client disconnected peer=%s reason=%r", self.peer, reason)
        self.callbacks.dismiss(text)

    def dismiss(self, text: str) -> None:
        """End the connection with an error: the broker cannot serve anybody."""
        self.callbacks.dismiss(text)

    def make_way(self, text: str | None, reason: str) -> None:
        """Be gone at once, so that another connection may have the client id.

        Args:
            text: what the client is told, if it may be listening.
            reason: for the log.
        """
        if text is None:
            self.callbacks.cut(reason)
        else:
            self.disconnect(text, reason=reason)
            self.callbacks.write()
        self.close()

    def renew_access(self) -> None:
        """The users have changed: what the client may not do any more ends."""
        if not self.access.renew():
            self.disconnect("Your user was removed or changed: log in again", reason="its user was removed or changed")
            return
        for key, consumer in list(self.subscriptions.items()):
            try:
                self.access.check_read(consumer.destination)
            except NotAuthorized as error:
                self._drop(key, consumer)
                self.access.denied(error)
                self._complete(None, error)
            else:
                self._broker.reconsider(consumer)

    # -- errors and jobs -------------------------------------------------------------------------------------------

    def error_of(self, error: Exception, what: str) -> tuple[Exception, bool]:
        """What the client is told of an exception that a request has raised; defects and refusals go to the log.

        Args:
            error: the exception.
            what: which request it was, for the log.

        Returns:
            The error to tell, and whether the connection has to end.
        """
        if isinstance(error, NotAuthorized):
            self.access.denied(error)
        if not isinstance(error, JdbcStoreError):
            log.error("defect in handling %s of %r", what, self, exc_info=error)
            return RuntimeError("internal error of the broker"), True
        return error, bool(getattr(error, "fatal", False))

    def _job_failed(self, request: object, error: Exception) -> None:
        told, is_fatal = self.error_of(error, "a job")
        self._complete(request, told, is_fatal=is_fatal)

    def _work(self, job: Iterator[None], request: object, done: Callable[[], object]) -> None:
        """Do what may take long. The client is held before it is done; what goes wrong is told to it.

        Args:
            job: see `jdbcstore.broker.slices`.
            request: what the client asked for.
            done: called when it is done and nothing went wrong.
        """
        has_failed = False

        def told() -> Iterator[None]:
            nonlocal has_failed
            try:
                yield from job
            except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and costs one client
                has_failed = True
                self._job_failed(request, error)

        def ended() -> None:
            self.let_go()
            if not has_failed:
                done()

        work = told()
        if not self._broker.slices.begin(work):
            self.hold()
            self._broker.slices.go_on(work, ended)
        elif not has_failed:
            done()

    def _complete(self, request: object, error: BaseException | None = None, *, is_fatal: bool = False) -> None:
        if (request is not None or error is not None) and self.phase is not Phase.CLOSED:
            self.callbacks.completed(request, error, is_fatal=is_fatal)

    # -- flow control ----------------------------------------------------------------------------------------------

    def hold(self) -> None:
        """Take no requests for now. Holds add up."""
        self._holds += 1
        self.is_held = True
        if self._holds == 1 and not self.is_closed:
            self.callbacks.pause()

    def let_go(self) -> None:
        """Take one hold back."""
        self._holds -= 1
        self.is_held = self._holds > 0
        if not self.is_held and not self.is_closed:
            self.callbacks.resume()

    def talk(self) -> None:
        """Have ``callbacks.write`` called at the end of this turn of the loop, once."""
        self._broker.talking(self.callbacks)

    def choke(self) -> None:
        """The client does not read: deliver nothing."""
        self.is_choked = True

    def unchoke(self) -> None:
        """Everything that was delivered has left, and there is room for more."""
        self.is_choked = False
        self.flushed()
        for consumer in list(self.subscriptions.values()):
            consumer.resume()

    def flushed(self) -> None:
        """Everything that was delivered has left: what went to subscriptions of mode auto is acknowledged."""
        if not self._unflushed:
            return
        flushed, self._unflushed = self._unflushed, []
        for lane, deliveries in by_lane(flushed):
            if lane is not None:
                lane.queue.consumed(*deliveries)
                continue
            for delivery in deliveries:
                if delivery.consumer is not None:
                    delivery.consumer.release()

    def asked(self, size: int) -> None:
        """So many bytes are on their way to the store; beyond the limit the client has to wait."""
        self._answers_due += 1
        self._uncommitted_bytes += size
        self.memory.uncommitted += size
        if not self._is_over_uncommitted and self._uncommitted_bytes > self._uncommitted_bytes_max:
            self._is_over_uncommitted = True
            self.hold()

    def answered(self, size: int, request: object, error: BaseException | None) -> None:
        """The store has answered."""
        self._uncommitted_bytes -= size
        self.memory.uncommitted -= size
        if self._is_over_uncommitted and self._uncommitted_bytes <= self._uncommitted_bytes_max // 2:
            self._is_over_uncommitted = False
            self.let_go()
        if request is not None or error is not None:
            self._complete(request, error)
        self._answers_due -= 1
        if not self._answers_due and self.phase is Phase.LEAVING:
            self._said_goodbye()

    # -- sending ---------------------------------------------------------------------------------------------------

    def may_send(self, *, is_persistent: bool, is_temporary: bool, is_in_transaction: bool) -> bool:
        """Whether a message may be sent now. If not, the client is held until there is memory, or room elsewhere.

        Need not be asked unless there is little memory: ``memory.uncommitted > memory.uncommitted_max`` or
        ``memory.is_short``.

        Args:
            is_persistent: its delivery mode.
            is_temporary: whether a destination of it is temporary, so that the broker's store does not get it.
            is_in_transaction: whether it is kept until `commit`.
        """
        memory = self.memory
        is_spooled = not (is_in_transaction or (is_persistent and not is_temporary))
        # The spool is another store, which may answer meanwhile.
        if memory.uncommitted > memory.uncommitted_max * (2 if is_spooled else 1):
            self.hold()
            memory.senders.append(self.let_go)
            return False
        if memory.is_short and is_spooled:
            return not self._waits_for_spool()
        return True

    def _waits_for_spool(self) -> bool:
        """Whether what does not fit into memory has to wait until the spool is open, or cannot be opened."""
        opening = self._broker.spool_opening()
        if opening is None:
            return False
        self.hold()
        opening.add_done_callback(lambda _: self.let_go())
        return True

    def next_message_id(self) -> MessageId:
        """The id of the next message that it sends, if its producer does not number them."""
        self._sent += 1
        return MessageId(self._producer, self._sent)

    def send(self, message: Message, request: object, transaction: str | None = None) -> None:
        """Publish a message; see `may_send`.

        Args:
            message: complete, with destination and `next_message_id`; it belongs to the broker from now on.
            request: completed when the message is safe, or kept in the transaction.
            transaction: which one it is part of; None for none.

        Raises:
            NotAuthorized: the client may not send there.
            ProtocolError: there is no such transaction, or it is full; or the destination cannot be sent to.
        """
        destination = message.destination
        if destination is None:
            raise ValueError("a message needs a destination before it can be sent")
        permissions = self.access.permissions
        if permissions is not None and destination not in permissions.sendable:
            permissions.check_send(destination)
        if self._broker.scheduler.is_management(destination):
            if transaction is not None:
                raise ProtocolError(f"Messages to {destination} are orders: send them outside of transactions")
            self.access.check_management(message.reply_to)
            self._broker.scheduler.manage(message, SendAnswer(self, request, message.size + WRITE_BYTES))
            return
        if transaction is not None:
            self._transaction(transaction).send(self._singles(message, destination))
            self._complete(request)
            return
        singles = self._singles(message, destination)
        if len(singles) == 1:
            copied = 0 if destination.is_queue else self._broker.virtual_topics.copied_bytes(singles)
            self._broker.publish(message, self, SendAnswer(self, request, message.size + WRITE_BYTES + copied))
        else:
            self._broker.commit(singles, [], self, SendAnswer(self, request, self._size_of(singles)))

    def _size_of(self, messages: Sequence[Message]) -> int:
        """Bytes that they take on their way to the store, with their copies."""
        copied = self._broker.virtual_topics.copied_bytes(messages)
        return sum([message.size + WRITE_BYTES for message in messages]) + copied

    def send_numbered(
        self, number: Number, make: Callable[[], Message], request: object, transaction: str | None = None
    ) -> bool:
        """Publish a message of a producer that numbers them itself; `jdbcstore.broker.producers` has the theory.

        Args:
            number: producer and number.
            make: gives the message, with the id that its number makes. What it raises costs the message and those
                behind it, until it is sent again.
            request, transaction: as `send`.

        Returns:
            False if the store has to be asked about the producer first: the client is held, make this request again.

        Raises:
            NotAuthorized, ProtocolError: as `send`; or the number may not come now.
        """
        producer_id, sequence = number
        among = None if transaction is None else self._transactions.get(transaction)
        if (failure := self._unlearned.pop(producer_id, None)) is not None:
            self._refuse(number, among)
            self._complete(request, failure)
            return True
        self.numbering.check(number)
        if self._has_to_learn((producer_id,)):
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
            singles = self._singles(message, destination)
            if transaction is not None:
                among = self._transaction(transaction)
                among.number(producer_id, sequence)
                among.send(singles)
        except JdbcStoreError:
            self._refuse(number, among)
            raise
        if among is not None:
            self._complete(request)
        else:
            answer = NumberedAnswer(self, request, self._size_of(singles), [number])
            self._broker.producers.commit(singles, [], self, answer, [producer_id])
        return True

    def _check_send(self, destination: Destination) -> None:
        permissions = self.access.permissions
        if permissions is not None and destination not in permissions.sendable:
            permissions.check_send(destination)

    def spoil(self, transaction: str | None) -> None:
        """A numbered message of a transaction cannot be read: the transaction cannot be committed any more."""
        among = None if transaction is None else self._transactions.get(transaction)
        if among is not None:
            among.refuse()

    def _refuse(self, number: Number, transaction: Transaction | None) -> None:
        """The client will hear an error for a numbered message."""
        self.numbering.refused(number)
        if transaction is not None:
            transaction.refused.append(number)
            transaction.refuse()

    def _check_turn(self, producer_id: ProducerId, sequence: int, transaction: Transaction | None) -> None:
        """Raise ProtocolError if lower numbers of the producer wait in another open transaction."""
        for other in self._transactions.values():
            waiting = other.numbers.get(producer_id)
            if other is not transaction and waiting and waiting[0] < sequence:
                raise ProtocolError(
                    f"Message {sequence} would be stored before message {waiting[0]} of the same"
                    f" producer, which waits in transaction {other.name}: commit that first"
                )

    def _has_to_learn(self, producers: Iterable[ProducerId]) -> bool:
        """Whether the broker has to ask the store about a producer first. The client is held until it knows."""
        unknown = next((producer for producer in producers if not self._broker.producers.knows(producer)), None)
        if unknown is None:
            return False

        def learned(error: BaseException | None) -> None:
            if error is not None:
                self._unlearned[unknown] = error
            self.let_go()

        self.hold()
        self._broker.producers.learn(unknown, learned)
        return True

    def _singles(self, message: Message, destination: Destination) -> list[Message]:
        """The message for each of its destinations: itself unless the destination is a composite.

        One that is to be sent later is divided then.
        """
        elements = destination.elements()
        for element in elements:
            self._check_target(element)
        if self._broker.scheduler.takes(message):
            self._broker.scheduler.job_of(message)  # refuses what cannot be kept
            return [message]
        if len(elements) > 1:
            self._check_parts(message, len(elements))
        singles = message.divided()
        if len(elements) > 1 or not destination.is_queue:
            self._check_copies(singles)
        return singles

    def _check_parts(self, message: Message, count: int) -> None:
        """Raise ProtocolError if a message to so many destinations is more than may be stored at once."""
        options = self._broker.options
        if count > options.composite_parts_max:
            raise ProtocolError(
                f"A message to {count} destinations: composite_parts_max is {options.composite_parts_max}. Send it to a"
                " topic, or in several messages"
            )
        if count * message.size > options.transaction_bytes_max:
            raise ProtocolError(
                f"A message of {message.size} bytes to {count} destinations: they are stored together, and"
                f" transaction_bytes_max is {options.transaction_bytes_max}. Send it in several messages"
            )

    def _check_copies(self, messages: Sequence[Message]) -> None:
        """Raise ProtocolError if what goes to the queues of virtual topics is more than may be stored at once."""
        most = self._broker.options.transaction_bytes_max
        copied = self._broker.virtual_topics.copied_bytes(messages)
        if copied > most:
            raise ProtocolError(
                f"The copies for the queues of virtual topics take {copied} bytes: they are stored together, and"
                f" transaction_bytes_max is {most}. Send less at once, or remove queues that nobody reads"
            )

    def _check_target(self, destination: Destination) -> None:
        if self._broker.is_crowded:
            self._broker.check_room_for(destination)
        if destination.is_temporary and not self._broker.knows_temporary(destination):
            raise ProtocolError(f"The destination {destination} does not exist.")
        if destination.is_wildcard:
            raise ProtocolError(f"Cannot send to {destination}: a wildcard is for subscriptions")

    # -- temporary destinations ------------------------------------------------------------------------------------

    def temporary(self, name: str, *, is_queue: bool) -> Destination:
        """The temporary queue or topic that the client calls `name`, made at the first use. Raises as `Temporaries`."""
        return self._temporaries.get(name, is_queue=is_queue)

    @property
    def temporary_names(self) -> dict[Destination, str]:
        """What the client calls its temporary destinations."""
        return self._temporaries.names

    # -- subscriptions ---------------------------------------------------------------------------------------------

    def subscribe(self, wanted: SubscriptionRequest, request: object) -> None:
        """Begin a subscription. Nothing is delivered before the request is completed: for a durable one that is when
        the store has it.

        Raises:
            NotAuthorized: the client may not receive from there.
            ProtocolError: it asks for what there is not, or for too much.
            SelectorError: its condition is none.
        """
        self.access.check_receive(wanted.destination)
        if len(self.subscriptions) >= self._broker.options.subscriptions_max:
            raise ProtocolError(
                f"Too many subscriptions: subscriptions_max is {self._broker.options.subscriptions_max} for a"
                " connection. Unsubscribe one first"
            )
        key = wanted.key
        if key in self.subscriptions:
            raise ProtocolError(
                f"There is a subscription with the id {wanted.subscription_id} already; unsubscribe it first"
            )
        consumer = consumer_for(self._broker, self, wanted)
        consumer.kept_bytes = subscription_bytes(wanted)
        self.holding.subscribed(consumer.kept_bytes)
        self.subscriptions[key] = consumer
        self._by_destination.setdefault(wanted.destination, {})[key] = None
        try:
            if isinstance(consumer, DurableConsumer):
                subscribed = partial(self._subscribed_durably, key, consumer, request)
                self._answers_due += 1
                try:
                    self._broker.durables.subscribe(consumer, subscribed)
                except JdbcStoreError:
                    self._answers_due -= 1
                    raise
                return
            if isinstance(consumer, Browser):
                consumer.begin([self._broker.queue(element) for element in wanted.destination.elements()])
                self._complete(request)
                return
        except JdbcStoreError:
            self._drop(key, consumer)
            raise
        consumer.withhold()  # the answer goes out first
        self._work(self._subscribing(key, consumer), request, partial(self._subscribed, consumer, request))

    def _subscribing(self, key: str, consumer: Consumer) -> Iterator[None]:
        try:
            yield from self._broker.subscribing(consumer)
        except JdbcStoreError:
            self._drop(key, consumer)
            raise

    def _subscribed(self, consumer: Consumer, request: object) -> None:
        self._complete(request)
        consumer.grant()

    def _subscribed_durably(
        self, key: str, consumer: DurableConsumer, request: object, error: BaseException | None
    ) -> None:
        if error is not None:
            self._drop(key, consumer)
        self.answered(0, request, error)

    def _drop(self, key: str, consumer: Consumer) -> None:
        """A subscription has failed."""
        if self.subscriptions.get(key) is consumer:
            self._take_subscription(key)
            self._broker.slices.run(self._unsubscribing(consumer))

    def _take_subscription(self, key: str | None) -> Consumer | None:
        consumer = None if key is None else self.subscriptions.pop(key, None)
        if key is not None and consumer is not None:
            keys = self._by_destination[consumer.destination]
            del keys[key]
            if not keys:
                del self._by_destination[consumer.destination]
        return consumer

    def subscription_to(self, destination: Destination) -> str | None:
        """The key of its oldest subscription to this destination; None if there is none."""
        return next(iter(self._by_destination.get(destination, ())), None)

    def unsubscribe(self, key: str | None, request: object) -> None:
        """End a subscription; a durable one waits for its client from now on.

        Raises:
            ProtocolError: there is none of this key.
        """
        consumer = self._take_subscription(key)
        if consumer is None:
            raise ProtocolError("No subscription matched.")
        self._work(self._unsubscribing(consumer), request, partial(self._complete, request))

    def _unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        self.holding.unsubscribed(consumer.kept_bytes)
        self._pending_acks.forget(consumer)
        return self._broker.unsubscribing(consumer)

    def remove_durable(self, key: SubscriptionKey, request: object) -> None:
        """Remove a durable subscription that nobody uses, with all that waits for it.

        Raises:
            NotAuthorized: the client may not read what it is to.
        """
        for topic in self._broker.durables.topics_of(key):
            self.access.check_read(topic)
        self.asked(0)
        removed = partial(self.answered, 0, request)
        try:
            self._broker.durables.unsubscribe(key, removed)
        except JdbcStoreError as error:
            removed(error)

    def awake(self, consumer: Consumer) -> None:
        """A consumer can take more: its queues are asked at the end of this turn of the loop."""
        self._broker.awake(consumer)

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything."""
        if not self.is_closed:
            self.callbacks.browsed(consumer)

    def browsing_failed(self, consumer: Consumer, error: BaseException) -> None:
        """A browser cannot go on."""
        self._complete(None, error)

    # -- deliveries ------------------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send a message to the client. `Consumer.deliver` does this."""
        try:
            if consumer.is_auto:
                self._unflushed.append(delivery)
            else:
                self._pending_acks.enter(consumer, delivery)
            self._deliver(consumer, delivery)
        except Exception as error:  # noqa: BLE001  # whatever it is, it costs this message and not its consumer
            self._bury(consumer, delivery, error)
            return
        if delivery.lane is None:
            delivery.message = None

    def _bury(self, consumer: Consumer, delivery: Delivery, error: Exception) -> None:
        """A message that cannot be sent must not hold up those behind it: it goes, as if it had never been tried."""
        is_defect = not isinstance(error, JdbcStoreError)
        log.error(
            "message cannot be delivered message_id=%s", delivery.message_id, exc_info=error if is_defect else None
        )
        if self._unflushed and self._unflushed[-1] is delivery:
            self._unflushed.pop()
        self._pending_acks.strike(consumer, delivery)
        # Nobody is resumed by this: whoever delivers goes on by himself, and a thousand such messages would nest.
        consumer.credit += 1
        delivery.consumer = None
        if delivery.lane is not None:
            delivery.lane.queue.cannot_deliver(delivery, error, self.callbacks.protocol)

    def acknowledge(
        self, consumer: Consumer, delivery: Delivery, request: object, transaction: str | None = None
    ) -> None:
        """The client is done with a delivery; in mode cumulative also with all that were sent to `consumer` before it.

        Outside of a transaction this is collected until `settle`; with a request it is settled at once.

        Raises:
            ProtocolError: there is no such transaction, or it is full.
        """
        if transaction is not None:
            among = self._transaction(transaction)
            among.acknowledge(self._pending_acks.take(consumer, delivery, among.room))
            self._complete(request)
            return
        self.acknowledged += self._pending_acks.take(consumer, delivery)
        if request is not None or len(self.acknowledged) >= ACKNOWLEDGED_MAX:
            self.settle(request)

    def settle(self, request: object = None) -> None:
        """Let go of what was acknowledged since the last time: in one write of each lane, and with one answer."""
        acknowledged, self.acknowledged = self.acknowledged, []
        answer = AcknowledgementAnswer(self, request, len(acknowledged))
        if len(acknowledged) <= ACKNOWLEDGED_MAX:
            _settle(acknowledged, answer)
        else:
            self._work(_settling(acknowledged, answer), request, lambda: None)

    def reject(self, consumer: Consumer, delivery: Delivery, request: object) -> None:
        """The client refuses a delivery: it becomes a dead letter.

        Raises:
            ProtocolError: it was only shown, by a browser.
        """
        if consumer.is_browser:
            raise ProtocolError("A browser's message cannot be refused: it was only shown")
        self._pending_acks.settle(consumer, [delivery])
        answer = AcknowledgementAnswer(self, request, 1)
        lane = delivery.lane
        if lane is None:
            answer([delivery], None)
        else:
            lane.queue.refuse(delivery, answer)

    def restore(self, deliveries: Iterable[Delivery]) -> None:
        """Their acknowledgement failed or was rolled back: the client has them still."""
        lost: list[Delivery] = []
        for delivery in deliveries:
            consumer = delivery.consumer
            if self.is_closed or consumer is None or consumer.is_closed:
                lost.append(delivery)
            else:
                self._pending_acks.put_back(consumer, delivery)
        if lost:
            self._broker.slices.run(giving_back(lost))

    # -- transactions ----------------------------------------------------------------------------------------------

    def _transaction(self, name: str) -> Transaction:
        transaction = self._transactions.get(name)
        if transaction is None:
            raise ProtocolError(f"Invalid transaction id: {name}")
        return transaction

    def begin(self, name: str) -> None:
        """Begin a transaction. Raises ProtocolError if there is one of this name, or there are too many."""
        if name in self._transactions:
            raise ProtocolError(f"The transaction was already started: {name}")
        options = self._broker.options
        if len(self._transactions) >= options.transactions_max:
            raise ProtocolError(
                f"Too many transactions: transactions_max is {options.transactions_max} for a connection. Commit or"
                " abort one first"
            )
        self._transaction_count += 1
        transaction_id = LocalTransactionId(self._transaction_count, ConnectionId(self.connection_id))
        self.holding.keep(TRANSACTION_BYTES + len(name), f"Transaction {name}", "Commit or abort one first")
        self._transactions[name] = Transaction(name, transaction_id, options, self.holding, self._broker.producers)

    def commit(self, name: str, request: object) -> bool:
        """Let everything in a transaction take effect, or nothing. If that fails, it is rolled back.

        Returns:
            False if something has to be found out first: the client is held, make this request again.

        Raises:
            ProtocolError: there is no such transaction.
        """
        transaction = self._transaction(name)
        failure = next((self._unlearned.pop(p) for p in transaction.numbers if p in self._unlearned), None)
        if failure is not None:
            self._complete(request, failure)
            return True
        if not transaction.is_incomplete and self._has_to_learn(transaction.numbers):
            return False
        if self.memory.is_short and self._waits_for_spool():
            return False
        refusal = self._refusal_of(transaction)
        if transaction.prepared is None and len(transaction.sends) >= PREPARED_LEAST and refusal is None:
            transaction.prepared = Prepared()
            self._work(self._preparing(transaction, transaction.prepared), request, lambda: None)
            if self.is_held:
                return False
        self._commit(transaction, request, refusal)
        return True

    def _refusal_of(self, transaction: Transaction) -> ProtocolError | None:
        """Why a transaction cannot be committed."""
        if transaction.is_incomplete:
            return ProtocolError(f"Transaction {transaction.name} is rolled back: a message in it was refused")
        if self._broker.virtual_topics.has_queues:  # some may have come since the messages
            takes = self._broker.scheduler.takes
            try:
                self._check_copies([message for message in transaction.sends if not takes(message)])
            except ProtocolError as error:
                return ProtocolError(f"Transaction {transaction.name} is rolled back: {error}")
        return None

    def _commit(self, transaction: Transaction, request: object, refusal: ProtocolError | None) -> None:
        del self._transactions[transaction.name]
        size = self._size_of(transaction.sends)
        transaction.close()
        answer: SendAnswer
        if transaction.numbers or transaction.is_incomplete:
            answer = NumberedAnswer(self, request, size, transaction.all_numbers(), transaction.acknowledged)
        else:
            answer = SendAnswer(self, request, size, transaction.acknowledged)
        if refusal is not None:
            answer(refusal)
        elif not transaction.numbers:
            self._broker.commit(
                transaction.sends, transaction.acknowledged, self, answer, prepared=transaction.prepared
            )
        else:
            self._broker.producers.commit(
                transaction.sends,
                transaction.acknowledged,
                self,
                answer,
                transaction.numbers,
                prepared=transaction.prepared,
            )

    def _preparing(self, transaction: Transaction, prepared: Prepared) -> Iterator[None]:
        """Do ahead what a commit of many messages costs. The transaction is open until that is done, so it is rolled
        back with a client that goes meanwhile."""
        size = self._size_of(transaction.sends)
        self.memory.uncommitted += size  # what is prepared has the bodies once more
        try:
            yield from self._broker.preparing(transaction.sends, prepared)
        finally:
            self.memory.uncommitted -= size

    def abort(self, name: str) -> None:
        """Roll a transaction back: what was acknowledged in it is the client's still.

        Raises:
            ProtocolError: there is no such transaction.
        """
        transaction = self._transaction(name)
        del self._transactions[name]
        transaction.close()
        self.restore(transaction.acknowledged)
        for number in transaction.refused:
            self.numbering.forgiven(number)


def _settle(deliveries: Iterable[Delivery], answer: AcknowledgementAnswer) -> None:
    for lane, of_lane in by_lane(deliveries):
        if lane is not None:
            lane.queue.acknowledge(of_lane, answer)
        else:
            answer(of_lane, None)


def _settling(deliveries: list[Delivery], answer: AcknowledgementAnswer) -> Iterator[None]:
    for first in range(0, len(deliveries), ACKNOWLEDGED_MAX):
        _settle(deliveries[first : first + ACKNOWLEDGED_MAX], answer)
        yield


@subject.register
def _subject(client: Client) -> str:
    return f"client {client.connection_id} {client.peer}"
