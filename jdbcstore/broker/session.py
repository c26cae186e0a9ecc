"""A session: one client. What it asks for becomes calls of the broker; what the broker says becomes frames.

A frame with a ``receipt`` is answered when what it asked for is done: for a persistent message that is after the
store's commit, never before. If it fails the answer is an ERROR with the receipt's id instead, and the connection
goes on, as with ActiveMQ; only errors of the protocol itself end it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final

from jdbcstore.broker.access import Access
from jdbcstore.broker.answers import AcknowledgementAnswer, NumberedAnswer, SendAnswer
from jdbcstore.broker.browser import Browser
from jdbcstore.broker.consumer import Consumer, giving_back
from jdbcstore.broker.conversion import NUMBER_HEADERS, message_of, number_of, stomp_body, transform
from jdbcstore.broker.delivery import Delivery, by_lane
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.headings import Headings
from jdbcstore.broker.holding import Holding
from jdbcstore.broker.ledger import Ledger
from jdbcstore.broker.memory import TRANSACTION_BYTES, WRITE_BYTES
from jdbcstore.broker.prepared import PREPARED_LEAST, Prepared
from jdbcstore.broker.producers import Number, Numbering
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.slices import SLICE_S
from jdbcstore.broker.stomp_destination import destination_header, parse_stomp_destination
from jdbcstore.broker.subscribing import consumer_for, subscription_bytes
from jdbcstore.broker.takeover import contend
from jdbcstore.broker.temporaries import Temporaries
from jdbcstore.broker.transaction import Transaction
from jdbcstore.broker.wire import Wire
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, LoginRefused, NotAuthorized, ProtocolError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.stomp.events import (
    Abort,
    Ack,
    Begin,
    Commit,
    Connect,
    Disconnect,
    Event,
    Nack,
    Send,
    Subscribe,
    Unsubscribe,
)
from jdbcstore.stomp.frames import Limits
from jdbcstore.stomp.heartbeat import negotiate
from jdbcstore.stomp.protocol import StompConnection
from jdbcstore.subscription import SubscriptionKey

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["Session"]

log = logging.getLogger(__name__)

#: How many messages that were acknowledged one after the other become one write.
_ACKNOWLEDGED_MAX: Final = 1000
#: Frames that are read before they are done.
_FRAMES_AT_ONCE: Final = 100
#: Credit that a consumer does not have before its SUBSCRIBE is answered: the RECEIPT goes out first.
_WITHHELD: Final = 1 << 40

#: Message bytes that are written at once, and when there is little memory. A client that does not read has so many
#: bytes waiting for it, or one message.
_OUTPUT_BYTES: Final = 1 << 20
_OUTPUT_BYTES_SHORT: Final = 64 << 10


class Session:
    """One client.

    Args:
        broker: whom it talks to.
        wire: its socket.
    """

    def __init__(self, broker: Broker, wire: Wire) -> None:
        options = broker.options
        self.connection_id = broker.next_connection_id()
        self.client_id: str | None = None
        #: Whether the client does not read what it was sent: nothing more is dispatched to it.
        self.is_choked = False
        self.is_connected = False
        self.subscriptions: dict[str, Consumer] = {}
        #: Their keys by destination, in order: in STOMP 1.0 they may have no other name.
        self._by_destination: dict[Destination, dict[str, None]] = {}
        self.access = Access(broker, wire.peer)
        self._broker = broker
        self._wire = wire
        self._stomp = StompConnection(
            Limits(
                command_line_bytes=options.command_bytes_max,
                header_line_bytes=options.header_bytes_max,
                headers_max=options.headers_max,
                body_bytes=options.body_bytes_max,
                unconnected_head_bytes=options.unconnected_bytes_max,
                unconnected_body_bytes=options.unconnected_bytes_max,
            )
        )
        self._is_closed = self._is_next = False
        #: Who waits for it to be gone, to have its client id.
        self._successors: list[Callable[[bool], object]] = []
        self._is_talking = False
        self._holds = 0
        self._is_over_uncommitted = False
        self._uncommitted_bytes = 0
        self._uncommitted_bytes_max = options.uncommitted_bytes_max
        self._memory = broker.memory
        #: What the client makes the broker keep.
        self.holding = Holding(self, broker.memory, options, broker.loop)
        self._unfinished_bytes = 0
        self._room_bytes = _OUTPUT_BYTES
        self._answers_due = 0
        self._is_leaving = self._is_ending = self._is_deaf = False
        #: Events that arrived while the client was held back.
        self._unheard: list[Event] = []
        self._producer = ProducerId(self.connection_id, 1, -1)
        self._sent = 0
        #: What is missing of producers that number their messages.
        self.numbering = Numbering()
        self._ledger = Ledger()
        #: Sent to subscriptions that acknowledge by themselves; settled when the bytes have left.
        self._unflushed: list[Delivery] = []
        #: Named by ACKs one after the other; they become one write.
        self._acknowledged: list[Delivery] = []
        self._transactions: dict[str, Transaction] = {}
        self._transaction_count = 0
        self._anonymous_subscriptions = 0
        self._temporaries = Temporaries(broker, self.connection_id, self.access, self.holding)
        self._headings = Headings(self._stomp.header_lines, self._temporaries.names)
        self._transformations: dict[Consumer, str] = {}
        broker.memory.connections += 1

    def __repr__(self) -> str:
        return f"<session {self.connection_id} {self._wire.peer}>"

    # -- bytes ---------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self._holds or self._unheard or self._stomp.has_more:
            self._stomp.receive_data(data, 0)  # read when the client may go on
        else:
            self._listen(data)
        if (held := self._stomp.held_bytes) or self._unfinished_bytes or self._unheard:
            self._count_unfinished(held)
        self.talk()

    def _count_unfinished(self, held: int) -> None:
        """Of what the client has sent so many bytes are here and are no frame yet; others wait to be heard."""
        bodies = sum([len(event.body) for event in self._unheard if isinstance(event, Send)])
        self._unfinished_bytes = held + bodies
        if self._has_unheard:
            self.holding.backlog_is(held + bodies)
        else:
            self.holding.frame_is(held, self._stomp.missing_bytes)

    def _listen(self, data: bytes = b"") -> None:
        """Do what the client asks for, in order, as far as it may go on, and for one slice at most: if it has asked for
        more than can be done in that time, the others are next."""
        deadline_s = perf_counter() + SLICE_S
        if self._unheard:
            unheard, self._unheard = self._unheard, []
            self._hear(unheard, deadline_s)
        while not (self._holds or self._unheard or self._is_deaf):
            events = self._stomp.receive_data(data, _FRAMES_AT_ONCE)
            if self._stomp.close_expected:
                # A frame that is none, answered by the protocol itself. What stands before it is done.
                self._is_ending = self.is_choked = True
            self._hear(events, deadline_s)
            if not self._stomp.has_more:
                break
            data = b""
            if perf_counter() > deadline_s:
                break
        if self._acknowledged:
            self._do(Session._settle_acknowledged, None)
        if self._has_unheard and not self._holds:
            self._wire.pause()
            self._listen_again()

    @property
    def _has_unheard(self) -> bool:
        """Whether the client has said more than was done."""
        return not self._is_deaf and bool(self._unheard or self._stomp.has_more)

    def _hear(self, events: Iterable[Event], deadline_s: float) -> None:
        """Do what the client asks for, until it is held back, or time is over."""
        handlers = self._HANDLERS
        remaining = iter(events)
        for event in remaining:
            if self._acknowledged and event.__class__ is not Ack:
                self._do(Session._settle_acknowledged, None)  # before what the client said after it
                if self._holds:
                    self._unheard += [event, *remaining]
                    return
            if self._is_deaf:
                return  # what stands behind a refused login, or another fatal error, is not done
            self._do(handlers[type(event)], event)
            if self._holds or perf_counter() > deadline_s:
                self._unheard.extend(remaining)

    def _do(self, handler: Callable[[Session, Any], None], event: Event | None) -> None:
        """Handle an event; what goes wrong is told to the client."""
        receipt = None if event is None else event.receipt
        try:
            handler(self, event)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and costs one client
            self._failed(error, event, receipt)

    def _failed(self, error: Exception, what: object, receipt: str | None) -> None:
        if isinstance(error, NotAuthorized):
            self.access.denied(error)
        if not isinstance(error, JdbcStoreError):
            log.error("defect in handling %s of %r", type(what).__name__, self, exc_info=error)
            error = RuntimeError("internal error of the broker")
        self._error(error, receipt, fatal=not isinstance(error, JdbcStoreError) or getattr(error, "fatal", False))

    def _listen_again(self) -> None:
        """Go on in the next turn of the loop: once, whoever asks for it, or the client would have several slices."""
        if not self._is_next:
            self._is_next = True
            self._broker.loop.call_soon(self._hear_rest)

    def _hear_rest(self) -> None:
        self._is_next = False
        if not self._holds and not self._is_closed:
            self._listen()
            self._count_unfinished(self._stomp.held_bytes)
            if not self._holds and not self._has_unheard:
                self._wire.resume()
            self.talk()

    def _work(self, job: Iterator[None], event: Event | None, done: Callable[[], object]) -> None:
        """Do what may take long. The client is not listened to before it is done; what goes wrong is told to it.

        Args:
            job: see `jdbcstore.broker.slices`.
            event: what the client asked for.
            done: called when it is done and nothing went wrong.
        """
        has_failed = False

        def told() -> Iterator[None]:
            nonlocal has_failed
            try:
                yield from job
            except Exception as error:  # noqa: BLE001  # likewise
                has_failed = True
                self._failed(error, event, None if event is None else event.receipt)

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

    def talk(self) -> None:
        """Write what there is to say at the end of this turn of the loop."""
        if not self._is_talking:
            self._is_talking = True
            self._broker.talking(self)

    def write(self) -> None:
        """Write what there is to say. What went to subscriptions in mode auto is settled if the socket took it."""
        self._is_talking = False
        if self._is_closed:
            return
        data = self._stomp.data_to_send()
        is_full = self._room_bytes < 0 and not self._is_ending
        if is_full:
            self.is_choked = False
        if data:
            self._wire.write(data)
        self._room_bytes = _OUTPUT_BYTES_SHORT if self._memory.is_short else _OUTPUT_BYTES
        if self._stomp.close_expected:
            self._wire.close()
        elif self.is_choked:
            return
        elif is_full:
            self._broker.loop.call_soon(self._go_on)
        elif self._unflushed:
            self._settle_flushed()

    def _go_on(self) -> None:
        """The socket has taken what was delivered at once: deliver more."""
        if not self.is_choked and not self._is_closed:
            self.unchoke()

    def choke(self) -> None:
        """The socket is full."""
        self.is_choked = True

    def unchoke(self) -> None:
        """Everything written has left."""
        if self._is_ending:
            return
        self.is_choked = False
        if self._unflushed:
            self._settle_flushed()
        for consumer in list(self.subscriptions.values()):
            consumer.resume()

    def hold(self) -> None:
        """Do not read from the client for now. Holds add up."""
        self._holds += 1
        if self._holds == 1 and not self._is_closed:
            self._wire.pause()

    def let_go(self) -> None:
        """Take one hold back."""
        self._holds -= 1
        if not self._holds and not self._is_closed:
            self._listen_again()

    def beat(self) -> None:
        """Send a heart-beat."""
        if not self.is_choked:
            self._wire.write(b"\n")

    def disconnect(self, text: str, *, reason: str) -> None:
        """End the connection with an ERROR.

        Args:
            text: what the client is told.
            reason: what the log says.
        """
        log.warning("client disconnected peer=%s reason=%r", self._wire.peer, reason)
        self.dismiss(text)

    def dismiss(self, text: str) -> None:
        """End the connection with an ERROR: the broker cannot serve anybody."""
        self._stomp.send_error(text, fatal=True)
        self._end()

    def close(self) -> None:
        """The connection is gone: what was not acknowledged goes back, what it opened is closed."""
        if self._is_closed:
            return
        self._is_closed = self.is_choked = True
        self.holding.close()
        self._stomp.forget_data()  # the object may live on for a while
        self._memory.connections -= 1
        self._unheard.clear()
        self.access.end()
        self._broker.slices.run(self._closing(), self._gone)

    def _gone(self) -> None:
        """Everything is given back: who wants the client id may have it."""
        self._broker.forget(self)
        successors, self._successors = self._successors, []
        for told in successors:
            told(False)

    def _closing(self) -> Iterator[None]:
        returned = [d for transaction in self._transactions.values() for d in transaction.acknowledged]
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

    # -- answers -------------------------------------------------------------------------------------------------

    def _error(self, error: BaseException, receipt: str | None, *, fatal: bool = False) -> None:
        if not self._is_closed:
            text = str(error) if isinstance(error, JdbcStoreError) else f"{type(error).__name__}: {error}"
            self._stomp.send_error(text, receipt_id=receipt, fatal=fatal)
            if fatal:
                self._end()
            self.talk()

    def _end(self) -> None:
        """The last word is said: the client is not listened to any more, and what is delivered would not reach it."""
        self._is_ending = self.is_choked = self._is_deaf = True
        self.talk()

    def _done(self, receipt: str | None) -> None:
        if receipt is not None and not self._is_closed:
            self._stomp.send_receipt(receipt)
            self.talk()

    # -- CONNECT, DISCONNECT ---------------------------------------------------------------------------------------

    def _on_connect(self, event: Connect) -> None:
        if self._broker.authentication is None:
            self._enter(event)
            return
        self.hold()
        certificate = self._wire.peer_certificate
        subject = None if certificate is None else certificate.subject
        credentials = Credentials(event.login, event.passcode, subject, self._wire.is_encrypted)
        self.access.login(credentials, partial(self._logged_in, event))

    def _logged_in(self, event: Connect, refusal: LoginRefused | None) -> None:
        if self._is_closed or self._is_ending:
            return
        if refusal is None:
            self._do(Session._enter, event)
        else:
            self._stomp.send_error(str(refusal), str(refusal), event.receipt, fatal=True)
            self._end()
        self.talk()
        self.let_go()

    def _enter(self, event: Connect) -> None:
        broker = self._broker
        if event.client_id is not None:
            other = broker.client_ids.get(event.client_id)
            if other is not None:
                self.hold()
                told = partial(self._contended, event, other.peer)
                if other._is_closed:
                    other._successors.append(told)  # it is on its way out
                else:
                    contend(broker.options, other, self.peer, told)
                return
            self.client_id = event.client_id
            broker.client_ids[event.client_id] = self
        self.is_connected = True
        if event.version == "1.2":
            self._ledger.use_ack_ids(broker.next_ack_id_stem())
        elif event.version == "1.0":
            self._ledger.use_message_ids_alone()
        offer = event.heart_beat if "heart-beat" in event.headers else broker.default_heart_beat
        send_ms, expect_ms = negotiate(offer)
        server = broker.options.server_header
        self._stomp.send_connected(server, event.client_id or self.connection_id, (send_ms, expect_ms))
        self._wire.beat(send_ms, expect_ms)
        log.debug("client connected peer=%s version=%s id=%s", self._wire.peer, event.version, self.connection_id)

    def _contended(self, event: Connect, holder: str, holder_keeps_it: bool) -> None:
        """It is decided who has the client id of a CONNECT."""
        if self._is_closed or self._is_ending:
            return
        if holder_keeps_it:
            name = self._broker.options.broker_name
            text = f"Broker: {name} - Client: {event.client_id} already connected from {holder}"
            self._error(ProtocolError(text), event.receipt, fatal=True)
        else:
            self._do(Session._enter, event)
        self.talk()
        self.let_go()

    def probe(self, told: Callable[[bool], object]) -> None:
        """Find out whether the client's machine answers."""
        self._wire.probe(told)

    def make_way(self, text: str | None, reason: str) -> None:
        """Be gone at once, so that another connection may have the client id.

        Args:
            text: what the client is told, if it may be listening.
            reason: for the log.
        """
        if text is None:
            self._wire.end(reason)
        else:
            log.warning("client disconnected peer=%s reason=%r", self._wire.peer, reason)
            self._stomp.send_error(text, fatal=True)
            self._wire.write(self._stomp.data_to_send())
            self._wire.close()
        self.close()

    @property
    def owes(self) -> bool:
        """Whether the client has messages, or a transaction, that others wait for."""
        return bool(self._transactions) or any(consumer.unacknowledged for consumer in self.subscriptions.values())

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
                self._error(error, None)
            else:
                self._broker.reconsider(consumer)

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._wire.peer

    def _on_disconnect(self, event: Disconnect) -> None:
        # Nothing more is sent; what it did not acknowledge is for others.
        consumers = list(self.subscriptions.values())
        self.subscriptions.clear()
        self._work(chain.from_iterable(map(self._unsubscribing, consumers)), event, self._left)

    def _left(self) -> None:
        self._is_leaving = True
        if not self._answers_due:
            self._say_farewell()

    def _say_farewell(self) -> None:
        self._stomp.finish_disconnect()
        self.talk()

    # -- SEND ----------------------------------------------------------------------------------------------------

    def _on_send(self, event: Send) -> None:
        if self._memory.uncommitted > self._memory.uncommitted_max and self._has_to_wait(event):
            return
        if self._memory.is_short and self._has_to_wait_for_spool(event):
            return
        if "producer-id" in event.headers:
            self._send_numbered(event)
            return
        destination = parse_stomp_destination(event.destination, self._temporaries.get)
        permissions = self.access.permissions
        if permissions is not None and destination not in permissions.sendable:
            permissions.check_send(destination)
        self._sent += 1
        message_id = MessageId(self._producer, self._sent)
        message = message_of(
            event.headers, event.body, destination, message_id, self._broker.now_ms(), self._temporaries.get
        )
        if self._broker.scheduler.is_management(destination):
            if event.transaction is not None:
                raise ProtocolError(f"Messages to {destination} are orders: send them outside of transactions")
            self.access.check_management(message.reply_to)
            self._broker.scheduler.manage(message, SendAnswer(self, event.receipt, message.size + WRITE_BYTES))
            return
        if event.transaction is not None:
            transaction = self._transaction(event.transaction)
            transaction.send(self._singles(message, destination))
            self._done(event.receipt)
            return
        singles = self._singles(message, destination)
        if len(singles) == 1:
            answer = SendAnswer(self, event.receipt, message.size + WRITE_BYTES)
            self._broker.publish(message, self, answer)
        else:
            answer = SendAnswer(self, event.receipt, self._size_of(singles))
            self._broker.commit(singles, [], self, answer)

    def _has_to_wait(self, event: Send) -> bool:
        """Whether there is no memory for another write until the store has answered some. Then nothing is heard."""
        if event.transaction is None and event.headers.get("persistent") != "true":
            return False
        self._hold_before(event)
        self._memory.senders.append(self.let_go)
        return True

    def _has_to_wait_for_spool(self, event: Send | Commit) -> bool:
        """Whether what does not fit into memory has to wait until the spool is open, or cannot be opened. Nothing is
        heard meanwhile."""
        if isinstance(event, Send) and (event.transaction is not None or _is_stored(event)):
            return False
        opening = self._broker.spool_opening()
        if opening is None:
            return False
        self._hold_before(event)
        opening.add_done_callback(lambda _: self.let_go())
        return True

    def _hold_before(self, event: Event) -> None:
        """Hold the client back. This is heard again when it is let go, before all that comes behind it."""
        self._unheard.insert(0, event)
        self.hold()

    @staticmethod
    def _size_of(messages: Iterable[Message]) -> int:
        """Bytes that they take on their way to the store."""
        return sum([message.size + WRITE_BYTES for message in messages])

    def _send_numbered(self, event: Send) -> None:
        """A message of a producer that numbers them itself; `jdbcstore.broker.producers` has the theory."""
        transaction = None if event.transaction is None else self._transactions.get(event.transaction)
        try:
            number = producer_id, sequence = number_of(event.headers)
        except ProtocolError:
            if transaction is not None:
                transaction.is_incomplete = True
            raise
        if self._has_to_learn([producer_id], event, lambda: self._refuse(number, transaction)):
            return
        try:
            self.numbering.admit(number)
            self._check_turn(producer_id, sequence, transaction)
            headers = {name: value for name, value in event.headers.items() if name not in NUMBER_HEADERS}
            destination = parse_stomp_destination(event.destination, self._temporaries.get)
            permissions = self.access.permissions
            if permissions is not None and destination not in permissions.sendable:
                permissions.check_send(destination)
            message_id = MessageId(producer_id, sequence)
            message = message_of(
                headers, event.body, destination, message_id, self._broker.now_ms(), self._temporaries.get
            )
            if self._broker.scheduler.is_management(destination):
                raise ProtocolError(f"Messages to {destination} are orders: send them without a number")
            singles = self._singles(message, destination)
            if event.transaction is not None:
                transaction = self._transaction(event.transaction)
                transaction.number(producer_id, sequence)
                transaction.send(singles)
        except JdbcStoreError:
            self._refuse(number, transaction)
            raise
        if transaction is not None:
            self._done(event.receipt)
        else:
            answer = NumberedAnswer(self, event.receipt, self._size_of(singles), [number])
            self._broker.producers.commit(singles, [], self, answer, [producer_id])

    def _refuse(self, number: Number, transaction: Transaction | None) -> None:
        """The client will hear an ERROR for a numbered message."""
        self.numbering.refused(number)
        if transaction is not None:
            transaction.refused.append(number)
            transaction.is_incomplete = True

    def _check_turn(self, producer_id: ProducerId, sequence: int, transaction: Transaction | None) -> None:
        """Raise ProtocolError if lower numbers of the producer wait in another open transaction."""
        for other in self._transactions.values():
            waiting = other.numbers.get(producer_id)
            if other is not transaction and waiting and waiting[0] < sequence:
                raise ProtocolError(
                    f"Message {sequence} would be stored before message {waiting[0]} of the same"
                    f" producer, which waits in transaction {other.name}: commit that first"
                )

    def _has_to_learn(
        self, producers: Iterable[ProducerId], event: Event, failed: Callable[[], object] = lambda: None
    ) -> bool:
        """Whether the broker has to ask the store about a producer first. Then nothing is heard until it knows."""
        unknown = next((producer for producer in producers if not self._broker.producers.knows(producer)), None)
        if unknown is None:
            return False

        def learned(error: BaseException | None) -> None:
            try:
                if error is not None and not self._is_closed:
                    self._unheard.remove(event)
                    failed()
                    self._error(error, event.receipt)
            finally:
                self.let_go()

        self._hold_before(event)
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
        if len(elements) == 1:
            return message.divided()
        self._check_parts(message, len(elements))
        return message.divided()

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

    def _check_target(self, destination: Destination) -> None:
        if self._broker.is_crowded:
            self._broker.check_room_for(destination)
        if destination.is_temporary and not self._broker.knows_temporary(destination):
            raise ProtocolError(f"The destination {destination} does not exist.")
        if destination.is_wildcard:
            raise ProtocolError(f"Cannot send to {destination}: a wildcard is for subscriptions")

    # -- SUBSCRIBE, UNSUBSCRIBE ------------------------------------------------------------------------------------

    def _on_subscribe(self, event: Subscribe) -> None:
        destination = parse_stomp_destination(event.destination, self._temporaries.get)
        self.access.check_receive(destination)
        if len(self.subscriptions) >= self._broker.options.subscriptions_max:
            raise ProtocolError(
                f"Too many subscriptions: subscriptions_max is {self._broker.options.subscriptions_max} for a"
                " connection. Unsubscribe one first"
            )
        if event.id is not None:
            key = event.id
        else:
            self._anonymous_subscriptions += 1
            key = f"\n{self._anonymous_subscriptions}"  # no id that a client can send
        if key in self.subscriptions:
            raise ProtocolError(f"There is a subscription with the id {event.id} already; unsubscribe it first")
        consumer = consumer_for(self._broker, self, event, destination)
        consumer.kept_bytes = subscription_bytes(event, destination)
        self.holding.keep(consumer.kept_bytes, "This subscription", "Unsubscribe another one first")
        self.subscriptions[key] = consumer
        self._by_destination.setdefault(destination, {})[key] = None
        if (form := event.headers.get("transformation")) is not None:
            self._transformations[consumer] = form
        # Nothing is delivered before the end of this turn: the RECEIPT goes out first. That of a durable subscription
        # comes when the store has it.
        try:
            if isinstance(consumer, DurableConsumer):
                subscribed = partial(self._subscribed_durably, key, consumer, event.receipt)
                self._answers_due += 1
                try:
                    self._broker.durables.subscribe(consumer, subscribed)
                except JdbcStoreError:
                    self._answers_due -= 1
                    raise
                return
            if isinstance(consumer, Browser):
                consumer.begin([self._broker.queue(element) for element in destination.elements()])
                self._done(event.receipt)
                return
        except JdbcStoreError:
            self._drop(key, consumer)
            raise
        consumer.credit -= _WITHHELD
        self._work(self._subscribing(key, consumer), event, partial(self._subscribed, consumer, event.receipt))

    def _subscribing(self, key: str, consumer: Consumer) -> Iterator[None]:
        try:
            yield from self._broker.subscribing(consumer)
        except JdbcStoreError:
            self._drop(key, consumer)
            raise

    def _subscribed(self, consumer: Consumer, receipt: str | None) -> None:
        self._done(receipt)
        consumer.release(_WITHHELD)

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

    def _subscribed_durably(
        self, key: str, consumer: DurableConsumer, receipt: str | None, error: BaseException | None
    ) -> None:
        if error is not None:
            self._drop(key, consumer)
        self.answered(0, receipt, error)

    def _on_unsubscribe(self, event: Unsubscribe) -> None:
        if event.subscription_name is not None:
            # A client of STOMP 1.0 may name its subscription as itself; that is how ActiveMQ reads it there.
            client_id = self.client_id or event.subscription_name
            for topic in self._broker.durables.topics_of(SubscriptionKey(client_id, event.subscription_name)):
                self.access.check_read(topic)
            self.asked(0)
            removed = partial(self.answered, 0, event.receipt)
            try:
                self._broker.durables.unsubscribe(SubscriptionKey(client_id, event.subscription_name), removed)
            except JdbcStoreError as error:
                removed(error)
            return
        key = event.id
        if key is None and event.destination is not None:
            destination = parse_stomp_destination(event.destination, self._temporaries.get)
            key = next(iter(self._by_destination.get(destination, ())), None)
        consumer = self._take_subscription(key)
        if consumer is None:
            raise ProtocolError("No subscription matched.")
        self._work(self._unsubscribing(consumer), event, partial(self._done, event.receipt))

    def _unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        self._transformations.pop(consumer, None)
        self.holding.give_up(consumer.kept_bytes)
        self._ledger.forget(consumer)
        return self._broker.unsubscribing(consumer)

    def awake(self, consumer: Consumer) -> None:
        """A consumer can take more: its queues are asked at the end of this turn of the loop."""
        self._broker.awake(consumer)

    def browsed(self, browser: Browser) -> None:
        """A browser has shown everything: tell the client."""
        headers = {
            "message-id": "0",
            "destination": destination_header(browser.destination, self._temporaries.names),
            "browser": "end",
        }
        if browser.subscription_id is not None:
            headers["subscription"] = browser.subscription_id
        self._stomp.send_message(headers, b"")
        self.talk()

    def browsing_failed(self, browser: Browser, error: BaseException) -> None:
        """A browser cannot go on."""
        self._error(error, None)

    # -- MESSAGE -------------------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send a message to the client."""
        message = delivery.message
        if message is None:
            raise ValueError(f"{delivery!r} holds no message")
        try:
            headers, more = self._headings.of(
                message, delivery.message_id, consumer.subscription_id, redeliveries=delivery.redeliveries
            )
            body, has_length = stomp_body(message)
            if self._transformations and (form := self._transformations.get(consumer)) is not None and not has_length:
                transformed = transform(message, form, headers)
                body = body if transformed is None else transformed
            if has_length:
                headers["content-length"] = str(len(body))
            if consumer.is_auto:
                self._unflushed.append(delivery)
            elif (ack_id := self._ledger.enter(consumer, delivery)) is not None:
                headers["ack"] = ack_id
            self._stomp.send_message(headers, body, more)
        except Exception as error:  # noqa: BLE001  # whatever it is, it costs this message and not its consumer
            self._bury(consumer, delivery, error)
            return
        if delivery.lane is None:
            delivery.message = None
        self._room_bytes -= len(body)
        if self._room_bytes < 0:
            self.is_choked = True  # until the socket has taken this
        if not self._is_talking:
            self.talk()

    def _bury(self, consumer: Consumer, delivery: Delivery, error: Exception) -> None:
        """A message that cannot be sent must not hold up those behind it: it goes, as if it had never been tried."""
        is_defect = not isinstance(error, JdbcStoreError)
        log.error(
            "message cannot be delivered message_id=%s", delivery.message_id, exc_info=error if is_defect else None
        )
        if self._unflushed and self._unflushed[-1] is delivery:
            self._unflushed.pop()
        self._ledger.strike(consumer, delivery)
        # Nobody is resumed by this: whoever delivers goes on by himself, and a thousand such messages would nest.
        consumer.credit += 1
        delivery.consumer = None
        if delivery.lane is not None:
            delivery.lane.queue.cannot_deliver(delivery, error)

    def _settle_flushed(self) -> None:
        flushed, self._unflushed = self._unflushed, []
        for lane, deliveries in by_lane(flushed):
            if lane is not None:
                lane.queue.consumed(*deliveries)
                continue
            for delivery in deliveries:
                if delivery.consumer is not None:
                    delivery.consumer.release()

    # -- ACK, NACK -----------------------------------------------------------------------------------------------

    def _on_ack(self, event: Ack) -> None:
        delivery, consumer = self._ledger.find(event, self.subscriptions)
        if event.transaction is not None:
            transaction = self._transaction(event.transaction)
            transaction.acknowledge(self._ledger.take(consumer, delivery, transaction.room))
            self._done(event.receipt)
            return
        self._acknowledged += self._ledger.take(consumer, delivery)
        if event.receipt is not None or len(self._acknowledged) >= _ACKNOWLEDGED_MAX:
            self._settle_acknowledged(event)

    def _settle_acknowledged(self, last: Ack | None) -> None:
        """Let go of what was acknowledged since the last time: in one write of each lane, and with one answer."""
        acknowledged, self._acknowledged = self._acknowledged, []
        answer = AcknowledgementAnswer(self, None if last is None else last.receipt, len(acknowledged))
        if len(acknowledged) <= _ACKNOWLEDGED_MAX:
            _settle(acknowledged, answer)
        else:
            self._work(_settling(acknowledged, answer), last, lambda: None)

    def _on_nack(self, event: Nack) -> None:
        delivery, consumer = self._ledger.find(event, self.subscriptions)
        if consumer.is_browser:
            raise ProtocolError("A browser's message cannot be refused: it was only shown")
        if event.transaction is not None:
            raise ProtocolError("NACK in a transaction is not supported; send it without")
        self._ledger.settle(consumer, [delivery])
        answer = AcknowledgementAnswer(self, event.receipt, 1)
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
            if self._is_closed or consumer is None or consumer.is_closed:
                lost.append(delivery)
            else:
                self._ledger.put_back(consumer, delivery)
        if lost:
            self._broker.slices.run(giving_back(lost))

    # -- transactions --------------------------------------------------------------------------------------------

    def _transaction(self, name: str) -> Transaction:
        transaction = self._transactions.get(name)
        if transaction is None:
            raise ProtocolError(f"Invalid transaction id: {name}")
        return transaction

    def _on_begin(self, event: Begin) -> None:
        if event.transaction in self._transactions:
            raise ProtocolError(f"The transaction was already started: {event.transaction}")
        options = self._broker.options
        if len(self._transactions) >= options.transactions_max:
            raise ProtocolError(
                f"Too many transactions: transactions_max is {options.transactions_max} for a connection. Commit or"
                " abort one first"
            )
        self._transaction_count += 1
        transaction_id = LocalTransactionId(self._transaction_count, ConnectionId(self.connection_id))
        what, remedy = f"Transaction {event.transaction}", "Commit or abort one first"
        self.holding.keep(TRANSACTION_BYTES + len(event.transaction), what, remedy)
        self._transactions[event.transaction] = Transaction(event.transaction, transaction_id, options, self.holding)
        self._done(event.receipt)

    def _on_commit(self, event: Commit) -> None:
        transaction = self._transaction(event.transaction)
        if self._has_to_learn(transaction.numbers, event):
            return
        if self._memory.is_short and self._has_to_wait_for_spool(event):
            return
        if transaction.prepared is None and len(transaction.sends) >= PREPARED_LEAST and not transaction.is_incomplete:
            transaction.prepared = Prepared()
            self._work(self._preparing(transaction, transaction.prepared), event, partial(self._prepared, event))
            return
        del self._transactions[event.transaction]
        size = self._size_of(transaction.sends)
        transaction.close()
        if not (transaction.numbers or transaction.is_incomplete):
            answer = SendAnswer(self, event.receipt, size, transaction.acknowledged)
            self._broker.commit(
                transaction.sends, transaction.acknowledged, self, answer, prepared=transaction.prepared
            )
            return
        answer = NumberedAnswer(self, event.receipt, size, transaction.all_numbers(), transaction.acknowledged)
        if transaction.is_incomplete:
            answer(ProtocolError(f"Transaction {transaction.name} is rolled back: a message in it was refused"))
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
        """Do ahead what a COMMIT of many messages costs. The transaction is open until that is done, so it is rolled
        back with a connection that goes meanwhile."""
        size = self._size_of(transaction.sends)
        self._memory.uncommitted += size  # what is prepared has the bodies once more
        try:
            yield from self._broker.preparing(transaction.sends, prepared)
        finally:
            self._memory.uncommitted -= size

    def _prepared(self, event: Commit) -> None:
        if not (self._is_closed or self._is_deaf):
            self._do(Session._on_commit, event)

    def _on_abort(self, event: Abort) -> None:
        transaction = self._transaction(event.transaction)
        del self._transactions[event.transaction]
        transaction.close()
        self.restore(transaction.acknowledged)
        for number in transaction.refused:
            self.numbering.forgiven(number)
        self._done(event.receipt)

    # -- flow control ----------------------------------------------------------------------------------------------

    def asked(self, size: int) -> None:
        """So many bytes are on their way to the store; beyond the limit the client has to wait."""
        self._answers_due += 1
        self._uncommitted_bytes += size
        self._memory.uncommitted += size
        if not self._is_over_uncommitted and self._uncommitted_bytes > self._uncommitted_bytes_max:
            self._is_over_uncommitted = True
            self.hold()

    def answered(self, size: int, receipt: str | None, error: BaseException | None) -> None:
        """The store has answered."""
        self._uncommitted_bytes -= size
        self._memory.uncommitted -= size
        if self._is_over_uncommitted and self._uncommitted_bytes <= self._uncommitted_bytes_max // 2:
            self._is_over_uncommitted = False
            self.let_go()
        if error is not None:
            self._error(error, receipt)
        elif receipt is not None:
            self._done(receipt)
        self._answers_due -= 1
        if self._is_leaving and not self._answers_due:
            self._say_farewell()

    _HANDLERS: Final[dict[type[Event], Callable[[Session, Any], None]]] = {
        Connect: _on_connect,
        Send: _on_send,
        Ack: _on_ack,
        Nack: _on_nack,
        Subscribe: _on_subscribe,
        Unsubscribe: _on_unsubscribe,
        Begin: _on_begin,
        Commit: _on_commit,
        Abort: _on_abort,
        Disconnect: _on_disconnect,
    }


def _is_stored(event: Send) -> bool:
    """Whether a message belongs into the broker's store. Nothing that is temporary does."""
    return event.headers.get("persistent") == "true" and "temp-" not in event.destination


def _settle(deliveries: Iterable[Delivery], answer: AcknowledgementAnswer) -> None:
    for lane, of_lane in by_lane(deliveries):
        if lane is not None:
            lane.queue.acknowledge(of_lane, answer)
        else:
            answer(of_lane, None)


def _settling(deliveries: list[Delivery], answer: AcknowledgementAnswer) -> Iterator[None]:
    for first in range(0, len(deliveries), _ACKNOWLEDGED_MAX):
        _settle(deliveries[first : first + _ACKNOWLEDGED_MAX], answer)
        yield
