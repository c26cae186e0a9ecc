"""Brokers on a group of MySQL servers with one primary."""

from __future__ import annotations

import uuid
from collections.abc import Iterator

import pytest

from jdbcstore.config.urls import open_engine
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect import dialect_for
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level
from jdbcstore.testing import text_message
from tests.servers.group_replication import GroupCluster, GroupMember
from tests.sql.test_lockers import Brokers, opened


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
        store = brokers.master().queue_message_store(Queue("TEST"))
        store.add_message(text_message(1)).result(30)
        assert store.message_count == 1
    assert primary.execute(f"SELECT COUNT(*) FROM {database}.ACTIVEMQ_MSGS") == [(1,)]


def test_what_the_group_says_of_itself(group: GroupCluster, database: str) -> None:
    dialect = dialect_for("mysql").for_questions(JdbcOptions())
    told = {}
    for member in (group.writer(), secondary(group)):
        engine = open_engine(member.url(database))
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
        master.queue_message_store(Queue("TEST")).add_message(text_message(1)).result(30)
        assert execute("SELECT TIME FROM ACTIVEMQ_LOCK") != before
    brokers.close()
