"""The database goes away, in every way it can: what senders are told agrees with what is in the table, and the store
goes on when the database does.
"""

from __future__ import annotations

import random
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

import psycopg2
import pymysql
import pytest
from sqlalchemy import NullPool, create_engine

from jdbcstore.config.urls import open_store, store_url
from jdbcstore.destination import Queue
from jdbcstore.errors import (
    JdbcStoreError,
    LeaseLost,
    LockHeld,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.message import Message
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import MessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.fence import session_name
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.testing import text_message
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import ADDS, Proxy
from tests.servers.server import PASSWORD, USER, DatabaseServer, Execute
from tests.sql.test_writer import WAIT_S, numbers, one_batch, opened
from tests.waiting import wait_until

KINDS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": lambda: PostgreSQLServer(15),
    "mariadb": MariaDBServer,
    "mysql": MySQLServer,
}
pytestmark = pytest.mark.one_in(3, of="mariadb mysql")

#: What `abandon` may take at most: less than a statement may, for which it would wait otherwise.
AT_ONCE_S = 25.0


@pytest.fixture(scope="module", params=list(KINDS))
def server(request: pytest.FixtureRequest) -> Iterator[DatabaseServer]:
    """A server of this file's own, to stop, kill and fill: each kind in turn."""
    with KINDS[request.param]() as own:
        yield own


@pytest.fixture
def url(server: DatabaseServer) -> str:
    """A fresh database on it, which goes with it: to drop one flushes and removes hundreds of files."""
    name = f"test_{uuid4().hex[:12]}"
    server.create_database(name)
    return server.url(name)


@pytest.fixture
def proxy(server: DatabaseServer) -> Iterator[Proxy]:
    """A proxy before the server."""
    with Proxy(server.port) as running:
        yield running


def through(proxy: Proxy, url: str) -> str:
    """A URL through a proxy, to which the bytes are no secret."""
    return proxy.url(url) + ("?ssl_disabled=true" if url.startswith("mysql") else "")


@contextmanager
def paused(server: DatabaseServer) -> Iterator[None]:
    server.pause()
    try:
        yield
    finally:
        server.proceed()


class Stream:
    """Writes one message after the other from a thread for the duration of the block, and keeps what becomes of each.

    Args:
        store: where to.
        in_flight: how many may be unanswered.
    """

    def __init__(self, store: MessageStore, in_flight: int = 50) -> None:
        self.pending: list[Completion[int]] = []
        self._store = store
        self._room = threading.Semaphore(in_flight)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stream")

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._ending.set()
        self._thread.join()
        for completion in self.pending:
            completion.exception(WAIT_S)

    def _run(self) -> None:
        sizes = random.Random(7)
        while not self._ending.is_set():
            self._room.acquire()
            body = "x" * sizes.choice((10, 100, 1000, 10_000))
            completion = self._store.add_message(text_message(len(self.pending), body))
            self.pending.append(completion)
            completion.add_done_callback(lambda _: self._room.release())

    def wait_for_more(self, count: int) -> None:
        """Return when so many more have been stored."""
        wanted = self.stored + count
        wait_until(
            lambda: self.stored >= wanted, lambda: f"none of {wanted - self.stored} is missing", timeout_s=WAIT_S
        )

    @property
    def stored(self) -> int:
        return sum(completion.done and completion.error is None for completion in self.pending)

    def has_told(self, kind: type[BaseException]) -> bool:
        """Whether a sender was told this."""
        return any(isinstance(completion.error, kind) for completion in self.pending)

    def outcomes(self) -> dict[int, BaseException | None]:
        """What each sender was told, by number."""
        return {n: completion.error for n, completion in enumerate(self.pending)}


def assert_agrees(store: MessageStore, outcomes: dict[int, BaseException | None]) -> None:
    """A message is there once, in order, when its sender was told so, and not when he was told that it is not."""
    there = numbers(store)
    unknown = {n for n, error in outcomes.items() if isinstance(error, OutcomeUnknown)}
    told = [n for n, error in outcomes.items() if error is None]
    assert [n for n in there if n not in unknown] == told
    assert there == sorted(set(there))
    if not unknown:
        assert store.message_count == len(there)


def assert_all_stored(store: MessageStore, stream: Stream) -> None:
    assert {n: error for n, error in stream.outcomes().items() if error is not None} == {}
    assert_agrees(store, stream.outcomes())


# -- the line breaks -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", [DatabaseServer.stop, DatabaseServer.kill])
def test_a_server_that_restarts_under_a_stream_loses_and_doubles_nothing(
    server: DatabaseServer, url: str, end: Callable[[DatabaseServer], None]
) -> None:
    with opened(url, retry_s=90) as (_, store):
        with Stream(store) as stream:
            stream.wait_for_more(100)
            end(server)
            time.sleep(0.5)
            wait_until(lambda: not stream.pending[-1].done)
            server.start()
            stream.wait_for_more(100)
        assert_all_stored(store, stream)


def test_sessions_that_are_killed_again_and_again_lose_and_double_nothing(server: DatabaseServer, url: str) -> None:
    with opened(url, retry_s=90) as (_, store):
        with Stream(store) as stream:
            for _ in range(10):
                stream.wait_for_more(20)
                server.kill_sessions(store_url(url).database)
        assert_all_stored(store, stream)


@pytest.mark.parametrize("locker", ["lease", "none"])
def test_a_network_cut_at_any_byte_leaves_nobody_misinformed(
    server: DatabaseServer, url: str, proxy: Proxy, locker: str
) -> None:
    chance = random.Random(f"{server.scheme} {locker}")
    with opened(through(proxy, url), retry_s=90, locker=locker) as (_, store):
        with Stream(store) as stream:
            for _ in range(25):
                answers = chance.random() < 0.4
                burnt = proxy.cut_after(chance.randrange(400 if answers else 60_000), answers=answers)
                assert burnt.wait(WAIT_S)
                stream.wait_for_more(1)
        assert_agrees(store, stream.outcomes())
        if locker != "none":
            assert_all_stored(store, stream)


def test_connections_that_are_exhausted_are_waited_for(server: DatabaseServer, url: str, proxy: Proxy) -> None:
    with opened(through(proxy, url), retry_s=90) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        proxy.cut()
        with (
            server.session(str(store_url(url).database)) as execute,
            few_connections(server, execute),
            ExitStack() as taken,
        ):
            # Nothing that ends makes room for the store later: neither its own sessions nor those of tests before.
            wait_until(lambda: not sessions_of_users(server, execute))
            refused = take_all_connections(url, taken)
            proxy.resume()
            pending = store.add_message(text_message(2))
            assert refused()
            time.sleep(0.7)
            assert refused()
            assert not pending.done
        pending.result(WAIT_S)
        assert numbers(store) == [1, 2]


@contextmanager
def few_connections(server: DatabaseServer, execute: Execute) -> Iterator[None]:
    """Fewer than 200, where that can be had without a restart."""
    if isinstance(server, MySQLServer):
        execute("SET GLOBAL max_connections = 20")
    yield
    if isinstance(server, MySQLServer):
        execute("SET GLOBAL max_connections = 200")


def sessions_of_users(server: DatabaseServer, execute: Execute) -> list[Any]:
    """The numbers of all sessions but the administrator's own."""
    if isinstance(server, MySQLServer):
        own = execute("SELECT CONNECTION_ID()")[0][0]
        daemons = ("Daemon", "Binlog Dump")
        return [row[0] for row in execute("SHOW PROCESSLIST") if row[0] != own and row[4] not in daemons]
    return execute("SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")


def take_all_connections(url: str, taken: ExitStack) -> Callable[[], bool]:
    """Connect until the server refuses; a function that tells whether it still does."""
    address = store_url(url)

    def connect() -> Any:
        if address.get_backend_name() == "postgresql":
            return psycopg2.connect(
                host=address.host, port=address.port, user=USER, password=PASSWORD, dbname=address.database
            )
        assert address.port is not None
        return pymysql.connect(host=address.host, port=address.port, user=USER, password=PASSWORD, ssl_disabled=True)

    def is_refused() -> bool:
        try:
            taken.enter_context(closing(connect()))
        except (psycopg2.OperationalError, pymysql.err.OperationalError) as error:
            if re.search("too many|reserved", str(error), re.IGNORECASE):
                return True
            raise
        return False

    while not is_refused():
        pass
    return is_refused


def test_a_password_that_was_changed_is_told_and_not_waited_for(server: DatabaseServer, url: str) -> None:
    with opened(url, retry_s=90, locker="none") as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        with no_entry(server):
            server.kill_sessions(store_url(url).database)
            told = (
                store.add_message(text_message(2)).exception(WAIT_S),
                store.add_message(text_message(3)).exception(WAIT_S),
            )
            assert all(isinstance(error, StoreError) for error in told)
            assert not isinstance(told[1], TransientStoreError | OutcomeUnknown)
        store.add_message(text_message(4)).result(WAIT_S)
        assert numbers(store) == [1, 4]


@contextmanager
def no_entry(server: DatabaseServer) -> Iterator[None]:
    if isinstance(server, PostgreSQLServer):
        out, back = f"ALTER ROLE {USER} NOLOGIN", f"ALTER ROLE {USER} LOGIN"
    else:
        out, back = (f"ALTER USER '{USER}'@'%' IDENTIFIED BY '{password}'" for password in ("changed", PASSWORD))
    execute_as_root(server, out)
    try:
        yield
    finally:
        execute_as_root(server, back)


def execute_as_root(server: DatabaseServer, *statements: str) -> list[tuple[object, ...]]:
    assert isinstance(server, PostgreSQLServer | MySQLServer)
    return [row for statement in statements for row in server.execute(statement)]


# -- the server is silent --------------------------------------------------------------------------------------------


def test_a_server_that_is_stopped_is_noticed_and_waited_for(server: DatabaseServer, url: str) -> None:
    """SIGSTOP: TCP still answers, nobody else does."""
    with opened(url, retry_s=90, query_timeout_s=2) as (adapter, store):
        numbers(store)  # so that there is a connection to read with
        with Stream(store) as stream:
            stream.wait_for_more(20)
            with paused(server):
                with pytest.raises(TransientStoreError):
                    numbers(store)
                with pytest.raises(TransientStoreError):
                    adapter.checkpoint()
                wait_until(lambda: not stream.pending[-1].done)
            stream.wait_for_more(20)
        assert_all_stored(store, stream)
        adapter.checkpoint()


@contextmanager
def mastered(url: str, **options: Any) -> Iterator[tuple[JdbcPersistenceAdapter, MessageStore]]:
    """A store whose locker is the caller's, as a broker has it; closed whatever the state it is in."""
    adapter = open_store(url, JdbcOptions(**options))
    assert isinstance(adapter, JdbcPersistenceAdapter)
    locker = adapter.locker()
    assert locker.acquire() is not None
    try:
        adapter.start()
        yield adapter, adapter.queue_message_store(Queue("TEST"))
    finally:
        adapter.abandon()
        with suppress(TransientStoreError):  # its line may have been cut
            locker.release()


def test_abandoning_waits_for_nothing_and_the_store_opens_again(server: DatabaseServer, url: str) -> None:
    with mastered(url) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        numbers(store)
        failed: list[Exception] = []
        begun = threading.Barrier(12 + 1)  # the readers, and who closes the store

        def read() -> None:
            begun.wait(WAIT_S)
            try:
                numbers(store)
            except JdbcStoreError as error:
                failed.append(error)

        readers = [threading.Thread(target=read) for _ in range(12)]  # more than there are connections
        with paused(server):
            sent = store.add_message(text_message(2))
            for reader in readers:
                reader.start()
            begun.wait(WAIT_S)
            time.sleep(0.3)
            wait_until(lambda: adapter.writer.commits.is_sent)
            waiting = store.add_message(text_message(3))
            began = time.monotonic()
            adapter.abandon()
            assert time.monotonic() - began < AT_ONCE_S
            assert isinstance(sent.error, OutcomeUnknown)
            assert isinstance(waiting.error, StoreUnavailable)
            with pytest.raises(StoreClosed):
                store.add_message(text_message(4))
        for reader in readers:
            reader.join(WAIT_S)
        assert len(failed) == len(readers)
        assert all(isinstance(error, TransientStoreError) for error in failed)
        adapter.start()
        store = adapter.queue_message_store(Queue("TEST"))
        store.add_message(text_message(5)).result(WAIT_S)
        assert numbers(store) in ([1, 5], [1, 2, 5])
        assert store.message_count == len(numbers(store))


def test_abandoning_does_not_wait_for_a_connection_that_is_being_made(
    server: DatabaseServer, url: str, proxy: Proxy
) -> None:
    with mastered(through(proxy, url)) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        proxy.pause()
        proxy.drop_connections()
        pending = store.add_message(text_message(2))
        wait_until(lambda: adapter.writer.commits.is_sent and proxy.connections > 0)
        began = time.monotonic()
        adapter.abandon()
        assert time.monotonic() - began < AT_ONCE_S
        assert isinstance(pending.error, OutcomeUnknown)
        proxy.resume()
        adapter.start()
        assert numbers(adapter.queue_message_store(Queue("TEST"))) == [1]


def test_a_stop_that_hangs_is_cut_short_by_abandoning(server: DatabaseServer, url: str) -> None:
    with mastered(url) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        with paused(server):
            pending = store.add_message(text_message(2))
            wait_until(lambda: adapter.writer.commits.is_sent)
            stopping = threading.Thread(target=adapter.stop)
            stopping.start()
            stopping.join(0.3)
            assert stopping.is_alive()
            adapter.abandon()
            stopping.join(AT_ONCE_S)
            assert not stopping.is_alive()
            assert isinstance(pending.error, OutcomeUnknown)


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "jdbcstore-writer"]


def test_a_batch_that_was_not_sent_yet_is_never_sent(tmp_path: Path) -> None:
    with mastered(f"sqlite:///{tmp_path / 'store.db'}") as (adapter, store):
        with one_batch():
            first = store.add_message(text_message(1))
            wait_until(lambda: adapter.writer.commits._waiting._queue.empty())
            message = text_message(2)
            second = store.add_message(message)
            adapter.abandon()
            assert isinstance(first.error, StoreUnavailable)
            assert isinstance(second.error, StoreUnavailable)
            assert message.message_id is not None
            with pytest.raises(StoreClosed):  # it does not cancel out an add that has failed
                store.remove_message(message.message_id)
        adapter.start()
        assert numbers(adapter.queue_message_store(Queue("TEST"))) == []


def test_whatever_is_submitted_while_the_store_is_abandoned_is_answered(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    interval = sys.getswitchinterval()
    outcomes: dict[int, BaseException | None] = {}
    for round_ in range(5):
        with mastered(url) as (adapter, store):
            senders = [Senders(store, (10 * round_ + k) * 100_000) for k in range(8)]
            sys.setswitchinterval(1e-6)
            try:
                with ExitStack() as running:
                    for each in senders:
                        running.enter_context(each)
                    time.sleep(0.01)
                    adapter.abandon()
            finally:
                sys.setswitchinterval(interval)
        for each in senders:
            for number, completion in each.pending.items():
                outcomes[number] = completion.exception(AT_ONCE_S)
    with opened(url) as (_, store):
        there = set(numbers(store))
    assert {n for n, error in outcomes.items() if error is None} <= there
    assert not {n for n, error in outcomes.items() if isinstance(error, StoreUnavailable)} & there
    assert {type(error) for error in outcomes.values() if error is not None} <= {OutcomeUnknown, StoreUnavailable}


class Senders:
    """Adds and removes messages from a thread until the store refuses them."""

    def __init__(self, store: MessageStore, first: int) -> None:
        self.pending: dict[int, Completion[int]] = {}
        self._store = store
        self._next = first
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._thread.join()

    def _run(self) -> None:
        try:
            while True:
                message = text_message(self._next)
                self.pending[self._next] = self._store.add_message(message)
                self._next += 1
        except StoreClosed:
            pass


# -- an outcome that is not known ------------------------------------------------------------------------------------

#: What keeps inserts out and lets everybody read.
READERS_ONLY = {
    "postgresql": ("BEGIN", "LOCK TABLE ACTIVEMQ_MSGS IN SHARE MODE"),
    "mariadb": ("LOCK TABLES ACTIVEMQ_MSGS READ",),
    "mysql": ("LOCK TABLES ACTIVEMQ_MSGS READ",),
}


@contextmanager
def locked(url: str, statements: Sequence[str]) -> Iterator[None]:
    """Hold locks in a session of our own."""
    engine = create_engine(store_url(url), poolclass=NullPool, isolation_level="AUTOCOMMIT")
    with engine.connect() as other:
        for statement in statements:
            other.exec_driver_sql(statement)
        yield
        other.invalidate()


def test_a_lost_session_is_over_before_the_second_attempt(server: DatabaseServer, url: str, proxy: Proxy) -> None:
    """So it cannot store later what the sender was told is not stored."""
    with opened(through(proxy, url), query_timeout_s=2) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        with locked(url, READERS_ONLY[store_url(url).get_backend_name()]):
            pending = store.add_message(text_message(2))
            wait_until(lambda: waiting_inserts(server) == 1)
            proxy.drop_connections()
            while not pending.done:  # a time-out of the server's ends it
                assert waiting_inserts(server) <= 1
                time.sleep(0.05)
            error = pending.exception(WAIT_S)
        assert isinstance(error, TransientStoreError)
        assert not isinstance(error, StoreUnavailable)
        store.add_message(text_message(3)).result(WAIT_S)
        assert numbers(store) == [1, 3]


def waiting_inserts(server: DatabaseServer) -> int:
    """How many sessions are inserting."""
    if isinstance(server, PostgreSQLServer):
        running = server.execute("SELECT query FROM pg_stat_activity WHERE state = 'active'")
    else:
        running = [(row[7],) for row in execute_as_root(server, "SHOW FULL PROCESSLIST")]
    return sum(ADDS.search(str(text).encode()) is not None for (text,) in running)


def test_a_lost_session_that_cannot_be_ended_is_waited_for(server: DatabaseServer, url: str, proxy: Proxy) -> None:
    with mastered(through(proxy, url), retry_s=90, query_timeout_s=3) as (adapter, store):
        store.add_message(text_message(1)).result(WAIT_S)
        fence = adapter.writer._fence
        assert fence is not None
        proxy.refuse()
        proxy.drop_connections()
        with closing(session_of_root(server, store_url(url).database, session_name(fence.holder))):
            proxy.resume()
            pending = store.add_message(text_message(2))
            time.sleep(3)
            assert not pending.done
        pending.result(WAIT_S)
        assert numbers(store) == [1, 2]


def session_of_root(server: DatabaseServer, database: str | None, name: str) -> Any:
    """A session that passes for one of a holder's, and is another user's."""
    if isinstance(server, PostgreSQLServer):
        return psycopg2.connect(
            host=str(server.folder), port=server.port, user="postgres", dbname=database, application_name=name
        )
    assert isinstance(server, MySQLServer)
    connection = server._connect_as_root()
    with connection.cursor() as cursor:
        while True:  # until the server has noticed that the store's session is gone
            cursor.execute("SELECT GET_LOCK(%s, 1)", (name,))
            if cursor.fetchone() == (1,):
                return connection


@pytest.mark.parametrize("arrived", [True, False])
def test_a_commit_cut_off_before_the_mastership_went_is_looked_up(
    postgresql: PostgreSQLServer, postgresql_url: str, arrived: bool
) -> None:
    """What is found is stored, whoever is master now. What is not may have come and gone under the next master."""
    with (
        Proxy(postgresql.port) as proxy,
        mastered(proxy.url(postgresql_url), retry_s=90) as (adapter, store),
    ):
        store.add_message(text_message(1)).result(WAIT_S)
        proxy.refuse()
        cut = proxy.cut_at(ADDS, deliver=arrived)
        with adapter.reading():  # the only other connection that there is
            pending = store.add_message(text_message(2))
            assert cut.wait(WAIT_S)
            with (
                closing(connect_as_root(postgresql, store_url(postgresql_url).database)) as root,
                root.cursor() as cursor,
            ):
                root.autocommit = True

                def rows() -> int:
                    cursor.execute("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")
                    return int(cursor.fetchone()[0])

                wait_until(lambda: rows() == (2 if arrived else 1))  # the answer was lost, which may be late
                cursor.execute("UPDATE ACTIVEMQ_LOCK SET TIME = 1000")
            with mastered(postgresql_url) as (_, next_store):
                proxy.resume()
                error = pending.exception(WAIT_S)
                assert (error is None) if arrived else isinstance(error, OutcomeUnknown)
                # The next master ends this one's session: the first of two may have been in it.
                last = [store.add_message(text_message(n)).exception(WAIT_S) for n in (3, 4)]
                assert isinstance(last[1], LeaseLost)
                assert numbers(next_store) == ([1, 2] if arrived else [1])


def test_a_deadlock_is_tried_again_before_the_sender_hears_of_it(server: DatabaseServer, url: str) -> None:
    with opened(url) as (_, store):
        messages = [text_message(n) for n in range(30)]
        for stored in [store.add_message(message) for message in messages]:
            stored.result(WAIT_S)
        first, second, *others = [id_of(message) for message in messages]
        with closing(connect_as_root(server, store_url(url).database)) as other:
            with other.cursor() as cursor:
                if isinstance(server, PostgreSQLServer):
                    cursor.execute("SET deadlock_timeout = '20s'")  # so that the store's session is the one to notice
                for id in (second, *others):  # MySQL ends whoever has changed less
                    cursor.execute(f"UPDATE ACTIVEMQ_MSGS SET EXPIRATION = 1 WHERE ID = {id}")
                with one_batch():
                    pending = [store.remove_message(id_) for m in messages[:2] if (id_ := m.message_id) is not None]
                time.sleep(0.3)
                cursor.execute(f"UPDATE ACTIVEMQ_MSGS SET EXPIRATION = 1 WHERE ID = {first}")
            other.commit()
        for completion in pending:
            completion.result(WAIT_S)
        assert numbers(store) == list(range(2, 30))


def id_of(message: Message) -> int:
    assert message.message_id is not None
    return message.message_id.broker_sequence_id


def connect_as_root(server: DatabaseServer, database: str | None) -> Any:
    if isinstance(server, PostgreSQLServer):
        return psycopg2.connect(host=str(server.folder), port=server.port, user="postgres", dbname=database)
    assert isinstance(server, MySQLServer)
    assert database is not None
    connection = server._connect_as_root()
    connection.select_db(database)
    connection.autocommit(False)
    return connection


# -- the server does not write ---------------------------------------------------------------------------------------


@contextmanager
def read_only(server: DatabaseServer) -> Iterator[None]:
    if isinstance(server, PostgreSQLServer):
        setting = "default_transaction_read_only"
        on = [f"ALTER SYSTEM SET {setting} = on", "SELECT pg_reload_conf()"]
        off = [f"ALTER SYSTEM RESET {setting}", "SELECT pg_reload_conf()"]
    else:
        on, off = ["SET GLOBAL read_only = 1"], ["SET GLOBAL read_only = 0"]
    execute_as_root(server, *on)
    try:
        yield
    finally:
        execute_as_root(server, *off)


def test_a_server_that_is_read_only_for_a_while_is_waited_for(server: DatabaseServer, url: str) -> None:
    with opened(url, retry_s=90) as (_, store):
        with Stream(store) as stream:
            stream.wait_for_more(20)
            with read_only(server):
                # Its sessions hear of it by and by.
                wait_until(lambda: stands_still(stream) and not stream.pending[-1].done)
            stream.wait_for_more(20)
        assert_all_stored(store, stream)


def test_a_server_that_stays_read_only_is_told_and_survived(server: DatabaseServer, url: str) -> None:
    with opened(url, retry_s=0.3) as (_, store):
        store.add_message(text_message(1)).result(WAIT_S)
        stored = [1]
        with read_only(server):
            while (error := add(store, text_message(len(stored) + 1))) is None:  # sessions hear of it by and by
                stored.append(len(stored) + 1)
            assert isinstance(error, StoreReadOnly)
            assert numbers(store) == stored
        wait_until(lambda: add(store, text_message(100_000)) is None)
        assert numbers(store) == [*stored, 100_000]


def as_its_user(server: DatabaseServer) -> dict[str, Any]:
    """Arguments for `subprocess.run`: the user who runs the server."""
    user_id = server.user_id()
    return {} if user_id is None else {"user": user_id, "group": user_id, "extra_groups": []}


class Replica(PostgreSQLServer):
    """A hot standby, made from a running server."""

    def __init__(self, primary: PostgreSQLServer) -> None:
        super().__init__(15)
        self._primary = primary

    def initialise(self) -> None:
        self.folder.chmod(0o777)
        subprocess.run(
            [
                str(self.bin / "pg_basebackup"),
                f"--pgdata={self.folder / 'data'}",
                f"--dbname=host={self._primary.folder} port={self._primary.port} user=postgres",
                "--write-recovery-conf",
                "--checkpoint=fast",
                "--no-sync",
            ],
            check=True,
            capture_output=True,
            **as_its_user(self),
        )

    def prepare(self) -> None:
        """It has everything from its primary."""


def stands_still(stream: Stream) -> bool:
    """Whether nothing was stored for half a second."""
    stored = stream.stored
    time.sleep(0.5)
    return stream.stored == stored


def test_a_primary_that_became_read_only_is_left_for_the_new_one() -> None:
    """A failover behind one name: the old server stays up and connected, the name leads to the new one.

    What is in memory belongs to the history of the old one, so the mastership ends, and the next one reads anew.
    """
    with PostgreSQLServer(15) as old, ExitStack() as stack:
        old.create_database("moved")
        new = stack.enter_context(Replica(old))
        proxy = stack.enter_context(Proxy(old.port))
        url = proxy.url(old.url("moved"))
        with opened(url, retry_s=2, lock=LockerOptions()) as (_, store):
            with Stream(store) as stream:
                stream.wait_for_more(50)
                stack.enter_context(read_only(old))
                # What is being committed may still be, and sessions hear of it by and by.
                wait_until(lambda: stream.has_told(StoreReadOnly), timeout_s=WAIT_S)
                written = old.execute("SELECT pg_current_wal_lsn()")[0][0]
                wait_until(lambda: new.execute(f"SELECT pg_last_wal_replay_lsn() < '{written}'") != [(True,)])
                proxy.target_port = new.port
                # Nothing is over yet: a standby has no history of its own.
                wait_until(lambda: stream.has_told(StoreUnavailable), "the standby is met", timeout_s=WAIT_S)
                assert not stream.has_told(LeaseLost)
                new.execute("SELECT pg_promote()")
                wait_until(lambda: stream.has_told(LeaseLost), "a sender hears that it is over", timeout_s=WAIT_S)
            before = stream.outcomes()
        found: list[MessageStore] = []

        def is_opened() -> bool:
            with suppress(LockHeld):  # nobody gave the lease back, on the new server
                found.append(stack.enter_context(opened(url))[1])
            return bool(found)

        wait_until(is_opened)
        assert_agrees(found[0], before)
        found[0].add_message(text_message(len(before))).result(WAIT_S)


# -- the disk is full ------------------------------------------------------------------------------------------------


class SmallMySQL(MySQLServer):
    """The same."""

    def settings(self) -> list[str]:
        return [*super().settings(), *SMALL]


SMALL = ["--innodb-file-per-table=OFF", "--innodb-data-file-path=ibdata1:12M:autoextend:max:40M"]


# Not MariaDB: it ends itself when a file of its own cannot grow either, and then this is an outage.
@pytest.mark.parametrize("kind", [lambda: PostgreSQLServer(15), SmallMySQL])
def test_a_full_disk_fails_what_needs_room_and_nothing_else(kind: Callable[[], DatabaseServer]) -> None:
    with kind() as server:
        server.create_database("full")
        with opened(server.url("full")) as (adapter, store):
            stored = [message for n in range(250) if add(store, message := large_message(n)) is None]
            limit_files(server, FILE_LIMIT)
            while (error := add(store, message := large_message(len(stored)))) is None:
                stored.append(message)
            assert isinstance(error, StoreFull)
            connection = adapter.writer._connection
            with one_batch():
                added = store.add_message(large_message(len(stored)))
                removed = [store.remove_message(id) for m in stored[:100] if (id := m.message_id) is not None]
            assert isinstance(added.exception(WAIT_S), StoreFull)
            for completion in removed:
                completion.result(WAIT_S)
            assert adapter.writer._connection is connection
            limit_files(server, "unlimited")
            # until InnoDB has cleared away what was removed
            wait_until(lambda: add(store, large_message(len(stored))) is None, "there is room", timeout_s=WAIT_S)
            assert numbers(store) == list(range(100, len(stored) + 1))
            assert store.message_count == len(stored) - 99


#: More than a segment of PostgreSQL's log, and half a page more than pages fill: the last one is written in part.
FILE_LIMIT = str((20 << 20) + 4096)


def large_message(number: int) -> Message:
    return text_message(number, random.Random(number).randbytes(40_000).hex())


def add(store: MessageStore, message: Message) -> BaseException | None:
    return store.add_message(message).exception(WAIT_S)


#: Not the server's own, which may be gone a moment later.
_OF_CLIENTS = "SELECT pid FROM pg_stat_activity WHERE datname = 'full' AND backend_type = 'client backend'"


def limit_files(server: DatabaseServer, limit: str) -> None:
    """Limit how long files may be that the sessions of PostgreSQL write; those of the others are limited already."""
    if isinstance(server, PostgreSQLServer):
        for (pid,) in server.execute(_OF_CLIENTS):
            subprocess.run(["prlimit", f"--pid={pid}", f"--fsize={limit}:unlimited"], check=True, **as_its_user(server))
