"""A queue that is filled and drained at the same pace keeps its size on PostgreSQL, without the server's autovacuum."""

from __future__ import annotations

import pytest
from sqlalchemy import Connection, text

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.destination import Queue
from jdbcstore.store.contract import Cursor, MessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.testing import text_message

pytestmark = pytest.mark.timeout(300)  # it is all work, which a busy machine takes long for

MESSAGES = 100_000
BACKLOG = 500
STEP = 250
BODY = "x" * 300
#: What the table, its indexes and its TOAST table may take with a vacuum every `VACUUM_ROWS` removed rows. A row takes
#: about 700 bytes with its index entries; a vacuum frees the rows up to its beginning while the next are being written.
#: That is a quarter of this, unless the machine has so much to do that a vacuum takes long.
VACUUM_ROWS = 5_000
BYTES_MAX = 24 << 20


@pytest.fixture(params=["postgresql_url", pytest.param("postgresql18_url", marks=pytest.mark.exhaustive)])
def url(request: pytest.FixtureRequest) -> str:
    """A database on an old and a new PostgreSQL."""
    return str(request.getfixturevalue(request.param))


def test_the_tables_stay_small_while_messages_pass_through(url: str) -> None:
    assert size_after_passing_through(url, vacuum_rows=VACUUM_ROWS) < BYTES_MAX


@pytest.mark.exhaustive  # what it proves is that the other one can fail
def test_without_a_vacuum_they_would_not(url: str) -> None:
    assert size_after_passing_through(url, vacuum_rows=0) > 2 * BYTES_MAX


def size_after_passing_through(url: str, vacuum_rows: int) -> int:
    """Send and consume `MESSAGES`, `BACKLOG` of them always waiting; the bytes that the message table takes then."""
    engine = open_engine(url)
    upgrade_schema(engine)
    with engine.connect() as connection:
        table = "ALTER TABLE activemq_msgs SET (autovacuum_enabled = off, toast.autovacuum_enabled = off)"
        connection.execute(text(table))
        with JdbcPersistenceAdapter(store_url(url), JdbcOptions(vacuum_rows=vacuum_rows)) as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            send(store, 0, BACKLOG)
            for first in range(BACKLOG, MESSAGES, STEP):
                send(store, first, STEP)
                consume(store, STEP)
            assert store.message_count == BACKLOG
        size = message_bytes(connection)
    engine.dispose()
    return size


def send(store: MessageStore, first: int, count: int) -> None:
    """Store messages and wait until they are durable."""
    for completion in [store.add_message(text_message(first + n, BODY)) for n in range(count)]:
        completion.result(30)


def consume(store: MessageStore, count: int) -> None:
    """Read a page from the start of the queue and acknowledge it."""
    page = store.recover_next_messages(Cursor(), count, 1 << 30)
    assert len(page.messages) == count
    ids = [message.message_id for message in page.messages if message.message_id is not None]
    for completion in [store.remove_message(id) for id in ids]:
        completion.result(30)


def message_bytes(connection: Connection) -> int:
    """The table, its indexes and its TOAST table."""
    return int(connection.execute(text("SELECT pg_total_relation_size('activemq_msgs')")).scalar_one())
