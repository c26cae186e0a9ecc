"""Transactions against a model: prepared, decided, with everything else that is done to durable subscriptions and
crashes in between.
"""

from __future__ import annotations

import sqlite3
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc import predecessors, subscriptions
from jdbcstore.store.jdbc.xid import read_ack_xid
from jdbcstore.subscription import SubscriptionKey
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.examples import examples
from tests.sql.test_topic_machine import (
    CHOICE,
    KEYS,
    TOPICS,
    WAIT_S,
    Reader,
    Subscribed,
    TopicMachine,
    id_of,
    java_delivers,
)

QUEUE = Queue("Q")


@dataclass
class InDoubt:
    """What the model knows of a prepared transaction."""

    acknowledged: list[tuple[Reader, Subscribed, int]] = field(default_factory=list)
    removed: list[int] = field(default_factory=list)
    published: list[tuple[Topic, int, int]] = field(default_factory=list)
    sent: list[int] = field(default_factory=list)


class TransactionMachine(TopicMachine):
    """Beside all else: transactions that add, remove and acknowledge, are prepared and decided, in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.in_doubt: dict[XATransactionId, InDoubt] = {}
        #: Producer sequences on the queue.
        self.waiting: list[int] = []
        self.transactions = 0
        #: Ids that somebody has taken away from everybody.
        self.removed: set[int] = set()

    @rule()
    def send(self) -> None:
        self.number += 1
        self.adapter.queue_message_store(QUEUE).add_message(text_message(self.number)).result(WAIT_S)
        self.waiting.append(self.number)

    @rule(
        adds=st.lists(st.tuples(st.sampled_from(TOPICS), st.integers(0, 3)), max_size=3),
        sends=st.integers(0, 2),
        removes=st.lists(CHOICE, max_size=2),
        acknowledged=st.lists(st.tuples(CHOICE, CHOICE), max_size=8),
    )
    def prepare(
        self, adds: list[tuple[Topic, int]], sends: int, removes: list[int], acknowledged: list[tuple[int, int]]
    ) -> None:
        self.transactions += 1
        xid, doubt = XATransactionId(1, str(self.transactions).encode(), b"b"), InDoubt()
        transaction = self.adapter.transaction_store().begin(xid)
        queue = self.adapter.queue_message_store(QUEUE)
        for topic, priority in adds:
            self.number += 1
            transaction.add_message(self.topic(topic), text_message(self.number, priority=priority))
            doubt.published.append((topic, self.number, priority))
        for _ in range(sends):
            self.number += 1
            transaction.add_message(queue, text_message(self.number))
            doubt.sent.append(self.number)
        for number in sorted({self.waiting[place % len(self.waiting)] for place in removes if self.waiting}):
            transaction.remove_message(queue, MessageId(PRODUCER, number))
            doubt.removed.append(number)
        for choice, place in acknowledged:
            reader = self.reader(choice)
            if reader is None:
                continue
            wanted = sorted(self.model[reader].wanted)
            found = reader, self.model[reader], wanted[place % len(wanted)]
            if found not in doubt.acknowledged:
                transaction.acknowledge(self.topic(reader[0]), reader[1], MessageId(None, 0, found[2]))
                doubt.acknowledged.append(found)
        transaction.prepare().result(WAIT_S)
        for _, subscribed, id in doubt.acknowledged:
            subscribed.wanted.discard(id)
        self.waiting = [number for number in self.waiting if number not in doubt.removed]
        if doubt == InDoubt():  # a crash would leave nothing of it
            self.adapter.transaction_store().rollback_prepared(xid).result(WAIT_S)
        else:
            self.in_doubt[xid] = doubt

    @rule(choice=CHOICE, commits=st.booleans())
    def decide(self, choice: int, commits: bool) -> None:
        if not self.in_doubt:
            return
        xid = sorted(self.in_doubt, key=str)[choice % len(self.in_doubt)]
        doubt = self.in_doubt.pop(xid)
        store = self.adapter.transaction_store()
        (store.commit_prepared if commits else store.rollback_prepared)(xid).result(WAIT_S)
        if not commits:
            self.waiting = sorted({*self.waiting, *doubt.removed}, key=self.place)
            for reader, subscribed, id in doubt.acknowledged:
                if self.model.get(reader) is subscribed and id not in self.removed:
                    subscribed.wanted.add(id)
            return
        self.waiting += doubt.sent
        for topic, number, priority in doubt.published:
            if any(other == topic for other, _ in self.model):
                found = self.topic(topic).get_message(MessageId(PRODUCER, number))
                assert found is not None
                self.priorities[id_of(found)] = priority
                for (other, _), subscribed in self.model.items():
                    if other == topic:
                        subscribed.wanted.add(id_of(found))

    def place(self, number: int) -> int:
        found = self.adapter.queue_message_store(QUEUE).get_message(MessageId(PRODUCER, number))
        return id_of(found)

    # -- what is otherwise with something in doubt ---------------------------------------------------------------

    @rule()
    def clean_up(self) -> None:
        self.adapter.clean_up()

    @rule(choice=CHOICE, place=CHOICE)
    def remove(self, choice: int, place: int) -> None:
        before = set().union(*(one.wanted for one in self.model.values()))
        super().remove(choice, place)
        self.removed.update(before - set().union(*(one.wanted for one in self.model.values())))

    @rule(topic=st.sampled_from(TOPICS))
    def purge(self, topic: Topic) -> None:
        for doubt in self.in_doubt.values():
            self.removed.update(id for (other, _), _, id in doubt.acknowledged if other == topic)
        super().purge(topic)

    @rule(topic=st.sampled_from(TOPICS), key=st.sampled_from(KEYS))
    def unsubscribe(self, topic: Topic, key: SubscriptionKey) -> None:
        super().unsubscribe(topic, key)
        if not any(other == topic for other, _ in self.model):  # and so nobody needs its messages
            self.adapter.clean_up()

    # -- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def the_queue_has_what_is_not_in_doubt(self) -> None:
        store = self.adapter.queue_message_store(QUEUE)
        page = store.recover_next_messages(Cursor(), 1000, 1 << 30)
        found = [message.message_id.producer_sequence_id for message in page.messages if message.message_id is not None]
        assert found == self.waiting
        assert store.message_count == len(found)

    @invariant()
    def a_java_broker_loses_nothing_whatever_it_commits(self) -> None:
        by_level = self.prioritized
        with sqlite3.connect(self.file) as connection:
            for (topic, key), subscribed in self.model.items():
                in_doubt = {
                    id
                    for doubt in self.in_doubt.values()
                    for reader, other, id in doubt.acknowledged
                    if reader == (topic, key) and other is subscribed and id not in self.removed
                }
                delivered = set(java_delivers(connection, topic, key, by_level=by_level and topic == TOPICS[1]))
                assert subscribed.wanted | in_doubt <= delivered
                shown: dict[XATransactionId, set[int]] = {}
                for (column,) in connection.execute(
                    "SELECT XID FROM ACTIVEMQ_ACKS"
                    " WHERE CONTAINER=? AND CLIENT_ID=? AND SUB_NAME=? AND XID IS NOT NULL",
                    (topic.qualified_name, key.client_id, key.subscription_name),
                ).fetchall():
                    xid, upto, _ = read_ack_xid(column)
                    shown.setdefault(xid, set()).add(upto)
                for xid, numbers in shown.items():
                    acknowledged = {id for _, other, id in self.in_doubt[xid].acknowledged if other is subscribed}
                    assert not {id for id in (subscribed.wanted | in_doubt) - acknowledged if id <= max(numbers)}
        connection.close()

    @invariant()
    def ranges_are_few_and_apart(self) -> None:
        """There may be one more for each message in doubt."""


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(predecessors, "_AHEAD_ROWS", 3)
    monkeypatch.setattr(subscriptions, "_TAIL_LEAST", 3)
    monkeypatch.setattr(subscriptions, "_TAIL_MOST", 6)


@pytest.mark.timeout(300)
def test_whatever_is_done() -> None:
    case = TransactionMachine.TestCase
    case.settings = settings(
        max_examples=examples(5),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").runTest()
