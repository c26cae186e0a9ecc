"""What preparing a transaction, committing it and rolling it back means: statements, and what is true when it is done.

Part of the writer's plans (`plan`), so it happens in the order of the commits, and every statement may be executed
twice. Each of these writes has a batch to itself: what it finds in the tables is what was committed before it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Final, Protocol, TypeVar

from sqlalchemy import Connection, bindparam, text

from jdbcstore.destination import Topic
from jdbcstore.errors import JdbcStoreError, OutcomeUnknown, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.jdbc.marks import Acknowledged, Draft, Range
from jdbcstore.store.jdbc.predecessors import Predecessors
from jdbcstore.store.jdbc.prepared import AddedRow, Doubts, Prepared
from jdbcstore.store.jdbc.rows import Change, Container, MessageKey
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.subscriptions import InDoubt, Registry, Shown, Subscription, row_of
from jdbcstore.store.jdbc.topic_work import Acknowledge, TopicWork
from jdbcstore.store.jdbc.xid import ack_xid, added_xid, plain_xid, read_message_xid, removed_xid

__all__ = ["Decide", "Decision", "OutcomePlan", "Prepare", "plan_prepare", "show", "widened"]

#: Messages or intervals in one statement.
_AT_ONCE: Final = 100
#: Ids looked up in one statement.
_IDS_AT_ONCE: Final = 500

_T = TypeVar("_T")


@dataclass(slots=True)
class Prepare(TopicWork):
    """Put a transaction in doubt; the write adds its messages.

    Args:
        xid: whose.
        doubts: where it will be kept.
        added: the messages that the write adds.
        removes: where, and ids of messages to remove; those known by producer (`keys`) are added to it.
        keys: where, and by whom.
        acknowledges: what subscriptions are done with.
    """

    is_alone: ClassVar[bool] = True

    xid: XATransactionId
    doubts: Doubts
    added: Sequence[AddedRow]
    removes: Sequence[tuple[Container, int]]
    keys: Sequence[tuple[Container, MessageKey]]
    acknowledges: Sequence[Acknowledge]

    def fail(self, error: JdbcStoreError) -> None:
        if isinstance(error, OutcomeUnknown):
            self.doubts.put(self.xid, Prepared(list(self.added), is_certain=False))


@dataclass(slots=True)
class Decide(TopicWork):
    """Commit a prepared transaction or roll it back.

    Args:
        xid: which.
        doubts: where it is kept.
        commits: whether to commit it.
        new_ids: by the ids of its added messages, those that they get now; nothing for one that nobody needs.
    """

    is_alone: ClassVar[bool] = True

    xid: XATransactionId
    doubts: Doubts
    commits: bool
    new_ids: Mapping[int, int]
    registry: Registry

    def fail(self, error: JdbcStoreError) -> None:
        prepared = self.doubts.by_xid.get(self.xid)
        if isinstance(error, OutcomeUnknown) and prepared is not None:
            prepared.is_certain = False
            for row in prepared.added:
                topic = self.registry.topics.get(row.container.name)
                if topic is not None and row.id in self.new_ids:
                    topic.doubt(self.new_ids[row.id])


class OutcomePlan(Protocol):
    """What a batch does to subscriptions (`jdbcstore.store.jdbc.plan.Plan`), as far as outcomes add to it."""

    statements: Statements
    predecessors: Predecessors
    changes: list[Change]
    in_doubt: dict[Subscription, InDoubt]
    afterwards: list[Callable[[], object]]

    def is_there(self, subscription: Subscription) -> bool:
        """Whether a subscription can acknowledge: it has begun and does not end."""

    def draft(self, subscription: Subscription) -> dict[int, Draft]:
        """What a subscription will have acknowledged, by row."""


class _Trial(Draft):
    """A draft that keeps what is put into it."""

    __slots__ = ("intervals",)

    def __init__(self, committed: Acknowledged) -> None:
        super().__init__(committed)
        self.intervals: list[Range] = []

    def add(self, first: int, last: int) -> None:
        self.intervals.append(Range(first, last))
        super().add(first, last)


# -- preparing -------------------------------------------------------------------------------------------------------


def plan_prepare(plan: OutcomePlan, connection: Connection, work: Prepare) -> None:
    """Statements for a transaction that is to be in doubt."""
    statements, doubts, xid = plan.statements, work.doubts, work.xid
    if work.keys:
        by_key = text(statements.message_id_by_key)
        found = [(container, id) for container, key in work.keys for (id,) in connection.execute(by_key, key._asdict())]
        work.removes, work.keys = [*work.removes, *found], ()
    removed = _present(connection, plan, work)
    for text_, ids in ((added_xid(xid), [row.id for row in work.added]), (removed_xid(xid), [id for id, _ in removed])):
        plan.changes += [(statements.put_in_doubt(len(some)), (text_, *some)) for some in _chunks(ids)]
    prepared = Prepared(list(work.added), removed)
    if doubts.has_table:
        plan.changes.append((statements.prepared_acks_delete, (plain_xid(xid),)))
    for subscription, acknowledged in _by_subscription(plan, work.acknowledges).items():
        trials = {row: _Trial(of_row) for row, of_row in subscription.rows.items()}
        for row, ids in plan.predecessors.by_row(subscription.topic, trials, sorted(acknowledged)).items():
            plan.predecessors.acknowledge(subscription, row, trials, ids)
        rows = {row: trial.intervals for row, trial in trials.items() if trial.intervals}
        if rows:
            prepared.acknowledged[subscription] = rows
            plan.in_doubt[subscription] = {**subscription.in_doubt, xid: rows}
    plan.changes += _our_rows(plan, xid, prepared.acknowledged)

    def settle() -> None:
        doubts.put(xid, prepared)
        for _, container in removed:
            container.count -= 1

    plan.afterwards.append(settle)


def _by_subscription(plan: OutcomePlan, acknowledges: Sequence[Acknowledge]) -> dict[Subscription, set[int]]:
    found: dict[Subscription, set[int]] = {}
    for one in acknowledges:
        if plan.is_there(one.subscription):
            found.setdefault(one.subscription, set()).update(one.ids, plan.predecessors.ids_of(one.keys))
    return found


def _present(connection: Connection, plan: OutcomePlan, work: Prepare) -> list[tuple[int, Container]]:
    """Those messages to be removed that are there. One that somebody else removes in doubt cannot be removed."""
    wanted = {id: container for container, id in work.removes}
    statement = text(plan.statements.message_states).bindparams(bindparam("ids", expanding=True))
    present = []
    for ids in _chunks(sorted(wanted), _IDS_AT_ONCE):
        for id, column, name in connection.execute(statement, {"ids": ids}):
            if name != wanted[id].name:
                continue
            if column is not None and read_message_xid(column) != (work.xid, False):
                raise StoreError(f"message {id} of {name} is in doubt: another transaction that removes it is prepared")
            present.append((id, wanted[id]))
    return present


def _our_rows(
    plan: OutcomePlan, xid: XATransactionId, acknowledged: Mapping[Subscription, Mapping[int, Sequence[Range]]]
) -> Iterator[Change]:
    """Our own table's rows; `show` says which of them the column shows, too."""
    number = 0
    for subscription, rows in acknowledged.items():
        given = [(row, *one, subscription.rows[row].mark, 0) for row, ranges in rows.items() for one in ranges]
        for some in _chunks(given):
            values: list[str | int] = [plain_xid(xid), *_names(subscription)]
            for one in some:
                values += [number, *one]
                number += 1
            yield plan.statements.prepared_acks_insert(len(some)), tuple(values)


# -- deciding --------------------------------------------------------------------------------------------------------


class Decision:
    """What committing or rolling back comes to.

    Args:
        plan: which it is a part of.
        connection: the writer's.
        work: what is asked.
    """

    def __init__(self, plan: OutcomePlan, connection: Connection, work: Decide) -> None:
        self._plan = plan
        self._work = work
        known = work.doubts.by_xid.get(work.xid, Prepared())
        self._prepared = known
        #: Where counts may be off.
        self.recount: set[Container] = set()
        if not known.is_certain:
            self._prepared = work.doubts.look_again(connection, work.xid)
            self.recount = {row.container for row in (*known.added, *self._prepared.added)}
            self.recount.update(container for _, container in (*known.removed, *self._prepared.removed))
        #: Whom it shows messages to that were not there.
        self._appearing: list[tuple[AddedRow, int]] = []
        if work.commits:
            self._appearing = [(row, work.new_ids[row.id]) for row in self._prepared.added if row.id in work.new_ids]

    def added_to_topics(self) -> Iterator[tuple[str, int, int]]:
        """The messages that appear on topics: CONTAINER, id, PRIORITY."""
        for row, id in self._appearing:
            if row.container.name.startswith(Topic.prefix):
                yield row.container.name, id, row.level or 0

    def plan_it(self) -> None:
        """The statements."""
        plan, statements, prepared = self._plan, self._plan.statements, self._prepared
        added, removed = [row.id for row in prepared.added], [id for id, _ in prepared.removed]
        gone = added
        if self._work.commits:
            for some in _chunks(self._appearing):
                pairs = [id for row, new_id in some for id in (row.id, new_id)]
                old = [row.id for row, _ in some]
                plan.changes.append((statements.out_of_doubt_anew(len(some)), (*pairs, *old)))
            appearing = {row.id for row, _ in self._appearing}
            gone = [id for id in added if id not in appearing] + removed
        else:
            plan.changes += [(statements.out_of_doubt(len(some)), tuple(some)) for some in _chunks(removed)]
        plan.changes += [(statements.doubtful_delete(len(some)), tuple(some)) for some in _chunks(gone)]
        if self._work.doubts.has_table:
            plan.changes.append((statements.prepared_acks_delete, (plain_xid(self._work.xid),)))
        known = self._work.doubts.by_xid.get(self._work.xid, prepared)
        for subscription in {**known.acknowledged, **prepared.acknowledged}:
            if plan.is_there(subscription):
                self._decide_of(subscription, prepared.acknowledged.get(subscription, {}))
        plan.afterwards.append(self._settle)

    def _decide_of(self, subscription: Subscription, rows: Mapping[int, Sequence[Range]]) -> None:
        if self._work.commits:
            drafts = self._plan.draft(subscription)
            for row, ranges in rows.items():
                draft = drafts[row_of(row, drafts)]
                for first, last in ranges:
                    draft.add(first, last)
                    draft.added += 1
        left = {xid: of_xid for xid, of_xid in subscription.in_doubt.items() if xid != self._work.xid}
        self._plan.in_doubt[subscription] = left

    def _settle(self) -> None:
        self._work.doubts.drop(self._work.xid)
        if self._work.commits:
            for row, _ in self._appearing:
                row.container.count += 1
        else:
            for _, container in self._prepared.removed:
                container.count += 1


# -- what the column shows -------------------------------------------------------------------------------------------


def show(
    subscription: Subscription, in_doubt: InDoubt, rows: Mapping[int, Acknowledged], plan: OutcomePlan
) -> dict[int, Shown]:
    """Statements that make column XID of a subscription's rows say what is in doubt; what it says then.

    The transaction that stands there stays there as long as it is in doubt; then it is the turn of another.

    Args:
        subscription: whose.
        in_doubt: its acknowledgements in doubt, by transaction and row, as they will be.
        rows: what is acknowledged, as it will be.
        plan: gets the statements.
    """
    shown: dict[int, Shown] = {}
    names = _names(subscription)
    for row in rows:
        before = subscription.shown.get(row)
        candidates = [xid for xid, of_xid in in_doubt.items() if row in of_xid]
        if before is not None and before.xid in in_doubt:
            candidates = [before.xid]
        if candidates:
            xid = candidates[0]
            shown[row] = Shown(xid, ack_xid(xid, _upto(subscription, in_doubt[xid], rows, plan), row))
            if before is None or before.xid != xid:
                plan.changes.append((plan.statements.prepared_acks_shown, (plain_xid(xid), *names, row)))
        after = shown.get(row)
        if before != after:
            column = None if after is None else after.column
            plan.changes.append((plan.statements.ack_in_doubt, (column, *names, row)))
    return shown


def _upto(
    subscription: Subscription,
    of_xid: Mapping[int, Sequence[Range]],
    rows: Mapping[int, Acknowledged],
    plan: OutcomePlan,
) -> int:
    """The id up to which a subscription has acknowledged everything if one transaction in doubt is committed.

    At every level: a Java broker that has recovered such a transaction and commits it makes the number the mark of all
    rows of the subscription, and so loses messages of its own on topics with priorities.
    """
    marks: list[int] = []
    ends: list[int] = []
    for row, acknowledged in rows.items():
        trial = Draft(acknowledged)
        for first, last in of_xid.get(row, ()):
            trial.add(first, last)
        marks.append(trial.mark)
        if len(rows) > 1:
            levels = subscription.topic.levels_of(row, rows)
            left = plan.predecessors.first_behind(subscription.topic, levels, trial.mark)
            if left is not None:
                ends.append(left - 1)
    return min([max(marks), *ends])


def widened(in_doubt: InDoubt, before: Mapping[int, object], rows: Mapping[int, object]) -> InDoubt:
    """What is in doubt of a subscription that had one row and has more: no message parts an interval, at any level."""
    new = rows.keys() - before.keys()
    if not new:
        return in_doubt
    return {
        xid: {**of_xid, **{row: of_xid[row_of(None, before)] for row in new if row_of(None, before) in of_xid}}
        for xid, of_xid in in_doubt.items()
    }


def _names(subscription: Subscription) -> tuple[str, str, str]:
    key = subscription.info.key
    return subscription.topic.container.name, key.client_id, key.subscription_name


def _chunks(items: Sequence[_T], size: int = _AT_ONCE) -> Iterator[Sequence[_T]]:
    for start in range(0, len(items), size):
        yield items[start : start + size]
