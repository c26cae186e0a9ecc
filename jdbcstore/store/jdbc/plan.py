"""What the writes of one batch mean for durable subscriptions: which rows to change, and what is true when it is done.

The writer's thread asks before each attempt to commit and carries the answer out after the commit. So everything here
happens in the order of the commits, nothing has to be locked, and an attempt that fails has changed nothing. Every
statement may be executed twice: after a broken line a batch that only changes subscriptions is just written again.

All acknowledgements of one subscription that are in a batch become one UPDATE of its mark and, if they left something
out, one DELETE and one INSERT of ranges.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from sqlalchemy import Connection

from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.marks import Acknowledged, Draft, Range
from jdbcstore.store.jdbc.outcomes import Decide, Decision, Prepare, plan_prepare, show, widened
from jdbcstore.store.jdbc.predecessors import Predecessors, Walks
from jdbcstore.store.jdbc.prepared import Doubts
from jdbcstore.store.jdbc.rows import Change, Container
from jdbcstore.store.jdbc.subscriptions import (
    VIRTUAL_TOPIC_ROW,
    InDoubt,
    Registry,
    Shown,
    Subscription,
    TopicState,
    row_of,
)
from jdbcstore.store.jdbc.topic_work import (
    Acknowledge,
    Added,
    Begin,
    Clear,
    Complete,
    End,
    Keep,
    Purged,
    Release,
    Remove,
    TopicWork,
)
from jdbcstore.store.jdbc.writes import Write

__all__ = ["Plan", "Planner"]

#: Ids or ranges in one statement.
_AT_ONCE: Final = 100

#: CONTAINER, CLIENT_ID, SUB_NAME.
_Names: TypeAlias = tuple[str, str, str]


class Planner:
    """Makes the plans of one writer.

    Args:
        registry: the subscriptions.
        dialect: how ids are looked for.
        doubts: the transactions in doubt.
    """

    def __init__(self, registry: Registry, dialect: Dialect, doubts: Doubts) -> None:
        self.registry = registry
        self.doubts = doubts
        self.statements = dialect.statements
        self.walks = Walks(dialect)

    def plan(self, connection: Connection, writes: Sequence[Write]) -> Plan | None:
        """The plan for a batch, None when nothing in it has to do with topics."""
        if not any(write.topics for write in writes):
            return None
        return Plan(self, connection, writes)


@dataclass(slots=True)
class _Part:
    """What a batch does to one topic."""

    #: Ids that it adds, by PRIORITY, in order.
    added: dict[int, list[int]] = field(default_factory=dict)
    begun: list[Subscription] = field(default_factory=list)
    removed: set[int] = field(default_factory=set)
    is_purged: bool = False


class Plan:
    """What one batch does to subscriptions; `settle` is called after its commit.

    Args:
        planner: whose.
        connection: the writer's, to look for ids.
        writes: of the batch, in their order.
    """

    def __init__(self, planner: Planner, connection: Connection, writes: Sequence[Write]) -> None:
        #: Statements with their values, to be executed in this order after the adds.
        self.changes: list[Change] = []
        #: Messages to remove.
        self.removes: list[int] = []
        #: How the removes change the counts of containers.
        self.counts: list[tuple[Container, int]] = []
        #: What prepared transactions will acknowledge, of the subscriptions that are concerned.
        self.in_doubt: dict[Subscription, InDoubt] = {}
        #: Done when the batch is committed.
        self.afterwards: list[Callable[[], object]] = []
        #: The containers whose messages have to be counted again.
        self.recount: set[Container] = set()
        self._shown: dict[Subscription, dict[int, Shown]] = {}
        self._decisions: dict[XATransactionId, Decision] = {}
        self._connection = connection
        self.statements = planner.statements
        self._has_prepared_acks = planner.doubts.has_table
        self._registry = planner.registry
        self._parts: dict[TopicState, _Part] = {}
        self._ended: set[Subscription] = set()
        self._kept: dict[str, bool] = {}
        self._drafts: dict[Subscription, dict[int, Draft]] = {}
        works = [work for write in writes for work in write.topics]
        for work in works:
            self._note(work)
        added = {topic: part.added for topic, part in self._parts.items()}
        rows = [row for write in writes for row in write.adds]
        self.predecessors = Predecessors(planner.registry, planner.walks, connection, added, rows)
        for work in works:
            self._acknowledge_or_remove(work)
        for subscription, drafts in self._drafts.items():
            self._close_holes(subscription, drafts)
            self._put_down(subscription, drafts)
            if subscription.in_doubt:
                in_doubt = self.in_doubt.get(subscription, subscription.in_doubt)
                self.in_doubt[subscription] = widened(in_doubt, subscription.rows, drafts)
        for subscription, in_doubt in self.in_doubt.items():
            if subscription not in self._ended:
                marks: Mapping[int, Acknowledged] = self._drafts.get(subscription) or subscription.rows
                self._shown[subscription] = show(subscription, in_doubt, marks, self)

    # -- first: what is added, begins and ends -------------------------------------------------------------------

    def _note(self, work: TopicWork) -> None:
        match work:
            case Added(topic, id, level):
                self._part(topic).added.setdefault(level, []).append(id)
            case Begin(subscription):
                self._part(subscription.topic).begun.append(subscription)
                self._delete(subscription)
                self._insert(subscription, subscription.rows)
            case End(subscription):
                self._part(subscription.topic)
                self._ended.add(subscription)
                self._delete(subscription)
            case Purged(topic):
                self._part(topic).is_purged = True
            case Decide():
                self._note_decision(work)
            case Keep(queue):
                self._strike_out(queue)
                row = (queue, queue, queue, queue, None, 0, VIRTUAL_TOPIC_ROW)
                self.changes.append((self.statements.subscriptions_insert(1), row))
                self._kept[queue] = True
            case Release(queue):
                self._strike_out(queue)
                self._kept[queue] = False

    def _note_decision(self, work: Decide) -> None:
        decision = self._decisions[work.xid] = Decision(self, self._connection, work)
        self.recount |= decision.recount
        for container, id, level in decision.added_to_topics():
            topic = self._registry.topics.get(container)
            if topic is not None:
                self._part(topic).added.setdefault(level, []).append(id)

    def _part(self, topic: TopicState) -> _Part:
        part = self._parts.get(topic)
        if part is None:
            part = self._parts[topic] = _Part()
        return part

    def _strike_out(self, queue: str) -> None:
        self.changes.append(_named(self.statements.subscription_delete, (queue, queue, queue)))

    def _delete(self, subscription: Subscription) -> None:
        names = _names(subscription)
        self.changes.append(_named(self.statements.subscription_delete, names))
        if self._registry.has_table:
            self.changes.append((self.statements.acked_delete, names))
        if self._has_prepared_acks:
            self.changes.append((self.statements.prepared_acks_of_subscription_delete, names))

    def _insert(self, subscription: Subscription, rows: Mapping[int, Acknowledged]) -> None:
        info, (container, client_id, name) = subscription.info, _names(subscription)
        subscribed = info.subscribed_destination.qualified_name
        values = [
            value
            for row, acknowledged in rows.items()
            for value in (container, subscribed, client_id, name, info.selector, acknowledged.mark, row)
        ]
        self.changes.append((self.statements.subscriptions_insert(len(rows)), tuple(values)))

    # -- second: what is acknowledged or removed -----------------------------------------------------------------

    def _acknowledge_or_remove(self, work: TopicWork) -> None:
        match work:
            case Complete(subscription, rows):
                self._complete(subscription, rows)
            case Acknowledge(subscription, ids, keys):
                if self.is_there(subscription):
                    self._acknowledge(subscription, [*ids, *self.predecessors.ids_of(keys)])
            case Remove(topic, ids, keys):
                removed = [*ids, *self.predecessors.ids_of(keys)]
                self._part(topic).removed.update(removed)
                for subscription in self._subscriptions(topic):
                    self._acknowledge(subscription, removed)
                self._remove(topic, removed)
            case Purged(topic, last):
                for subscription in self._subscriptions(topic):
                    for draft in self.draft(subscription).values():
                        draft.add(draft.mark + 1, last)
            case Prepare():
                plan_prepare(self, self._connection, work)
            case Decide(xid):
                self._decisions[xid].plan_it()
            case Clear(topic, level, ids):
                floor = topic.floor(level, self._part(topic).begun)
                cleared = [id for id in ids if (floor is None or id <= floor) and not topic.counting]
                work.cleared = len(cleared)
                self._remove(topic, cleared)

    def is_there(self, subscription: Subscription) -> bool:
        """Whether a subscription can acknowledge: it has begun and does not end."""
        part = self._parts.get(subscription.topic)
        has_begun = subscription in subscription.topic.live or (part is not None and subscription in part.begun)
        return has_begun and subscription not in self._ended

    def _subscriptions(self, topic: TopicState) -> set[Subscription]:
        begun = self._parts[topic].begun if topic in self._parts else ()
        return {*topic.live, *begun} - self._ended

    def _remove(self, topic: TopicState, ids: Sequence[int]) -> None:
        self.removes += ids
        self.counts.append((topic.container, -len(ids)))

    def draft(self, subscription: Subscription) -> dict[int, Draft]:
        """What a subscription will have acknowledged, by row."""
        drafts = self._drafts.get(subscription)
        if drafts is None:
            drafts = {row: Draft(acknowledged) for row, acknowledged in subscription.rows.items()}
            self._drafts[subscription] = drafts
        return drafts

    def _acknowledge(self, subscription: Subscription, ids: Iterable[int]) -> None:
        drafts = self.draft(subscription)
        for row, of_row in self.predecessors.by_row(subscription.topic, drafts, sorted(set(ids))).items():
            self.predecessors.acknowledge(subscription, row, drafts, of_row)

    def _complete(self, subscription: Subscription, rows: Iterable[int]) -> None:
        if not self.is_there(subscription):
            return
        drafts = self.draft(subscription)
        whole = drafts[row_of(None, drafts)]  # the only one, or the one for all that have none
        missing = {row: Draft(whole) for row in rows if row not in drafts}
        statement, values = _named(self.statements.subscription_delete, _names(subscription))
        self.changes += [(f"{statement} AND PRIORITY=?", (*values, row)) for row in missing]
        if missing:
            self._insert(subscription, missing)
            drafts.update(missing)
            subscription.has_holes = True  # in each row there are fewer messages between the ranges than in the one

    def _close_holes(self, subscription: Subscription, drafts: Mapping[int, Draft]) -> None:
        """Let the mark take in ranges that no message parts from it (any more)."""
        if not subscription.has_holes:
            return
        for row, draft in drafts.items():
            levels = subscription.topic.levels_of(row, drafts)
            while draft.firsts:
                first = draft.firsts[0]
                if self.predecessors.last_before(subscription.topic, levels, draft.mark, first) > draft.mark:
                    break
                draft.add(draft.mark + 1, first)

    # -- statements ----------------------------------------------------------------------------------------------

    def _put_down(self, subscription: Subscription, drafts: Mapping[int, Draft]) -> None:
        """Write what has become of a subscription."""
        if subscription in self._ended:
            return
        names, part = _names(subscription), self._parts.get(subscription.topic)
        removed = part.removed if part is not None else set()
        if subscription.has_stale_rows:
            self.changes.append((self.statements.acked_delete, names))
        for row, draft in drafts.items():
            before = subscription.rows.get(row)
            if before is None or subscription.has_stale_rows:
                draft.touched.update(draft.firsts)
            # A range that ends with a message that is removed: there will be nothing to compare its origin with.
            draft.touched.update(first for first, last in draft.ranges if last in removed)
            if before is None or before.mark != draft.mark or subscription.has_stale_rows:
                self.changes.append((self.statements.mark_move, (draft.mark, *names, row, draft.mark)))
            put = [one for one in draft.ranges if one.first in draft.touched]
            was_there = set(before.firsts) if before is not None else set()
            self._delete_ranges(names, row, sorted(draft.touched & (was_there | {one.first for one in put})))
            self._insert_ranges(names, row, draft.mark, put, removed)

    def _delete_ranges(self, names: _Names, row: int, firsts: Sequence[int]) -> None:
        for start in range(0, len(firsts), _AT_ONCE):
            chosen = firsts[start : start + _AT_ONCE]
            self.changes.append((self.statements.acked_delete_some(len(chosen)), (*names, row, *chosen)))

    def _insert_ranges(self, names: _Names, row: int, mark: int, ranges: Sequence[Range], removed: set[int]) -> None:
        for start in range(0, len(ranges), _AT_ONCE):
            chosen = ranges[start : start + _AT_ONCE]
            # The third is whose origin is remembered; no message has the id -1.
            rows = [(first, last, -1 if last in removed else last) for first, last in chosen]
            values: tuple[str | int, ...] = (*names, row, mark, *(value for one in rows for value in one))
            self.changes.append((self.statements.acked_insert(len(chosen)), values))

    # -- afterwards ----------------------------------------------------------------------------------------------

    def settle(self) -> None:
        """The batch is committed."""
        for topic, part in self._parts.items():
            self._settle_topic(topic, part)
        newest = (ids[-1] for part in self._parts.values() for ids in part.added.values())
        self._registry.last_committed = max(self._registry.last_committed, *newest, 0)
        for subscription, drafts in self._drafts.items():
            subscription.change(-sum(draft.added for draft in drafts.values()))
            subscription.rows = {row: draft.committed() for row, draft in drafts.items()}
            subscription.has_stale_rows = False
            subscription.has_holes = subscription.has_holes and any(draft.firsts for draft in drafts.values())
        for subscription, in_doubt in self.in_doubt.items():
            subscription.in_doubt, subscription.shown = in_doubt, self._shown.get(subscription, {})
            subscription.forget_count()
        for subscription in {**self._drafts, **self.in_doubt}:
            subscription.see()
        for settle in self.afterwards:
            settle()
        for (subscription, row), stretch in self.predecessors.read.items():
            subscription.ahead[row] = stretch
        for subscription, drafts in self._drafts.items():
            for row, draft in drafts.items():
                if draft.mark >= subscription.topic.since:  # it has caught up
                    subscription.ahead.pop(row, None)
        for subscription in self._ended:
            subscription.topic.live.pop(subscription, None)
            with subscription.topic.lock:
                subscription.topic.leaving -= 1
            if not subscription.topic.live:
                subscription.topic.forget_tail()
        # Who has ended may have kept all of them.
        acknowledged = {subscription.topic: subscription.topic.container.count for subscription in self._ended}
        for subscription, drafts in self._drafts.items():
            most = max(draft.added for draft in drafts.values())
            acknowledged[subscription.topic] = max(most, acknowledged.get(subscription.topic, 0))
        for topic, most in acknowledged.items():
            topic.floor_moved(most)
            self._registry.look(topic)
        for queue, is_kept in self._kept.items():
            (self._registry.kept_queues.add if is_kept else self._registry.kept_queues.discard)(queue)

    def _settle_topic(self, topic: TopicState, part: _Part) -> None:
        added = sum(map(len, part.added.values()))
        for subscription in topic.live:
            subscription.change(added)
            if part.is_purged or part.removed:
                subscription.forget_count()
        for subscription in part.begun:
            topic.live[subscription] = None
            subscription.change(
                sum(id not in subscription.at(level) for level, ids in part.added.items() for id in ids)
            )
            if any(acknowledged.mark < self._registry.last_committed for acknowledged in subscription.rows.values()):
                topic.forget_tail()  # it is retroactive and knows what others have forgotten
        for level, ids in part.added.items():
            for id in ids:
                topic.append(id, level)


def _names(subscription: Subscription) -> _Names:
    key = subscription.info.key
    return subscription.topic.container.name, key.client_id, key.subscription_name


def _named(statement: str, names: _Names) -> Change:
    """A statement about a subscription: its names as often as the statement asks for them."""
    return statement, names * (statement.count("?") // len(names))
