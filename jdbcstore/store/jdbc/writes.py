"""What the writer is given: the unit of work that succeeds or fails as one, and several of them merged."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any, Protocol

from jdbcstore.errors import JdbcStoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import IndependentAdds, Unit
from jdbcstore.store.jdbc.rows import Change, Container, MessageKey, MessageRow, ProducerRow, Purge, Trace
from jdbcstore.store.jdbc.topic_work import TopicWork
from jdbcstore.store.refusals import NOTHING_REFUSED, Refusals

__all__ = ["Adds", "Batch", "SubscriptionPlan", "Write"]


class Write(Unit):
    """Rows and changes that are committed together.

    Args:
        completion: resolved with `result` after the commit.
        adds, updates, purges, removes: what to do, applied in this order.
        keys: messages to remove whose ids have to be looked up first.
        counts: containers whose message count changes with the commit, and by how much; where there are only adds, one
            for each of these.
        producers: what to remember of producers; a mark never goes back.
        forgets: producers to forget that were not heard of for too long.
        follows: submitted before; this is done only if they succeed.
        topics: what it has to do with topics and durable subscriptions.
        changes: statements with their values, to be executed in this order after the adds. Where doing them again would
            do harm there is a trace.
        traces: each tells whether the changes are committed.
    """

    __slots__ = (
        "adds",
        "changes",
        "counts",
        "forgets",
        "keys",
        "may_cancel",
        "producers",
        "purges",
        "removes",
        "topics",
        "traces",
        "updates",
    )

    may_cancel: Sequence[int]

    def __init__(
        self,
        completion: Completion[Any],
        result: object = None,
        *,
        adds: Sequence[MessageRow] = (),
        updates: Sequence[tuple[int, bytes]] = (),
        removes: Sequence[int] = (),
        keys: Sequence[MessageKey] = (),
        purges: Sequence[Purge] = (),
        counts: Sequence[tuple[Container, int]] = (),
        producers: Sequence[ProducerRow] = (),
        forgets: Sequence[str] = (),
        follows: Sequence[Completion[Any]] = (),
        topics: Sequence[TopicWork] = (),
        changes: Sequence[Change] = (),
        traces: Sequence[Trace] = (),
    ) -> None:
        self.completion = completion
        self.result = result
        self.adds = adds
        self.updates = updates
        self.removes = removes
        self.keys = keys
        self.purges = purges
        self.counts = counts
        self.producers = producers
        self.forgets = forgets
        self.follows = follows
        self.topics = topics
        self.changes = changes
        self.traces = traces
        is_only_adds = len(counts) == len(adds) and not (removes or topics or changes)
        self.may_cancel = [row[0] for row in adds] if is_only_adds else ()

    @classmethod
    def of_rows(cls, rows: Sequence[MessageRow]) -> Write:
        """A write that adds some rows and tells nobody."""
        return cls(Completion(), adds=rows)

    def cancel(self, numbers: Collection[int]) -> None:
        both = zip(self.adds, self.counts, strict=True)
        left = [(row, count) for row, count in both if row[0] not in numbers]
        self.adds = [row for row, _ in left]
        self.counts = [count for _, count in left]
        self.may_cancel = [row[0] for row in self.adds]

    def fail(self, error: JdbcStoreError) -> None:
        for work in self.topics:
            work.fail(error)
        self.completion.fail(error)

    @property
    def is_alone(self) -> bool:
        return bool(self.topics) and any(work.is_alone for work in self.topics)

    @property
    def takes_room(self) -> bool:
        return bool(self.adds or self.updates or self.producers or self._change_bytes)

    @property
    def weight(self) -> int:
        return len(self.adds) + len(self.removes) + len(self.topics) + len(self.changes)

    @property
    def size(self) -> int:
        adds, updates = self.adds, self.updates
        size = len(adds[0][6]) if len(adds) == 1 else sum([len(row[6]) for row in adds]) if adds else 0
        if updates:
            size += sum(len(blob) for _, blob in updates)
        return size + self._change_bytes if self.changes else size

    @property
    def _change_bytes(self) -> int:
        return sum(len(value) for _, values in self.changes for value in values if isinstance(value, bytes))


class Adds(IndependentAdds, Write):
    """Messages of one queue, each for itself.

    Args:
        completion: resolved with the refusals.
        rows: of the messages.
        added: what one of them does to the count.
    """

    __slots__ = ()

    def __init__(
        self, completion: Completion[Refusals], rows: Sequence[MessageRow], added: tuple[Container, int]
    ) -> None:
        super().__init__(completion, NOTHING_REFUSED, adds=rows, counts=[added] * len(rows))

    def part(self, place: int, completion: Completion[int]) -> Write:
        row = self.adds[place]
        return Write(completion, row[0], adds=(row,), counts=(self.counts[place],))


class SubscriptionPlan(Protocol):
    """What writes come to for durable subscriptions (`jdbcstore.store.jdbc.plan.Plan`)."""

    changes: list[Change]
    removes: list[int]
    counts: list[tuple[Container, int]]
    #: Containers whose messages have to be counted again.
    recount: set[Container]

    def settle(self) -> None:
        """The batch is committed."""


class Batch:
    """Several units merged for one commit, to be applied in the order of the fields.

    Adds keep their order; removes are sorted, so that two batches never lock crosswise, and come last.

    Args:
        writes: the units.
        plan: what they come to for durable subscriptions, if anything.
    """

    __slots__ = ("adds", "changes", "counts", "forgets", "plan", "producers", "purges", "removes", "traces", "updates")

    def __init__(self, writes: Sequence[Write], plan: SubscriptionPlan | None = None) -> None:
        self.adds: list[MessageRow] = [row for write in writes for row in write.adds]
        self.updates: list[tuple[int, bytes]] = [update for write in writes for update in write.updates]
        self.purges: list[Purge] = [purge for write in writes for purge in write.purges]
        self.forgets: list[str] = [producer for write in writes for producer in write.forgets]
        #: By producer, sorted likewise; the last of several marks counts.
        self.producers: dict[str, int] = dict(sorted(mark for write in writes for mark in write.producers))
        self.removes: list[int] = sorted([id for write in writes for id in write.removes])
        self.plan = plan
        #: Changes to subscriptions and jobs, in their order.
        self.changes: list[Change] = []
        #: Of all the writes; any of them tells about all.
        traces = [trace for write in writes for trace in write.traces]
        has_more = not all(write.traces for write in writes)
        self.traces = [trace for trace in traces if trace.is_there] or ([] if has_more else traces)
        #: How the counts of containers change with the commit.
        self.counts = [count for write in writes for count in write.counts]
        if plan is not None:
            self.changes += plan.changes
            self.counts += plan.counts
            self.removes = sorted([*self.removes, *plan.removes])
        self.changes += [change for write in writes for change in write.changes]

    def __bool__(self) -> bool:
        return bool(self.adds or self._is_more_than_adds)

    @property
    def is_one_add(self) -> bool:
        """Whether there is one new row and nothing else."""
        return len(self.adds) == 1 and not self._is_more_than_adds

    @property
    def _is_more_than_adds(self) -> bool:
        return bool(self.removes or self.updates or self.purges or self.producers or self.forgets or self.changes)
