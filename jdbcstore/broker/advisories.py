"""Advisories: topics by which the broker tells clients what happens in it, in ActiveMQ's form.

An advisory is a message without body whose ``dataStructure`` says what has happened: a subject of `jdbcstore.advisory`,
which is one of ActiveMQ's commands to clients that speak OpenWire. It is made only if somebody is subscribed to its
topic. Who subscribes to one of the first six kinds is told first what there is already. A wildcard in the
place of the kind is told only ``MasterBroker``.

All names begin with ``ActiveMQ.Advisory.``; NAME is the destination's, and stands behind ``Queue.`` or ``Topic.``, of
a temporary one behind ``TempQueue.`` or ``TempTopic.`` where the kind is in `_TYPED`.

============================== ============================================ ==========================================
topic                          tells                                        dataStructure, and a property
============================== ============================================ ==========================================
``MasterBroker``               the broker serves clients                    none
``TempQueue``, ``TempTopic``   a temporary destination is there, or gone    DestinationInfo (operation 0 or 1)
``Queue``, ``Topic``           any destination is there, or gone            the same
``Connection``                 a client has connected, or is gone           ConnectionInfo or RemoveInfo
``Consumer.Queue.NAME``        a consumer has come, or gone                 ConsumerInfo or RemoveInfo; consumerCount
``Consumer.Topic.NAME``        a durable subscription is removed           RemoveSubscriptionInfo; consumerCount
``Producer.Queue.NAME``        a producer has come, or gone                 ProducerInfo or RemoveInfo; producerCount
``Expired.Queue.NAME``         a message has expired                        the message without its body
``MessageDLQd.Queue.NAME``     a message has become a dead letter           the same
``MessageDelivered.Queue.NAME`` a message has arrived                       the same; orignalDestination
``MessageConsumed.Queue.NAME`` a consumer is done with a message            the same; orignalDestination
``SlowConsumer.Topic.NAME``    a subscriber does not keep up                its ConsumerInfo; consumerId
``MessageDiscarded.Topic.NAME`` a subscriber has lost messages              the last of them; discardedCount, consumerId
``NoConsumer.Queue.NAME``      what has come while nobody is subscribed     none: it is the message itself
============================== ============================================ ==========================================

The last five are made if the destination's policy asks for them (`DestinationPolicy`), which also says whether messages
in advisories keep their bodies.

JMS clients send to a temporary destination only if they were told that it is there. So each of their connections
subscribes to the first two.

Not made: what does not happen here (fast producers and full destinations: senders are held back by not reading from
them), and what concerns networks of brokers.

Source: ActiveMQ's AdvisoryBroker and AdvisorySupport.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Final, Protocol, TypeAlias

from jdbcstore.advisory import (
    ConnectionSubject,
    ConsumerSubject,
    DestinationSubject,
    ProducerSubject,
    RemovalSubject,
    Subject,
    SubscriptionRemovalSubject,
)
from jdbcstore.broker.delivery import Answer, Consumer
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.feed import Feed
from jdbcstore.broker.host import Host
from jdbcstore.broker.interceptors import Interceptors
from jdbcstore.broker.route import Route
from jdbcstore.broker.topic import Publisher, TopicConsumer
from jdbcstore.destination import ADVISORY_PREFIX, Destination, Topic
from jdbcstore.identifiers import ConnectionId, ConsumerId, MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.subscription import SubscriptionKey

__all__ = ["Advisories", "AdvisoryHost"]

log = logging.getLogger(__name__)

_MASTER: Final = Topic(f"{ADVISORY_PREFIX}MasterBroker")
_TEMPORARY_QUEUES: Final = Topic(f"{ADVISORY_PREFIX}TempQueue")
_TEMPORARY_TOPICS: Final = Topic(f"{ADVISORY_PREFIX}TempTopic")
_QUEUES: Final = Topic(f"{ADVISORY_PREFIX}Queue")
_TOPICS: Final = Topic(f"{ADVISORY_PREFIX}Topic")
_CONNECTIONS: Final = Topic(f"{ADVISORY_PREFIX}Connection")

#: Kinds whose names tell whether a destination is temporary.
_TYPED: Final = frozenset({"MessageDLQd", "MessageDelivered", "MessageConsumed", "MessageDiscarded", "SlowConsumer"})

#: A session of those whose protocol has none, as ActiveMQ gives to them.
_NO_SESSION: Final = -1

_Subject: TypeAlias = Subject | Message
_Properties: TypeAlias = dict[str, Value]


class AdvisoryHost(Host, Protocol):
    """A broker, as its advisories see it."""

    id_stem: str
    #: Whether any policy asks for it.
    is_told_of_slow_consumers: bool

    @property
    def origin_url(self) -> str:
        """Where clients find it."""

    @property
    def topics(self) -> Mapping[Destination, object]:
        """The topics that are in use."""

    @property
    def queues(self) -> Mapping[Destination, object]:
        """The queues that are in use."""

    def has_to_open(self, destination: Destination) -> bool:
        """Whether a topic is not there yet, and many wait for it."""

    @property
    def interceptors(self) -> Interceptors:
        """Know what goes elsewhere, too."""

    def subscribers_of_wildcards(self, destination: Destination) -> list[TopicConsumer]:
        """Who would take part in a topic of this name, if there were one."""

    def policy_for(self, destination: Destination) -> DestinationPolicy:
        """The policy of a destination."""

    def count_consumers(self, destination: Destination) -> int:
        """How many consumers what this means has."""

    def next_connection_id(self) -> str:
        """A new id in ActiveMQ's form."""

    def route(self, message: Message) -> Route:
        """Where a message goes that is sent now."""

    def publish(self, route: Route, publisher: Publisher | None, answer: Answer) -> None:
        """Give a message to its topic."""


class Advisories:
    """Publishes advisories of one broker.

    Args:
        host: what they tell of.
    """

    def __init__(self, host: AdvisoryHost) -> None:
        self._host = host
        self._producer: ProducerId | None = None
        self._count = 0
        #: The temporary destinations that are there, with the connections that have them.
        self._temporary: dict[Destination, str] = {}
        self._connections: dict[str, ConnectionSubject] = {}
        self._consumers: dict[Consumer, ConsumerSubject] = {}
        self._producers: dict[ProducerId, ProducerSubject] = {}
        self._produced: Counter[Destination] = Counter()
        #: How many browsers a queue has: ActiveMQ counts them as consumers.
        self._browsed: Counter[Destination] = Counter()
        #: The subscribers that are being told of as slow.
        self._slow: set[ConsumerId] = set()
        self._consumer_numbers = 0
        #: That the broker serves clients; None until somebody is told.
        self._master: Message | None = None

    # -- what happens ------------------------------------------------------------------------------------------------

    def temporary_added(self, destination: Destination, connection_id: str) -> None:
        """A connection has a new temporary destination."""
        self._temporary[destination] = connection_id
        self._tell(_topic_of(destination), lambda: _info(destination, connection_id))

    def temporary_removed(self, destination: Destination) -> None:
        """A temporary destination is gone."""
        connection_id = self._temporary.pop(destination, None)
        if connection_id is not None:
            self._tell(_topic_of(destination), lambda: _info(destination, connection_id, is_removed=True))

    def destination_added(self, destination: Destination) -> None:
        """A queue or topic is in use that was not."""
        if not (destination.is_temporary or destination.is_advisory):
            self._tell(_topic_of(destination), lambda: _info(destination, None))

    def destination_removed(self, destination: Destination) -> None:
        """A queue or topic is in use no more."""
        if not (destination.is_temporary or destination.is_advisory):
            self._tell(_topic_of(destination), lambda: _info(destination, None, is_removed=True))

    def connected(
        self, connection_id: str, client_id: str | None, user: str | None, peer: str, command: object = None
    ) -> None:
        """A client was let in, by this command of its protocol."""
        info = ConnectionSubject(ConnectionId(connection_id), client_id or connection_id, user, peer, command)
        self._connections[connection_id] = info
        self._tell(_CONNECTIONS, lambda: info)

    def disconnected(self, connection_id: str) -> None:
        """A client is gone, with its producers."""
        info = self._connections.pop(connection_id, None)
        if info is not None:
            self._tell(_CONNECTIONS, lambda: RemovalSubject(info.connection_id))

    def consumer_added(self, consumer: Consumer, connection_id: str, client_id: str | None) -> None:
        """Somebody has subscribed."""
        destination = consumer.destination
        if all(element.is_advisory for element in destination.elements()):
            return
        if consumer.is_browser:
            self._browsed.update(destination.elements())
        selector = consumer.interest.selector
        info = self._consumers[consumer] = ConsumerSubject(
            consumer_id=self._consumer_id(consumer, connection_id),
            client_id=client_id,
            destination=destination,
            prefetch=consumer.prefetch,
            selector=None if selector is None else selector.text,
            subscription_name=consumer.durable_name,
            is_browser=consumer.is_browser,
            is_exclusive=consumer.is_exclusive,
            is_no_local=bool(consumer.interest.unwanted_connections),
            is_retroactive=consumer.is_retroactive,
            priority=consumer.priority,
            command=consumer.command,
        )
        self._tell(_of("Consumer", destination), lambda: info, lambda: self._consumer_count(destination))

    def consumer_removed(self, consumer: Consumer) -> None:
        """Somebody has unsubscribed, or is gone."""
        info = self._consumers.pop(consumer, None)
        if info is not None:
            destination = consumer.destination
            for element in destination.elements() if consumer.is_browser else ():
                _take_one(self._browsed, element)
            self._tell(
                _of("Consumer", destination),
                lambda: RemovalSubject(info.consumer_id),
                lambda: self._consumer_count(destination),
            )

    def subscription_removed(self, key: SubscriptionKey, destination: Destination, connection_id: str | None) -> None:
        """A durable subscription is gone, by the order of this connection, or of none."""
        if not destination.is_advisory:
            by = None if connection_id is None else ConnectionId(connection_id)
            self._tell(
                _of("Consumer", destination),
                lambda: SubscriptionRemovalSubject(key.client_id, key.subscription_name, by),
                lambda: self._consumer_count(destination),
            )

    def producer_added(self, producer_id: ProducerId, destination: Destination, command: object = None) -> None:
        """Somebody wants to send to a destination, by this command of its protocol."""
        if destination.is_advisory or producer_id in self._producers:
            return
        info = self._producers[producer_id] = ProducerSubject(producer_id, destination, command)
        self._produced[destination] += 1
        self._tell(_of("Producer", destination), lambda: info, lambda: self._producer_count(destination))

    def producer_removed(self, producer_id: ProducerId) -> None:
        """A producer was closed, or its client is gone."""
        info = self._producers.pop(producer_id, None)
        if info is not None:
            destination = info.destination
            _take_one(self._produced, destination)
            self._tell(
                _of("Producer", destination),
                lambda: RemovalSubject(producer_id),
                lambda: self._producer_count(destination),
            )

    def expired(self, message: Message, source: Destination) -> None:
        """A message has expired."""
        self._tell_of("Expired", message, source, lambda: {"orignalMessageId": str(message.message_id)})

    def dead_lettered(self, message: Message, source: Destination) -> None:
        """A message has become a dead letter."""
        self._tell_of("MessageDLQd", message, source)

    # -- what a policy asks for --------------------------------------------------------------------------------------

    def arrived(self, message: Message, source: Destination, *, is_attended: bool) -> None:
        """A message has arrived, if its policy wants that to be told.

        Args:
            message: as it is kept or sent.
            source: its queue or topic.
            is_attended: whether anybody is subscribed there.
        """
        policy = self._host.policy_for(source)
        if policy.advisory_for_delivery:
            self._tell_of("MessageDelivered", message, source, partial(_origin, message, source))
        was_told = source.is_advisory or (
            message.original_destination is not None and message.original_destination.is_advisory
        )
        if policy.send_advisory_if_no_consumers and not (is_attended or message.persistent or was_told):
            self._publish(topic := _of("NoConsumer", source), partial(_shown, message, topic))

    def consumed(self, message: Message, source: Destination) -> None:
        """A consumer is done with a message, and its policy wants that to be told."""
        self._tell_of("MessageConsumed", message, source, partial(_origin, message, source))

    def slow_consumer(self, consumer: Consumer, sources: Iterable[Destination]) -> None:
        """A subscriber of these topics does not keep up with what comes from them: told of each whose policy wants
        that. While one telling is under way there is no second one of the same subscriber."""
        info = self._consumers.get(consumer)
        if info is not None and self._host.is_told_of_slow_consumers and info.consumer_id not in self._slow:
            self._slow.add(info.consumer_id)
            self._host.slices.run(self._telling_slow(info, sources), partial(self._slow.discard, info.consumer_id))

    def discarded(self, consumer: Consumer, message: Message, source: Destination, count: int) -> None:
        """A subscriber has lost a message of a topic, the last of so many, and its policy wants that to be told."""
        info = self._consumers.get(consumer)
        named: _Properties = {} if info is None else {"consumerId": str(info.consumer_id)}
        self._tell_of("MessageDiscarded", message, source, lambda: {**named, "discardedCount": count})

    def _telling_slow(self, info: ConsumerSubject, sources: Iterable[Destination]) -> Iterator[None]:
        for source in sources:
            if self._host.policy_for(source).advisory_for_slow_consumers:
                self._tell(_of("SlowConsumer", source), lambda: info, lambda: {"consumerId": str(info.consumer_id)})
            yield

    # -- who listens -------------------------------------------------------------------------------------------------

    def subscribed(self, consumer: TopicConsumer) -> None:
        """Somebody has subscribed to topics: if they are of advisories, tell him what there is already."""
        elements = consumer.destination.elements()
        if any(element.matches(_MASTER) for element in elements) and consumer.client.access.may_receive(_MASTER):
            if self._master is None:
                self._master = self._advisory(_MASTER, None, {})
            consumer.publish(self._master, None)
        wanted = [element for element in elements if _is_of_one_kind(element)]
        if wanted:
            feed = Feed(self._host.slices)
            feed.run(self._telling(consumer, wanted, feed))

    def _telling(self, consumer: TopicConsumer, wanted: list[Destination], feed: Feed) -> Iterator[None]:
        for topic, subject, properties in self._state():
            if consumer.is_closed:
                return
            if any(element.matches(topic) for element in wanted):
                consumer.publish(self._advisory(topic, subject, properties()), feed)
            yield

    def _state(self) -> Iterator[tuple[Topic, _Subject, Callable[[], _Properties]]]:
        """Everything that there is, as it was advised."""
        for destination, connection_id in list(self._temporary.items()):
            yield _topic_of(destination), _info(destination, connection_id), dict
        for info in list(self._connections.values()):
            yield _CONNECTIONS, info, dict
        for destination in [*self._host.queues, *self._host.topics]:
            if not (destination.is_temporary or destination.is_advisory):
                yield _topic_of(destination), _info(destination, None), dict
        for produced in list(self._producers.values()):
            target = produced.destination
            yield _of("Producer", target), produced, partial(self._producer_count, target)
        for consumed in list(self._consumers.values()):
            source = consumed.destination
            yield _of("Consumer", source), consumed, partial(self._consumer_count, source)

    # -- the messages ------------------------------------------------------------------------------------------------

    def _tell(self, topic: Topic, make: Callable[[], _Subject], properties: Callable[[], _Properties] = dict) -> None:
        self._publish(topic, lambda: self._advisory(topic, make(), properties()))

    def _publish(self, topic: Topic, make: Callable[[], Message]) -> None:
        """Tell who listens. Where only wildcards cover a topic it is not made: of those that name a temporary
        destination there would be more and more."""
        host = self._host
        if not host.is_running:
            return
        if topic in host.topics or host.has_to_open(topic) or host.interceptors.takes(topic):
            host.publish(host.route(make()), None, _told)
            return
        subscribers = host.subscribers_of_wildcards(topic)
        if subscribers:
            advisory = make()
            for subscriber in subscribers:
                subscriber.publish(advisory, None)

    def _tell_of(
        self, kind: str, message: Message, source: Destination, properties: Callable[[], _Properties] = dict
    ) -> None:
        def make() -> Message:
            told = message.copy()
            if not self._host.policy_for(source).include_body_for_advisory:
                told.content = None
            return told

        if not (source.is_advisory or self._tells(message)):
            self._tell(_of(kind, source), make, properties)

    def _tells(self, message: Message) -> bool:
        """Whether it is an advisory, which a composite may have forwarded: nothing is told of those, or it would tell
        of itself for ever."""
        return message.producer_id is not None and message.producer_id == self._producer

    def _advisory(self, topic: Topic, subject: _Subject | None, properties: _Properties) -> Message:
        if self._producer is None:
            self._producer = ProducerId(self._host.next_connection_id(), 1, -1)
        self._count += 1
        message = Message(
            producer_id=self._producer,
            destination=topic,
            message_id=MessageId(self._producer, self._count),
            persistent=False,
            type="Advisory",
            priority=0,
            broker_in_time=self._host.now_ms(),
            data_structure=subject,
        )
        message.properties = {
            **properties,
            "originBrokerName": self._host.options.broker_name,
            "originBrokerId": self._host.id_stem,
            "originBrokerURL": self._host.origin_url,
        }
        return message

    def _consumer_id(self, consumer: Consumer, connection_id: str) -> ConsumerId:
        parts = (consumer.subscription_id or "").rsplit(":", 2)
        if len(parts) == 3 and parts[0] == connection_id and parts[1].lstrip("-").isdecimal() and parts[2].isdecimal():
            return ConsumerId(connection_id, int(parts[1]), int(parts[2]))
        self._consumer_numbers += 1
        return ConsumerId(connection_id, _NO_SESSION, self._consumer_numbers)

    def _consumer_count(self, destination: Destination) -> _Properties:
        browsers = sum(
            count
            for element in destination.elements()
            for browsed, count in self._browsed.items()
            if element.matches(browsed)
        )
        return {"consumerCount": self._host.count_consumers(destination) + browsers}

    def _producer_count(self, destination: Destination) -> _Properties:
        return {"producerCount": self.count_producers(destination)}

    def count_producers(self, destination: Destination) -> int:
        """How many producers have said that they send there."""
        return self._produced[destination]

    @property
    def producers(self) -> int:
        """How many producers have said where they send."""
        return self._produced.total()


def _take_one(counter: Counter[Destination], destination: Destination) -> None:
    counter[destination] -= 1
    if not counter[destination]:
        del counter[destination]


def _is_of_one_kind(element: Destination) -> bool:
    """Whether the name of a kind of advisories is written out."""
    return element.is_advisory and element.physical_name.removeprefix(ADVISORY_PREFIX)[:1] not in (">", "*")


def _topic_of(destination: Destination) -> Topic:
    if destination.is_temporary:
        return _TEMPORARY_QUEUES if destination.is_queue else _TEMPORARY_TOPICS
    return _QUEUES if destination.is_queue else _TOPICS


def _of(kind: str, destination: Destination) -> Topic:
    """The topic of one destination; the comma of a composite would make a composite of it."""
    name = destination.physical_name.replace(",", "&sbquo;")
    of = "Temp" if destination.is_temporary and kind in _TYPED else ""
    return Topic(f"{ADVISORY_PREFIX}{kind}.{of}{'Queue' if destination.is_queue else 'Topic'}.{name}")


def _info(destination: Destination, connection_id: str | None, *, is_removed: bool = False) -> DestinationSubject:
    owner = None if connection_id is None else ConnectionId(connection_id)
    return DestinationSubject(destination, owner, is_removed)


def _origin(message: Message, source: Destination) -> _Properties:
    return {"orignalMessageId": str(message.message_id), "orignalDestination": source.qualified_name}


def _shown(message: Message, topic: Topic) -> Message:
    shown = message.copy()
    shown.destination, shown.transaction_id = topic, None
    return shown


def _told(error: BaseException | None) -> None:
    """Nobody waits for an advisory."""
    if error is not None:
        log.warning("an advisory was lost error=%r", str(error))
