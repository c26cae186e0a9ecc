"""Scheduled messages in the database: flat cost, and firings that happen once whatever becomes of a commit."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from sqlalchemy import BigInteger, Connection, column, insert, literal, literal_column, select, text

from jdbcstore.config.urls import open_engine, open_store, store_url
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import LeaseLost, SchemaMismatch, StoreError
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import Commit, FiredJob
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from jdbcstore.testing.schedule_contract import scheduled_job
from tests.servers.proxy import Proxy
from tests.sql.captured import Sent, captured
from tests.sql.examining import examine
from tests.sql.test_writer import WAIT_S, one_batch, opened

pytestmark = pytest.mark.has_tables

JOBS = 30_000
PAGE = 100
#: Half of the jobs are due at one time, the others one after the other.
SAME_MS = 1_000_000


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """Thirty thousand jobs."""
    engine = open_engine(database_url)
    with engine.connect() as connection:
        tables = Tables.on(connection, "")
        load_jobs(connection, tables, JOBS // 2, "a", due_ms=1)
        load_jobs(connection, tables, JOBS // 2, "b", due_ms=SAME_MS, apart_ms=0)
        words = "ANALYZE TABLE" if connection.dialect.name in ("mysql", "mariadb") else "ANALYZE"
        connection.exec_driver_sql(f"{words} {tables.scheduled.name}").close()
        yield connection
    engine.dispose()


def load_jobs(connection: Connection, tables: Tables, count: int, name: str, *, due_ms: int, apart_ms: int = 1) -> None:
    """Insert jobs the database's own way."""
    n = column("n", BigInteger())
    digits = " UNION ALL ".join(f"SELECT {digit}{' AS d' if digit == 0 else ''}" for digit in range(10))
    places = range(len(str(count - 1)))
    total = " + ".join(f"t{place}.d * {10**place}" for place in places)
    crossed = " CROSS JOIN ".join(f"({digits}) t{place}" for place in places)
    numbers = text(f"SELECT {total} AS n FROM {crossed}").columns(n).subquery("numbers")
    table = tables.scheduled
    number_ = numbers.c.n
    id_ = literal(name) + (number_ + 1_000_000).cast(table.c.JOB_ID.type)
    zero = literal_column("0", BigInteger())
    blob = literal(marshal(text_message(1)), table.c.MSG.type)
    into = [table.c[name] for name in ("JOB_ID", "DUE_MS", "DELAY_MS", "PERIOD_MS", "REPEATS", "MSG")]
    due = number_ * literal_column(str(apart_ms)) + literal_column(str(due_ms))
    chosen = select(id_, due, zero, zero, zero, blob).where(number_ < count)
    connection.execute(insert(table).from_select(into, chosen))


def about_jobs(sent: list[Sent]) -> list[Sent]:
    return [one for one in sent if "JDBCSTORE_SCHEDULED" in one.statement]


def test_what_the_scheduler_asks_costs_what_it_returns(database_url: str, connection: Connection) -> None:
    with open_store(database_url, locker="none") as adapter, captured() as sent:
        assert isinstance(adapter, JdbcPersistenceAdapter)
        jobs = adapter.job_store()
        assert len(jobs.due_jobs(10_000, PAGE, 1 << 30).jobs) == PAGE
        assert jobs.next_due_ms() == 1
        assert len(jobs.jobs((JOBS // 4, ""), PAGE, 1 << 30).jobs) == PAGE
        assert jobs.due_jobs(0, PAGE, 1 << 30).jobs == ()
    found = [examine(connection, one) for one in about_jobs(sent)]
    assert len(found) == 6
    for one in found:
        assert one.is_bounded, one.plan
        assert not one.sorts, one.plan
        assert one.effort <= one.effort_max, one.plan


def test_firing_costs_the_same_whatever_waits(database_url: str, connection: Connection) -> None:
    """Statements that a firing sends, examined one by one."""
    with open_store(database_url, locker="none") as adapter:
        assert isinstance(adapter, JdbcPersistenceAdapter)
        jobs = [FiredJob("b1000007", SAME_MS), FiredJob("a1000000", 1, SAME_MS)]
        changes, _ = adapter.job_store().changes_of(jobs)
        is_postgresql = connection.dialect.name in ("postgresql", "mysql", "mariadb")
        for statement, values in changes:
            worded = statement.replace("?", "%s") if is_postgresql else statement
            if statement.startswith("INSERT"):  # the proof: what it asks
                worded = f"SELECT{worded.partition('SELECT')[2]}"
            one = examine(connection, Sent(worded, values))
            assert one.is_bounded or statement.startswith("INSERT"), one.plan
            assert one.effort <= 2 * one.effort_max + 10, one.plan


# -- commits whose answer is lost ------------------------------------------------------------------------------------


@pytest.fixture
def proxied(sql_server_url: str) -> Iterator[tuple[str, Proxy]]:
    """The URL of a fresh database through a proxy, and the proxy."""
    port = store_url(sql_server_url).port
    assert port is not None
    with Proxy(port) as proxy:
        yield proxy.url(sql_server_url) + ("?ssl_disabled=true" if sql_server_url.startswith("mysql") else ""), proxy


@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
@pytest.mark.parametrize("target", ["queue", "topic"])
@pytest.mark.parametrize("next_ms", [None, 9])
def test_a_firing_that_is_cut_off_happens_once(
    proxied: tuple[str, Proxy], delivered: bool, target: str, next_ms: int | None
) -> None:
    """On a topic without subscriptions there is no row to look for, only the job."""
    url, proxy = proxied
    with opened(url) as (adapter, store):
        job = scheduled_job(1, 5)
        adapter.commit_together(Commit(jobs=[job])).result(WAIT_S)
        fired = FiredJob(job.job_id, 5, next_ms)
        target_store = store if target == "queue" else adapter.topic_message_store(Topic("T"))
        trap = proxy.cut_at(b"twice", deliver=delivered)
        adapter.commit_together(Commit(adds=[(target_store, text_message(1))], jobs=[fired])).result(WAIT_S)
        assert trap.is_set()
        assert store.message_count == len(list(store.recover())) == (target == "queue")
        assert adapter.job_store().next_due_ms() == next_ms
        again = adapter.commit_together(Commit(adds=[(store, text_message(2))], jobs=[fired])).exception(WAIT_S)
        assert isinstance(again, StoreError)
        assert store.message_count == (target == "queue")


@pytest.mark.parametrize("delivered", [True, False], ids=["answer-lost", "request-lost"])
def test_a_job_whose_commit_is_cut_off_is_there_once(proxied: tuple[str, Proxy], delivered: bool) -> None:
    url, proxy = proxied
    with opened(url) as (adapter, _):
        trap = proxy.cut_at(b"JDBCSTORE_SCHEDULED", deliver=delivered)
        with one_batch():
            kept = [adapter.commit_together(Commit(jobs=[scheduled_job(n, n)])) for n in range(5)]
            kept.append(adapter.job_store().remove_job(scheduled_job(0, 0).job_id))
        for one in kept:
            one.result(WAIT_S)
        assert trap.is_set()
        assert adapter.job_store().job_count() == 4


def test_a_bad_firing_fails_alone(database_url: str) -> None:
    with opened(database_url) as (adapter, store):
        jobs = [scheduled_job(n, 5) for n in range(4)]
        adapter.commit_together(Commit(jobs=jobs)).result(WAIT_S)
        with one_batch():
            fired = [
                adapter.commit_together(
                    Commit(adds=[(store, text_message(n))], jobs=[FiredJob(job.job_id, 6 if n == 2 else 5)])
                )
                for n, job in enumerate(jobs)
            ]
        errors = [one.exception(WAIT_S) for one in fired]
        assert [error is None for error in errors] == [True, True, False, True]
        assert store.message_count == len(list(store.recover())) == 3
        assert adapter.job_store().job_count() == 1


def test_who_is_not_master_fires_nothing(database_url: str) -> None:
    """The fence of the commit, not the locker, sees to that."""
    engine = open_engine(database_url)
    with opened(database_url, locker="lease") as (adapter, store):
        job = scheduled_job(1, 5)
        adapter.commit_together(Commit(jobs=[job])).result(WAIT_S)
        with engine.connect() as connection:
            connection.exec_driver_sql("UPDATE JDBCSTORE_TERM SET TERM = TERM + 1, HOLDER = 'somebody'")
            connection.exec_driver_sql("UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'somebody'")
            fired = adapter.commit_together(Commit(adds=[(store, text_message(1))], jobs=[FiredJob(job.job_id, 5)]))
            assert isinstance(fired.exception(WAIT_S), LeaseLost)
            assert connection.exec_driver_sql("SELECT COUNT(*) FROM ACTIVEMQ_MSGS").scalar() == 0
            assert connection.exec_driver_sql("SELECT COUNT(*) FROM JDBCSTORE_SCHEDULED").scalar() == 1
    engine.dispose()


# -- without our table -----------------------------------------------------------------------------------------------


def test_without_its_table_nothing_is_scheduled_and_all_else_goes_on(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    with engine.begin() as connection:
        connection.exec_driver_sql("DROP TABLE JDBCSTORE_SCHEDULED")
    options = JdbcOptions(locker="none", create_tables_on_startup=False)
    with JdbcPersistenceAdapter(store_url(database_url), options) as adapter:
        store = adapter.queue_message_store(Queue("TEST"))
        with pytest.raises(SchemaMismatch, match="schema upgrade"):
            adapter.job_store()
        with pytest.raises(SchemaMismatch, match="schema upgrade"):
            adapter.commit_together(Commit(adds=[(store, text_message(1))], jobs=[scheduled_job(1, 5)]))
        store.add_message(text_message(2)).result(WAIT_S)
        assert store.message_count == 1
    report = upgrade_schema(engine)
    assert report.has_scheduled
    assert not report.needs_upgrade
    engine.dispose()


def test_a_lost_index_is_made_again(database_url: str) -> None:
    engine = open_engine(database_url)
    upgrade_schema(engine)
    with engine.begin() as connection:
        on = " ON JDBCSTORE_SCHEDULED" if connection.dialect.name in ("mysql", "mariadb") else ""
        connection.exec_driver_sql(f"DROP INDEX JDBCSTORE_SCHEDULED_DUE{on}")
    assert upgrade_schema(engine).has_scheduled
    engine.dispose()
