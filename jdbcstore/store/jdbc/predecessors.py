"""Which message of a topic comes before another; asked by the writer's thread, for messages that it is about to commit
acknowledgements of.

Nearly always memory knows: either all before the message is acknowledged and nothing lies between, or the message is
one of the topic's newest, whose ids are kept. A subscription that works off a backlog gets its ids from the index, a
thousand at a time.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Final

from sqlalchemy import Connection, bindparam, text

from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.marks import Draft
from jdbcstore.store.jdbc.rows import MessageKey, MessageRow
from jdbcstore.store.jdbc.subscriptions import Registry, Stretch, Subscription, TopicState, row_of

__all__ = ["Predecessors", "Walks"]

#: Ids that are read ahead.
_AHEAD_ROWS: Final = 1000
#: Ids looked up in one statement.
_IDS_AT_ONCE: Final = 500


class Walks:
    """The statements that look for ids.

    Args:
        dialect: whose wording they have.
    """

    def __init__(self, dialect: Dialect) -> None:
        self.along = lru_cache(maxsize=None)(lambda level, backwards: text(dialect.walk(level, backwards=backwards)))
        self.levels = text(dialect.statements.message_levels).bindparams(bindparam("ids", expanding=True))
        self.by_key = text(dialect.statements.message_id_by_key)


class Predecessors:
    """Looks at the messages of topics, committed or about to be.

    Args:
        registry: knows the newest ones.
        walks: statements.
        connection: the writer's.
        added: ids that the batch adds, by topic and PRIORITY, in order.
        rows: everything that the batch adds.
    """

    def __init__(
        self,
        registry: Registry,
        walks: Walks,
        connection: Connection,
        added: Mapping[TopicState, Mapping[int, list[int]]],
        rows: Sequence[MessageRow],
    ) -> None:
        self._registry = registry
        self._walks = walks
        self._connection = connection
        self._added = added
        self._rows = rows
        #: What was read ahead, by subscription and row.
        self.read: dict[tuple[Subscription, int], Stretch] = {}

    def ids_of(self, keys: Iterable[MessageKey]) -> list[int]:
        """The ids of messages that are known by producer only."""
        ids: list[int] = []
        for key in keys:
            ids += [id for (id,) in self._connection.execute(self._walks.by_key, key._asdict())]
            ids += [row[0] for row in self._rows if row[1:4] == key]
        return ids

    def by_row(self, topic: TopicState, rows: Iterable[int], ids: list[int]) -> dict[int, list[int]]:
        """Which row of a subscription each of some messages belongs to. Some that are not there may be left out."""
        rows = list(rows)
        if len(rows) == 1:
            return {rows[0]: ids}
        added = self._added.get(topic, {})
        level_of: dict[int, int | None] = {id: level for level, of_level in added.items() for id in of_level}
        unknown: list[int] = []
        for id in ids:
            if id not in level_of:
                try:
                    level_of[id] = topic.level_of(id)
                except KeyError:
                    unknown.append(id)
        for start in range(0, len(unknown), _IDS_AT_ONCE):
            parameters = {"ids": unknown[start : start + _IDS_AT_ONCE], "container": topic.container.name}
            level_of.update(dict(tuple(found) for found in self._connection.execute(self._walks.levels, parameters)))
        sorted_out: dict[int, list[int]] = {}
        for id in ids:
            if id in level_of:
                sorted_out.setdefault(row_of(level_of[id], rows), []).append(id)
        return sorted_out

    def acknowledge(self, subscription: Subscription, row: int, rows: Mapping[int, Draft], ids: Sequence[int]) -> None:
        """Put messages that belong to one row into its draft, each with what lies before it. Those are left out that
        are not there (any more).

        Args:
            subscription: whose.
            row: which.
            rows: drafts of all its rows.
            ids: in order.
        """
        topic, draft = subscription.topic, rows[row]
        levels = topic.levels_of(row, rows)
        added: list[int] | None = None
        known: Stretch | None = None
        for id in ids:
            if id in draft:
                continue
            end = draft.end_below(id)
            if id > self._registry.last_committed:
                added = self._ids_added(topic, levels) if added is None else added
                place = bisect_left(added, id)
                if place == len(added) or added[place] != id:
                    continue
                before = added[place - 1] if place else self.last_before(topic, levels, end, id)
            else:
                known = self._known(subscription, row, levels, end, id) if known is None or id > known.upto else known
                place = bisect_left(known.ids, id)
                if place == len(known.ids) or known.ids[place] != id:
                    continue
                before = known.ids[place - 1] if place else known.after
            draft.add(max(end, before) + 1, id)
            draft.added += 1

    def last_before(self, topic: TopicState, levels: Sequence[int | None], after: int, id: int) -> int:
        """The last committed message between two ids, or `after` if there is none."""
        if after >= topic.since:
            tail = topic.tail(levels)
            place = bisect_left(tail, id)
            return max(after, tail[place - 1]) if place else after
        before = min(id, self._registry.last_committed + 1)
        found = (self._walk(topic, level, after, before, 1, backwards=True) for level in levels)
        return max((id for ids in found for id in ids), default=after)

    def first_behind(self, topic: TopicState, levels: Sequence[int | None], after: int) -> int | None:
        """The first message behind an id that is committed, or will be with this batch; None if there is none."""
        found = self._ids_added(topic, levels)
        found = found[bisect_right(found, after) :][:1]
        if after >= topic.since:
            tail = topic.tail(levels)
            found += tail[bisect_right(tail, after) :][:1]
        else:
            before = self._registry.last_committed + 1
            found += [id for level in levels for id in self._walk(topic, level, after, before, 1, backwards=False)]
        return min(found, default=None)

    def _ids_added(self, topic: TopicState, levels: Sequence[int | None]) -> list[int]:
        added = self._added.get(topic, {})
        found = [added[level] for level in levels if level is not None and level in added]
        return found[0] if len(found) == 1 else sorted(id for ids in found for id in ids)

    def _known(self, subscription: Subscription, row: int, levels: Sequence[int | None], end: int, id: int) -> Stretch:
        """Ids around a committed one, from `end`, which is acknowledged, or from a message before it on."""
        topic = subscription.topic
        if end >= topic.since:
            return Stretch(topic.since, topic.tail(levels), self._registry.last_committed)
        ahead = self.read.get((subscription, row)) or subscription.ahead.get(row)
        if ahead is None or not ahead.after < id <= ahead.upto:
            ahead = self._walked(topic, levels, end)
            if id > ahead.upto:  # so much is left out that the message is far away
                ahead = self._walked(topic, levels, self.last_before(topic, levels, end, id))
            self.read[subscription, row] = ahead
        return ahead

    def _walked(self, topic: TopicState, levels: Sequence[int | None], after: int) -> Stretch:
        """Ids behind one, a good many at once."""
        ids: list[int] = []
        upto = last = self._registry.last_committed
        for level in levels:
            found = self._walk(topic, level, after, last + 1, _AHEAD_ROWS, backwards=False)
            if len(found) == _AHEAD_ROWS:
                upto = min(upto, found[-1])
            ids += found
        return Stretch(after, sorted(id for id in ids if id <= upto), upto)

    def _walk(
        self, topic: TopicState, level: int | None, after: int, before: int, rows: int, *, backwards: bool
    ) -> list[int]:
        parameters: dict[str, object] = {
            "container": topic.container.name,
            "after": after,
            "before": before,
            "rows": rows,
        }
        if level is not None:
            parameters["level"] = level
        return [id for (id,) in self._connection.execute(self._walks.along(level, backwards), parameters)]
