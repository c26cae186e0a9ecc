"""Looks at all destinations now and then, a slice at a time, and keeps what it saw: views of very many cost nothing.

A round looks at each destination once. Depths and counters are numbers that the broker keeps; only when a queue's first
message came has to be read from the store, for those queues in which something has moved, and not for very many in one
round. Rounds follow each other more slowly the longer they take, so that they never cost more than a small part of the
loop's time.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from time import perf_counter
from typing import Final, TypeAlias, TypeVar

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.lifecycle import State, Status
from jdbcstore.broker.queue import Queue
from jdbcstore.broker.topic import Topic
from jdbcstore.destination import Destination
from jdbcstore.errors import JdbcStoreError
from jdbcstore.management.views import DestinationView, Sample, TermView
from jdbcstore.store.commit_numbers import CountsCommits

__all__ = ["Observation", "Totals"]

T = TypeVar("T")

log = logging.getLogger(__name__)

_ROUND_S: Final = 2.0
#: A round may take this part of the loop's time, unless that would make views older than so many seconds.
_PART_MAX: Final = 0.02
_PAUSE_MOST_S: Final = 30.0
#: A round that is younger is as good as one of now; questions may take a larger part of the loop's time than rounds.
_FRESH_S: Final = 0.2
_PART_OF_QUESTIONS_MAX: Final = 0.1
#: Samples of the last hour.
_SAMPLE_S: Final = 5.0
_SAMPLES_MAX: Final = 720
_TERMS_MAX: Final = 100
#: Destinations whose numbers are sorted and added up at once.
_FEW: Final = 500
#: Queues whose first message is read in one round.
_READS_MAX: Final = 20
#: How often the loop is asked how late it is.
_LAG_S: Final = 0.5
#: What is left of a rate after a round, so that it does not jump.
_DECAY: Final = 0.5


@dataclass(frozen=True, slots=True)
class Totals:
    """Sums over destinations; dead letters count for themselves alone."""

    queues: int = 0
    topics: int = 0
    depth: int = 0
    in_flight: int = 0
    dead_letters: int = 0
    oldest_ms: int | None = None
    rate_in: float = 0.0
    rate_out: float = 0.0

    @classmethod
    def of(cls, views: Iterable[DestinationView]) -> Totals:
        """The sums of some; very many take long, so in a thread."""
        views = list(views)
        queues = [view for view in views if view.kind == "queue"]
        waiting = [view for view in queues if not view.is_dead_letter_queue]
        return cls(
            queues=len(queues),
            topics=len(views) - len(queues),
            depth=sum(view.depth for view in waiting),
            in_flight=sum(view.in_flight for view in waiting),
            dead_letters=sum(view.depth for view in queues if view.is_dead_letter_queue),
            oldest_ms=min((view.oldest_ms for view in waiting if view.oldest_ms is not None), default=None),
            rate_in=sum(view.rate_in for view in views),
            rate_out=sum(view.rate_out for view in waiting),
        )


#: Destinations in some order.
_Order: TypeAlias = Sequence[tuple[Destination, DestinationView]]


class _Seen:
    """What a round has seen of one destination."""

    __slots__ = ("at_s", "dequeued", "enqueued", "oldest_at", "oldest_ms", "rate_in", "rate_out", "still")

    def __init__(self, at_s: float, enqueued: int, dequeued: int) -> None:
        self.at_s = at_s
        self.enqueued, self.dequeued = enqueued, dequeued
        self.rate_in = self.rate_out = 0.0
        self.oldest_ms: int | None = None
        #: `Queue.dequeued` when that was read; -1 if it was not.
        self.oldest_at = -1
        #: What a queue was like that nothing happened in, and its view; None if something did.
        self.still: tuple[tuple[object, ...], DestinationView] | None = None

    def count(self, at_s: float, enqueued: int, dequeued: int) -> None:
        """Take note of counters, which begin anew with a new object."""
        took_s = at_s - self.at_s
        if took_s <= 0:
            return
        now_in, now_out = max(enqueued - self.enqueued, 0) / took_s, max(dequeued - self.dequeued, 0) / took_s
        self.rate_in = _smooth(self.rate_in, now_in)
        self.rate_out = _smooth(self.rate_out, now_out)
        self.at_s, self.enqueued, self.dequeued = at_s, enqueued, dequeued


def _smooth(before: float, now: float) -> float:
    smooth = now if not before else _DECAY * before + (1 - _DECAY) * now
    return smooth if smooth >= 0.01 else 0.0


class Observation:
    """Watches one broker, in its event loop.

    Args:
        broker: whose.

    Attributes:
        destinations: as the last round found them, in no order.
        totals: their sums.
        looked_ms: when that was.
        started_ms: when this began.
        loop_lag_ms: how late the event loop was, lately.
        loop_lag_max_ms: the most since `started_ms`.
    """

    def __init__(self, broker: Broker) -> None:
        self.destinations: Mapping[Destination, DestinationView] = {}
        self.totals = Totals()
        self.looked_ms = 0
        self.started_ms = 0
        self.loop_lag_ms = self.loop_lag_max_ms = 0.0
        self.round_s = 0.0
        self._broker = broker
        self._seen: dict[Destination, _Seen] = {}
        self._samples: deque[Sample] = deque(maxlen=_SAMPLES_MAX)
        #: By field and direction: of which round, and the order.
        self._orders: dict[
            tuple[str, bool],
            tuple[Mapping[Destination, DestinationView], Sequence[tuple[Destination, DestinationView]]],
        ] = {}
        self._terms: deque[TermView] = deque(maxlen=_TERMS_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        #: Whether somebody has made or deleted a destination since the last round began.
        self._is_outdated = False
        self._freshening = asyncio.Lock()
        #: The histogram of commits when the last sample was taken.
        self._commits_before: Sequence[int] = ()

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Begin to look."""
        broker = self._broker
        self.started_ms = broker.now_ms()
        self._lived(broker.lifecycle.status)
        broker.lifecycle.listeners.append(self._lived)
        self._tasks = [asyncio.create_task(work) for work in (self._rounds(), self._sampling(), self._lagging())]

    def stop(self) -> None:
        """Look no more."""
        for task in self._tasks:
            task.cancel()
        if self._lived in self._broker.lifecycle.listeners:
            self._broker.lifecycle.listeners.remove(self._lived)

    def _lived(self, status: Status) -> None:
        view = TermView(status.state, status.since.isoformat(), status.reason, status.term, status.holder)
        self._terms.append(view)

    @property
    def terms(self) -> Sequence[TermView]:
        """The states that the broker was in, newest first."""
        return list(self._terms)[::-1]

    @property
    def samples(self) -> Sequence[Sample]:
        """The last hour, oldest first."""
        return list(self._samples)

    # -- rounds --------------------------------------------------------------------------------------------------

    async def _rounds(self) -> None:
        while True:
            try:
                await self.look()
            except JdbcStoreError as error:
                log.debug("a look at the destinations was not completed error=%r", str(error))
            except Exception:
                log.exception("defect in looking at the destinations")
            await asyncio.sleep(min(max(_ROUND_S, self.round_s / _PART_MAX), _PAUSE_MOST_S))

    def outdate(self) -> None:
        """An operator has made or deleted a destination: who looks next wants to see that."""
        self._is_outdated = True

    async def freshen(self) -> None:
        """Make a round, unless one was made just now: who asks often costs no more than who asks now and then."""
        async with self._freshening:
            age_s = (self._broker.now_ms() - self.looked_ms) / 1000
            if self._is_outdated or age_s > max(_FRESH_S, self.round_s / _PART_OF_QUESTIONS_MAX):
                await self.look()

    async def look(self) -> None:
        """Make a round now."""
        broker = self._broker
        if broker.lifecycle.state is not State.MASTER:
            self.destinations, self.totals = {}, Totals()
            return
        self.round_s = 0.0
        self._is_outdated = False
        found: dict[Destination, DestinationView] = {}
        moved: list[Queue] = []
        await broker.slices.complete(self._looking(found, moved))
        self.totals = await self.calculated(partial(Totals.of, found.values()), len(found))
        self.destinations = found
        self._orders.clear()
        self._seen = {name: seen for name, seen in self._seen.items() if name in found}
        self.looked_ms = broker.now_ms()
        for queue in moved[:_READS_MAX]:
            await self._read_oldest(queue)

    def _looking(self, found: dict[Destination, DestinationView], moved: list[Queue]) -> Iterator[None]:
        broker = self._broker
        for queue in list(broker.queues.values()):
            began_s = perf_counter()
            found[queue.destination] = self._view_of_queue(queue, moved)
            self.round_s += perf_counter() - began_s
            yield
        for topic in list(broker.topics.values()):
            found[topic.destination] = self._view_of_topic(topic)
            yield

    def _view_of_queue(self, queue: Queue, moved: list[Queue]) -> DestinationView:
        """A queue without consumers that nothing has happened in looks as it did: of very many most are so."""
        name = queue.destination
        seen = self._seen.get(name)
        producers = self._broker.count_producers(name)
        like = (queue.enqueued, queue.dequeued, queue.is_paused, name in self._broker.gate.closed, producers)
        if seen is not None and seen.still is not None and seen.still[0] == like and not queue.consumers:
            return seen.still[1]
        view = self._new_view_of_queue(queue, moved)
        seen = self._seen[name]
        is_still = not (queue.consumers or view.in_flight or seen.rate_in or seen.rate_out)
        is_known = not view.depth or view.oldest_ms is not None
        seen.still = (like, view) if is_still and is_known else None
        return view

    def _new_view_of_queue(self, queue: Queue, moved: list[Queue]) -> DestinationView:
        broker, name = self._broker, queue.destination
        depth, enqueued, dequeued = queue.depth, queue.enqueued, queue.dequeued
        seen = self._counted(name, enqueued, dequeued)
        if not depth:
            seen.oldest_ms = None
        elif seen.oldest_ms is None or seen.oldest_at != dequeued:
            moved.append(queue)
        return DestinationView(
            name.qualified_name,
            "queue",
            depth=depth,
            in_flight=queue.in_flight,
            oldest_ms=seen.oldest_ms,
            consumers=len(queue.consumers),
            producers=broker.count_producers(name),
            enqueued=enqueued,
            dequeued=dequeued,
            expired=queue.expired,
            dead_lettered=broker.dead_lettered[name],
            rate_in=seen.rate_in,
            rate_out=seen.rate_out,
            memory_bytes=queue.contents.memory_bytes,
            is_dead_letter_queue=broker.is_for_dead_letters(name),
            is_temporary=name.is_temporary,
            is_paused=queue.is_paused,
            is_closed=name in broker.gate.closed,
        )

    def _view_of_topic(self, topic: Topic) -> DestinationView:
        name = topic.destination
        seen = self._counted(name, topic.published, topic.published)
        return DestinationView(
            name.qualified_name,
            "topic",
            consumers=len(topic.consumers) + len(topic.subscriptions),
            producers=self._broker.count_producers(name),
            subscriptions=len(topic.durable),
            enqueued=topic.published,
            expired=topic.expired,
            dead_lettered=self._broker.dead_lettered[name],
            rate_in=seen.rate_in,
            is_temporary=name.is_temporary,
            is_closed=name in self._broker.gate.closed,
        )

    def _counted(self, name: Destination, enqueued: int, dequeued: int) -> _Seen:
        now_s = self._broker.loop.time()
        seen = self._seen.get(name)
        if seen is None:
            seen = self._seen[name] = _Seen(now_s, enqueued, dequeued)
        else:
            seen.count(now_s, enqueued, dequeued)
        return seen

    async def _read_oldest(self, queue: Queue) -> None:
        """Find out when the first message of a queue came."""
        seen = self._seen.get(queue.destination)
        dequeued = queue.dequeued
        if seen is None:
            return
        seen.oldest_ms, seen.oldest_at = await queue.first_came_ms(), dequeued

    def view_of(self, name: Destination) -> DestinationView | None:
        """One destination as it is now, with rates and age as of the last round; None if it is not there."""
        queue, topic = self._broker.queues.get(name), self._broker.topics.get(name)
        seen = self.destinations.get(name)
        if queue is not None:
            return replace(
                seen or DestinationView(name.qualified_name, "queue", is_temporary=name.is_temporary),
                depth=queue.depth,
                in_flight=queue.in_flight,
                consumers=len(queue.consumers),
                producers=self._broker.count_producers(name),
                enqueued=queue.enqueued,
                dequeued=queue.dequeued,
                expired=queue.expired,
                dead_lettered=self._broker.dead_lettered[name],
                memory_bytes=queue.contents.memory_bytes,
                is_dead_letter_queue=self._broker.is_for_dead_letters(name),
                is_paused=queue.is_paused,
                is_closed=name in self._broker.gate.closed,
            )
        return None if topic is None else self._view_of_topic(topic)

    async def calculated(self, work: Callable[[], T], count: int) -> T:
        """What comes of work on each destination: in a thread if they are so many that it takes longer than a slice.

        Few are done with sooner than a thread and the loop could take turns.

        Args:
            work: may be called from any thread.
            count: how many destinations it works on.
        """
        return work() if count <= _FEW else await self._broker.loop.run_in_executor(None, work)

    def ordered(self, sort: str, *, is_descending: bool) -> _Order:
        """All destinations in the order of a field of theirs, those without a value last; sorted once in each round.

        May be called from any thread: very many take long.
        """
        found = self.destinations
        known = self._orders.get((sort, is_descending))
        if known is not None and known[0] is found:
            return known[1]
        field = attrgetter(sort)
        with_value = [item for item in found.items() if field(item[1]) is not None]
        without = [item for item in found.items() if field(item[1]) is None]
        with_value.sort(key=lambda item: item[1].name)
        with_value.sort(key=lambda item: field(item[1]), reverse=is_descending)
        order = [*with_value, *without]
        self._orders[sort, is_descending] = found, order
        return order

    # -- samples -------------------------------------------------------------------------------------------------

    async def _sampling(self) -> None:
        while True:
            await asyncio.sleep(_SAMPLE_S)
            self._samples.append(self.sample())

    def sample(self) -> Sample:
        """The broker now, by the last round."""
        broker, totals, now_ms = self._broker, self.totals, self._broker.now_ms()
        oldest_ms = now_ms if totals.oldest_ms is None else totals.oldest_ms
        return Sample(
            now_ms,
            rate_in=totals.rate_in,
            rate_out=totals.rate_out,
            depth=totals.depth,
            in_flight=totals.in_flight,
            oldest_age_s=max(now_ms - oldest_ms, 0) / 1000,
            commit_ms=self._commit_ms(),
            connections=len(broker.clients),
            memory_bytes=broker.memory.total,
            loop_lag_ms=self.loop_lag_ms,
        )

    def _commit_ms(self) -> float | None:
        """How long half of the commits took that were made since the last sample."""
        adapter = self._broker.adapter
        numbers = adapter.commit_numbers if isinstance(adapter, CountsCommits) else None
        if numbers is None:
            self._commits_before = ()
            return None
        before, self._commits_before = self._commits_before, list(numbers.seconds.counts)
        if any(then > now for then, now in zip(before, self._commits_before, strict=False)):
            before = ()  # the store was opened anew
        median_s = numbers.seconds.quantile(0.5, before)
        return None if median_s is None else median_s * 1000

    async def _lagging(self) -> None:
        """Ask for a call at a time, and see how late it comes."""
        loop = self._broker.loop
        while True:
            due_s = loop.time() + _LAG_S
            await asyncio.sleep(_LAG_S)
            self.loop_lag_ms = max(loop.time() - due_s, 0.0) * 1000
            self.loop_lag_max_ms = max(self.loop_lag_max_ms, self.loop_lag_ms)
