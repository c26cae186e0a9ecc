"""Answers to questions about the broker: what ActiveMQ's statistics plug-in does.

A message with a ``reply-to`` to one of these destinations, a queue or a topic, goes nowhere, and is answered with map
messages:

* ``ActiveMQ.Statistics.Broker``: one, about all destinations together.
* ``ActiveMQ.Statistics.Destination.NAME``: one for each destination that NAME means, which may be a wildcard; none if
  there is none. With ``ActiveMQ.Statistics.Destination.List.End.With.Null`` behind NAME an empty one ends the list.
* ``ActiveMQ.Statistics.Subscription``: one for each consumer.

Counts are since the destination came into use. What is not known here is 0, as it is in ActiveMQ before it is known.

Source: ActiveMQ's StatisticsBroker, for the names; a `BrokerOptions.statistics_support` that is off leaves the
destinations ordinary ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol

from jdbcstore.broker.delivery import Answer, Consumer
from jdbcstore.broker.host import Host
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.topic import Publisher, Topic
from jdbcstore.destination import Destination
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import MapMessage, Message
from jdbcstore.primitives import Long, Value

__all__ = ["STATISTICS_PREFIX", "Statistics", "StatisticsHost"]

STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
_BROKER: Final = f"{STATISTICS_PREFIX}Broker"
_DESTINATION: Final = f"{STATISTICS_PREFIX}Destination"
_SUBSCRIPTION: Final = f"{STATISTICS_PREFIX}Subscription"
_LIST_END: Final = "ActiveMQ.Statistics.Destination.List.End.With.Null"
_UNKNOWN: Final = (
    "dispatchCount",
    "messagesCached",
    "averageMessageSize",
)
_UNKNOWN_MS: Final = ("averageEnqueueTime", "maxEnqueueTime", "minEnqueueTime")


class StatisticsHost(Host, Protocol):
    """A broker, as far as there is something to tell of it."""

    id_stem: str

    @property
    def origin_url(self) -> str:
        """Where clients find it."""

    @property
    def queues(self) -> Mapping[Destination, Queue]:
        """The queues that are in use."""

    @property
    def topics(self) -> Mapping[Destination, Topic]:
        """The topics that are in use."""

    def count_producers(self, destination: Destination) -> int:
        """How many producers have said that they send there."""

    def knows_temporary(self, destination: Destination) -> bool:
        """Whether a temporary destination's connection is still there."""

    def next_connection_id(self) -> str:
        """A new id in ActiveMQ's form."""

    def publish(self, message: Message, publisher: Publisher | None, answer: Answer) -> None:
        """Give a message to its destination."""


class Statistics:
    """Answers for one broker.

    Args:
        host: what they are about.
    """

    def __init__(self, host: StatisticsHost) -> None:
        self._host = host
        self._producer: ProducerId | None = None
        self._count = 0

    def answers(self, message: Message) -> bool:
        """Whether a message is a question, and goes nowhere."""
        destination = message.destination
        return (
            message.reply_to is not None
            and destination is not None
            and destination.physical_name.startswith((_BROKER, _DESTINATION, _SUBSCRIPTION))
        )

    def answer(self, question: Message) -> None:
        """Send the answers to a question; a job that looks at some destinations at a time."""
        self._host.slices.run(self._answering(question))

    def _answering(self, question: Message) -> Iterator[None]:
        destination = question.destination
        assert destination is not None
        name = destination.physical_name
        if name.startswith(_BROKER):
            self._reply(question, self._of_broker())
        elif name.startswith(_SUBSCRIPTION):
            for consumer in list(self._consumers()):
                self._reply(question, self._of_consumer(consumer))
                yield
        else:
            told = destination.physical_name[len(_DESTINATION) :]
            asked = told.replace(_LIST_END, "").strip(".")
            if asked:
                yield from self._answering_for(question, type(destination).decoded(asked))
            if _LIST_END in told:
                self._reply(question, {})

    def _answering_for(self, question: Message, asked: Destination) -> Iterator[None]:
        regions: Iterable[tuple[Destination, Queue | Topic]] = (
            list(self._host.queues.items()) if asked.is_queue else list(self._host.topics.items())
        )
        for destination, region in regions:
            if asked.matches(destination):
                self._reply(question, self._of_region(destination, region))
            yield

    # -- what is told ------------------------------------------------------------------------------------------------

    def _of_broker(self) -> dict[str, Value]:
        queues, topics = list(self._host.queues.items()), list(self._host.topics.items())
        regions: list[tuple[Destination, Queue | Topic]] = [*queues, *topics]
        counts = [_counts(region) for _, region in regions]
        memory, options = self._host.memory, self._host.options
        return {
            **self._origin(),
            **{name: Long(sum(count[name] for count in counts)) for name in _COUNTED},
            **_UNKNOWNS,
            **_usage("memory", memory.used, options.memory_bytes_max),
            **_usage("store", 0, 0),
            **_usage("temp", 0, 0),
            "producerCount": Long(sum(self._host.count_producers(destination) for destination, _ in regions)),
            **dict.fromkeys(("stomp", "ssl", "stomp+ssl", "vm", "dataDirectory"), ""),
            "openwire": self._host.origin_url,
        }

    def _of_region(self, destination: Destination, region: Queue | Topic) -> dict[str, Value]:
        return {
            **self._origin(),
            "destinationName": destination.qualified_name,
            **{name: Long(count) for name, count in _counts(region).items()},
            **_UNKNOWNS,
            **_usage("memory", 0, self._host.options.memory_bytes_max),
            "producerCount": Long(self._host.count_producers(destination)),
        }

    def _of_consumer(self, consumer: Consumer) -> dict[str, Value]:
        selector = consumer.interest.selector
        return {
            **self._origin(),
            "destinationName": consumer.destination.physical_name,
            "clientId": getattr(consumer.client, "client_id", None),
            "connectionId": getattr(consumer.client, "connection_id", None),
            "sessionId": Long(0),
            "selector": None if selector is None else selector.text,
            **{name: Long(0) for name in ("enqueueCounter", "dequeueCounter", "dispatchedCounter")},
            "dispatchedQueueSize": Long(len(consumer.unacknowledged)),
            "prefetchSize": consumer.prefetch,
            "maximumPendingMessageLimit": 0,
            "exclusive": consumer.is_exclusive,
            "retroactive": False,
            "slowConsumer": False,
        }

    def _consumers(self) -> Iterator[Consumer]:
        found: dict[Consumer, None] = {}
        for queue in self._host.queues.values():
            found.update(dict.fromkeys(queue.consumers))
        for topic in self._host.topics.values():
            found.update(dict.fromkeys(topic.consumers))
        return iter(found)

    def _origin(self) -> dict[str, Value]:
        return {"brokerName": self._host.options.broker_name, "brokerId": self._host.id_stem}

    # -- the messages ------------------------------------------------------------------------------------------------

    def _reply(self, question: Message, told: Mapping[str, Value]) -> None:
        if self._producer is None:
            self._producer = ProducerId(self._host.next_connection_id(), 1, -1)
        self._count += 1
        answer = MapMessage(
            producer_id=self._producer,
            destination=question.reply_to,
            message_id=MessageId(self._producer, self._count),
            correlation_id=question.correlation_id,
            persistent=False,
            type="Advisory",
            timestamp=self._host.now_ms(),
        )
        answer.body = told
        for single in answer.divided():
            place = single.destination
            if place is not None and (not place.is_temporary or self._host.knows_temporary(place)):
                self._host.publish(single, None, _nobody_waits)


_COUNTED: Final = ("size", "enqueueCount", "dequeueCount", "expiredCount", "inflightCount", "consumerCount")
_UNKNOWNS: Final[Mapping[str, Value]] = {**dict.fromkeys(_UNKNOWN, Long(0)), **dict.fromkeys(_UNKNOWN_MS, 0.0)}


def _counts(region: Queue | Topic) -> dict[str, int]:
    if isinstance(region, Topic):
        consumers = len(region.consumers) + len(region.durable)
        counted = {"enqueueCount": region.published, "expiredCount": region.expired, "consumerCount": consumers}
        return {**dict.fromkeys(_COUNTED, 0), **counted}
    return {
        "size": region.depth,
        "enqueueCount": region.enqueued,
        "dequeueCount": region.dequeued,
        "expiredCount": region.expired,
        "inflightCount": region.in_flight,
        "consumerCount": len(region.consumers),
    }


def _usage(name: str, used: int, limit: int) -> dict[str, Value]:
    return {
        f"{name}PercentUsage": used * 100 // limit if limit else 0,
        f"{name}Usage": Long(used),
        f"{name}Limit": Long(limit),
    }


def _nobody_waits(error: BaseException | None) -> None:
    """Who asked hears nothing of an answer that could not be sent."""
