"""Durable subscriptions in the SQL store: rows as a Java broker has them, and what it may do to them in between."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore import faults
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import (
    ConfigurationError,
    DuplicateMessage,
    LeaseLost,
    OutcomeUnknown,
    SchemaMismatch,
    StoreError,
    TransientStoreError,
)
from jdbcstore.identifiers import MessageId
from jdbcstore.store.contract import Cursor, TopicMessageStore
from jdbcstore.store.jdbc import subscriptions
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.writes import Batch
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.migrations.activemq import run, start_java_broker
from tests.servers.proxy import ADDS, Proxy
from tests.sql.java import JavaBroker
from tests.sql.test_writer import WAIT_S, execute, one_batch, refuse_thirteen
from tests.waiting import wait_until

pytestmark = pytest.mark.has_tables

TOPIC = Topic("T")
ANN = SubscriptionKey("ann", "news")
BOB = SubscriptionKey("bob", "news")
INFO = SubscriptionInfo(ANN, TOPIC, TOPIC)


@contextmanager
def opened(
    url: str, *, prioritized: bool = False, **options: object
) -> Iterator[tuple[JdbcPersistenceAdapter, TopicMessageStore]]:
    """A store that nobody else looks after, so that a Java broker may come in between, and its topic T."""
    chosen = JdbcOptions(**{"locker": "none", "cleanup_period_ms": 0, **options})  # type: ignore[arg-type]  # by name
    adapter = open_store(url, chosen)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        yield adapter, adapter.topic_message_store(TOPIC, prioritized=prioritized)


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection to a new, empty schema."""
    engine = open_engine(database_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def java(connection: Connection) -> JavaBroker:
    """A Java broker with subscriber ann."""
    return JavaBroker(connection)


@pytest.fixture
def java_prioritized(connection: Connection) -> JavaBroker:
    """A Java broker whose topics are ordered by priority."""
    return JavaBroker(connection, prioritized=True)


def subscribe(topic: TopicMessageStore, *keys: SubscriptionKey, retroactive: bool = False) -> None:
    for key in keys:
        topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC), retroactive=retroactive).result(WAIT_S)


def add(topic: TopicMessageStore, *numbers: int) -> list[int]:
    """Add messages; their ids."""
    return [completion.result(WAIT_S) for completion in [topic.add_message(text_message(n)) for n in numbers]]


def acknowledge(topic: TopicMessageStore, *ids: int, key: SubscriptionKey = ANN) -> None:
    for completion in [topic.acknowledge(key, MessageId(None, 0, id)) for id in ids]:
        completion.result(WAIT_S)


def left(topic: TopicMessageStore, key: SubscriptionKey = ANN) -> list[int]:
    """Ids of what a subscription has not acknowledged."""
    page = topic.recover_next_subscription_messages(key, Cursor(), 100_000, 1 << 30)
    return [message.message_id.broker_sequence_id for message in page.messages if message.message_id is not None]


def through(proxy: Proxy, url: str) -> str:
    """A URL that leads through a proxy, which can see what is sent."""
    return proxy.url(url) + ("?ssl_disabled=true" if url.startswith("mysql") else "")


# -- rows as ActiveMQ's ----------------------------------------------------------------------------------------------


def test_a_subscription_is_one_row(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (adapter, topic):
        adapter.queue_message_store(Queue("Q")).add_message(text_message(1)).result(WAIT_S)
        info = SubscriptionInfo(ANN, TOPIC, Topic(">"), "a = 'it''s ?'")
        topic.add_subscription(info).result(WAIT_S)
        assert java.rows() == [("topic://>", "a = 'it''s ?'", 1, 0, None)]
        topic.delete_subscription(ANN).result(WAIT_S)
        assert java.rows() == []


def test_on_a_prioritised_topic_it_is_ten(database_url: str, java_prioritized: JavaBroker) -> None:
    with opened(database_url, prioritized=True) as (adapter, topic):
        adapter.queue_message_store(Queue("Q")).add_message(text_message(1)).result(WAIT_S)
        subscribe(topic, ANN)
        assert java_prioritized.rows() == [("topic://T", None, 1, priority, None) for priority in range(10)]
        for number in range(20):
            topic.add_message(text_message(number, priority=number % 10)).result(WAIT_S)
        acknowledge(topic, 2 + 7, 12 + 7, 2 + 4)
        assert java_prioritized.marks() == [1, 1, 1, 1, 6, 1, 1, 19, 1, 1]
        assert java_prioritized.ranges() == []
        assert java_prioritized.delivers() == [id for id in range(2, 22) if id not in (9, 19, 6)]


def test_a_retroactive_subscription_begins_at_minus_one(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, BOB)
        add(topic, 1, 2)
        subscribe(topic, ANN, retroactive=True)
        assert java.marks() == [-1]
        assert java.delivers() == [1, 2]


def test_the_mark_of_a_new_subscription_is_the_highest_id_of_all(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (adapter, topic):
        queue = adapter.queue_message_store(Queue("Q"))
        for number in range(5):
            queue.add_message(text_message(number)).result(WAIT_S)
        pending = [queue.add_message(text_message(number)) for number in range(5, 50)]
        subscribed = topic.add_subscription(INFO)
        added = topic.add_message(text_message(50))
        subscribed.result(WAIT_S)
        assert java.marks() == [50]
        assert added.result(WAIT_S) == 51
        assert all(completion.result(WAIT_S) for completion in pending)
        assert java.delivers() == [51]


def test_the_mark_moves_over_contiguous_acknowledgements_only(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (adapter, topic):
        subscribe(topic, ANN)
        queue = adapter.queue_message_store(Queue("BETWEEN"))
        ids = []
        for number in range(8):
            queue.add_message(text_message(number)).result(WAIT_S)
            ids += add(topic, number)
        assert ids == [2, 4, 6, 8, 10, 12, 14, 16]
        acknowledge(topic, 6)
        assert (java.marks(), java.ranges()) == ([0], [(0, 5, 6, 0)])
        acknowledge(topic, 2)
        assert (java.marks(), java.ranges()) == ([2], [(0, 5, 6, 0)])
        acknowledge(topic, 14, 12)
        assert (java.marks(), java.ranges()) == ([2], [(0, 5, 6, 0), (0, 11, 14, 2)])
        assert java.delivers() == [4, 6, 8, 10, 12, 14, 16]
        acknowledge(topic, 4)
        assert (java.marks(), java.ranges()) == ([6], [(0, 11, 14, 2)])
        acknowledge(topic, 10, 8)
        assert (java.marks(), java.ranges()) == ([14], [])
        assert java.delivers() == left(topic) == [16]


def test_a_message_that_is_held_costs_one_row_whatever_is_acknowledged_behind_it(
    database_url: str, java: JavaBroker
) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(200))
        for some in range(1, 200, 10):
            topic.acknowledge(ANN, *(MessageId(None, 0, id) for id in ids[some : some + 10])).result(WAIT_S)
            assert len(java.ranges()) == 1
        assert java.marks() == [0]
        add(topic, *range(200, 300))
        acknowledge(topic, *range(201, 300))
        assert java.ranges() == [(0, 2, 299, 0)]
        acknowledge(topic, 1)
        assert (java.marks(), java.ranges()) == ([299], [])


def test_many_ranges_are_written_and_go_again(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(700))
        with one_batch():
            done = [topic.acknowledge(ANN, MessageId(None, 0, id)) for id in ids[1::2]]
        assert all(completion.exception(WAIT_S) is None for completion in done)
        assert java.ranges() == [(0, id, id, 0) for id in ids[1::2]]
    with opened(database_url) as (_, topic):
        assert left(topic) == ids[::2]
        topic.acknowledge(ANN, *(MessageId(None, 0, id) for id in ids[::2])).result(WAIT_S)
        assert (java.marks(), java.ranges()) == ([700], [])


def test_a_batch_moves_the_mark_of_a_subscription_once(
    database_url: str, java: JavaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(database_url) as (adapter, topic):
        subscribe(topic, ANN, BOB)
        ids = add(topic, *range(100))
        sent: list[str] = []
        write = adapter.dialect.write

        def listening(connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
            sent.extend(statement for statement, _ in batch.changes)
            return write(connection, batch, fence)

        monkeypatch.setattr(adapter.dialect, "write", listening)
        with one_batch() as held:
            pending = adapter.queue_message_store(Queue("FIRST")).add_message(text_message(1))
            assert held.wait(WAIT_S)
            done = [topic.acknowledge(key, MessageId(None, 0, id)) for id in reversed(ids) for key in (ANN, BOB)]
        pending.result(WAIT_S)
        assert all(completion.exception(WAIT_S) is None for completion in done)
        assert [statement.split()[0] for statement in sent] == ["UPDATE", "UPDATE"]
        assert java.marks() == [100]


def test_a_java_brokers_cleanup_removes_nothing_that_is_wanted(database_url: str, java_prioritized: JavaBroker) -> None:
    with opened(database_url, prioritized=True) as (_, topic):
        subscribe(topic, ANN, BOB)
        for number in range(60):
            topic.add_message(text_message(number, priority=number % 7)).result(WAIT_S)
        acknowledge(topic, *range(5, 61, 2))
        acknowledge(topic, *range(1, 50, 3), key=BOB)
        before = left(topic), left(topic, BOB)
    java_prioritized.cleans_up()
    with opened(database_url, prioritized=True) as (_, topic):
        assert (left(topic), left(topic, BOB)) == before
        assert topic.subscription_message_count(ANN) == len(before[0])


# -- what a Java broker does in between ------------------------------------------------------------------------------


def prepared(url: str) -> None:
    """Ten messages of which ann has acknowledged 1, 2, 5, 6 and 9."""
    with opened(url) as (_, topic):
        subscribe(topic, ANN)
        assert add(topic, *range(1, 11)) == list(range(1, 11))
        acknowledge(topic, 1, 2, 5, 6, 9)


def test_it_goes_on_from_our_mark_and_we_from_its(database_url: str, java: JavaBroker) -> None:
    prepared(database_url)
    assert java.delivers() == [3, 4, 5, 6, 7, 8, 9, 10]
    java.acknowledges(5)
    with opened(database_url) as (_, topic):
        assert left(topic) == [7, 8, 10]
        acknowledge(topic, 10)
        assert (java.marks(), java.ranges()) == ([6], [(0, 9, 10, 6)])
        acknowledge(topic, 7, 8)
        assert (java.marks(), java.ranges()) == ([10], [])


def test_what_it_acknowledged_beyond_all_ours_leaves_nothing_of_these(database_url: str, java: JavaBroker) -> None:
    prepared(database_url)
    java.acknowledges(10)
    java.sends(11, 11)
    with opened(database_url) as (_, topic):
        assert left(topic) == [11]
        acknowledge(topic, 11)
        assert (java.marks(), java.ranges()) == ([11], [])


@pytest.mark.parametrize("retroactive", [True, False])
def test_it_deletes_the_subscription_and_makes_it_anew(database_url: str, java: JavaBroker, retroactive: bool) -> None:
    prepared(database_url)
    java.unsubscribes()
    java.subscribes(retroactive=retroactive)
    java.sends(11, 11)
    expected = [*range(1, 12)] if retroactive else [11]
    for _ in range(2):
        with opened(database_url) as (_, topic):
            assert left(topic) == expected == java.delivers()
            assert topic.subscription_message_count(ANN) == len(expected)
    with opened(database_url) as (_, topic):
        acknowledge(topic, *expected[:4])
        assert left(topic) == expected[4:] == java.delivers()
        assert java.ranges() == []


def test_a_retroactive_one_after_a_retroactive_one_gets_everything(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, BOB)
        add(topic, *range(1, 6))
        subscribe(topic, ANN, retroactive=True)
        acknowledge(topic, 3)
    java.unsubscribes()
    java.subscribes(retroactive=True)
    with opened(database_url) as (_, topic):
        assert left(topic) == [1, 2, 3, 4, 5]


def test_it_begins_to_count_anew_and_gives_our_ids_to_other_messages(database_url: str, java: JavaBroker) -> None:
    prepared(database_url)  # the mark is 2, and 5, 6 and 9 are acknowledged above it
    java.unsubscribes()
    java.removes(*range(1, 11))
    for id in range(1, 5):
        java.sends(id, 100 + id)
    java.subscribes()  # at 4: above our mark, and below what was acknowledged
    for id in range(5, 13):
        java.sends(id, 100 + id)
    with opened(database_url) as (adapter, topic):
        assert left(topic) == java.delivers() == list(range(5, 13))
        assert adapter.last_message_broker_sequence_id() == 12
        acknowledge(topic, 6)
        assert java.ranges() == [(0, 6, 6, 4)]
    with opened(database_url) as (_, topic):
        assert left(topic) == [5, *range(7, 13)]


def test_ids_go_on_behind_what_was_acknowledged_though_its_messages_are_gone(
    database_url: str, java: JavaBroker
) -> None:
    prepared(database_url)
    java.removes(*range(1, 11))
    with opened(database_url) as (adapter, topic):
        assert adapter.last_message_broker_sequence_id() == 9
        assert add(topic, 11) == [10]
        assert left(topic) == [10]


def test_an_operator_of_it_removes_messages_and_the_mark_moves_on(database_url: str, java: JavaBroker) -> None:
    prepared(database_url)
    java.removes(3, 4, 7)
    with opened(database_url) as (adapter, topic):
        assert left(topic) == [8, 10]
        acknowledge(topic, 10)
        assert (java.marks(), java.ranges()) == ([6], [(0, 9, 10, 0 + 6)]) or java.marks() == [6]
        acknowledge(topic, 8)
        assert (java.marks(), java.ranges()) == ([10], [])
        assert adapter.clean_up() == 7
        assert java.ids() == []


def test_it_sets_the_mark_to_0_and_everything_comes_again(database_url: str, java: JavaBroker) -> None:
    """As it does for an acknowledgement of a message that it does not find."""
    prepared(database_url)
    java.acknowledges(0)
    with opened(database_url) as (_, topic):
        assert left(topic) == list(range(1, 11))
        acknowledge(topic, 1)
        assert (java.marks(), java.ranges()) == ([1], [])


def test_it_deletes_everything(database_url: str, connection: Connection, java: JavaBroker) -> None:
    prepared(database_url)
    for table in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS"):
        connection.execute(text(f"DELETE FROM {table}"))
    java.subscribes()
    java.sends(1, 101)
    with opened(database_url) as (_, topic):
        assert left(topic) == [1]
        assert add(topic, 2) == [10]
        acknowledge(topic, 10)
        assert (java.marks(), java.ranges()) == ([0], [(0, 2, 10, 0)])


def test_a_subscription_of_ours_of_the_same_name_does_not_inherit(database_url: str, java: JavaBroker) -> None:
    prepared(database_url)
    java.unsubscribes()
    with opened(database_url) as (_, topic):
        assert topic.all_subscriptions() == []
        subscribe(topic, ANN, retroactive=True)
        assert left(topic) == list(range(1, 11))
        assert java.ranges() == []


def test_what_it_prepared_stays_as_it_is(database_url: str, connection: Connection, java: JavaBroker) -> None:
    prepared(database_url)
    connection.execute(text("UPDATE ACTIVEMQ_ACKS SET XID = 'AAAA'"))
    java.sends(11, 11, xid="KwAA")
    with opened(database_url) as (adapter, topic):
        add(topic, 12)
        assert topic.subscription_message_count(ANN) == 6
        acknowledge(topic, 3, 4, 7, 8, 10, 12)
        assert java.rows() == [("topic://T", None, 12, 0, "AAAA")]
        adapter.clean_up()
        assert java.ids() == [11]


# -- every shape of rows ---------------------------------------------------------------------------------------------


def test_a_row_at_priority_5_of_before_5_4_is_found_and_used(
    database_url: str, connection: Connection, java: JavaBroker
) -> None:
    java.subscribes()
    connection.execute(text("UPDATE ACTIVEMQ_ACKS SET PRIORITY = 5"))
    java.sends(1, 1)
    connection.execute(text("UPDATE ACTIVEMQ_MSGS SET PRIORITY = NULL"))
    java.sends(2, 2)
    with opened(database_url) as (adapter, topic):
        assert topic.lookup_subscription(ANN) == INFO
        assert left(topic) == [1, 2]
        acknowledge(topic, 1)
        assert java.rows() == [("topic://T", None, 1, 5, None)]
        acknowledge(topic, 2)
        assert adapter.clean_up() == 2


def test_a_topic_that_becomes_prioritised_gets_its_rows(
    database_url: str, java: JavaBroker, java_prioritized: JavaBroker
) -> None:
    prepared(database_url)
    with opened(database_url, prioritized=True) as (_, topic):
        topic.add_message(text_message(11, priority=7)).result(WAIT_S)
        assert java.marks() == [2, *[9] * 9]  # nothing stands in the way of the other nine
        assert left(topic) == [11, 3, 4, 7, 8, 10]
        acknowledge(topic, 11, 3, 4)
        assert java_prioritized.marks() == [6, *[9] * 6, 11, 9, 9]
        assert java_prioritized.delivers() == [7, 8, 9, 10]
    with opened(database_url, prioritized=True) as (_, topic):
        assert left(topic) == [7, 8, 10]
        acknowledge(topic, 7, 8, 10)
    with opened(database_url, prioritized=True) as (_, topic):
        assert left(topic) == []


def test_a_topic_that_is_prioritised_no_more_goes_on(database_url: str, java_prioritized: JavaBroker) -> None:
    with opened(database_url, prioritized=True) as (_, topic):
        subscribe(topic, ANN)
        for number in range(10):
            topic.add_message(text_message(number, priority=number)).result(WAIT_S)
        acknowledge(topic, 9, 5)
    with opened(database_url) as (adapter, topic):
        assert add(topic, 10, 11) == [11, 12]
        assert left(topic) == [1, 2, 3, 4, 6, 7, 8, 10, 11, 12]
        acknowledge(topic, 12, 8)
        assert java_prioritized.delivers() == [1, 2, 3, 4, 6, 7, 10, 11, 12]
        acknowledge(topic, *left(topic))
        assert adapter.clean_up() == 12


@pytest.mark.has_tables(False)
def test_a_key_of_three_columns_has_room_for_one_mark(sql_server_url: str, caplog: pytest.LogCaptureFixture) -> None:
    engine = open_engine(sql_server_url)
    start_java_broker(engine)
    if engine.dialect.name != "postgresql":
        run(engine, "ALTER TABLE ACTIVEMQ_ACKS DROP PRIMARY KEY, ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME)")
    with engine.connect() as connection:
        assert inspect_schema(connection).acks_key == ("CONTAINER", "CLIENT_ID", "SUB_NAME")
        java = JavaBroker(connection, prioritized=True)
        expected = list(range(10, 0, -1))
        with opened(sql_server_url, prioritized=True, locker="lease") as (_, topic):
            assert "jdbcstore schema upgrade" in caplog.text
            subscribe(topic, ANN)
            for number in range(10):
                topic.add_message(text_message(number, priority=number)).result(WAIT_S)
            acknowledge(topic, 1, 10, 9, 3)
            assert (java.marks(), java.ranges()) == ([1], [(0, 3, 3, 1), (0, 9, 10, 1)])
            expected = [8, 7, 6, 5, 4, 2]
            assert left(topic) == expected
        upgrade_schema(engine)
        with opened(sql_server_url, prioritized=True, locker="lease") as (_, topic):
            assert left(topic) == expected
            assert topic.subscription_message_count(ANN) == 6
            assert java.delivers() == [2, 4, 5, 6, 7, 8]
            acknowledge(topic, 2)
            assert java.delivers() == [4, 5, 6, 7, 8]
    engine.dispose()


def test_the_row_of_a_virtual_topics_consumer(database_url: str, connection: Connection) -> None:
    queue = Queue("Consumer.A.VirtualTopic.FOO")
    rows = text("SELECT CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY FROM ACTIVEMQ_ACKS")
    name = queue.qualified_name
    with opened(database_url) as (adapter, _):
        adapter.queue_message_store(queue)
        adapter.queue_message_store(Queue("Consumer.A.VirtualTopicTest"))
    with opened(database_url) as (adapter, _):
        assert adapter.destinations() == {queue}
        assert connection.execute(rows).all() == [(name, name, name, name, None, 0, 11)]
        adapter.remove_destination(queue).result(WAIT_S)
        assert connection.execute(rows).all() == []
    with opened(database_url, virtual_topic_consumers="VQ.*, Other.>") as (adapter, _):
        adapter.queue_message_store(queue)
        adapter.queue_message_store(Queue("Other.a.b"))
        adapter.queue_message_store(Queue("VQ.1"))
        adapter.checkpoint()
    with opened(database_url) as (adapter, _):
        assert adapter.destinations() == {Queue("Other.a.b"), Queue("VQ.1")}


def test_rows_of_other_kinds_are_shown_and_left_alone(database_url: str, connection: Connection) -> None:
    for container, priority in (("odd", 0), ("queue://Consumer.X.VirtualTopic.Y", 11), ("temp-topic://x", 0)):
        connection.execute(
            text("INSERT INTO ACTIVEMQ_ACKS (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY) VALUES (:c, :c, :c, :p)"),
            {"c": container, "p": priority},
        )
    with opened(database_url) as (adapter, topic):
        assert {str(one) for one in adapter.destinations()} == {
            "queue://odd",
            "queue://Consumer.X.VirtualTopic.Y",
            "temp-topic://x",
        }
        subscribe(topic, ANN)
    assert connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_ACKS")).scalar() == 4


@pytest.mark.has_tables(False)
@pytest.mark.parametrize("server", ["mariadb_url", "mysql_url"])
def test_subscriptions_that_a_collation_confuses_are_told_apart_or_refused(
    request: pytest.FixtureRequest, server: str
) -> None:
    url: str = request.getfixturevalue(server)
    execute(url, f"ALTER DATABASE {url.rpartition('/')[2]} COLLATE utf8mb4_general_ci")
    engine = open_engine(url)
    start_java_broker(engine)
    engine.dispose()
    with opened(url, locker="lease") as (adapter, topic):
        lower = adapter.topic_message_store(Topic("t"))
        subscribe(topic, ANN)
        done = topic.add_subscription(SubscriptionInfo(SubscriptionKey("Ann", "news"), TOPIC, TOPIC))
        assert isinstance(done.exception(WAIT_S), DuplicateMessage)
        refused = lower.add_subscription(SubscriptionInfo(ANN, Topic("t"), Topic("t")))
        assert isinstance(refused.exception(WAIT_S), DuplicateMessage)
        lower.add_subscription(SubscriptionInfo(BOB, Topic("t"), Topic("t"))).result(WAIT_S)
        ids = add(topic, 1, 2, 3)
        others = add(lower, 1, 2, 3)
        acknowledge(topic, ids[2])
        acknowledge(lower, others[0], key=BOB)
        lower.delete_subscription(SubscriptionKey("BOB", "NEWS")).result(WAIT_S)
    with opened(url, locker="lease") as (adapter, topic):
        lower = adapter.topic_message_store(Topic("t"))
        assert [info.key for info in topic.all_subscriptions()] == [ANN]
        assert [info.key for info in lower.all_subscriptions()] == [BOB]
        assert left(topic) == ids[:2]
        assert left(lower, BOB) == others[1:]


# -- refusals --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("info", "what"),
    [
        (SubscriptionInfo(ANN, TOPIC, TOPIC, "x" * 251), "selector .* 251 characters, its column takes 250"),
        (SubscriptionInfo(SubscriptionKey("x" * 251, "n"), TOPIC, TOPIC), "client id .* 251"),
        (SubscriptionInfo(SubscriptionKey("c", "x" * 251), TOPIC, TOPIC), "subscription name .* 251"),
        (SubscriptionInfo(ANN, TOPIC, Topic("x" * 250)), "subscribed destination .* 258"),
        (SubscriptionInfo(SubscriptionKey("a\0b", "n"), TOPIC, TOPIC), "client id .* no database column takes"),
        (SubscriptionInfo(ANN, TOPIC, TOPIC, "a = '\udc80'"), "selector .* no database column takes"),
    ],
)
def test_what_does_not_fit_a_column_is_refused(postgresql_url: str, info: SubscriptionInfo, what: str) -> None:
    with opened(postgresql_url) as (_, topic):
        with pytest.raises(ConfigurationError, match=what):
            topic.add_subscription(info)
        topic.add_subscription(SubscriptionInfo(ANN, TOPIC, TOPIC, "ü" * 250)).result(WAIT_S)
        assert len(topic.all_subscriptions()) == 1


def test_topics_that_are_several_have_no_store(postgresql_url: str) -> None:
    with opened(postgresql_url) as (adapter, _):
        for name in ("a.>", "a,b", "x" * 250):
            with pytest.raises(ConfigurationError):
                adapter.topic_message_store(Topic(name))


def test_without_our_table_subscriptions_can_be_looked_at_only(database_url: str) -> None:
    prepared(database_url)
    execute(database_url, "DROP TABLE JDBCSTORE_ACKED")
    with opened(database_url, create_tables_on_startup=False) as (adapter, topic):
        assert left(topic) == list(range(3, 11))
        calls: list[Callable[[], object]] = [
            lambda: topic.acknowledge(ANN, MessageId(PRODUCER, 3)),
            lambda: topic.add_subscription(SubscriptionInfo(BOB, TOPIC, TOPIC)),
            lambda: topic.remove_message(MessageId(PRODUCER, 3)),
        ]
        for call in calls:
            with pytest.raises(SchemaMismatch, match=r"JDBCSTORE_ACKED.*Run: jdbcstore schema upgrade URL"):
                call()
        add(topic, 11)
        topic.delete_subscription(ANN).result(WAIT_S)
        assert adapter.clean_up() == 11
        adapter.delete_all_messages()
    engine = open_engine(database_url)
    with engine.connect() as connection:
        assert "acked" in [found.name for found in inspect_schema(connection).findings()]
    assert upgrade_schema(engine).findings() == []
    engine.dispose()


# -- batches that fail -----------------------------------------------------------------------------------------------


def test_what_was_acknowledged_with_a_refused_message_is_acknowledged(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, ANN, BOB)
        ids = add(topic, 0, 1, 2)
        refuse_thirteen(database_url)
        with one_batch():
            added = [topic.add_message(text_message(number)) for number in range(10, 16)]
            done = [topic.acknowledge(ANN, MessageId(None, 0, id)) for id in (ids[2], ids[0])]
            begun = topic.add_subscription(SubscriptionInfo(SubscriptionKey("eve", "news"), TOPIC, TOPIC))
            last = topic.add_message(text_message(16))
        assert [completion.exception(WAIT_S) is None for completion in added] == [True] * 3 + [False] + [True] * 2
        assert all(completion.exception(WAIT_S) is None for completion in [*done, begun])
        assert last.exception(WAIT_S) is None
        there = java.ids()
        assert len(there) == 9
        assert left(topic, BOB) == there
        assert left(topic) == [ids[1], *there[3:]]
        assert left(topic, SubscriptionKey("eve", "news")) == there[-1:]
        assert topic.subscription_message_count(BOB) == 9
        acknowledge(topic, *there, key=BOB)
        acknowledge(topic, ids[1], *there[3:])
        assert java.marks() == [there[-1]]
        assert java.ranges() == []


def test_a_failed_commit_acknowledges_nothing(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(6))
        assert topic.subscription_message_count(ANN) == 6

        def fail() -> None:
            raise TransientStoreError("not this time")

        with faults.inject("writer.before_commit", fail):
            done = topic.acknowledge(ANN, *(MessageId(None, 0, id) for id in ids[:3]))
            assert isinstance(done.exception(WAIT_S), TransientStoreError)
            begun = topic.add_subscription(SubscriptionInfo(BOB, TOPIC, TOPIC))
            assert isinstance(begun.exception(WAIT_S), TransientStoreError)
            ended = topic.delete_subscription(ANN)
            assert isinstance(ended.exception(WAIT_S), TransientStoreError)
        assert [info.key for info in topic.all_subscriptions()] == [ANN]
        assert (java.marks(), left(topic)) == ([0], ids)
        assert topic.subscription_message_count(ANN) == 6
        add(topic, 7)
        acknowledge(topic, ids[1])
        assert (java.marks(), java.ranges()) == ([0], [(0, 2, 2, 0)])
        topic.delete_subscription(ANN).result(WAIT_S)
        assert topic.message_count == 7
        topic.add_message(text_message(8)).result(WAIT_S)
        assert topic.message_count == 7


@pytest.mark.parametrize("delivered", [True, False])
def test_a_message_whose_commit_was_cut_off_is_not_acknowledged_with_the_next(
    sql_server_url: str, delivered: bool
) -> None:
    port = int(sql_server_url.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy, opened(through(proxy, sql_server_url), retry_s=0) as (_, topic):
        subscribe(topic, ANN)
        add(topic, 1)
        assert topic.subscription_message_count(ANN) == 1
        trap = proxy.cut_at(ADDS, deliver=delivered)
        error = topic.add_message(text_message(2)).exception(WAIT_S)
        assert trap.is_set()
        if error is not None:
            assert isinstance(error, OutcomeUnknown)
        (third,) = add(topic, 3)
        acknowledge(topic, third)
        expected = [1, 2] if delivered or error is None else [1]
        assert left(topic) == expected
        assert topic.subscription_message_count(ANN) == len(expected)
        acknowledge(topic, *expected)
        assert left(topic) == []
        assert topic.subscription_message_count(ANN) == 0


@pytest.mark.parametrize("delivered", [True, False])
def test_acknowledgements_whose_commit_was_cut_off_are_written_once_more(sql_server_url: str, delivered: bool) -> None:
    port = int(sql_server_url.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy, opened(through(proxy, sql_server_url)) as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(6))
        trap = proxy.cut_at(b"INSERT INTO JDBCSTORE_ACKED", deliver=delivered)
        acknowledge(topic, ids[3])
        assert trap.is_set()
        trap = proxy.cut_at(b"UPDATE ACTIVEMQ_ACKS", deliver=delivered)
        acknowledge(topic, ids[0])
        assert trap.is_set()
        trap = proxy.cut_at(b"INSERT INTO ACTIVEMQ_ACKS", deliver=delivered)
        subscribe(topic, BOB)
        assert trap.is_set()
        add(topic, 6)
        assert left(topic) == [2, 3, 5, 6, 7]
        assert left(topic, BOB) == [7]
    with opened(sql_server_url) as (_, topic):
        assert left(topic) == [2, 3, 5, 6, 7]
        assert left(topic, BOB) == [7]


def test_who_is_not_master_acknowledges_nothing(database_url: str, java: JavaBroker) -> None:
    with opened(database_url, locker="lease") as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, 1, 2, 3)
        execute(database_url, "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another'")
        for done in (
            topic.acknowledge(ANN, MessageId(None, 0, ids[0])),
            topic.acknowledge(ANN, MessageId(None, 0, ids[2])),
            topic.delete_subscription(ANN),
        ):
            assert isinstance(done.exception(WAIT_S), LeaseLost)
        assert (java.marks(), java.ranges()) == ([0], [])


# -- memory and backlog ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prioritized", [False, True])
def test_a_backlog_that_memory_does_not_know_is_worked_off(
    database_url: str, java: JavaBroker, monkeypatch: pytest.MonkeyPatch, prioritized: bool
) -> None:
    monkeypatch.setattr("jdbcstore.store.jdbc.predecessors._AHEAD_ROWS", 7)
    monkeypatch.setattr(subscriptions, "_TAIL_LEAST", 5)
    monkeypatch.setattr(subscriptions, "_TAIL_MOST", 10)
    with opened(database_url, prioritized=prioritized) as (adapter, topic):
        subscribe(topic, ANN, BOB)
        queue = adapter.queue_message_store(Queue("BETWEEN"))
        for number in range(90):
            (queue if number % 3 == 2 else topic).add_message(text_message(number, priority=number % 4)).result(WAIT_S)
    with opened(database_url, prioritized=prioritized) as (_, topic):
        ids = java.ids()
        assert len(ids) == 60
        acknowledge(topic, *ids[40:50])  # far from the mark
        acknowledge(topic, *reversed(ids[2:6]))
        acknowledge(topic, ids[30], ids[31], ids[10])
        acknowledge(topic, ids[0], ids[1])
        done = [*ids[:6], ids[10], *ids[30:32], *ids[40:50]]
        assert sorted(left(topic)) == [id for id in ids if id not in done]
        (last,) = add(topic, 100)
        acknowledge(topic, last)
        acknowledge(topic, last, key=BOB)
        acknowledge(topic, *ids[::-1])
        assert left(topic) == []
        assert max(java.marks()) == last
        assert java.ranges() == []
        assert sorted(left(topic, BOB)) == ids


def test_only_the_newest_ids_are_kept(postgresql_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscriptions, "_TAIL_LEAST", 5)
    monkeypatch.setattr(subscriptions, "_TAIL_MOST", 10)
    with opened(postgresql_url, prioritized=True) as (adapter, topic):
        subscribe(topic, ANN)
        state = adapter.registry.topics["topic://T"]
        for number in range(100):
            topic.add_message(text_message(number, priority=number % 3)).result(WAIT_S)
            tail = state.tail([0, 1, 2])
            assert len(tail) <= 10
            assert tail == [id for id in range(1, number + 2) if id > state.since]
        topic.delete_subscription(ANN).result(WAIT_S)
        assert state.tail([0, 1, 2]) == []


# -- cleanup ---------------------------------------------------------------------------------------------------------


def test_cleanup_runs_by_itself(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.store.jdbc.cleanup._ROWS_WORTH_IT", 20)
    with opened(database_url, cleanup_period_ms=300_000) as (_, topic):
        subscribe(topic, ANN, BOB)
        ids = add(topic, *range(100))
        acknowledge(topic, *ids)
        topic.acknowledge(BOB, *(MessageId(None, 0, id) for id in ids[:50])).result(WAIT_S)
        wait_for_count(topic, 50)
        topic.delete_subscription(BOB).result(WAIT_S)
        wait_for_count(topic, 0)
        add(topic, 100)
        topic.delete_subscription(ANN).result(WAIT_S)
        wait_for_count(topic, 0)


def test_cleanup_looks_at_everything_now_and_then(
    database_url: str, java: JavaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for id in range(1, 30):
        java.sends(id, id)  # and nobody subscribes
    monkeypatch.setattr("jdbcstore.store.jdbc.cleanup._FIRST_S", 0.2)
    with opened(database_url, cleanup_period_ms=500) as (_, topic):
        wait_for_count(topic, 0)


def wait_for_count(topic: TopicMessageStore, count: int) -> None:
    wait_until(lambda: topic.message_count == count, lambda: f"{topic.message_count} are {count}", timeout_s=WAIT_S)


def test_cleanup_removes_a_bounded_number_at_a_time(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with opened(database_url) as (adapter, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(700))
        topic.acknowledge(ANN, *(MessageId(None, 0, id) for id in ids)).result(WAIT_S)
        counts: list[int] = []
        with faults.inject("writer.after_commit", lambda: counts.append(topic.message_count)):
            assert adapter.clean_up() == 700
        assert counts == [700, 500, 300, 100]
        assert topic.message_count == 0
        assert adapter.clean_up() == 0


def test_cleanup_spares_what_a_subscription_wants_that_has_just_begun(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as (adapter, topic):
        subscribe(topic, BOB)
        ids = add(topic, *range(10))
        acknowledge(topic, *ids, key=BOB)
        with one_batch():
            pending = [adapter.queue_message_store(Queue("FIRST")).add_message(text_message(1))]
            begun = topic.add_subscription(INFO, retroactive=True)
            cleaning = threading.Thread(target=adapter.clean_up, name="cleaning")
            cleaning.start()
            cleaning.join(0.5)
        cleaning.join(WAIT_S)
        for completion in pending:
            completion.result(WAIT_S)
        begun.result(WAIT_S)
        assert left(topic) == ids
        assert java.ids() == ids


def test_cleanup_ends_with_the_store(database_url: str) -> None:
    with opened(database_url, cleanup_period_ms=300_000) as (adapter, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(600))
        topic.acknowledge(ANN, *(MessageId(None, 0, id) for id in ids)).result(WAIT_S)
        topic.delete_subscription(ANN).result(WAIT_S)
    with pytest.raises(StoreError):
        adapter.clean_up()


def test_sequences_of_ranges_do_not_overlap_whatever_happens(database_url: str, java: JavaBroker) -> None:
    """What stands in our table is canonical: in order, apart, above the mark."""
    with opened(database_url) as (_, topic):
        subscribe(topic, ANN)
        ids = add(topic, *range(40))
        for id in (7, 3, 20, 21, 5, 4, 1, 30, 39, 6, 2):
            acknowledge(topic, ids[id])
            ranges = java.ranges()
            assert all(first[2] + 1 < second[1] for first, second in pairwise(ranges))
            assert all(java.marks()[0] + 1 < first for _, first, _, _ in ranges)
