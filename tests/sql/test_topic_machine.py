"""Durable subscriptions against a model: whatever is done in whatever order, with crashes in between.

SQLite, since a copy of its file, made at any moment, is what a crash leaves.
"""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import MessageId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc import predecessors, subscriptions
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.topics import JdbcTopicMessageStore
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.examples import examples

WAIT_S = 90.0
KEYS = [SubscriptionKey("ann", "a"), SubscriptionKey("bob", "b"), SubscriptionKey("eve", "e")]
TOPICS = [Topic("T"), Topic("P")]  # the second is ordered by priority

#: Chooses one of however many there are. How many there are after a crash is a matter of time, and what is drawn must
#: not depend on that.
CHOICE = st.integers(0, 1 << 16)

#: Who subscribes to what.
Reader = tuple[Topic, SubscriptionKey]


@dataclass
class Subscribed:
    """What the model knows of a subscription: ids of what it has to get, and of what it has acknowledged."""

    wanted: set[int] = field(default_factory=set)
    done: set[int] = field(default_factory=set)


class TopicMachine(RuleBasedStateMachine):
    """Adds, acknowledges, subscribes, removes, cleans up; stops and crashes, also before the answers have come."""

    prioritized = True

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp(prefix="jdbcstore-machine-"))
        self.generation = 0
        self.number = 0
        self.model: dict[Reader, Subscribed] = {}
        #: Ids of what must be stored, by topic: whatever anybody still wants.
        self.priorities: dict[int, int] = {}
        #: What was asked and not answered yet, and what it means if it was done.
        self.open()

    # -- opening and closing -------------------------------------------------------------------------------------

    @property
    def file(self) -> Path:
        return self.folder / f"{self.generation}.db"

    def open(self) -> None:
        options = JdbcOptions(locker="none", cleanup_period_ms=0)
        adapter = open_store(f"sqlite:///{self.file}", options)
        assert isinstance(adapter, JdbcPersistenceAdapter)
        adapter.start()
        self.adapter = adapter

    def topic(self, topic: Topic) -> JdbcTopicMessageStore:
        return self.adapter.topic_message_store(topic, prioritized=self.prioritized and topic == TOPICS[1])

    def teardown(self) -> None:
        self.adapter.stop()
        shutil.rmtree(self.folder)

    @rule()
    def restart(self) -> None:
        """Stop and start."""
        self.adapter.stop()
        self.open()

    @rule(which=st.lists(st.tuples(CHOICE, CHOICE), max_size=8))
    def crash(self, which: list[tuple[int, int]]) -> None:
        """Go on with what is on the disk at a moment when some acknowledgements are under way."""
        pending: list[tuple[Reader, int, Completion[None]]] = []
        for choice, place in which:
            if (reader := self.reader(choice)) is not None:
                wanted = sorted(self.model[reader].wanted)
                id = wanted[place % len(wanted)]
                pending.append((reader, id, self.acknowledged(reader, id)))
        before = self.file
        self.generation += 1
        with sqlite3.connect(before) as source, sqlite3.connect(self.file) as target:
            source.backup(target)
        source.close()
        target.close()
        self.adapter.stop()
        self.open()
        # What was not answered may have been done or not, but in the order in which it was asked for.
        for reader in {reader for reader, _, _ in pending}:
            asked = [id for other, id, _ in pending if other == reader]
            left = set(self.left(reader))
            there = [id not in left for id in asked]
            assert there == sorted(there, reverse=True) or len(set(asked)) < len(asked)
            for id in asked:
                if id not in left:
                    self.note_done(reader, id)

    # -- what is done --------------------------------------------------------------------------------------------

    @rule(
        topic=st.sampled_from(TOPICS),
        priorities=st.lists(st.integers(0, 3), min_size=1, max_size=6),
        between=st.booleans(),
    )
    def add(self, topic: Topic, priorities: list[int], between: bool) -> None:
        pending: list[tuple[Completion[int], int]] = []
        for priority in priorities:
            self.number += 1
            message = text_message(self.number, priority=priority)
            if between:
                self.adapter.queue_message_store(Queue("BETWEEN")).add_message(text_message(self.number))
            pending.append((self.topic(topic).add_message(message), priority))
        for completion, priority in pending:
            id = completion.result(WAIT_S)
            self.priorities[id] = priority
            for (other, _), subscribed in self.model.items():
                if other == topic:
                    subscribed.wanted.add(id)

    def reader(self, choice: int) -> Reader | None:
        """One of those that want something."""
        readers = sorted((reader for reader, one in self.model.items() if one.wanted), key=str)
        return readers[choice % len(readers)] if readers else None

    @rule(choice=CHOICE, places=st.lists(CHOICE, min_size=1, max_size=8), together=st.booleans())
    def acknowledge(self, choice: int, places: list[int], together: bool) -> None:
        reader = self.reader(choice)
        if reader is None:
            return
        wanted = sorted(self.model[reader].wanted)
        ids = [wanted[place % len(wanted)] for place in places]
        if together:
            topic, key = reader
            pending = [self.topic(topic).acknowledge(key, *(MessageId(PRODUCER, 0, id) for id in ids))]
        else:
            pending = [self.acknowledged(reader, id) for id in ids]
        for completion in pending:
            completion.result(WAIT_S)
        for id in ids:
            self.note_done(reader, id)

    @rule(choice=CHOICE, count=st.integers(1, 10))
    def acknowledge_in_order(self, choice: int, count: int) -> None:
        """As a consumer does that has got a page."""
        reader = self.reader(choice)
        if reader is None:
            return
        for id in self.left(reader)[:count]:
            self.acknowledged(reader, id).result(WAIT_S)
            self.note_done(reader, id)

    @rule(topic=st.sampled_from(TOPICS), key=st.sampled_from(KEYS), retroactive=st.booleans())
    def subscribe(self, topic: Topic, key: SubscriptionKey, retroactive: bool) -> None:
        info = SubscriptionInfo(key, topic, topic)
        store = self.topic(topic)
        stored = {id_of(message) for message in store.recover()}
        store.add_subscription(info, retroactive=retroactive).result(WAIT_S)
        if (topic, key) not in self.model:
            self.model[topic, key] = Subscribed(wanted=stored if retroactive else set())

    @rule(topic=st.sampled_from(TOPICS), key=st.sampled_from(KEYS))
    def unsubscribe(self, topic: Topic, key: SubscriptionKey) -> None:
        self.topic(topic).delete_subscription(key).result(WAIT_S)
        self.model.pop((topic, key), None)

    @rule()
    def clean_up(self) -> None:
        self.adapter.clean_up()
        for topic in TOPICS:
            stored = {id_of(message) for message in self.topic(topic).recover()}
            readers = [one for (other, _), one in self.model.items() if other == topic]
            if not readers:
                assert not stored
            elif all(not one.wanted for one in readers):
                assert not stored, "everybody has acknowledged everything"

    @rule(choice=CHOICE, place=CHOICE)
    def remove(self, choice: int, place: int) -> None:
        """An operator takes a message away."""
        reader = self.reader(choice)
        if reader is None:
            return
        topic, wanted = reader[0], sorted(self.model[reader].wanted)
        id = wanted[place % len(wanted)]
        self.topic(topic).remove_message(MessageId(PRODUCER, 0, id)).result(WAIT_S)
        for (other, _), subscribed in self.model.items():
            if other == topic:
                subscribed.wanted.discard(id)

    @rule(topic=st.sampled_from(TOPICS))
    def purge(self, topic: Topic) -> None:
        self.topic(topic).remove_all_messages().result(WAIT_S)
        for (other, _), subscribed in self.model.items():
            if other == topic:
                subscribed.wanted.clear()

    @rule(topic=st.sampled_from(TOPICS), key=st.sampled_from(KEYS))
    def count(self, topic: Topic, key: SubscriptionKey) -> None:
        if (topic, key) in self.model:
            assert self.topic(topic).subscription_message_count(key) == len(self.model[topic, key].wanted)

    # -- what must be true ---------------------------------------------------------------------------------------

    @invariant()
    def everybody_gets_what_it_has_not_acknowledged(self) -> None:
        for reader, subscribed in self.model.items():
            assert set(self.left(reader)) == subscribed.wanted, reader

    @invariant()
    def a_java_broker_would_lose_nothing(self) -> None:
        with sqlite3.connect(self.file) as connection:
            for (topic, key), subscribed in self.model.items():
                delivered = set(java_delivers(connection, topic, key, by_level=self.prioritized and topic == TOPICS[1]))
                assert subscribed.wanted <= delivered, (topic, key)
        connection.close()

    @invariant()
    def ranges_are_few_and_apart(self) -> None:
        with sqlite3.connect(self.file) as connection:
            for (topic, key), subscribed in self.model.items():
                found = connection.execute(
                    "SELECT a.PRIORITY, a.FIRST_ID, a.LAST_ID, s.LAST_ACKED_ID FROM JDBCSTORE_ACKED a"
                    " JOIN ACTIVEMQ_ACKS s ON (s.CONTAINER, s.CLIENT_ID, s.SUB_NAME, s.PRIORITY)"
                    " = (a.CONTAINER, a.CLIENT_ID, a.SUB_NAME, a.PRIORITY)"
                    " WHERE a.CONTAINER = ? AND a.CLIENT_ID = ? AND a.SUB_NAME = ? ORDER BY a.PRIORITY, a.FIRST_ID",
                    (topic.qualified_name, key.client_id, key.subscription_name),
                ).fetchall()
                before: dict[int, int] = {}
                for row, first, last, mark in found:
                    assert before.get(row, mark) + 1 < first <= last
                    before[row] = last
                    assert not [id for id in subscribed.wanted if first <= id <= last and self.is_of(topic, row, id)]
                assert len(found) <= len(subscribed.wanted), "a range for each message that was left out, at most"
        connection.close()

    # -- tools ---------------------------------------------------------------------------------------------------

    def is_of(self, topic: Topic, row: int, id: int) -> bool:
        return topic == TOPICS[0] or not self.prioritized or self.priorities[id] == row

    def left(self, reader: Reader) -> list[int]:
        topic, key = reader
        found: list[int] = []
        cursor = Cursor()
        while True:
            page = self.topic(topic).recover_next_subscription_messages(key, cursor, 5, 1 << 30)
            if not page.messages:
                return found
            found += map(id_of, page.messages)
            cursor = page.cursor

    def acknowledged(self, reader: Reader, id: int) -> Completion[None]:
        topic, key = reader
        return self.topic(topic).acknowledge(key, MessageId(PRODUCER, 0, id))

    def note_done(self, reader: Reader, id: int) -> None:
        self.model[reader].wanted.discard(id)
        self.model[reader].done.add(id)


class PolicyMachine(TopicMachine):
    """The topic's policy changes now and then."""

    @initialize(prioritized=st.booleans())
    def begin(self, prioritized: bool) -> None:
        self.restart_otherwise(prioritized)

    @rule(prioritized=st.booleans())
    def restart_otherwise(self, prioritized: bool) -> None:
        self.adapter.stop()
        self.prioritized = prioritized
        self.open()

    def is_of(self, topic: Topic, row: int, id: int) -> bool:
        return False  # the priority that it was stored with is not known here

    @invariant()
    def a_java_broker_would_lose_nothing(self) -> None:
        """With the policy as it is. After a change to no priorities its query has every row of the subscription."""
        if self.prioritized:
            super().a_java_broker_would_lose_nothing()


def java_delivers(connection: sqlite3.Connection, topic: Topic, key: SubscriptionKey, *, by_level: bool) -> list[int]:
    """Ids of the messages that a Java broker would deliver, by its own query."""
    level = " AND M.PRIORITY = D.PRIORITY" if by_level else ""
    found: list[Any] = connection.execute(
        "SELECT M.ID FROM ACTIVEMQ_MSGS M, ACTIVEMQ_ACKS D WHERE D.CONTAINER = ? AND D.CLIENT_ID = ? AND D.SUB_NAME = ?"
        f" AND M.CONTAINER = D.CONTAINER AND M.ID > D.LAST_ACKED_ID{level}",
        (topic.qualified_name, key.client_id, key.subscription_name),
    ).fetchall()
    return [id for (id,) in found]


def id_of(message: Any) -> int:
    return int(message.message_id.broker_sequence_id)


@pytest.fixture(autouse=True)
def _little_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that all that is for large backlogs is used in small ones."""
    monkeypatch.setattr(predecessors, "_AHEAD_ROWS", 3)
    monkeypatch.setattr(subscriptions, "_TAIL_LEAST", 3)
    monkeypatch.setattr(subscriptions, "_TAIL_MOST", 6)


@pytest.mark.parametrize("machine", [TopicMachine, PolicyMachine])
@pytest.mark.timeout(300)
def test_whatever_is_done(machine: type[TopicMachine], request: pytest.FixtureRequest) -> None:
    case = machine.TestCase
    case.settings = settings(
        max_examples=examples(5),
        stateful_step_count=40,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
    case("runTest").runTest()
