"""A session: one STOMP client. What it asks for becomes calls of the broker's face (`jdbcstore.broker.client`); what
the broker says becomes frames.

A frame with a ``receipt`` is answered when what it asked for is done: for a persistent message that is after the
store's commit, never before. If it fails the answer is an ERROR with the receipt's id instead, and the connection
goes on, as with ActiveMQ; only errors of the protocol itself end it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar

from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.producers import Number
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError, ProtocolError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.stomp.events import (
    Abort,
    Ack,
    Acks,
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
from jdbcstore.transport.conversation import Conversation
from jdbcstore.transport.stomp.conversion import NUMBER_HEADERS, message_of, number_of, stomp_body, transform
from jdbcstore.transport.stomp.delivery_names import StompNames
from jdbcstore.transport.stomp.destination import destination_header, is_temporary_queue, parse_stomp_destination
from jdbcstore.transport.stomp.message_headers import MessageHeaders
from jdbcstore.transport.stomp.subscription_request import subscription_request
from jdbcstore.transport.wire import Wire
from jdbcstore.wire_options import parse_heart_beat

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["StompSession"]

log = logging.getLogger(__name__)


class StompSession(Conversation[Event]):
    """One client.

    Args:
        broker: whom it talks to.
        wire: its socket.

    Attributes:
        client: what it is to the broker.
    """

    protocol = "STOMP"

    def __init__(self, broker: Broker, wire: Wire) -> None:
        options = broker.options
        self._names = StompNames()
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
        super().__init__(broker, wire, self._names, self._stomp)
        self._has_ack_ids = False
        self._anonymous_subscriptions = 0
        self._message_headers = MessageHeaders(self._stomp.header_lines, self.client.temporaries.names)

    # -- the protocol ------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, frames_max: int) -> Sequence[Event]:
        events = self._stomp.receive_data(data, frames_max)
        if self._stomp.close_expected:
            self.client.end()  # a frame that is none, answered by the protocol itself; what stands before it is done
            self._wire.pause()  # what comes behind it is for nobody
        return events

    def _size_of(self, event: Event) -> int:
        if isinstance(event, Send):
            return len(event.body)
        return sum(map(len, event.ids)) if isinstance(event, Acks) else 0

    def _output(self) -> bytes:
        return self._stomp.data_to_send()

    @property
    def _has_output(self) -> bool:
        return self._stomp.has_output

    @property
    def _is_said(self) -> bool:
        return self._stomp.close_expected

    def _failed(self, error: Exception, event: Event | None) -> None:
        told, is_fatal = self.client.error_of(error, type(event).__name__)
        if isinstance(event, Send) and event.receipt is None:  # who asks for a receipt may go on without this one
            self.client.producer.spoil(event.transaction, told)
        self._error(told, None if event is None else event.receipt, fatal=is_fatal)

    def beat(self) -> None:
        """Send a heart-beat."""
        if not self.client.consumers.is_choked:
            self._wire.write(b"\n")

    def _error(self, error: BaseException, receipt: str | None, *, fatal: bool = False) -> None:
        if not self.client.is_closed:
            text = str(error) if isinstance(error, JdbcStoreError) else f"{type(error).__name__}: {error}"
            self._stomp.send_error(text, receipt_id=receipt, fatal=fatal)
            if fatal:
                self._end()
            self.talk()

    def _done(self, receipt: str | None) -> None:
        if receipt is not None and not self.client.is_closed:
            self._stomp.send_receipt(receipt)
            self.talk()

    # -- what the broker says --------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send a message to the client."""
        message = delivery.message
        if message is None:
            raise ValueError(f"{delivery!r} holds no message")
        headers, more = self._message_headers.of(
            message, delivery.message_id, consumer.subscription_id, redeliveries=delivery.redeliveries
        )
        if self._has_ack_ids and not consumer.is_auto:
            if headers:
                headers["ack"] = delivery.key
            else:  # as nearly always; the broker made it, there is nothing to escape
                more = b"ack:%s\n%s" % (delivery.key.encode(), more)
        body, has_length = stomp_body(message)
        if not has_length and (consumer.tag is not None or message.data_structure is not None):
            transformed = transform(message, None if consumer.tag is None else str(consumer.tag), headers)
            body = body if transformed is None else transformed
        self._stomp.send_message(headers, body, more, has_length=has_length)
        self._delivered(len(body))

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """RECEIPT or ERROR; a request is a receipt."""
        receipt = request if isinstance(request, str) else None
        if error is not None:
            self._error(error, receipt, fatal=is_fatal)
        elif receipt is not None:
            self._stomp.send_receipt(receipt)
            if not self._is_talking:
                self.talk()

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything: tell the client."""
        headers = {
            "message-id": "0",
            "destination": destination_header(consumer.destination, self.client.temporaries.names),
            "browser": "end",
        }
        if consumer.subscription_id is not None:
            headers["subscription"] = consumer.subscription_id
        self._stomp.send_message(headers, b"")
        self.talk()

    def dismiss(self, text: str) -> None:
        """End the connection with an ERROR."""
        self._stomp.send_error(text, fatal=True)
        self._end()

    def closed(self) -> None:
        """The client is gone."""
        self._stomp.forget_data()  # the object may live on for a while
        self._unheard.clear()
        self._names.forget()

    # -- CONNECT, DISCONNECT ---------------------------------------------------------------------------------------

    def _on_connect(self, event: Connect) -> None:
        certificate = self._wire.peer_certificate
        subject_name = None if certificate is None else certificate.subject
        credentials = Credentials(event.login, event.passcode, subject_name, self._wire.is_encrypted)
        self.client.open(event.client_id, credentials, partial(self._decided, event))

    def _decided(self, event: Connect, refusal: JdbcStoreError | None) -> None:
        if refusal is None:
            self._do(StompSession._enter, event)
        else:
            self._error(refusal, event.receipt, fatal=True)
        self.talk()

    def _enter(self, event: Connect) -> None:
        """The client is let in."""
        if event.version == "1.2":
            self._has_ack_ids = True
            self._names.use_ack_ids(self._broker.next_delivery_stem())
        elif event.version == "1.0":
            self._names.use_message_ids_alone()
        offer = event.heart_beat
        if "heart-beat" not in event.headers:
            offer = parse_heart_beat(self._options.default_heart_beat)
        send_ms, expect_ms = negotiate(offer)
        name = event.client_id or self.client.connection_id
        self._stomp.send_connected(self._options.server_header, name, (send_ms, expect_ms))
        self._wire.beat(send_ms, expect_ms)
        log.debug("client connected peer=%s version=%s id=%s", self.peer, event.version, self.client.connection_id)

    def _on_disconnect(self, event: Disconnect) -> None:
        self.client.leave(event.receipt, self._say_farewell)

    def _say_farewell(self) -> None:
        self._stomp.finish_disconnect()
        self.talk()

    # -- SEND ----------------------------------------------------------------------------------------------------

    def _on_send(self, event: Send) -> None:
        memory, client = self._memory, self.client
        if (memory.uncommitted > memory.uncommitted_max or memory.is_short) and not self._may_send(event):
            self._again(event)
            return
        if "producer-id" in event.headers:
            self._send_numbered(event)
            return
        destination = parse_stomp_destination(event.destination, self._own_temporary)
        message_id = client.producer.next_message_id()
        message = message_of(
            event.headers, event.body, destination, message_id, self._broker.now_ms(), self._own_temporary
        )
        if event.transaction is None:
            client.producer.gather(message, event.receipt)
        else:
            client.producer.send(message, event.receipt, event.transaction)

    def _may_send(self, event: Send) -> bool:
        return self.client.producer.may_send(
            is_persistent=event.headers.get("persistent") == "true",
            is_temporary="temp-" in event.destination,
            is_in_transaction=event.transaction is not None,
        )

    def _send_numbered(self, event: Send) -> None:
        """A message of a producer that numbers them itself."""
        client = self.client
        try:
            number = number_of(event.headers)
        except ProtocolError as error:
            client.producer.spoil(event.transaction, error)
            raise
        make = partial(self._numbered_message, event, number)
        if not client.producer.send_numbered(number, make, event.receipt, event.transaction):
            self._again(event)

    def _numbered_message(self, event: Send, number: Number) -> Message:
        headers = {name: value for name, value in event.headers.items() if name not in NUMBER_HEADERS}
        destination = parse_stomp_destination(event.destination, self._own_temporary)
        return message_of(
            headers, event.body, destination, MessageId(*number), self._broker.now_ms(), self._own_temporary
        )

    def _own_temporary(self, name: str) -> Destination:
        """The temporary destination that the client calls so, e.g. ``/temp-queue/replies``."""
        return self.client.temporaries.get(name, is_queue=is_temporary_queue(name))

    # -- SUBSCRIBE, UNSUBSCRIBE ------------------------------------------------------------------------------------

    def _on_subscribe(self, event: Subscribe) -> None:
        destination = parse_stomp_destination(event.destination, self._own_temporary)
        key = event.id
        if key is None:
            self._anonymous_subscriptions += 1
            key = f"\n{self._anonymous_subscriptions}"  # no id that a client can send
        wanted = subscription_request(event, key, destination, self.client.client_id)
        self.client.consumers.subscribe(wanted, event.receipt)

    def _on_unsubscribe(self, event: Unsubscribe) -> None:
        client = self.client
        if event.subscription_name is not None:
            # A client of STOMP 1.0 may name its subscription as itself; that is how ActiveMQ reads it there.
            client_id = client.client_id or event.subscription_name
            client.consumers.remove_durable(SubscriptionKey(client_id, event.subscription_name), event.receipt)
            return
        key = event.id
        if key is None and event.destination is not None:
            destination = parse_stomp_destination(event.destination, self._own_temporary)
            key = client.consumers.subscription_to(destination)
        client.consumers.unsubscribe(key, event.receipt)

    # -- ACK, NACK -----------------------------------------------------------------------------------------------

    def _on_ack(self, event: Ack) -> None:
        client = self.client
        try:
            delivery, consumer = self._names.find(event, client.consumers.by_key)
        except ProtocolError:
            if not self._is_said_again(event):
                raise
            self._done(event.receipt)
            return
        try:
            client.consumers.acknowledge(consumer, delivery, event.receipt, event.transaction)
        except JdbcStoreError as error:
            if event.receipt is None:
                client.producer.spoil(event.transaction, error, is_send=False)
            raise

    def _is_said_again(self, event: Ack) -> bool:
        """Whether an ACK means what its transaction has acknowledged already.

        Before 1.2 clients may acknowledge each message of a transaction, in any order, with ActiveMQ too: also in mode
        client, where the first ACK may have covered the others.
        """
        if event.transaction is None or event.id is not None or event.message_id is None:
            return False
        return self.client.transactions.has_acknowledged(event.transaction, event.message_id)

    def _on_acks(self, event: Acks) -> None:
        """As so many ACKs; those of one subscription that are each for a message alone are done together."""
        names, found, whose = self._names, list[Delivery](), None
        acknowledge_all = self.client.consumers.acknowledge_all
        for place, ack_id in enumerate(event.ids):
            delivery = names.take(ack_id)
            if delivery is not None and delivery.consumer is whose is not None:
                found.append(delivery)
                continue
            if whose is not None:
                acknowledge_all(whose, found, None)
                found, whose = [], None
            if delivery is not None:
                found, whose = [delivery], delivery.consumer
                continue
            self._do(StompSession._on_ack, Ack({"id": ack_id}, ack_id, None, None, None, None))
            if perf_counter() > self._deadline_s and place + 1 < len(event.ids):
                self._again(Acks(event.ids[place + 1 :]))
                return
        if whose is not None:
            acknowledge_all(whose, found, None)

    def _on_nack(self, event: Nack) -> None:
        delivery, consumer = self._names.find(event, self.client.consumers.by_key)
        if event.transaction is not None and not consumer.is_browser:
            raise ProtocolError("NACK in a transaction is not supported; send it without")
        self.client.consumers.reject(consumer, delivery, event.receipt)

    # -- transactions --------------------------------------------------------------------------------------------

    def _on_begin(self, event: Begin) -> None:
        self.client.transactions.begin(event.transaction)
        self._done(event.receipt)

    def _on_commit(self, event: Commit) -> None:
        if not self.client.transactions.commit(event.transaction, event.receipt):
            self._again(event)

    def _on_abort(self, event: Abort) -> None:
        self.client.transactions.abort(event.transaction)
        self._done(event.receipt)

    _ACKS = frozenset({Ack, Acks})
    _GATHERED = frozenset({Send})
    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[StompSession, Any], None]]] = {
        Connect: _on_connect,
        Send: _on_send,
        Ack: _on_ack,
        Acks: _on_acks,
        Nack: _on_nack,
        Subscribe: _on_subscribe,
        Unsubscribe: _on_unsubscribe,
        Begin: _on_begin,
        Commit: _on_commit,
        Abort: _on_abort,
        Disconnect: _on_disconnect,
    }


@subject.register
def _session_subject(session: StompSession) -> str | None:
    return subject(session.client)


@subject.register
def _subject(event: Event) -> str:
    destination = getattr(event, "destination", None)
    command = "ACK" if isinstance(event, Acks) else type(event).__name__.upper()
    return command + (f" {destination}" if destination else "")
