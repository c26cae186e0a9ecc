"""Opening a store finds out what is in it from indexes and counters, whatever is in it, and reads no message."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, Pool, event, func, insert, select, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.identifiers import MessageId
from jdbcstore.message import BytesMessage, Message
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc import schema, usable_schema
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.schema import SchemaReport, inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.sql.captured import captured
from tests.sql.examining import examine
from tests.sql.loading import load
from tests.waiting import wait_until

pytestmark = pytest.mark.has_tables

XID = "globalId-1-branchId-2-formatId-3"


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection to a new, empty schema."""
    engine = open_engine(database_url)
    upgrade_schema(engine)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def adapter(database_url: str, connection: Connection) -> Iterator[JdbcPersistenceAdapter]:
    """A store on that schema, to be started by the test when the schema is filled."""
    adapter = JdbcPersistenceAdapter(store_url(database_url))
    yield adapter
    adapter.stop()


def test_the_catalogues_are_read_once(
    connection: Connection, adapter: JdbcPersistenceAdapter, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby asks one question; who becomes master looks at the schema. Failover waits for both."""
    looks: list[object] = []

    def counted(*arguments: object) -> SchemaReport:
        looks.append(arguments)
        return inspect_schema(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(schema, "inspect_schema", counted)
    monkeypatch.setattr(usable_schema, "inspect_schema", counted)
    locker = adapter.locker()
    assert locker.acquire() is not None
    assert not looks
    adapter.start()
    assert len(looks) == 1
    adapter.stop()
    locker.release()


def test_a_start_makes_three_connections(database_url: str) -> None:
    """One for the lock, one that writes and one that reads: each costs the server a process or a thread."""
    made: list[object] = []
    event.listen(Pool, "connect", listener := lambda *_: made.append(None))
    try:
        adapter = JdbcPersistenceAdapter(store_url(database_url))
        adapter.start()
        adapter.stop()
    finally:
        event.remove(Pool, "connect", listener)
    assert len(made) == 3


# -- no bodies -------------------------------------------------------------------------------------------------------


def test_no_statement_of_a_start_mentions_a_body(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    load_messages(connection, 1_000, body_bytes=100)
    with captured() as sent:
        adapter.start()
    about_messages = [statement for statement, _ in sent if "ACTIVEMQ_MSGS" in statement.upper()]
    assert len(about_messages) >= 3
    assert not [statement for statement in about_messages if re.search(r"\bMSG\b|SELECT \*|\.\*", statement)]


@pytest.mark.has_tables(False)
def test_counting_stays_within_the_indexes(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    load_messages(connection, 2_000, body_bytes=1_500)
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("VACUUM ANALYZE activemq_msgs")  # as it is soon after any large change
    with captured() as sent:
        adapter.start()
    statements = [one for one in sent if "FROM ACTIVEMQ_MSGS" in one.statement]
    assert len(statements) == 4
    for statement in statements:
        found = examine(connection, statement)
        in_doubt_only = bool(found.indexes) and all(index.endswith("_xidx") for index in found.indexes)
        assert found.is_covered or in_doubt_only, found.plan
        assert not found.sorts, found.plan  # MariaDB would collect all rows to group them


@pytest.mark.has_tables(False)
def test_postgresql_touches_no_block_of_bodies(postgresql_url: str) -> None:
    engine = open_engine(postgresql_url)
    upgrade_schema(engine)
    engine.dispose()  # its sessions; this test waits until it is alone
    adapter = JdbcPersistenceAdapter(store_url(postgresql_url))
    with engine.connect() as connection:
        connection.execute(
            text("ALTER TABLE activemq_msgs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)")
        )
        load_messages(connection, 500, body_bytes=20_000)
        before = body_blocks_touched(connection)
        with adapter:
            pass
        assert body_blocks_touched(connection) == before
        with adapter:  # the counter does count
            adapter.queue_message_store(Queue("TEST")).recover_next_messages(Cursor(), 1, 1 << 30)
        assert body_blocks_touched(connection) > before
    engine.dispose()


# -- what is in it ---------------------------------------------------------------------------------------------------


def test_an_empty_schema_is_an_empty_store(adapter: JdbcPersistenceAdapter) -> None:
    adapter.start()
    assert adapter.destinations() == set()
    assert adapter.last_message_broker_sequence_id() == 0


def test_messages_are_counted_whatever_their_priority(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    add_rows(connection, Queue("A"), None, 0, 9, -3, 12, 1 << 40)
    add_rows(connection, Queue("B"), None)
    adapter.start()
    assert counts(adapter, "A", "B") == [6, 1]
    assert adapter.destinations() == {Queue("A"), Queue("B")}


def test_messages_in_doubt_are_not_counted(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    add_rows(connection, Queue("A"), 0, 0, 4)
    add_rows(connection, Queue("A"), 0, 4, xid=XID)
    add_rows(connection, Queue("IN.DOUBT"), 0, xid=XID)
    adapter.start()
    assert counts(adapter, "A", "IN.DOUBT") == [3, 0]
    assert adapter.destinations() == {Queue("A")}


def test_destinations_of_subscriptions_are_known(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    add_rows(connection, Topic("WITH.MESSAGES"), 0)
    add_subscription(connection, Topic("WITHOUT"), last_acked_id=-1)
    adapter.start()
    assert adapter.destinations() == {Topic("WITH.MESSAGES"), Topic("WITHOUT")}


def test_the_sequence_goes_on_behind_the_last_message(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    add_rows(connection, Queue("A"), 0, 0, first=500)
    add_subscription(connection, Topic("T"), last_acked_id=300)
    adapter.start()
    assert adapter.last_message_broker_sequence_id() == 501
    assert adapter.queue_message_store(Queue("B")).add_message(text_message(1)).result(30) == 502


def test_the_sequence_goes_on_behind_the_last_acknowledged(
    connection: Connection, adapter: JdbcPersistenceAdapter
) -> None:
    add_rows(connection, Queue("A"), 0, 0, first=500)
    add_subscription(connection, Topic("T"), last_acked_id=7_000)
    adapter.start()
    assert adapter.last_message_broker_sequence_id() == 7_000
    assert adapter.queue_message_store(Queue("B")).add_message(text_message(1)).result(30) == 7_001


# -- and it is read --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page_messages", [1, 3, 100])
def test_priorities_that_jms_does_not_know_count_as_the_nearest(
    connection: Connection, adapter: JdbcPersistenceAdapter, page_messages: int
) -> None:
    add_rows(connection, Queue("A"), 12, 9, None, 4, 0, -3, 9, 1 << 40, None, 5)
    adapter.start()
    store = adapter.queue_message_store(Queue("A"), prioritized=True)
    assert [sequence(message) for message in store.recover(page_messages)] == [1, 2, 7, 8, 10, 4, 3, 5, 6, 9]


@pytest.mark.parametrize("page_messages", [1, 3, 100])
def test_priorities_do_not_count_where_the_queue_is_not_prioritised(
    connection: Connection, adapter: JdbcPersistenceAdapter, page_messages: int
) -> None:
    add_rows(connection, Queue("A"), 12, 9, None, 4, 0, -3, 9, 1 << 40, None, 5)
    adapter.start()
    store = adapter.queue_message_store(Queue("A"))
    assert [sequence(message) for message in store.recover(page_messages)] == list(range(1, 11))


def test_messages_in_doubt_are_not_seen(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    add_rows(connection, Queue("A"), 0, None)
    add_rows(connection, Queue("A"), 0, None, first=3, xid=XID)
    add_rows(connection, Queue("A"), 0, None, first=5)
    adapter.start()
    assert [sequence(m) for m in adapter.queue_message_store(Queue("A")).recover()] == [1, 2, 5, 6]


# -- rows ------------------------------------------------------------------------------------------------------------


def load_messages(connection: Connection, count: int, body_bytes: int) -> None:
    """Fill queue TEST with messages whose body is random, so that no database makes it smaller."""
    message = BytesMessage(producer_id=PRODUCER, message_id=MessageId(PRODUCER, 1), destination=Queue("TEST"))
    message.body = os.urandom(body_bytes)
    load(connection, Tables.on(connection, ""), count, MSG=marshal(message))


def add_rows(
    connection: Connection, destination: Destination, *priorities: int | None, first: int = 0, xid: str | None = None
) -> None:
    """A row for each value of PRIORITY, with ids from `first` or else the next free one on."""
    messages = Tables.on(connection, "").messages
    first = first or int(connection.execute(select(func.max(messages.c.ID))).scalar() or 0) + 1
    for id, priority in enumerate(priorities, first):
        connection.execute(
            insert(messages).values(
                ID=id,
                CONTAINER=destination.qualified_name,
                MSGID_PROD=str(PRODUCER),
                MSGID_SEQ=id,
                EXPIRATION=0,
                MSG=marshal(text_message(id, destination=destination)),
                PRIORITY=priority,
                XID=xid,
            )
        )


def add_subscription(connection: Connection, topic: Topic, last_acked_id: int) -> None:
    """A durable subscription."""
    row = {
        "CONTAINER": topic.qualified_name,
        "SUB_DEST": topic.qualified_name,
        "CLIENT_ID": "client",
        "SUB_NAME": "subscription",
        "LAST_ACKED_ID": last_acked_id,
        "PRIORITY": 0,
    }
    connection.execute(insert(Tables.on(connection, "").acks).values(row))


def counts(adapter: JdbcPersistenceAdapter, *queues: str) -> list[int]:
    """The message counts of queues."""
    return [adapter.queue_message_store(Queue(queue)).message_count for queue in queues]


def sequence(message: Message) -> int:
    """The id of a message's row."""
    assert message.message_id is not None
    return message.message_id.broker_sequence_id


def body_blocks_touched(connection: Connection) -> int:
    """Blocks of the TOAST table that anybody has read so far, from disk or memory."""
    wait_until_alone(connection)
    connection.execute(text("SELECT pg_stat_force_next_flush()"))
    touched = text("SELECT toast_blks_read + toast_blks_hit FROM pg_statio_user_tables WHERE relname = 'activemq_msgs'")
    return int(connection.execute(touched).scalar_one())


def wait_until_alone(connection: Connection) -> None:
    """Until the store's sessions are gone: they hand in what they have counted when they end."""
    others = text(
        "SELECT COUNT(*) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()"
    )
    wait_until(lambda: connection.execute(others).scalar_one() == 0, "the sessions of a stopped store are gone")
