"""The durable subscriptions of a store: what is read of them at the start, and kept in memory from then on.

A subscription to a topic is a row of ACTIVEMQ_ACKS, or ten, one for each priority, where the topic's policy asks for
order by priority. Each row has its mark; what is acknowledged above it stands in our own table JDBCSTORE_ACKED (see
`marks`). A message belongs to the row of its own PRIORITY if there is one, and else to the one that is there. That
holds for every mixture: topics whose policy was changed, rows of before ActiveMQ 5.4 that stand at 5, and the key of
three columns by which ActiveMQ on PostgreSQL has room for one row only.

A Java broker does not know our table. What it does to a subscription meanwhile shows when the rows are read again:

* It acknowledged more: ranges at or below its mark have gone into that.
* It deleted the subscription and made it anew: the new one begins at the highest id of all messages, above all ranges
  whose messages are still there; or, being retroactive, at -1, and a range tells how high the mark was when it was
  written.
* It began to count ids anew, since all its tables were empty: a range remembers whose message its last one is. As long
  as that is there, no id up to it can have been given out again.

What does not hold any more is left out, and removed together with the next change of that subscription.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Final, NamedTuple, TypeAlias

from sqlalchemy import Connection, text

from jdbcstore.destination import Topic, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PRIORITY_LEVELS
from jdbcstore.store.jdbc.marks import NOTHING, Acknowledged, Draft, Range
from jdbcstore.store.jdbc.rows import Container
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["VIRTUAL_TOPIC_ROW", "InDoubt", "Registry", "Shown", "Stretch", "Subscription", "TopicState", "row_of"]

#: PRIORITY of the row that says that the queue of a consumer of a virtual topic is there.
VIRTUAL_TOPIC_ROW: Final = 11

#: A topic's newest ids that are kept at least, and when they are cut.
_TAIL_LEAST: Final = 2048
_TAIL_MOST: Final = 2 * _TAIL_LEAST


class Stretch(NamedTuple):
    """The ids of some messages in order: all there are behind one id up to another."""

    after: int
    ids: list[int]
    upto: int


class Shown(NamedTuple):
    """The transaction that column XID of a subscription's row names, and the column."""

    xid: XATransactionId
    column: str


#: What is acknowledged in doubt: by transaction and PRIORITY of the subscription's row, an interval for each message.
InDoubt: TypeAlias = Mapping[XATransactionId, Mapping[int, list[Range]]]


class Subscription:
    """One durable subscription, from its beginning to its end; a new one of the same name is another object.

    What is not said to be the writer's may be read by any thread.

    Args:
        topic: where it belongs.
        info: whose it is and what it asks for.
        rows: by PRIORITY of its rows, what is acknowledged.
        count: how many messages it has not acknowledged, None while nobody has counted them.
    """

    __slots__ = (
        "ahead",
        "beginning",
        "count",
        "has_holes",
        "has_stale_rows",
        "in_doubt",
        "info",
        "recount",
        "rows",
        "seen_rows",
        "shown",
        "since_counting",
        "topic",
    )

    def __init__(
        self, topic: TopicState, info: SubscriptionInfo, rows: Mapping[int, Acknowledged], count: int | None = None
    ) -> None:
        self.topic = topic
        self.info = info
        #: Replaced as a whole by the writer.
        self.rows: Mapping[int, Acknowledged] = rows
        #: The writer's: what prepared transactions acknowledge, and what column XID says of it.
        self.in_doubt: InDoubt = {}
        self.shown: Mapping[int, Shown] = {}
        #: What is acknowledged, in doubt or not: what a reader is not shown. Replaced as a whole by the writer.
        self.seen_rows: Mapping[int, Acknowledged] = rows
        self.count = count
        #: Its creation; None when it was found in the table.
        self.beginning: Completion[None] | None = None
        #: The writer's: what the count has changed by since somebody began to count.
        self.since_counting = 0
        #: The writer's: grows when messages were taken away, so that whoever counts has to begin again.
        self.recount = 0
        #: The writer's: ids that were read ahead, by row.
        self.ahead: dict[int, Stretch] = {}
        #: The writer's: whether JDBCSTORE_ACKED has rows of this name that do not hold any more.
        self.has_stale_rows = False
        #: The writer's: whether there may be ranges that no message parts, e.g. since a Java broker removed it.
        self.has_holes = False

    def at(self, level: int | None) -> Acknowledged:
        """What is acknowledged of the messages with this PRIORITY."""
        rows = self.rows
        return rows[row_of(level, rows)]

    def see(self) -> None:
        """`rows` or `in_doubt` has changed. The writer's."""
        if not self.in_doubt:
            self.seen_rows = self.rows
            return
        drafts = {row: Draft(acknowledged) for row, acknowledged in self.rows.items()}
        for of_transaction in self.in_doubt.values():
            for row, ranges in of_transaction.items():
                for first, last in ranges:
                    drafts[row_of(row, drafts)].add(first, last)
        self.seen_rows = {row: draft.committed() for row, draft in drafts.items()}

    def seen(self, level: int | None) -> Acknowledged:
        """What a reader is not shown of the messages with this PRIORITY."""
        rows = self.seen_rows
        return rows[row_of(level, rows)]

    def forget_count(self) -> None:
        """It has to be counted again, also by who is at it. The writer's."""
        self.count = None
        self.recount += 1

    def change(self, messages: int) -> None:
        """There are so many more to acknowledge, or less. The writer's."""
        if self.count is None:
            self.since_counting += messages
        else:
            self.count += messages


def row_of(level: int | None, rows: Iterable[int]) -> int:
    """The row of a subscription that a message belongs to.

    Args:
        level: the message's PRIORITY; None in rows of before ActiveMQ 5.4.
        rows: the subscription's.
    """
    wanted = level or 0
    return wanted if wanted in rows else min(rows)


class TopicState:
    """One topic: who subscribes to it, and its newest ids.

    Args:
        registry: where it belongs.
        container: its messages.
    """

    __slots__ = (
        "_tail",
        "_tail_size",
        "by_key",
        "cleared",
        "container",
        "counting",
        "floors",
        "leaving",
        "live",
        "lock",
        "registry",
        "removable",
        "since",
    )

    def __init__(self, registry: Registry, container: Container) -> None:
        self.registry = registry
        self.container = container
        #: Guards the next two. Nobody waits for the store while holding it.
        self.lock = threading.Lock()
        #: What callers see: also what is about to begin, no more what is about to end.
        self.by_key: dict[SubscriptionKey, Subscription] = {}
        #: How many are about to end.
        self.leaving = 0
        #: The writer's: what stands in the table.
        self.live: dict[Subscription, None] = {}
        #: How many are counting just now; nothing is cleaned up meanwhile.
        self.counting = 0
        #: The writer's: about how many messages everybody has acknowledged that are still there, and up to which ids.
        self.removable = 0
        self.floors: dict[int | None, int | None] = {}
        #: The cleanup's: by PRIORITY, up to which id nothing is left to remove.
        self.cleared: dict[int | None, int] = {}
        #: The writer's: all messages behind this id are in the tail.
        self.since = registry.last_committed
        self._tail: dict[int | None, list[int]] = {}
        self._tail_size = 0

    @property
    def is_needed(self) -> bool:
        """Whether messages have to be stored; the caller holds the adapter's order, so that it stays so."""
        return bool(self.by_key) or self.leaving > 0

    def levels_of(self, row: int, rows: Iterable[int]) -> list[int | None]:
        """The values of PRIORITY whose messages belong to a row of a subscription."""
        return [level for level in list(self.container.levels) if row_of(level, rows) == row]

    def append(self, id: int, level: int | None) -> None:
        """A message was committed. The writer's."""
        self._tail.setdefault(level, []).append(id)
        self._tail_size += 1
        if self._tail_size > _TAIL_MOST:
            newest = sorted(id for ids in self._tail.values() for id in ids)[-_TAIL_LEAST:]
            self.since = newest[0] - 1
            self._tail = {level: ids[bisect_right(ids, self.since) :] for level, ids in self._tail.items()}
            self._tail_size = len(newest)

    def tail(self, levels: Iterable[int | None]) -> list[int]:
        """The newest ids of some values of PRIORITY, in order: all behind `since`. The writer's; not to be changed."""
        found = [ids for level in levels if (ids := self._tail.get(level))]
        return found[0] if len(found) == 1 else sorted(id for ids in found for id in ids)

    def level_of(self, id: int) -> int | None:
        """The PRIORITY of one of the newest messages. Raises KeyError when it is none of them."""
        for level, ids in self._tail.items():
            place = bisect_right(ids, id)
            if place and ids[place - 1] == id:
                return level
        raise KeyError(id)

    def forget_tail(self) -> None:
        """Begin the tail anew, since removed messages are not taken out of it. The writer's."""
        self.since = self.registry.last_committed
        self._tail = {}
        self._tail_size = 0

    def doubt(self, id: int) -> None:
        """Nobody knows whether a message was committed: memory does not know all of the newest any more."""
        self.registry.last_committed = max(self.registry.last_committed, id)
        self.forget_tail()
        for subscription in list(self.live):
            subscription.forget_count()

    def floor(self, level: int | None, others: Iterable[Subscription] = ()) -> int | None:
        """Up to which id every subscription, and `others`, has acknowledged the messages with this PRIORITY.

        None when there is no subscription.
        """
        return min((one.at(level).mark for one in (*list(self.live), *others)), default=None)

    def floor_moved(self, acknowledged: int) -> None:
        """A subscription has acknowledged so many, or has ended: perhaps others waited for it. The writer's."""
        floors = {level: self.floor(level) for level in list(self.container.levels)}
        if floors != self.floors:
            self.floors = floors
            self.removable += acknowledged
        if not self.live:
            self.removable = self.container.count


class Registry:
    """All durable subscriptions of one store.

    Args:
        statements: names of the tables.
        has_table: whether our table of acknowledgements is there.
        has_level_rows: whether ACTIVEMQ_ACKS has room for ten rows of one subscription.
        last_committed: the highest id in the store.
    """

    def __init__(
        self, statements: Statements, *, has_table: bool, has_level_rows: bool, last_committed: int = 0
    ) -> None:
        self.has_table = has_table
        self.has_level_rows = has_level_rows
        #: By CONTAINER.
        self.topics: dict[str, TopicState] = {}
        #: Values of CONTAINER of queues that are known although they may be empty.
        self.kept_queues: set[str] = set()
        #: Other values of CONTAINER in ACTIVEMQ_ACKS.
        self.others: set[str] = set()
        #: The writer's: no message of a topic that is committed, or may be, has a higher id.
        self.last_committed = last_committed
        #: Called by the writer when a topic's messages may have become removable.
        self.look: Callable[[TopicState], None] = lambda topic: None
        self._statements = statements

    def state(self, container: Container) -> TopicState:
        """The state of one topic. The caller holds the adapter's order."""
        state = self.topics.get(container.name)
        if state is None:
            state = self.topics[container.name] = TopicState(self, container)
        return state

    def rows_for(self, *, prioritized: bool) -> range:
        """PRIORITY of the rows that a subscription to a topic has."""
        return range(PRIORITY_LEVELS if prioritized and self.has_level_rows else 1)

    def clear(self) -> None:
        """Everything was deleted. The caller holds the adapter's order and knows that the writer rests."""
        for state in self.topics.values():
            with state.lock:
                state.by_key.clear()
            state.live.clear()
            state.removable = 0
            state.forget_tail()
        self.kept_queues.clear()
        self.others.clear()

    def load(self, connection: Connection, containers: dict[str, Container]) -> None:
        """Read every subscription. Adds to `containers` what it finds."""
        marks: dict[tuple[str, str, str], dict[int, int]] = {}
        words: dict[tuple[str, str, str], tuple[str | None, str | None]] = {}
        for container, sub_dest, client_id, name, selector, mark, row in connection.execute(
            text(self._statements.subscriptions_all)
        ):
            if row == VIRTUAL_TOPIC_ROW:
                self.kept_queues.add(container)
            elif not container.startswith(Topic.prefix):
                self.others.add(container)
            else:
                marks.setdefault((container, client_id, name), {})[int(row)] = NOTHING if mark is None else int(mark)
                words[container, client_id, name] = sub_dest, selector
        ranges, stale = self._ranges(connection, marks)
        for (container, client_id, name), rows in marks.items():
            info = _info(container, client_id, name, *words[container, client_id, name])
            if info is None:
                self.others.add(container)
                continue
            topic = self.state(containers.setdefault(container, Container(container)))
            acknowledged = {
                row: _merged(mark, ranges.get((container, client_id, name, row), ())) for row, mark in rows.items()
            }
            subscription = Subscription(topic, info, acknowledged)
            subscription.has_stale_rows = (container, client_id, name) in stale
            subscription.has_holes = any(one.firsts for one in acknowledged.values())
            topic.by_key[info.key] = subscription
            topic.live[subscription] = None

    def _ranges(
        self, connection: Connection, marks: Mapping[tuple[str, str, str], Mapping[int, int]]
    ) -> tuple[dict[tuple[str, str, str, int], list[Range]], set[tuple[str, str, str]]]:
        """The ranges that hold, in order, by subscription and row; and the subscriptions with rows that do not."""
        ranges: dict[tuple[str, str, str, int], list[Range]] = {}
        stale: set[tuple[str, str, str]] = set()
        if not self.has_table:
            return ranges, stale
        for container, client_id, name, row, first, last, written_at, *origin in connection.execute(
            text(self._statements.acked_all)
        ):
            mark = marks.get((container, client_id, name), {}).get(row)
            is_its_message = origin[0] is None or origin[:2] == origin[2:]
            if mark is None or not is_its_message or written_at > mark or first <= mark + 1:
                stale.add((container, client_id, name))
            if mark is not None and is_its_message and written_at <= mark:
                ranges.setdefault((container, client_id, name, row), []).append(Range(first, last))
        return ranges, stale


def _merged(mark: int, ranges: Iterable[Range]) -> Acknowledged:
    """Ranges as they stand in the table: a Java broker may have moved the mark into them."""
    apart: list[Range] = []
    for first, last in ranges:
        if first <= mark + 1:
            mark = max(mark, last)
        elif apart and first <= apart[-1].last + 1:
            apart[-1] = Range(apart[-1].first, max(apart[-1].last, last))
        else:
            apart.append(Range(first, last))
    return Acknowledged(mark, apart)


def _info(
    container: str, client_id: str, name: str, sub_dest: str | None, selector: str | None
) -> SubscriptionInfo | None:
    try:
        destination = parse_destination(container)
        subscribed = parse_destination(sub_dest or container, default=Topic)
    except ConfigurationError:  # no broker makes such a name
        return None
    return SubscriptionInfo(SubscriptionKey(client_id, name), destination, subscribed, selector or None)
