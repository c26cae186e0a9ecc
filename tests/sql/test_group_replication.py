"""Brokers on a group of MySQL servers with one primary."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import pytest
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, LeaseLost, OutcomeUnknown
from jdbcstore.store.jdbc.dialect import dialect_at
from jdbcstore.store.jdbc.dialect.mysql import write
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level
from jdbcstore.testing import text_message
from tests.servers.group_replication import GroupCluster, GroupMember
from tests.sql.test_lockers import Brokers, opened
from tests.waiting import wait_until

QUEUE = Queue("TEST")
WAIT_S = 60.0


@pytest.fixture
def database(group: GroupCluster) -> Iterator[str]:
    """A database of the group."""
    name = f"test_{uuid.uuid4().hex[:12]}"
    group.create_database(name)
    yield name
    group.drop_database(name)


def secondary(group: GroupCluster) -> GroupMember:
    return next(member for member in group.members if member.role() == "SECONDARY")


def test_the_primary_is_found_wherever_it_is_in_the_url(group: GroupCluster, database: str) -> None:
    """Secondaries let everybody in, and are left behind."""
    primary = group.writer()
    others = [member for member in group.members if member is not primary]
    hosts = ",".join(f"127.0.0.1:{member.port}" for member in (*others, primary))
    with opened(f"mysql://jdbcstore:jdbcstore@{hosts}/{database}") as brokers:
        store = brokers.master().queue_message_store(QUEUE)
        store.add_message(text_message(1)).result(30)
        assert store.message_count == 1
    assert primary.execute(f"SELECT COUNT(*) FROM {database}.ACTIVEMQ_MSGS") == [(1,)]


def test_what_the_group_says_of_itself(group: GroupCluster, database: str) -> None:
    told = {}
    for member in (group.writer(), secondary(group)):
        engine = open_engine(member.url(database))
        dialect = dialect_at(engine.url, JdbcOptions())
        with engine.connect() as connection:
            told[member] = dialect.replication(connection), dialect.history(connection)
        engine.dispose()
    (primary, here), (other, there) = told.values()
    assert (primary.level, primary.takes_writes) == (Level.QUORUM, True)
    assert primary.told == "Group Replication with one primary, 3 of 3 members online"
    assert not other.takes_writes
    assert here != there, "a broker whose primary is another one reads everything anew"


def test_a_row_lock_is_refused(group: GroupCluster, database: str) -> None:
    with opened(group.url(database)) as brokers, pytest.raises(ConfigurationError, match="lease-database-locker"):
        brokers.master("database")


def test_a_commit_writes_the_row_that_a_takeover_writes(group: GroupCluster, database: str) -> None:
    """So that it holds when the group is switched to several primaries, or changes its primary."""
    brokers = Brokers(group.url(database))
    master = brokers.master()
    with group.session(database) as execute:
        before = execute("SELECT TIME FROM ACTIVEMQ_LOCK")
        master.queue_message_store(QUEUE).add_message(text_message(1)).result(30)
        assert execute("SELECT TIME FROM ACTIVEMQ_LOCK") != before
    brokers.close()


def test_a_standby_is_read_by_who_wants_one(group: GroupCluster, database: str) -> None:
    engine = open_engine(f"{group.url(database)}&read_from=standby")
    with engine.connect() as connection:
        assert connection.exec_driver_sql("SELECT @@read_only").scalar_one() == 1
    engine.dispose()
    alone = open_engine(f"{group.writer().url(database)}?read_from=standby")
    with pytest.raises(DBAPIError, match="no server is a standby"):
        alone.connect()
    alone.dispose()


@pytest.mark.parametrize("is_certified", [True, False])
def test_of_several_primaries_none_lets_a_former_master_write(
    group: GroupCluster, database: str, monkeypatch: pytest.MonkeyPatch, *, is_certified: bool
) -> None:
    """It removes a row on a member that has not applied the takeover. Without a write of the lock's row it may."""
    if not is_certified:
        monkeypatch.setattr(write, "is_certified", lambda connection: False)
    here, there = (opened(member.url(database)) for member in group.members[:2])
    with several_primaries(group), here as one, there as other:
        former, successor = one.master(), other.new()
        queue = former.queue_message_store(QUEUE)
        queue.add_message(text_message(1)).result(WAIT_S)
        with held_up(group, database), group.members[1].session(database) as execute:
            execute("UPDATE ACTIVEMQ_LOCK SET TIME = 1")
            assert successor.locker().acquire() is not None
            successor.start()
            message_id = text_message(1).message_id
            assert message_id is not None
            late = queue.remove_message(message_id)
            if not is_certified:
                late.result(WAIT_S)
        if is_certified:
            with pytest.raises((LeaseLost, OutcomeUnknown)):
                late.result(WAIT_S)
        assert successor.queue_message_store(QUEUE).message_count == 1
        with group.members[1].session(database) as execute:
            rows = partial(execute, "SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
            if is_certified:
                assert rows() == [(1,)]
            else:  # the removal arrives on this member when it is applied here
                wait_until(lambda: rows() == [(0,)])


@contextmanager
def several_primaries(group: GroupCluster) -> Iterator[None]:
    """All members take writes, for a while."""
    group.writer().execute("SELECT group_replication_switch_to_multi_primary_mode()")
    try:
        wait_until(lambda: {member.role() for member in group.members} == {"PRIMARY"}, timeout_s=WAIT_S)
        yield
    finally:
        group.writer().execute("SELECT group_replication_switch_to_single_primary_mode()")
        wait_until(lambda: [member.role() for member in group.members].count("SECONDARY") == 2, timeout_s=WAIT_S)


@contextmanager
def held_up(group: GroupCluster, database: str) -> Iterator[None]:
    """The first member applies nothing: a table that it is to change is locked there."""
    with group.members[1].session(database) as execute:
        execute("CREATE TABLE held (a INT PRIMARY KEY)")
        first = group.members[0]
        wait_until(lambda: first.execute(f"SHOW TABLES FROM {database} LIKE 'held'"), timeout_s=WAIT_S)
        with first.session(database) as locking:
            locking("LOCK TABLES held READ")
            execute("INSERT INTO held VALUES (1)")
            yield
