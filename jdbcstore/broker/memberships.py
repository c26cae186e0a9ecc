"""Who takes part in which queues and topics: subscriptions, also to wildcards, of which more may appear."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Protocol

from jdbcstore.broker.delivery import Consumer
from jdbcstore.broker.durable import DurableConsumer
from jdbcstore.broker.host import Host
from jdbcstore.broker.memory import DURABLE_PLACE_BYTES, WILDCARD_PLACE_BYTES
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.topic import Topic, TopicConsumer
from jdbcstore.broker.virtual_topics import VirtualTopics
from jdbcstore.broker.wildcards import Wildcards
from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError

__all__ = ["KnownDestinations", "Memberships"]


class KnownDestinations(Host, Protocol):
    """A broker, as far as it has queues and topics."""

    @property
    def queues(self) -> Mapping[Destination, Queue]:
        """The queues that there are."""

    @property
    def topics(self) -> Mapping[Destination, Topic]:
        """The topics that are in use."""

    def queue(self, destination: Destination) -> Queue:
        """The queue of this name, made at the first use."""

    def topic(self, destination: Destination) -> Topic:
        """The topic of this name, made at the first use."""

    def opening(self, destination: Destination) -> Iterator[None]:
        """Make the topic of this name, unless it is there; a job, after which `topic` takes no time."""

    @property
    def virtual_topics(self) -> VirtualTopics:
        """Knows the queues that virtual topics feed."""


class Memberships:
    """Lets consumers take part in queues and topics, and leave them.

    Args:
        host: has the queues and topics.
    """

    def __init__(self, host: KnownDestinations) -> None:
        self._host = host
        #: Subscriptions that cover several destinations, and have to hear of new ones.
        self._wildcards: Wildcards[Consumer] = Wildcards()

    def queue_appeared(self, queue: Queue) -> None:
        """There is a new queue: wildcards may cover it."""
        joining = self._wildcards.covering(queue.destination)
        if joining:
            if not queue.destination.is_temporary:
                queue.contents.load()  # what is wrong with its store is told to who needs it, before anybody takes part
            self._host.slices.run(self._joining(queue, joining))

    def _joining(self, queue: Queue, consumers: Iterable[Consumer]) -> Iterator[None]:
        """Let subscribers to wildcards take part in a new queue; a job."""
        for consumer in consumers:
            if self._host.queues.get(queue.destination) is not queue:
                return
            if not consumer.is_closed:
                with _disconnecting(consumer):
                    _join_queue(consumer, queue, WILDCARD_PLACE_BYTES)
            yield

    def awaits(self, destination: Destination) -> bool:
        """Whether very many wait for a topic of this name."""
        return self._wildcards.are_many(destination)

    def subscribers_of_wildcards(self, destination: Destination) -> list[TopicConsumer]:
        """Who would take part in a topic of this name, if there were one."""
        return [
            consumer
            for consumer in self._wildcards.covering(destination)
            if isinstance(consumer, TopicConsumer)
            and not consumer.is_closed
            and consumer.client.access.may_receive(destination)
        ]

    def topic_appearing(self, topic: Topic) -> Iterator[None]:
        """The same of a topic, as a job."""
        for consumer in self._wildcards.covering(topic.destination):
            if isinstance(consumer, TopicConsumer) and not consumer.is_closed:
                with _disconnecting(consumer):
                    _join_topic(consumer, topic, WILDCARD_PLACE_BYTES)
                yield

    def subscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer take part in what it subscribed to, now and when more of it appears; a job.

        Raises:
            ProtocolError: its wildcard covers more than its connection may keep.
        """
        for element in consumer.destination.elements():
            if element.is_wildcard:
                self._wildcards.add(element, consumer)
                if element.is_queue:
                    self._host.virtual_topics.subscribed(consumer, element, consumer.client.access.may_subscribe)
                known: Iterable[Destination] = self._host.queues if element.is_queue else self._host.topics
                for name in list(known):
                    if _covers(element, name):
                        self._join(consumer, name, WILDCARD_PLACE_BYTES)
                    yield
                    if consumer.is_closed:
                        return
            else:
                if isinstance(consumer, TopicConsumer):
                    yield from self._host.opening(element)
                    if consumer.is_closed:
                        return
                self._join(consumer, element)
                yield

    def _join(self, consumer: Consumer, name: Destination, size: int = 0) -> None:
        if isinstance(consumer, TopicConsumer):
            _join_topic(consumer, self._host.topic(name), size)
        else:
            _join_queue(consumer, self._host.queue(name), size)

    def unsubscribing(self, consumer: Consumer) -> Iterator[None]:
        """Let a consumer leave, at once; what it has goes back, which is the job."""
        for element in consumer.destination.elements():
            if element.is_wildcard:
                self._wildcards.discard(element, consumer)
        self._host.virtual_topics.unsubscribed(consumer)
        return consumer.closing()

    def reconsider(self, consumer: Consumer) -> None:
        """Let a subscriber to a wildcard take part in what its client may read now, and in nothing else."""
        may_receive = consumer.client.access.may_receive
        for queue in [queue for queue in consumer.queues if not may_receive(queue.destination)]:
            del consumer.queues[queue]
            consumer.client.give_up_place(consumer, _place_bytes(consumer, queue.destination))
            if queue in consumer.parked:
                consumer.parked.remove(queue)
            queue.remove_consumer(consumer)
        if isinstance(consumer, TopicConsumer):
            for topic in [topic for topic in consumer.topics if not may_receive(topic.destination)]:
                del consumer.topics[topic]
                consumer.client.give_up_place(consumer, _place_bytes(consumer, topic.destination))
                topic.consumers.pop(consumer, None)
        if isinstance(consumer, DurableConsumer):  # takes up topics when it subscribes
            return
        if any(element.is_wildcard for element in consumer.destination.elements()):
            self._host.slices.run(self._subscribing_again(consumer))

    def _subscribing_again(self, consumer: Consumer) -> Iterator[None]:
        with _disconnecting(consumer):
            yield from self.subscribing(consumer)

    def covered(self, element: Destination) -> Iterator[Destination | None]:
        """The destinations that a name means at the moment: itself, or those that a wildcard matches, among None for
        each that it does not: a job may be interrupted there."""
        if not element.is_wildcard:
            yield element
            return
        known: Iterable[Destination] = self._host.queues if element.is_queue else self._host.topics
        for name in list(known):
            yield name if _covers(element, name) else None


@contextmanager
def _disconnecting(consumer: Consumer) -> Iterator[None]:
    """Whose wildcard covers more than its connection may keep goes: its messages are for others then."""
    try:
        yield
    except ProtocolError as error:
        consumer.client.disconnect(str(error), reason="its wildcard covers too many destinations")


def _join_queue(consumer: Consumer, queue: Queue, size: int) -> None:
    if (
        queue.destination.is_queue
        and queue not in consumer.queues
        and not isinstance(consumer, TopicConsumer)
        and consumer.client.access.may_receive(queue.destination)
    ):
        if size:
            consumer.client.keep_place(consumer, queue.destination, size)
        consumer.queues[queue] = None
        queue.add_consumer(consumer)


def _place_bytes(consumer: Consumer, name: Destination) -> int:
    """What was counted for the place of a consumer in a destination."""
    if not any(element.is_wildcard and _covers(element, name) for element in consumer.destination.elements()):
        return 0
    return DURABLE_PLACE_BYTES if isinstance(consumer, DurableConsumer) else WILDCARD_PLACE_BYTES


def _covers(wildcard: Destination, name: Destination) -> bool:
    return wildcard.matches(name) and not name.is_wildcard and not name.is_composite


def _join_topic(consumer: TopicConsumer, topic: Topic, size: int) -> None:
    if topic not in consumer.topics and consumer.client.access.may_receive(topic.destination):
        if size:
            consumer.client.keep_place(consumer, topic.destination, size)
        consumer.topics[topic] = None
        topic.join(consumer)
