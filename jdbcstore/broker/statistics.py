"""Answers to questions about the broker: what ActiveMQ's statistics plug-in does.

A message with a ``reply-to`` to one of these destinations, a queue or a topic, goes nowhere, and is answered with map
messages:

* ``ActiveMQ.Statistics.Broker``: one, about all destinations together; with a property
  ``ActiveMQ.Statistics.Broker.Reset``, of any value, what it counts begins anew.
* ``ActiveMQ.Statistics.Destination.NAME``: one for each destination that NAME means, which may be a wildcard, or
  several with commas between them; none if there is none. With
  ``ActiveMQ.Statistics.Destination.List.End.With.Null`` behind NAME, or a property of that name, an empty one ends the
  list. With a property ``ActiveMQ.Statistics.Destination.Include.First.Message.Timestamp`` each queue that is not empty
  has a ``firstMessageTimestamp``, when its first message came, in epoch milliseconds.
* ``ActiveMQ.Statistics.Subscription``: one for each consumer.

Counts are since the destination came into use; ``averageMessageSize`` is of the messages that it was sent, in memory.
What is not known here is 0, as it is in ActiveMQ before it is known.

Source: ActiveMQ's StatisticsBroker, for the names; a `BrokerOptions.statistics_support` that is off leaves the
destinations ordinary ones.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Final, Protocol, TypeAlias

from jdbcstore.broker.delivery import Answer, Consumer
from jdbcstore.broker.feed import Feed
from jdbcstore.broker.host import Host
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.route import Route
from jdbcstore.broker.topic import Publisher, Topic
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, JdbcStoreError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import MapMessage, Message
from jdbcstore.primitives import Long, Value

__all__ = ["STATISTICS_PREFIX", "Statistics", "StatisticsHost"]

log = logging.getLogger(__name__)

STATISTICS_PREFIX: Final = "ActiveMQ.Statistics."
_BROKER: Final = f"{STATISTICS_PREFIX}Broker"
_DESTINATION: Final = f"{STATISTICS_PREFIX}Destination"
_SUBSCRIPTION: Final = f"{STATISTICS_PREFIX}Subscription"
_LIST_END: Final = f"{_DESTINATION}.List.End.With.Null"
_FIRST_TIME: Final = f"{_DESTINATION}.Include.First.Message.Timestamp"
_RESET: Final = f"{_BROKER}.Reset"
_UNKNOWN: Final = ("dispatchCount", "messagesCached")
_UNKNOWN_MS: Final = ("averageEnqueueTime", "maxEnqueueTime", "minEnqueueTime")


_Found: TypeAlias = list[tuple[Destination, Queue | Topic]]


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

    def route(self, message: Message) -> Route:
        """Where a message goes that is sent now."""

    def publish(self, route: Route, publisher: Publisher | None, answer: Answer) -> None:
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
        #: What was counted of all destinations when somebody wanted to begin anew.
        self._before: Counter[str] = Counter()
        #: Answers for which the store is read.
        self._tasks: set[asyncio.Task[None]] = set()

    def answers(self, message: Message) -> bool:
        """Whether a message is a question, and goes nowhere."""
        destination = message.destination
        return (
            message.reply_to is not None
            and destination is not None
            and destination.physical_name.startswith((_BROKER, _DESTINATION, _SUBSCRIPTION))
        )

    def answer(self, question: Message, asker: Publisher) -> None:
        """Send the answers to a question; a job that looks at some destinations at a time.

        Args:
            question: what is asked.
            asker: who waits until it is answered, so that there is one job for each client.
        """
        asker.hold()
        feed = Feed(self._host.slices, asker.let_go)
        feed.run(self._answering(question, asker, feed))

    def _answering(self, question: Message, asker: Publisher, feed: Feed) -> Iterator[None]:
        destination = question.destination
        assert destination is not None
        name = destination.physical_name
        if name.startswith(_BROKER):
            if _RESET in _properties(question):
                self._before = self._counted()
            self._reply(question, self._of_broker(), feed)
        elif name.startswith(_SUBSCRIPTION):
            for consumer in list(self._consumers()):
                self._reply(question, self._of_consumer(consumer), feed)
                yield
        else:
            yield from self._answering_about(question, destination, asker, feed)

    def _answering_about(
        self, question: Message, destination: Destination, asker: Publisher, feed: Feed
    ) -> Iterator[None]:
        told, properties = destination.physical_name[len(_DESTINATION) :], _properties(question)
        asked = told.replace(_LIST_END, "").strip(".")
        has_end = _LIST_END in told or _LIST_END in properties
        found: _Found = []
        if asked:
            yield from self._finding(type(destination).decoded(asked), found)
        if _FIRST_TIME not in properties:
            yield from self._telling(question, found, {}, feed, has_end=has_end)
            return
        asker.hold()
        task = self._host.loop.create_task(self._answer_with_times(question, found, asker, has_end=has_end))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _telling(
        self,
        question: Message,
        found: _Found,
        times_ms: Mapping[Destination, int],
        feed: Feed,
        *,
        has_end: bool,
    ) -> Iterator[None]:
        for name, region in found:
            told = self._of_region(name, region)
            if name in times_ms:
                told["firstMessageTimestamp"] = Long(times_ms[name])
            self._reply(question, told, feed)
            yield
        if has_end:
            self._reply(question, {}, feed)

    def _finding(self, asked: Destination, found: _Found) -> Iterator[None]:
        regions: Iterable[tuple[Destination, Queue | Topic]] = (
            list(self._host.queues.items()) if asked.is_queue else list(self._host.topics.items())
        )
        elements = asked.elements()
        for name, region in regions:
            if any(element.matches(name) for element in elements):
                found.append((name, region))
            yield

    async def _answer_with_times(self, question: Message, found: _Found, asker: Publisher, *, has_end: bool) -> None:
        times_ms: dict[Destination, int] = {}
        feed = Feed(self._host.slices, asker.let_go)
        try:
            for name, region in found:
                try:
                    time_ms = await region.first_came_ms() if isinstance(region, Queue) else None
                except JdbcStoreError as error:
                    log.warning("the first message of a queue could not be read queue=%s error=%r", name, str(error))
                else:
                    if time_ms is not None:
                        times_ms[name] = time_ms
                await asyncio.sleep(0)  # there may be very many
        finally:
            feed.run(self._telling(question, found, times_ms, feed, has_end=has_end))

    # -- what is told ------------------------------------------------------------------------------------------------

    def _of_broker(self) -> dict[str, Value]:
        queues, topics = list(self._host.queues.items()), list(self._host.topics.items())
        regions: list[tuple[Destination, Queue | Topic]] = [*queues, *topics]
        counted = self._counted()
        for name in _SINCE:
            counted[name] = max(counted[name] - self._before[name], 0)  # what is forgotten is not counted any more
        memory, options = self._host.memory, self._host.options
        return {
            **self._origin(),
            **_shown(counted),
            **_usage("memory", memory.used, options.memory_bytes_max),
            **_usage("store", 0, 0),
            **_usage("temp", 0, 0),
            "producerCount": Long(sum(self._host.count_producers(destination) for destination, _ in regions)),
            **dict.fromkeys(("stomp", "ssl", "stomp+ssl", "vm", "dataDirectory"), ""),
            "openwire": self._host.origin_url,
        }

    def _counted(self) -> Counter[str]:
        """What is counted of all destinations together."""
        counted: Counter[str] = Counter()
        regions: list[Queue | Topic] = [*self._host.queues.values(), *self._host.topics.values()]
        for region in regions:
            counted.update(_counts(region))
        return counted

    def _of_region(self, destination: Destination, region: Queue | Topic) -> dict[str, Value]:
        return {
            **self._origin(),
            "destinationName": destination.qualified_name,
            **_shown(_counts(region)),
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

    def _reply(self, question: Message, told: Mapping[str, Value], feed: Feed) -> None:
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
                self._host.publish(self._host.route(single), feed, feed.sending(single))


_COUNTED: Final = ("size", "enqueueCount", "dequeueCount", "expiredCount", "inflightCount", "consumerCount")
#: The bytes of what was enqueued, which are told as an average.
_BYTES: Final = "bytes"
#: What begins anew.
_SINCE: Final = ("enqueueCount", "dequeueCount", "expiredCount", _BYTES)
_UNKNOWNS: Final[Mapping[str, Value]] = {**dict.fromkeys(_UNKNOWN, Long(0)), **dict.fromkeys(_UNKNOWN_MS, 0.0)}


def _counts(region: Queue | Topic) -> dict[str, int]:
    if isinstance(region, Topic):
        consumers = len(region.consumers) + len(region.durable)
        counted = {
            "enqueueCount": region.published,
            "expiredCount": region.expired,
            "consumerCount": consumers,
            _BYTES: region.published_bytes,
        }
        return {**dict.fromkeys(_COUNTED, 0), **counted}
    return {
        "size": region.depth,
        "enqueueCount": region.enqueued,
        "dequeueCount": region.dequeued,
        "expiredCount": region.expired,
        "inflightCount": region.in_flight,
        "consumerCount": len(region.consumers),
        _BYTES: region.enqueued_bytes,
    }


def _shown(counted: Mapping[str, int]) -> dict[str, Value]:
    average = counted[_BYTES] // counted["enqueueCount"] if counted["enqueueCount"] else 0
    return {**{name: Long(counted[name]) for name in _COUNTED}, "averageMessageSize": Long(average), **_UNKNOWNS}


def _properties(question: Message) -> Mapping[str, Value]:
    try:
        return question.properties
    except CodecError:  # whatever these bytes are, they ask for nothing
        return {}


def _usage(name: str, used: int, limit: int) -> dict[str, Value]:
    return {
        f"{name}PercentUsage": used * 100 // limit if limit else 0,
        f"{name}Usage": Long(used),
        f"{name}Limit": Long(limit),
    }
