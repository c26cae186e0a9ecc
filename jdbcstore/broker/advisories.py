"""Advisories: topics by which the broker tells clients what happens in it, in ActiveMQ's form.

An advisory is a message without body whose ``dataStructure`` is an OpenWire command that says what has happened. It is
made only if somebody is subscribed to its topic.

JMS clients send to a temporary destination only if they were told that it is there. So each of their connections
subscribes to those below, and is told what there is already when it does.

============================== ====================================== =====================================
topic                          tells                                  dataStructure
============================== ====================================== =====================================
``ActiveMQ.Advisory.TempQueue`` a temporary queue is there, or is gone DestinationInfo (operation 0 or 1)
``ActiveMQ.Advisory.TempTopic`` the same of a temporary topic          the same
============================== ====================================== =====================================

Source: ActiveMQ's AdvisoryBroker and AdvisorySupport.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Protocol

from jdbcstore.broker.delivery import Answer
from jdbcstore.broker.host import Host
from jdbcstore.broker.topic import Publisher, TopicConsumer
from jdbcstore.destination import Destination, Topic
from jdbcstore.identifiers import ConnectionId, MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.openwire.commands import DestinationInfo

__all__ = ["Advisories", "AdvisoryHost"]

_TEMPORARY_QUEUES: Final = Topic("ActiveMQ.Advisory.TempQueue")
_TEMPORARY_TOPICS: Final = Topic("ActiveMQ.Advisory.TempTopic")

_ADDED: Final = 0
_REMOVED: Final = 1


class AdvisoryHost(Host, Protocol):
    """A broker, as its advisories see it."""

    id_stem: str

    @property
    def topics(self) -> Mapping[Destination, object]:
        """The topics that are in use."""

    def has_to_open(self, destination: Destination) -> bool:
        """Whether a topic is not there yet, and many wait for it."""

    def next_connection_id(self) -> str:
        """A new id in ActiveMQ's form."""

    def publish(self, message: Message, publisher: Publisher | None, answer: Answer) -> None:
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

    def temporary_added(self, destination: Destination, connection_id: str) -> None:
        """A connection has a new temporary destination."""
        self._temporary[destination] = connection_id
        self._tell(_topic_of(destination), lambda: _info(destination, connection_id, _ADDED))

    def temporary_removed(self, destination: Destination) -> None:
        """A temporary destination is gone."""
        connection_id = self._temporary.pop(destination, None)
        if connection_id is not None:
            self._tell(_topic_of(destination), lambda: _info(destination, connection_id, _REMOVED))

    def subscribed(self, consumer: TopicConsumer) -> None:
        """Somebody has subscribed to topics: if they are of advisories, tell him what there is already."""
        elements = consumer.destination.elements()
        for topic in (_TEMPORARY_QUEUES, _TEMPORARY_TOPICS):
            if not any(element.matches(topic) for element in elements):
                continue
            for destination, connection_id in self._of(topic):
                consumer.publish(self._advisory(topic, _info(destination, connection_id, _ADDED)), None)

    def _of(self, topic: Topic) -> Iterator[tuple[Destination, str]]:
        for destination, connection_id in list(self._temporary.items()):
            if _topic_of(destination) is topic:
                yield destination, connection_id

    def _tell(self, topic: Topic, make: Callable[[], DestinationInfo]) -> None:
        if self._host.is_running and (topic in self._host.topics or self._host.has_to_open(topic)):
            self._host.publish(self._advisory(topic, make()), None, _told)

    def _advisory(self, topic: Topic, subject: DestinationInfo) -> Message:
        if self._producer is None:
            self._producer = ProducerId(self._host.next_connection_id(), 1, -1)
        self._count += 1
        message = Message(
            producer_id=self._producer,
            destination=topic,
            message_id=MessageId(self._producer, self._count),
            persistent=False,
            type="Advisory",
            timestamp=self._host.now_ms(),
            data_structure=subject,
        )
        message.properties = {"originBrokerId": self._host.id_stem, "originBrokerName": self._host.options.broker_name}
        return message


def _topic_of(destination: Destination) -> Topic:
    return _TEMPORARY_QUEUES if destination.is_queue else _TEMPORARY_TOPICS


def _info(destination: Destination, connection_id: str, operation: int) -> DestinationInfo:
    return DestinationInfo(connection_id=ConnectionId(connection_id), destination=destination, operation_type=operation)


def _told(error: BaseException | None) -> None:
    """Nobody waits for an advisory."""
