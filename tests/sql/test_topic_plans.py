"""What durable subscriptions ask of the database costs what it returns, whatever lies around it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import Connection, delete, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Topic
from jdbcstore.identifiers import MessageId
from jdbcstore.store.contract import Cursor
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.own_tables import ACKED
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.subscription import SubscriptionKey
from tests.conftest import SQL_SERVERS, fresh_database
from tests.sql.captured import Sent, captured
from tests.sql.examining import examine
from tests.sql.java import JavaBroker
from tests.sql.loading import load

pytestmark = pytest.mark.one_in(1)  # each server plans by itself

ROWS = 20_000
PAGE = 200
ANN = SubscriptionKey("ann", "news")
#: Blocks of a page beside the one that each row lies in: the way down the index and along its leaves.
INDEX_BLOCKS_MAX = 30


@pytest.fixture(scope="module", params=["sqlite", *SQL_SERVERS])
def database_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A queue of twenty thousand messages, a topic of as many behind it and one with two that lie far apart.

    No test removes a message.
    """
    if request.param == "sqlite":
        urls = iter([f"sqlite:///{tmp_path_factory.mktemp('plans') / 'plans.db'}"])
    else:
        urls = fresh_database(request, request.param)
    for url in urls:
        engine = open_engine(url)
        upgrade_schema(engine)
        with engine.connect() as connection:
            tables = Tables.on(connection, "")
            load(connection, tables, ROWS, 2, CONTAINER="queue://Q")
            load(connection, tables, ROWS, ROWS + 2, CONTAINER="topic://T")
            load(connection, tables, 2, CONTAINER="topic://TWO", ID=lambda n: n * (2 * ROWS + 1) + 1)
            words = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
            connection.exec_driver_sql(f"{words} ACTIVEMQ_MSGS").close()
        engine.dispose()
        yield url


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """To that database, with a subscription to both topics that has acknowledged nothing."""
    engine = open_engine(database_url)
    with engine.connect() as connection:
        tables = Tables.on(connection, "")
        for table in (tables.acks, tables.own[ACKED]):
            connection.execute(delete(table))
        for topic in ("T", "TWO"):
            JavaBroker(connection, topic).subscribes(retroactive=True)
        yield connection
    engine.dispose()


@pytest.fixture
def adapter(database_url: str, connection: Connection) -> Iterator[JdbcPersistenceAdapter]:
    """A store on it that removes nothing by itself."""
    options = JdbcOptions(locker="none", cleanup_period_ms=0)
    with JdbcPersistenceAdapter(store_url(database_url), options) as adapter:
        yield adapter


def about_messages(sent: list[Sent]) -> list[Sent]:
    """Those of some statements that read the message table."""
    return [one for one in sent if "FROM ACTIVEMQ_MSGS" in one.statement]


@pytest.mark.parametrize(("acknowledged", "after"), [(0, 0), (ROWS // 2, 0), (0, 2 * ROWS - 500)])
def test_a_page_touches_what_it_returns(
    connection: Connection, adapter: JdbcPersistenceAdapter, acknowledged: int, after: int
) -> None:
    topic = adapter.topic_message_store(Topic("T"))
    topic.acknowledge(ANN, *(MessageId(None, 0, ROWS + 2 + n) for n in range(acknowledged))).result(60)
    with captured() as sent:
        page = topic.recover_next_subscription_messages(ANN, Cursor.after(after), PAGE, 1 << 30)
    assert len(page.messages) == PAGE
    (probe,) = about_messages(sent)
    found = examine(connection, probe)
    assert found.indexes == {"jdbcstore_msgs_page"}, found.plan
    assert found.is_bounded, found.plan
    assert not found.sorts, found.plan
    assert found.effort <= found.effort_max, found.plan
    assert found.blocks <= found.rows + INDEX_BLOCKS_MAX, found.plan


def test_a_range_of_acknowledged_messages_is_stepped_over(
    connection: Connection, adapter: JdbcPersistenceAdapter
) -> None:
    topic = adapter.topic_message_store(Topic("T"))
    topic.acknowledge(ANN, *(MessageId(None, 0, ROWS + 2 + n) for n in range(1, ROWS - 10))).result(60)
    with captured() as sent:
        page = topic.recover_next_subscription_messages(ANN, Cursor(), PAGE, 1 << 30)
    assert len(page.messages) == 11
    probes = about_messages(sent)
    assert len(probes) == 2
    assert sum(examine(connection, probe).rows for probe in probes) <= PAGE + 11


@pytest.mark.parametrize("backwards", [False, True])
@pytest.mark.parametrize("name", ["T", "TWO"])
def test_a_walk_touches_what_it_returns(
    connection: Connection, adapter: JdbcPersistenceAdapter, name: str, backwards: bool
) -> None:
    parameters = {"container": f"topic://{name}", "level": 0, "after": 0, "before": 1 << 40, "rows": 50}
    with captured() as sent:
        connection.execute(text(adapter.dialect.walk(0, backwards=backwards)), parameters).all()
    found = examine(connection, sent[0])
    assert found.indexes == {"jdbcstore_msgs_page"}, found.plan
    assert found.rows == (50 if name == "T" else 2)
    assert found.is_bounded, found.plan
    assert not found.sorts, found.plan
    assert found.effort <= found.effort_max, found.plan


def test_counting_stays_within_the_index(connection: Connection, adapter: JdbcPersistenceAdapter) -> None:
    if connection.dialect.name == "postgresql":
        connection.exec_driver_sql("VACUUM ANALYZE activemq_msgs")  # as it is soon after any large change
    topic = adapter.topic_message_store(Topic("TWO"))
    with captured() as sent:
        assert topic.subscription_message_count(ANN) == 2
    counts = [one for one in about_messages(sent) if "COUNT" in one.statement]
    assert len(counts) == 1
    found = examine(connection, counts[0])
    assert found.indexes == {"jdbcstore_msgs_page"}, found.plan
    assert found.is_bounded, found.plan
    assert found.is_covered, found.plan


def test_a_start_reads_no_message(database_url: str, connection: Connection) -> None:
    options = JdbcOptions(locker="none", cleanup_period_ms=0)
    with JdbcPersistenceAdapter(store_url(database_url), options) as adapter:
        adapter.topic_message_store(Topic("T")).acknowledge(ANN, MessageId(None, 0, ROWS + 9)).result(60)
    with captured() as sent, JdbcPersistenceAdapter(store_url(database_url), options) as adapter:
        assert adapter.destinations() >= {Topic("T"), Topic("TWO")}
    assert not [one.statement for one in sent if " MSG" in one.statement.replace("MSGID", "").replace("MSGS", "")]
    joined = [one for one in sent if "FROM JDBCSTORE_ACKED" in one.statement and "JOIN" in one.statement]
    assert len(joined) == 1
