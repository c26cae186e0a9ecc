"""A session: one OpenWire client. What it asks for becomes calls of the broker's face (`jdbcstore.broker.client`); what
the broker says becomes commands.

A command with ``responseRequired`` is answered when what it asked for is done: for a persistent message that is after
the store's commit, never before. If it fails the answer is an ExceptionResponse instead. What fails without anybody
waiting for it is told by a ConnectionError, and a transaction that it was part of cannot be committed any more. The
connection goes on in either case; only errors of the protocol itself end it.

Frames are written in the order in which they are made: the caches of both sides depend on it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar

from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.memory import Memory
from jdbcstore.broker.phase import Phase
from jdbcstore.broker.producers import Number
from jdbcstore.broker.security.login import Credentials
from jdbcstore.broker.statistics import STATISTICS_PREFIX
from jdbcstore.broker.watchdog import subject
from jdbcstore.destination import Destination
from jdbcstore.errors import ClientIdTaken, CodecError, JdbcStoreError, LockError, ProtocolError, StoreClosed
from jdbcstore.identifiers import (
    BrokerId,
    ConnectionId,
    ConsumerId,
    MessageId,
    ProducerId,
    SessionId,
    XATransactionId,
)
from jdbcstore.message import Message
from jdbcstore.openwire import commands as c
from jdbcstore.openwire.fields import MESSAGES
from jdbcstore.openwire.object_cache import FREE_SLOTS, SLOT_BYTES
from jdbcstore.openwire.protocol import Command, Event, Failure, OpenWireConnection
from jdbcstore.openwire.wire_format import WireFormat
from jdbcstore.subscription import SubscriptionKey
from jdbcstore.transport.conversation import Conversation
from jdbcstore.transport.openwire.acknowledgement import acknowledge, number_of, unseen
from jdbcstore.transport.openwire.delivery_names import OpenWireNames
from jdbcstore.transport.openwire.exceptions import JavaError, is_end_of_service, throwable_of
from jdbcstore.transport.openwire.registry import Registry
from jdbcstore.transport.openwire.subscription import Subscription, subscription_request
from jdbcstore.transport.openwire.transactions import XaRequest, handle_transaction, not_started
from jdbcstore.transport.wire import Wire
from jdbcstore.version import VERSION

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["OpenWireSession"]

log = logging.getLogger(__name__)

_Id = TypeVar("_Id", ConsumerId, ProducerId, SessionId)

#: What ends the broker's service, whatever the options say.
_NOT_MASTER: Final = (LockError, StoreClosed)

#: What a message counts in a producer's window besides its properties and body, as clients count it.
_MESSAGE_BYTES: Final = 1024

#: How long a client may take from its WireFormatInfo to its ConnectionInfo, which Java sends with the first session.
_LOGIN_S: Final = 60.0

#: How long a client may take to close its socket after its last word, or after it was refused.
_SHUTDOWN_S: Final = 2.0

#: Producers of one connection that want a ProducerAck.
_WINDOWS_MAX: Final = 10_000

#: Slots of a connection's object cache: as many as with ActiveMQ, fewer where there are many connections, and none
#: where it would be a few: writers keep `FREE_SLOTS` empty.
_CACHE_SLOTS_MAX: Final = 1024
_CACHE_SLOTS_LEAST: Final = 2 * FREE_SLOTS
#: What a slot usually takes in memory, in both directions.
_CACHE_SLOT_BYTES: Final = SLOT_BYTES + 160

# `DestinationInfo.operation_type`
_ADD: Final = 0
_REMOVE: Final = 1


class OpenWireSession(Conversation[Event]):
    """One client.

    Args:
        broker: whom it talks to.
        wire: its socket.

    Attributes:
        client: what it is to the broker.
    """

    protocol = "OpenWire"

    def __init__(self, broker: Broker, wire: Wire) -> None:
        options = broker.options
        cache_size = _cache_size(broker.memory)
        self._names = OpenWireNames()
        self._openwire = OpenWireConnection(
            WireFormat(
                cache_enabled=cache_size > 0,
                cache_size=cache_size,
                max_frame_size=options.openwire_frame_bytes_max,
                max_inactivity_ms=options.openwire_inactivity_ms,
                max_inactivity_initial_delay_ms=options.openwire_inactivity_initial_delay_ms,
                provider_name="jdbcstore",
                provider_version=VERSION,
                platform_details="Python",
            )
        )
        super().__init__(broker, wire, self._names, self._openwire)
        self._frames: list[bytes] = [self._openwire.start()]
        self._login_timer: asyncio.TimerHandle | None = None
        #: Whether the socket closes when everything is written.
        self._is_closing = False
        #: Whether the client sends again what it has heard no answer for when it has lost its broker, and whether that
        #: has happened before this connection.
        self._is_numbered = self._is_reconnected = False
        #: What it has made.
        self._registry = Registry(self.client.account, None, broker.options)
        #: Windows of producers that have one.
        self._windows: dict[ProducerId, int] = {}
        #: What is counted for the values that the client has put into its cache.
        self._cached_bytes = 0
        #: Whether no ConnectionInfo has come.
        self._is_stranger = True
        self.talk()

    # -- the protocol ------------------------------------------------------------------------------------------------

    def _read(self, data: bytes, frames_max: int) -> Sequence[Event]:
        events = self._openwire.receive(data, frames_max)
        if answer := self._openwire.data_to_send():
            self._frames.append(answer)
        if self._openwire.cached_bytes > self._cached_bytes:
            self._count_read()
            self._count_cached(self._openwire.cached_bytes)
        return events

    def _count_cached(self, size: int) -> None:
        try:
            self.client.account.keep(size - self._cached_bytes, "The object cache", "Connect with cacheEnabled=false")
        except ProtocolError as error:  # the slots are the client's: without one of them it cannot be understood
            self._refuse(None, error, is_fatal=True)
        else:
            self._cached_bytes = size

    def _size_of(self, event: Event) -> int:
        return event.size if isinstance(event, Message) else 0

    def _output(self) -> bytes:
        data = b"".join(self._frames)
        self._frames.clear()
        return data

    @property
    def _has_output(self) -> bool:
        return bool(self._frames)

    @property
    def _is_said(self) -> bool:
        return self._is_closing or self._openwire.close_expected

    def _failed(self, error: Exception, event: Event | None) -> None:
        told, is_fatal = self.client.error_of(error, type(event).__name__)
        request = None
        if isinstance(event, c.BaseCommand | Message):
            if event.response_required:
                request = event.command_id
            elif isinstance(event, c.MessageAck | Message) and event.transaction_id is not None:
                self.client.producer.spoil(event.transaction_id.name, told, is_send=isinstance(event, Message))
        self._refuse(request, told, is_fatal=is_fatal)

    def _say(self, command: Command) -> None:
        """Queue a command for the client."""
        try:
            frame = self._openwire.send(command)
        except CodecError as error:  # whoever says something has others to say it to
            self._cannot_say(error)
            return
        self._frames.append(frame)
        if not self._is_talking:
            self.talk()

    def _cannot_say(self, error: CodecError) -> None:
        """What the client has to hear it cannot be told, so the connection cannot go on."""
        log.warning("client cannot be answered, closing peer=%s error=%r", self.peer, str(error))
        self._end()

    def beat(self) -> None:
        """Send a sign of life."""
        if not self.client.consumers.is_choked:
            self._say(c.KeepAliveInfo())

    def _respond(self, command: c.BaseCommand | Message) -> None:
        """What a command asked for is done."""
        if command.response_required:
            self._done(command.command_id)

    def _done(self, command_id: int) -> None:
        if not self.client.is_closed:
            self._say(c.Response(correlation_id=command_id))

    def _ends_with(self, error: BaseException) -> bool:
        """Whether the connection ends with an error, and does so: as with ActiveMQ nobody is answered when the service
        ends, clients that know another broker ask that one the same."""
        is_end = is_end_of_service(error) and (
            isinstance(error, _NOT_MASTER) or self._options.on_store_failure != "ignore"
        )
        if is_end:
            log.info("closing a connection without an answer peer=%s error=%r", self.peer, str(error))
            self._end()
        return is_end

    def _refuse(self, request: object, error: BaseException, *, is_fatal: bool = False) -> None:
        """Tell the client that something has failed."""
        if self.client.is_closed or self._ends_with(error):
            return
        exception = throwable_of(error)
        if isinstance(request, int):
            self._say(c.ExceptionResponse(correlation_id=request, exception=exception))
        elif self._openwire.agreed is not None:
            self._say(c.ConnectionError(exception=exception))
        if is_fatal:
            self._end()

    def _end(self) -> None:
        """The last word is said: the client is not listened to any more."""
        self._is_closing = True
        super()._end()

    # -- what the broker says --------------------------------------------------------------------------------------

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send a message to the client. Raises CodecError if its frame cannot be written."""
        message = delivery.message
        if message is None:
            raise ValueError(f"{delivery!r} holds no message")
        subscription: Any = consumer.tag
        dispatch = c.MessageDispatch(
            consumer_id=subscription.consumer_id,
            destination=message.destination,
            message=message,
            redelivery_counter=delivery.redeliveries,
        )
        message.broker_out_time = self._broker.now_ms()
        message_id, redeliveries = message.message_id, message.redelivery_counter
        try:
            message.redelivery_counter = delivery.redeliveries
            if not delivery.message_id.broker_sequence_id and delivery.lane is not None:
                # Clients say by this number how far they have come, and the store gave it none.
                message.message_id = delivery.message_id.copy()
                message.message_id.broker_sequence_id = number_of(delivery)
            data = self._openwire.send(dispatch)
        except CodecError as error:
            if not self._openwire.close_expected:
                raise
            # The frame is larger than the client takes. Others may take it, so it is given back with all the others.
            self._cannot_say(error)
            data = b""
        finally:
            message.message_id, message.redelivery_counter = message_id, redeliveries  # others have the message, too
        if not data:
            delivery.is_counted = False
        self._frames.append(data)
        self._delivered(len(data))

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """Response, ExceptionResponse or ConnectionError: a request is the id of a command whose sender waits, or the
        ProducerAck that is due."""
        if isinstance(request, XaRequest):
            self._answer_xa(request, error)
        elif error is not None:
            self._refuse(request, error, is_fatal=is_fatal)
        elif isinstance(request, int):
            self._done(request)
        elif isinstance(request, c.ProducerAck) and not self.client.is_closed:
            self._say(request)

    def _answer_xa(self, request: XaRequest, error: BaseException | None) -> None:
        if self.client.is_closed or (error is not None and self._ends_with(error)):
            return
        answer = request.response(error)
        if answer is None and error is not None:
            self._refuse(None, error)
        elif answer is not None:
            self._say(answer)

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything: tell the client."""
        subscription: Any = consumer.tag
        self._say(c.MessageDispatch(consumer_id=subscription.consumer_id, destination=subscription.destination))

    def dismiss(self, text: str) -> None:
        """End the connection. Who can go to another broker does, and hears no error."""
        if self._broker.is_running and self._openwire.agreed is not None:
            self._say(c.ConnectionError(exception=throwable_of(ProtocolError(text))))
        self._end()

    def closed(self) -> None:
        """The client is gone."""
        if not self.client.is_closed:
            return  # it was the one before
        self._openwire.close()  # the object may live on for a while
        self._unheard.clear()
        self._frames.clear()
        if self._login_timer is not None:
            self._login_timer.cancel()

    # -- the connection --------------------------------------------------------------------------------------------

    def _on_failure(self, failure: Failure) -> None:
        log.info("protocol error, closing peer=%s error=%r", self.peer, str(failure.error))
        self._end()
        self._wire.pause()  # what comes behind it is for nobody

    def _on_wire_format(self, _: c.WireFormatInfo) -> None:
        agreed = self._openwire.agreed
        assert agreed is not None
        silence_ms = agreed.max_inactivity_ms
        self._wire.beat(silence_ms // 3, silence_ms // 2, agreed.max_inactivity_initial_delay_ms)
        self._login_timer = self._broker.loop.call_later(_LOGIN_S, self._login_timed_out)
        broker = self._broker
        self._say(
            c.BrokerInfo(
                broker_id=BrokerId(broker.id_stem),
                broker_url=broker.origin_url,
                broker_name=broker.options.broker_name,
                peer_broker_infos=(),
            )
        )

    def _login_timed_out(self) -> None:
        if self._is_stranger and not self.client.is_closed:
            log.info("no ConnectionInfo, closing peer=%s", self.peer)
            self._end()

    def _on_connection(self, info: c.ConnectionInfo) -> None:
        if info.connection_id is None or not info.connection_id.value:
            raise ProtocolError("a ConnectionInfo needs a connection id", fatal=True)
        if self.client.is_open:
            self._connected_again(info)
            return
        if self.client.phase is Phase.LEAVING:
            self._begin_anew(info)
            return
        self._is_stranger = False
        certificate = self._wire.peer_certificate
        subject_name = None if certificate is None else certificate.subject
        credentials = Credentials(info.user_name, info.password, subject_name, self._wire.is_encrypted)
        decided = partial(self._decided, info)
        told = replace(info, password=None, broker_path=None)
        self.client.open(info.client_id or None, credentials, decided, info.connection_id.value, told)

    def _connected_again(self, info: c.ConnectionInfo) -> None:
        """A connection that is open says who it is for the second time: its client id is taken, by itself."""
        client_id = self.client.client_id
        if info.connection_id != ConnectionId(self.client.connection_id):
            raise ProtocolError(f"this is connection {self.client.connection_id} already")
        if info.client_id is None or info.client_id != client_id:
            self._respond(info)
            return
        name = self._options.broker_name
        self._decided(info, ClientIdTaken(f"Broker: {name} - Client: {client_id} already connected from {self.peer}"))

    def _begin_anew(self, info: c.ConnectionInfo) -> None:
        """The client has given its connection up, and opens another one over the same socket, as pools of connections
        do: ``ActiveMQConnection.cleanup``."""
        last = self.client
        if not last.has_all_answers():
            self._again(info)
            return
        self.client = client = Client(self._broker, self, self._names)
        self._broker.clients.add(client)
        self._windows.clear()
        client.hold()
        last.hold()  # so that what stands behind the ConnectionInfo is not heard before it is answered

        def gone(_: bool) -> None:
            if not client.is_over:
                self._do(type(self)._on_connection, info)
            client.let_go()

        last.when_gone(gone)
        last.close()

    def _decided(self, info: c.ConnectionInfo, refusal: JdbcStoreError | None) -> None:
        if refusal is not None:
            self._refuse(info.command_id if info.response_required else None, refusal)
            self._end_soon()
            return
        self._is_numbered, self._is_reconnected = info.fault_tolerant, info.failover_reconnect
        self._registry = Registry(self.client.account, self.client.connection_id, self._options)
        self.client.producer.numbering.is_strict = False
        log.debug("client connected peer=%s id=%s", self.peer, self.client.connection_id)
        if info.manageable:
            self._say(c.ConnectionControl())
        self._respond(info)

    def _on_shutdown(self, _: c.ShutdownInfo) -> None:
        self._end_soon()

    def _end_soon(self) -> None:
        """The client closes the socket itself: if we were first, some would take it for a failure, and connect anew."""
        self._is_deaf = True
        self._broker.loop.call_later(_SHUTDOWN_S, self._end_late)

    def _end_late(self) -> None:
        if not self.client.is_closed:
            self._end()

    def _nothing(self, command: c.BaseCommand) -> None:
        """There is nothing to be done."""
        self._respond(command)

    # -- closing ---------------------------------------------------------------------------------------------------

    def _on_remove(self, info: c.RemoveInfo) -> None:
        removed = info.object_id
        last = info.last_delivered_sequence_id
        request = info.command_id if info.response_required else None
        if isinstance(removed, ConsumerId):
            self._unregister(self._registry.remove_consumer, removed)
            key = str(removed)
            consumer = self.client.consumers.by_key.get(key)
            if consumer is None:
                self._respond(info)
            else:
                self.client.consumers.unsubscribe(key, request, unseen(consumer, last))
        elif isinstance(removed, ConnectionId):
            for consumer in self.client.consumers.by_key.values():
                for delivery in unseen(consumer, last):
                    delivery.is_counted = False
            self._registry = Registry(self.client.account, None, self._options)
            self.client.leave(request, partial(self._respond, info))
        else:
            if isinstance(removed, ProducerId):
                self._unregister(self._registry.remove_producer, removed)
                self._windows.pop(removed, None)
                self.client.remove_producers(removed.__eq__)
            elif isinstance(removed, SessionId):
                self._unregister(self._registry.remove_session, removed)
                self._remove_session(removed, last)
            self._respond(info)

    def _check_connected(self, what: str) -> None:
        """Raises JavaError that says what cannot be done if the client has given its connection up."""
        if self.client.phase is Phase.LEAVING:
            text = f"{what} a connection that had not been registered: {self.client.connection_id}"
            raise JavaError("java.lang.IllegalStateException", text)

    def _unregister(self, remove: Callable[[_Id], None], removed: _Id) -> None:
        """Something ends. Raises JavaError if there is no such thing, unless a client that has lost its broker may say
        it for the second time."""
        try:
            remove(removed)
        except JavaError:
            if not self._is_reconnected:
                raise

    def _remove_session(self, session_id: SessionId, last: int) -> None:
        gone = (session_id.connection_id, session_id.value)
        self.client.remove_producers(lambda producer: (producer.connection_id, producer.session_id) == gone)
        consumers = self.client.consumers
        for key, consumer in list(consumers.by_key.items()):
            subscription: Any = consumer.tag
            consumer_id = subscription.consumer_id
            if (consumer_id.connection_id, consumer_id.session_id) == (session_id.connection_id, session_id.value):
                consumers.unsubscribe(key, None, unseen(consumer, last))

    def _on_session(self, info: c.SessionInfo) -> None:
        if info.session_id is None:
            raise ProtocolError("a SessionInfo needs a session id")
        self._registry.add_session(info.session_id)
        self._respond(info)

    # -- producers ---------------------------------------------------------------------------------------------------

    def _on_producer(self, info: c.ProducerInfo) -> None:
        if info.producer_id is None:
            raise ProtocolError("a ProducerInfo needs a producer id")
        self._check_connected("Cannot add a producer to")
        if self._registry.add_producer(info.producer_id, info.destination):
            try:
                self._begin_producer(info, info.producer_id)
            except JdbcStoreError:
                self._registry.remove_producer(info.producer_id)
                raise
        self._respond(info)

    def _begin_producer(self, info: c.ProducerInfo, producer_id: ProducerId) -> None:
        if info.destination is not None:
            self.client.use_destination(info.destination)
        if info.window_size > 0:
            if len(self._windows) >= _WINDOWS_MAX:
                raise ProtocolError(f"a connection has at most {_WINDOWS_MAX} producers with a window: close one first")
            self._windows[producer_id] = info.window_size
        if info.destination is not None:
            self.client.add_producer(producer_id, info.destination, replace(info, broker_path=None))
        if self._is_numbered and not self._is_reconnected:
            self.client.introduce(producer_id)

    def _on_message(self, message: Message) -> None:
        memory, client = self._memory, self.client
        destination, message_id = message.destination, message.message_id
        if destination is None or message_id is None or message_id.producer_id is None:
            raise ProtocolError("a message needs a destination and a message id with a producer")
        transaction = None if message.transaction_id is None else message.transaction_id.name
        if transaction is not None and transaction not in client.transactions:
            raise not_started(message.transaction_id)
        if message.producer_id not in self._registry.producers:
            self._check_connected("Cannot lookup a producer from")
            if not self._is_reconnected:
                raise ProtocolError(f"Cannot send message to {destination} with invalid (null) producer state")
        if (memory.uncommitted > memory.uncommitted_max or memory.is_short) and not client.producer.may_send(
            is_persistent=message.persistent,
            is_temporary=destination.is_temporary,
            is_in_transaction=transaction is not None,
        ):
            self._again(message)
            return
        message.broker_in_time = self._broker.now_ms()
        request = self._request_of(message)
        number = self._number_of(message, message_id, destination) if self._is_numbered else None
        if number is not None:
            if not client.producer.send_numbered(number, lambda: message, request, transaction, is_gathered=True):
                self._again(message)
            return
        if transaction is None:
            client.producer.gather(message, request)
        else:
            client.producer.send(message, request, transaction)

    def _number_of(self, message: Message, message_id: MessageId, destination: Destination) -> Number | None:
        """What names a message that has to be stored once if it comes twice; None if it has not."""
        if (
            message_id.producer_id is None
            or not message.persistent
            or destination.is_temporary
            or isinstance(message.transaction_id, XATransactionId)
            or self._broker.scheduler.is_management(destination)
            or (self._options.statistics_support and destination.physical_name.startswith(STATISTICS_PREFIX))
        ):
            return None
        return message_id.producer_id, message_id.producer_sequence_id

    def _request_of(self, message: Message) -> object:
        """Who waits for a message to be safe."""
        if message.response_required:
            return message.command_id
        if self._windows and message.producer_id in self._windows:
            size = _MESSAGE_BYTES + len(message.content or b"") + len(message.marshalled_properties or b"")
            return c.ProducerAck(producer_id=message.producer_id, size=size)
        return None

    # -- consumers ---------------------------------------------------------------------------------------------------

    def _on_consumer(self, info: c.ConsumerInfo) -> None:
        if info.consumer_id is None or info.destination is None:
            raise ProtocolError("a ConsumerInfo needs a consumer id and a destination")
        self._check_connected("Cannot add a consumer to")
        if info.browser and not self.client.has_all_answers():
            self._again(info)  # it shows what is stored, and what was sent before is to be among that
            return
        if not self._registry.add_consumer(info.consumer_id) and str(info.consumer_id) in self.client.consumers.by_key:
            self._respond(info)
            return
        # Of what is kept as long as the consumer this is the part that has no limit, and is for networks of brokers.
        info.broker_path = info.network_consumer_path = info.additional_predicate = None
        subscription = Subscription(info.consumer_id, info.destination, info)
        wanted = subscription_request(subscription, info.prefetch_size)
        self._tell_prefetch(subscription, info.prefetch_size, self.client.consumers.prefetch_for(wanted))
        try:
            self.client.consumers.subscribe(wanted, info.command_id if info.response_required else None)
        except JdbcStoreError:
            self._registry.remove_consumer(info.consumer_id)
            raise

    def _tell_prefetch(self, subscription: Subscription, asked: int, prefetch: int) -> None:
        """Tell a client that it has to ask for each message, if it does not know, before it is answered."""
        if asked > 0 and not prefetch:
            self._say(c.ConsumerControl(consumer_id=subscription.consumer_id, prefetch=0))

    def _on_pull(self, pull: c.MessagePull) -> None:
        consumer = self.client.consumers.by_key.get(str(pull.consumer_id))
        if consumer is None:
            text = f"The subscription does not exist: {pull.consumer_id}"
            raise JavaError("java.lang.IllegalArgumentException", text)
        self.client.consumers.pull(consumer, pull.timeout, partial(self.browsed, consumer))
        self._respond(pull)

    def _on_consumer_control(self, control: c.ConsumerControl) -> None:
        key = str(control.consumer_id)
        consumer = self.client.consumers.by_key.get(key)
        if consumer is not None and control.close:
            self.client.consumers.unsubscribe(key, None)
        elif consumer is not None:
            subscription: Any = consumer.tag
            prefetch = self.client.consumers.prefetch_for(subscription_request(subscription, control.prefetch))
            self._tell_prefetch(subscription, control.prefetch, prefetch)
            self.client.consumers.change_prefetch(consumer, prefetch)
        self._respond(control)

    def _on_remove_subscription(self, info: c.RemoveSubscriptionInfo) -> None:
        self._check_connected("Cannot remove a subscription by")
        key = SubscriptionKey(info.client_id or self.client.client_id or "", info.subscription_name or "")
        self.client.consumers.remove_durable(key, info.command_id if info.response_required else None)

    def _on_ack(self, ack: c.MessageAck) -> None:
        request = ack.command_id if ack.response_required else None
        if not acknowledge(self.client, self._names, ack, request, is_reconnected=self._is_reconnected):
            self._respond(ack)

    # -- transactions --------------------------------------------------------------------------------------------

    def _on_transaction(self, info: c.TransactionInfo) -> None:
        self._check_connected("Cannot have a transaction of")
        transactions = self.client.transactions
        if not handle_transaction(info, transactions, self._say, is_reconnected=self._is_reconnected):
            self._again(info)

    # -- destinations ----------------------------------------------------------------------------------------------

    def _on_destination(self, info: c.DestinationInfo) -> None:
        destination = info.destination
        if destination is None:
            raise ProtocolError("a DestinationInfo needs a destination")
        self._check_connected("Cannot add or remove a destination of")
        if info.operation_type == _REMOVE and not destination.is_temporary:
            self.client.remove_destination(destination, info.command_id if info.response_required else None)
            return
        if info.operation_type not in (_ADD, _REMOVE):
            raise JavaError("java.io.IOException", f"Unknown operation type: {info.operation_type}")
        if destination.is_temporary:
            if info.operation_type == _REMOVE:
                if self._broker.knows_temporary(destination):  # it may be deleted twice
                    self.client.temporaries.remove(destination)
            else:
                self.client.temporaries.add(destination)
        self._respond(info)

    _ACKS = frozenset({c.MessageAck})
    _GATHERED = frozenset(MESSAGES)
    _HANDLERS: ClassVar[Mapping[type[Any], Callable[[OpenWireSession, Any], None]]] = {
        **dict.fromkeys(MESSAGES, _on_message),
        Failure: _on_failure,
        c.WireFormatInfo: _on_wire_format,
        c.ConnectionInfo: _on_connection,
        c.SessionInfo: _on_session,
        c.ProducerInfo: _on_producer,
        c.ConsumerInfo: _on_consumer,
        c.MessageAck: _on_ack,
        c.MessagePull: _on_pull,
        c.ConsumerControl: _on_consumer_control,
        c.TransactionInfo: _on_transaction,
        c.DestinationInfo: _on_destination,
        c.RemoveInfo: _on_remove,
        c.RemoveSubscriptionInfo: _on_remove_subscription,
        c.ShutdownInfo: _on_shutdown,
        **dict.fromkeys(
            (
                c.BrokerInfo,
                c.BrokerSubscriptionInfo,
                c.ConnectionControl,
                c.ConnectionError,
                c.ControlCommand,
                c.FlushCommand,
                c.Response,
                c.ExceptionResponse,
                c.DataArrayResponse,
                c.DataResponse,
                c.IntegerResponse,
                c.MessageDispatch,
                c.MessageDispatchNotification,
                c.ProducerAck,
            ),
            _nothing,
        ),
    }


def _cache_size(memory: Memory) -> int:
    """Slots of the object cache of one connection more; 0 for no cache."""
    slots = memory.kept_max // 2 // (memory.connections + 1) // _CACHE_SLOT_BYTES
    return min(slots, _CACHE_SLOTS_MAX) if slots >= _CACHE_SLOTS_LEAST else 0


@subject.register
def _session_subject(session: OpenWireSession) -> str | None:
    return subject(session.client)
