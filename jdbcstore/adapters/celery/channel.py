"""What kombu asks of a channel, in the words of the broker.

Declaring costs nothing: queues of the broker are made by their first use. A message that is published to an exchange
goes to every queue that is bound to it (`jdbcstore.adapters.celery.bindings`), and once to the exchange's topic, for
queues of a fanout exchange and for those that are one connection's own (exclusive, with an expiry, or auto-delete and
bound to a topic exchange): each connection that has bound one of these has a subscription to the topic. So Celery's
events and remote control leave nothing behind in the store, whoever dies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import count
from queue import Empty
from typing import Any, Final, Protocol

from amqp.protocol import queue_declare_ok_t
from kombu.transport import base, virtual
from kombu.utils.uuid import uuid

from jdbcstore.adapters.celery.bindings import Bindings
from jdbcstore.adapters.celery.broadcasts import Broadcasts
from jdbcstore.adapters.celery.consumption import Consumption, Delivery, ack, again, nack
from jdbcstore.adapters.celery.envelope import frame_headers, marshal, unmarshal
from jdbcstore.adapters.celery.names import Names
from jdbcstore.adapters.celery.switchboard import Switchboard
from jdbcstore.adapters.stomp_link import LinkLost, StompLink

__all__ = ["Channel", "QueueKind"]

#: How long `Channel.basic_get` waits for a message of a queue that may have none.
_GET_TIMEOUT_S: Final = 0.25

_Consumer = tuple[str, Callable[[Any], Any], bool]


@dataclass(frozen=True, slots=True)
class QueueKind:
    """How a queue was declared."""

    is_own: bool = False
    """No other connection consumes from it."""
    is_auto_delete: bool = False
    ttl_ms: int | None = None
    """How long it keeps messages; None for ever."""


#: Of a queue that was not declared here.
_USUAL: Final = QueueKind()


class QoS:
    """What kombu looks at: how many messages are not settled, and how many may be."""

    def __init__(self) -> None:
        self.prefetch_count = 0

    def can_consume(self) -> bool:
        """The broker counts."""
        return True

    def restore_unacked_once(self, stderr: object = None) -> None:
        """The broker has them all."""


class Host(Protocol):
    """What a channel uses of its connection."""

    link: StompLink
    switchboard: Switchboard
    bindings: Bindings
    broadcasts: Broadcasts
    names: Names
    queues: dict[str, QueueKind]
    """Those that were declared."""

    def has_room(self) -> None:
        """Something may be delivered that did not just come."""

    def close_channel(self, channel: Channel) -> None:
        """A channel has ended."""


class Channel(virtual.Channel):
    """One channel of a `jdbcstore.adapters.celery.transport.Transport`."""

    connection: Host
    closed: bool
    supports_fanout = True
    do_restore = False
    QoS = QoS
    from_transport_options = ("body_encoding", "deadletter_queue", "confirm_publish", "schedule_from_s")
    confirm_publish = True
    schedule_from_s = 0.0

    def __init__(self, connection: Host, **options: Any) -> None:
        super().__init__(connection, **options)
        self._qos = QoS()
        self._tags = count(1)
        self._consuming: dict[str, _Consumer] = {}
        self._consumptions: dict[str, Consumption] = {}
        self._unsettled: dict[int, Delivery] = {}
        self._exclusive: set[str] = set()

    # -- queues and exchanges --------------------------------------------------------------------------------------

    def prepare_queue_arguments(self, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
        """As RabbitMQ has them: ``x-expires``, ``x-message-ttl``."""
        prepared: dict[str, Any] = base.to_rabbitmq_queue_arguments(arguments, **options)
        return prepared

    def queue_declare(self, queue: str | None = None, passive: bool = False, **options: Any) -> queue_declare_ok_t:
        """Remember what kind of a queue it is. Its messages are counted only if `passive`."""
        queue = queue or f"amq.gen-{uuid()}"
        if passive:
            return queue_declare_ok_t(queue, self._size(queue), 0)
        arguments = options.get("arguments") or {}
        kind = QueueKind(
            is_own=bool(options.get("exclusive")) or "x-expires" in arguments,
            is_auto_delete=bool(options.get("auto_delete")),
            ttl_ms=arguments.get("x-message-ttl"),
        )
        self.connection.queues[queue] = kind
        if options.get("exclusive"):
            self._exclusive.add(queue)
        return queue_declare_ok_t(queue, 0, 0)

    def queue_bind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", arguments: Any = None, **options: Any
    ) -> None:
        """Bind a queue: for all who publish, or for this connection."""
        exchange = exchange or "amq.direct"
        if self._is_by_topic(queue, exchange):
            ttl_ms = self.connection.queues.get(queue, _USUAL).ttl_ms
            self.connection.broadcasts.bind(queue, ttl_ms, self.typeof(exchange), exchange, routing_key)
        else:
            self.connection.bindings.add(exchange, (routing_key, queue))

    def _is_by_topic(self, queue: str, exchange: str) -> bool:
        kind = self.connection.queues.get(queue, _USUAL)
        type_ = self.typeof(exchange).type
        return kind.is_own or type_ == "fanout" or (kind.is_auto_delete and type_ == "topic")

    def queue_unbind(
        self, queue: str, exchange: str | None = None, routing_key: str = "", arguments: Any = None, **options: Any
    ) -> None:
        """Undo `queue_bind`."""
        exchange = exchange or "amq.direct"
        if not self.connection.broadcasts.unbind(queue, exchange, routing_key):
            self.connection.bindings.remove(exchange, queue, routing_key)

    def get_table(self, exchange: str) -> list[tuple[str, str | None, str]]:
        """The bindings of an exchange, as kombu's exchange types look them up."""
        prepare = self.typeof(exchange).prepare_bind
        return [prepare(queue, exchange, key, None) for key, queue in self.connection.bindings.of(exchange)]

    def queue_delete(self, queue: str, if_unused: bool = False, if_empty: bool = False, **options: Any) -> None:
        """Remove what is in a queue, and its bindings to exchanges that this connection has declared."""
        if if_empty and self._size(queue):
            return
        self._delete(queue)

    def _delete(self, queue: str, *args: Any, **options: Any) -> None:
        self.connection.broadcasts.forget(queue)
        for exchange in list(self.state.exchanges):
            if self.typeof(exchange).type != "fanout":
                self.connection.bindings.remove(exchange, queue)
        self.connection.queues.pop(queue, None)
        self._purge(queue)

    def _size(self, queue: str) -> int:
        return len(self.connection.switchboard.browse(self.connection.names.queue(queue)))

    def _purge(self, queue: str) -> int:
        return self.connection.switchboard.drop(self.connection.names.queue(queue), self._size(queue))

    def _has_queue(self, queue: str, **options: Any) -> bool:
        return True

    # -- publishing --------------------------------------------------------------------------------------------------

    def encode_body(self, body: Any, encoding: str | None = None) -> tuple[Any, str | None]:
        """Text stays what it is, so that it can be read in the store."""
        if isinstance(body, str):
            return body, "utf-8"
        encoded: tuple[Any, str | None] = super().encode_body(body, encoding or "base64")
        return encoded

    def _next_delivery_tag(self) -> None:
        """None: each delivery gets its tag where it comes out."""

    def basic_publish(self, message: dict[str, Any], exchange: str, routing_key: str, **options: Any) -> None:
        """Publish; returns when all its copies are in the store."""
        self._inplace_augment_message(message, exchange, routing_key)
        if not exchange:
            self._put(routing_key, message)
        else:
            is_fanout = self.typeof(exchange).type == "fanout"
            self._put_fanout(exchange, message, routing_key, is_confirmed=is_fanout and self.confirm_publish)
            if not is_fanout:
                for queue in self._lookup(exchange, routing_key):
                    self._put(queue, message)
        self.connection.has_room()  # while it waited for receipts, messages may have come

    def _put(self, queue: str, message: dict[str, Any], **options: Any) -> None:
        ttl_ms = self.connection.queues.get(queue, _USUAL).ttl_ms
        frame = ("SEND", self._headers(self.connection.names.queue(queue), message, ttl_ms), marshal(message))
        if self.confirm_publish:
            self.connection.link.request(frame)
        else:
            self.connection.link.send(frame)

    def _put_fanout(
        self, exchange: str, message: dict[str, Any], routing_key: str, *, is_confirmed: bool = False
    ) -> None:
        headers = self._headers(self.connection.names.exchange(exchange), message, None)
        headers["persistent"] = "false"
        frame = ("SEND", headers, marshal(message))
        if is_confirmed:  # what is published next, by whatever connection, comes after it
            self.connection.link.request(frame)
        else:
            self.connection.link.send(frame)

    def _headers(self, destination: str, message: dict[str, Any], ttl_ms: int | None) -> dict[str, str]:
        headers = frame_headers(message, ttl_ms, self.schedule_from_s)
        headers["destination"] = destination
        return headers

    # -- consuming ---------------------------------------------------------------------------------------------------

    def consumption(self, queue: str) -> Consumption:
        """What this connection knows of the queue's messages."""
        found = self._consumptions.get(queue)
        if found is None:
            transport = self.connection
            found = Consumption(transport.switchboard, queue, transport.names.queue(queue))
            self._consumptions[queue] = found
        return found

    def basic_consume(
        self, queue: str, no_ack: bool, callback: Callable[[Any], Any], consumer_tag: str, **options: Any
    ) -> None:
        """Have the messages of a queue delivered to `callback`, by `Transport.drain_events`."""
        self._consuming[consumer_tag] = (queue, callback, no_ack)
        self.consumption(queue).grant(self._qos.prefetch_count)
        self.connection.has_room()

    def basic_cancel(self, consumer_tag: str) -> None:
        """End a consumer. What it has not settled stays its own."""
        queue, _, _ = self._consuming.pop(consumer_tag, (None, None, None))
        if queue is None or self._consumer_of(queue) is not None:
            return
        self.consumption(queue).cancel()
        if queue in self._exclusive:
            self._exclusive.discard(queue)
            self._delete(queue)

    def _consumer_of(self, queue: str) -> _Consumer | None:
        consuming = list(self._consuming.values())  # other threads ask when they acknowledge
        return next((consumer for consumer in consuming if consumer[0] == queue), None)

    def basic_qos(self, prefetch_size: int = 0, prefetch_count: int = 0, apply_global: bool = False) -> None:
        """How many messages of each queue may be unsettled; 0 is no limit."""
        self._qos.prefetch_count = prefetch_count or 0
        self.grant()

    def grant(self) -> None:
        """Have the broker send what may be here."""
        for queue in {queue for queue, _, _ in self._consuming.values()}:
            self.consumption(queue).grant(self._qos.prefetch_count)

    @property
    def is_fresh(self) -> bool:
        """Whether what had waited in one of its queues begins to come."""
        return any(consumption.is_fresh for consumption in self._consumptions.values())

    def ready(self) -> list[Delivery]:
        """What can be handed over now, in the order in which it came."""
        found: list[Delivery] = []
        limit = self._qos.prefetch_count
        for queue in dict.fromkeys(queue for queue, _, _ in self._consuming.values()):
            consumption = self.consumption(queue)
            room = max(limit - len(consumption.unsettled), 0) if limit else len(consumption.ready)
            ready = sorted(consumption.ready, key=lambda delivery: -delivery.priority)
            found += [*self.connection.broadcasts.of(queue), *ready[:room]]
        return found

    def hand_over(self, delivery: Delivery) -> bool:
        """Deliver to the queue's consumer; False if there is none any more."""
        queue, consumption = delivery.queue, delivery.consumption
        consumer = self._consumer_of(queue)
        waiting = self.connection.broadcasts.of(queue) if consumption is None else consumption.ready
        if consumer is None or delivery not in waiting:
            return False
        waiting.remove(delivery)
        _, callback, no_ack = consumer
        callback(self._message(delivery, no_ack))
        return True

    def _message(self, delivery: Delivery, no_ack: bool) -> Any:
        tag = next(self._tags)
        if delivery.consumption is not None:
            delivery.consumption.handed_over(tag)
        self._unsettled[tag] = delivery
        message = self.Message(unmarshal(delivery.frame, tag, delivery.queue), channel=self)
        if no_ack:
            self.basic_ack(tag)
        return message

    def basic_get(self, queue: str, no_ack: bool = False, **options: Any) -> Any:
        """The next message of a queue, None if there is none."""
        consumption = self.consumption(queue)
        had = consumption.is_subscribed
        consumption.grant(len(consumption.unsettled) + 1)  # what was got before may not be acknowledged yet
        if not self.connection.switchboard.wait(lambda: bool(consumption.ready), _GET_TIMEOUT_S):
            if not had:
                consumption.end()
            return None
        return self._message(consumption.ready.popleft(), no_ack)

    # -- settling ----------------------------------------------------------------------------------------------------

    def _check_open(self) -> None:
        if self.connection is None:
            raise LinkLost("the connection of this channel is closed: what was not acknowledged is delivered again")

    def basic_ack(self, delivery_tag: int, multiple: bool = False) -> None:
        """It was consumed; with `multiple` all up to it were. Any thread may say so.

        Raises:
            LinkLost: the connection is gone, and the message is delivered again.
        """
        self._check_open()
        for tag in [tag for tag in self._unsettled if tag <= delivery_tag] if multiple else [delivery_tag]:
            delivery = self._unsettled.pop(tag, None)
            if delivery is not None and delivery.consumption is not None:
                self._settle(tag, delivery.consumption, [ack(delivery)])

    def basic_reject(self, delivery_tag: int, requeue: bool = False) -> None:
        """It was not consumed: it goes to the end of its queue, or becomes a dead letter.

        Raises:
            LinkLost: the connection is gone, and the message is delivered again.
        """
        self._check_open()
        delivery = self._unsettled.pop(delivery_tag, None)
        if delivery is None:
            return
        if delivery.consumption is None:
            if requeue:
                self.connection.broadcasts.put_back(delivery)
        elif requeue:
            with self.connection.switchboard.transaction(f"requeue-{uuid()}") as frames:
                frames += [again(delivery), ack(delivery)]
            self._settle(delivery_tag, delivery.consumption, [])
        else:
            self._settle(delivery_tag, delivery.consumption, [nack(delivery)])

    def _settle(self, tag: int, consumption: Consumption, frames: list[Any]) -> None:
        consumption.settle(tag, frames, is_last=self._consumer_of(consumption.queue) is None)
        self.connection.has_room()

    def basic_recover(self, requeue: bool = False) -> None:
        """Put all that is unsettled back."""
        for tag in list(self._unsettled):
            self.basic_reject(tag, requeue=True)

    # -- its end -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """End all consumers; what is not settled goes back to its place."""
        if self.closed:
            return
        self.closed = True
        self._unsettled.clear()
        self._consuming.clear()
        transport, self.exchange_types = self.connection, None
        if transport is not None:
            try:
                if transport.link.is_open:
                    for consumption in self._consumptions.values():
                        consumption.end()
                    for queue in self._exclusive:
                        transport.switchboard.drop(transport.names.queue(queue), self._size(queue))
            finally:
                transport.close_channel(self)

    def drain_events(self, timeout: float | None = None, callback: Any = None) -> None:
        """The transport drains all channels together."""
        raise Empty
