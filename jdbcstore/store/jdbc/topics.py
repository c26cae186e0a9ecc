"""The messages of one topic, as rows, and the durable subscriptions to it.

What a subscription has acknowledged is in memory (`subscriptions`), and the writer alone changes it (`plan`). Here
is what callers do: they hand in acknowledgements, read pages that leave out what is acknowledged, and ask how much is
left.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence

from sqlalchemy import Connection, text

from jdbcstore.destination import Topic
from jdbcstore.errors import StoreError
from jdbcstore.identifiers import MessageId
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, Page, TopicMessageStore
from jdbcstore.store.jdbc.marks import NOTHING, Acknowledged
from jdbcstore.store.jdbc.messages import JdbcMessageStore, PageRow, Reach
from jdbcstore.store.jdbc.rows import MessageRow, Purge
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.subscriptions import Subscription, TopicState, row_of
from jdbcstore.store.jdbc.topic_work import Acknowledge, Added, Begin, Complete, End, Purged, Remove, TopicWork
from jdbcstore.store.jdbc.writes import Write
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["JdbcTopicMessageStore"]


class JdbcTopicMessageStore(JdbcMessageStore, TopicMessageStore):
    """One topic. Created by the adapter only.

    Args:
        adapter: started.
        destination: the topic.
        state: who subscribes to it.
        prioritized: whether messages are ordered by priority before sequence.
    """

    def __init__(self, adapter: StoreHost, destination: Topic, state: TopicState, *, prioritized: bool) -> None:
        super().__init__(adapter, destination, state.container, prioritized=prioritized)
        self._topic = state
        self._rows = adapter.registry.rows_for(prioritized=prioritized)
        self._counting = threading.Lock()

    # -- messages ------------------------------------------------------------------------------------------------

    @property
    def is_needed(self) -> bool:
        return self._topic.is_needed

    def work_of(self, row: MessageRow) -> tuple[TopicWork, ...]:
        return (Added(self._topic, row[0], row[5]),)

    def add_message(self, message: Message) -> Completion[int]:
        with self._adapter.order:
            if self.is_needed:
                row = self.row_of(message)
                completion: Completion[int] = Completion()
                write = Write(completion, row[0], adds=(row,), counts=(self.added,), topics=self.work_of(row))
                self._adapter.writer.submit(write)
                return completion
            self._adapter.require_open()
            return Completion.resolved(self.number(message).broker_sequence_id)

    def add_messages(self, messages: Sequence[Message]) -> None:
        return None  # what each means to the subscriptions is told one by one

    def remove_message(self, *message_ids: MessageId) -> Completion[None]:
        return self._submit(*(work for message_id in message_ids for work in self.removal_of(message_id)))

    def removal_of(self, message_id: MessageId) -> tuple[TopicWork, ...]:
        self._adapter.require_acked()
        id = message_id.broker_sequence_id
        return (Remove(self._topic, [id]) if id > 0 else Remove(self._topic, [], [self.key_of(message_id)]),)

    def remove_all_messages(self) -> Completion[None]:
        completion: Completion[None] = Completion()
        with self._adapter.order:
            last = self._adapter.last_message_broker_sequence_id()
            work, counts = Purged(self._topic, last), ((self.container, 0),)
            purge = Purge(self.container.name, last)
            self._adapter.writer.submit(Write(completion, purges=(purge,), counts=counts, topics=(work,)))
        return completion

    def remove_everything(self) -> Completion[None]:
        """Remove messages and subscriptions."""
        completion: Completion[None] = Completion()
        with self._adapter.order:
            last = self._adapter.last_message_broker_sequence_id()
            with self._topic.lock:
                ended = [End(subscription) for subscription in self._topic.by_key.values()]
                self._topic.by_key.clear()
                self._topic.leaving += len(ended)
            works = (*ended, Purged(self._topic, last))
            purge, counts = Purge(self.container.name, last), ((self.container, 0),)
            self._adapter.writer.submit(Write(completion, purges=(purge,), counts=counts, topics=works))
        return completion

    # -- subscriptions -------------------------------------------------------------------------------------------

    def complete_subscriptions(self) -> None:
        """Give the subscriptions a row for each priority that have only one, since the topic's policy was changed. A
        Java broker would pass over what has no row."""
        if self._adapter.registry.has_table and len(self._rows) > 1:
            for subscription in list(self._topic.by_key.values()):
                if any(row not in subscription.rows for row in self._rows):
                    self._submit(Complete(subscription, self._rows))

    def add_subscription(self, info: SubscriptionInfo, *, retroactive: bool = False) -> Completion[None]:
        self._adapter.require_open()
        info.require_topic(self.destination)
        self._adapter.check_subscription(info)
        completion: Completion[None] = Completion()
        adapter, topic = self._adapter, self._topic
        with adapter.order, topic.lock:
            known = topic.by_key.get(info.key)
            if known is not None and known.info.goes_on_with(info):
                known.info = info
                follows = () if known.beginning is None else (known.beginning,)
                adapter.writer.submit(Write(completion, follows=follows))
                return completion
            mark = NOTHING if retroactive else adapter.last_message_broker_sequence_id()
            rows = dict.fromkeys(self._rows, Acknowledged(mark))
            subscription = Subscription(topic, info, rows, None if retroactive else 0)
            subscription.beginning = completion
            works: tuple[TopicWork, ...] = (Begin(subscription),)
            if known is not None:
                works = (End(known), *works)
                topic.leaving += 1
            topic.by_key[info.key] = subscription
            adapter.writer.submit(Write(completion, topics=works))
        return completion

    def delete_subscription(self, key: SubscriptionKey) -> Completion[None]:
        self._adapter.require_open()
        topic = self._topic
        with self._adapter.order, topic.lock:
            known = topic.by_key.pop(key, None)
            if known is None:
                return self._submit()
            topic.leaving += 1
            return self._submit(End(known))

    def lookup_subscription(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        found = self._topic.by_key.get(key)
        return None if found is None else found.info

    def all_subscriptions(self) -> list[SubscriptionInfo]:
        return [subscription.info for subscription in list(self._topic.by_key.values())]

    def acknowledge(self, key: SubscriptionKey, *message_ids: MessageId) -> Completion[None]:
        return self._submit(*self.acknowledgement(key, message_ids))

    def acknowledgement(self, key: SubscriptionKey, message_ids: tuple[MessageId, ...]) -> tuple[TopicWork, ...]:
        """What the writer is asked when a subscription has acknowledged messages; nothing if it is not there."""
        self._adapter.require_acked()
        subscription = self._topic.by_key.get(key)
        if subscription is None:
            return ()
        ids = [one.broker_sequence_id for one in message_ids if one.broker_sequence_id > 0]
        keys = [self.key_of(one) for one in message_ids if one.broker_sequence_id <= 0]
        return (Acknowledge(subscription, ids, keys),)

    def _submit(self, *works: TopicWork) -> Completion[None]:
        completion: Completion[None] = Completion()
        self._adapter.writer.submit(Write(completion, topics=works))
        return completion

    def _subscription(self, key: SubscriptionKey) -> Subscription:
        self._adapter.require_open()
        found = self._topic.by_key.get(key)
        if found is None:
            raise StoreError(f"{self.destination} has no durable subscription {key}")
        return found

    # -- pages ---------------------------------------------------------------------------------------------------

    def recover_next_subscription_messages(
        self, key: SubscriptionKey, cursor: Cursor, messages_max: int, bytes_max: int
    ) -> Page:
        subscription = self._subscription(key)

        def probe(connection: Connection, level: int | None, reach: Reach) -> list[PageRow]:
            return self._unacknowledged(connection, level, reach, subscription.seen(level))

        return self._page(cursor, messages_max, bytes_max, probe)

    def _unacknowledged(
        self, connection: Connection, level: int | None, reach: Reach, acknowledged: Acknowledged
    ) -> list[PageRow]:
        """The next rows of one level without those that are acknowledged. A range of these costs a page at most."""
        found: list[PageRow] = []
        after = reach.after
        while (wanted := reach.rows - len(found)) > 0:
            rows = self._probe(connection, level, reach._replace(after=acknowledged.skipped(after), rows=wanted))
            found += [row for row in rows if row.id not in acknowledged]
            if len(rows) < wanted:
                break
            after = rows[-1].id
        return found

    # -- counting ------------------------------------------------------------------------------------------------

    def subscription_message_count(self, key: SubscriptionKey) -> int:
        subscription = self._subscription(key)
        count = subscription.count
        if count is None:
            with self._counting:
                count = self._count(subscription)
        return count

    def _count(self, subscription: Subscription) -> int:
        """Count once, while others go on writing.

        The writer tells what was acknowledged at one moment, and from then on keeps account of what changes. What was
        there at that moment is counted at leisure: nothing is added to it any more, and nothing taken away from it as
        long as the cleanup waits.
        """
        topic = self._topic
        with topic.lock:
            topic.counting += 1
        try:
            while (count := subscription.count) is None:
                start = _Start(subscription)
                self._in_writer(start.begin)
                start.counted = self._counted(start)
                self._in_writer(start.end)
            return count
        finally:
            with topic.lock:
                topic.counting -= 1

    def _in_writer(self, step: Callable[[], object]) -> None:
        """Do something in the writer's thread, behind all that was submitted."""
        moment: Completion[None] = Completion()
        moment.add_done_callback(lambda done: step() if done.error is None else None)
        self._adapter.writer.submit(Write(moment))
        moment.result()

    def _counted(self, start: _Start) -> int:
        container, dialect, rows = self.container.name, self._adapter.dialect, start.rows
        counted = 0
        with self._adapter.reading() as connection:
            for level in list(self.container.levels):
                statement = text(dialect.level_count(level))
                of_level = {"container": container} | ({} if level is None else {"level": level})
                for first, last in rows[row_of(level, rows)].gaps(start.last_committed):
                    if first <= last:
                        between = {"after": first - 1, "before": last + 1}
                        counted += int(connection.execute(statement, {**of_level, **between}).scalar_one())
            in_doubt = connection.execute(text(dialect.statements.ids_in_doubt), {"container": container})
            for id, level in in_doubt:
                counted -= id <= start.last_committed and id not in rows[row_of(level, rows)]
        return counted


class _Start:
    """What was true when somebody began to count."""

    __slots__ = ("counted", "last_committed", "recount", "rows", "subscription")

    rows: Mapping[int, Acknowledged]
    last_committed: int
    recount: int
    counted: int

    def __init__(self, subscription: Subscription) -> None:
        self.subscription = subscription

    def begin(self) -> None:
        """It is now; in the writer's thread."""
        subscription = self.subscription
        subscription.since_counting = 0
        self.rows, self.recount = subscription.seen_rows, subscription.recount
        self.last_committed = subscription.topic.registry.last_committed

    def end(self) -> None:
        """So many there were, unless something was taken away meanwhile; in the writer's thread."""
        if self.subscription.recount == self.recount:
            self.subscription.count = self.counted + self.subscription.since_counting
