"""Connections that are refused, or given back too late, leave nothing behind."""

from __future__ import annotations

import gc
import itertools
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from sqlalchemy import URL, NullPool, make_url, text
from sqlalchemy.exc import DBAPIError

from jdbcstore.config.urls import open_engine, store_options, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc import line_watch
from jdbcstore.store.jdbc.dialect import dialect_at
from jdbcstore.store.jdbc.line_watch import Line, pooled_engine, watched_engine
from jdbcstore.store.jdbc.options import JdbcOptions
from tests.conftest import LEAK_GRACE_S
from tests.servers.proxy import Proxy
from tests.sql.test_writer import WAIT_S
from tests.waiting import wait_until


def test_nobody_waits_for_an_answer_to_a_login_that_was_refused(
    sql_server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The watch would, until the time to connect is over; the fixture `no_thread_stays_behind` waits less long."""
    monkeypatch.setattr(JdbcOptions, "connect_timeout_s", round(2 * LEAK_GRACE_S))
    engine = open_engine(store_url(sql_server_url).set(database="nowhere").render_as_string(hide_password=False))
    with pytest.raises(DBAPIError, match="nowhere"):
        engine.connect()
    engine.dispose()


def test_a_host_that_is_no_database_is_passed_over(sql_server_url: str) -> None:
    url = make_url(sql_server_url)
    with socket.create_server(("127.0.0.1", 0)) as other:

        def answer() -> None:
            with suppress(OSError):
                while True:
                    with other.accept()[0] as line:
                        line.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")

        answering = threading.Thread(target=answer)
        answering.start()
        try:
            hosts = (f"127.0.0.1:{other.getsockname()[1]}", f"127.0.0.1:{url.port}")
            several = url.set(host=None, port=None, query={**url.query, "host": hosts})
            engine = open_engine(several.render_as_string(hide_password=False))
            with engine.connect() as connection:
                assert connection.execute(text("SELECT 1")).scalar_one() == 1
            engine.dispose()
        finally:
            other.shutdown(socket.SHUT_RDWR)
            answering.join()


def test_a_line_that_breaks_before_the_first_statement_is_let_go(sql_server_url: str) -> None:
    """Wherever it breaks: in the login, in what SQLAlchemy wants to know first, or in what a session is told."""
    url, options = store_options(sql_server_url)
    with Proxy(url.port or 0) as proxy:
        through, broken = store_url(proxy.url(sql_server_url)), 0
        for sent_bytes in range(0, 8000, 100):
            engine, _ = pooled_engine(through, options)
            cut = proxy.cut_after(sent_bytes, answers=False)
            with suppress(DBAPIError), engine.connect():
                pass
            engine.dispose()
            if not cut.is_set():
                break
            broken += 1
            gc.collect()  # the error that told of it holds the driver's connection, and is part of a cycle
            for thread in threading.enumerate():
                if thread.name == "jdbcstore-watch":
                    thread.join(LEAK_GRACE_S)
                    assert not thread.is_alive(), f"it watches a line that broke after {sent_bytes} bytes"
        assert broken > 3


def test_those_who_open_a_file_without_a_write_ahead_log_at_once_wait_for_each_other(tmp_path: Path) -> None:
    together = threading.Barrier(4)

    def open_(url: URL, options: JdbcOptions) -> None:
        engine, _ = watched_engine(url, options, poolclass=NullPool)
        with engine.connect() as connection:
            together.wait(WAIT_S)
            dialect_at(url, options).connected(connection)
        engine.dispose()

    with ThreadPoolExecutor(4) as threads:
        for number in range(30):
            file = tmp_path / f"{number}.db"
            with closing(sqlite3.connect(file)) as made_elsewhere:
                made_elsewhere.execute("CREATE TABLE theirs (x)")
            url, options = store_options(f"sqlite:///{file}")
            list(threads.map(open_, [url] * 4, [options] * 4))


def test_a_connection_that_is_collected_while_the_watch_begins_holds_nobody_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """The garbage collector may run in the thread that begins, which the one that begins it waits for."""
    ours, theirs = socket.socketpair()
    collected, line = Line(theirs), Line(ours)
    watch_ = line_watch._Watch()

    class Collecting(threading.Thread):
        def _bootstrap_inner(self) -> None:
            watch_.discard(collected)
            super()._bootstrap_inner()  # type: ignore[misc]  # CPython's, where a new thread says that it runs

    beginning = threading.Thread(
        target=watch_.add, args=(line, watched_engine(make_url("sqlite://"), JdbcOptions())[1])
    )
    monkeypatch.setattr(threading, "Thread", Collecting)
    beginning.start()
    beginning.join(LEAK_GRACE_S)
    assert not beginning.is_alive()
    watch_.discard(line)
    assert theirs.fileno() == ours.fileno() == -1


_ASKS = """
import sys
from sqlalchemy import make_url, text
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.options import JdbcOptions
engine, _ = watched_engine(make_url(sys.argv[1]), JdbcOptions(query_timeout_s=2))
with engine.connect() as connection:
    connection.execute(text("SET statement_timeout = 0"))
    connection.execute(text("SELECT pg_sleep(3)"))
print("answered")
"""


def test_the_time_in_which_the_process_stands_still_is_not_the_databases(postgresql_url: str) -> None:
    command = [sys.executable, "-c", _ASKS, postgresql_url]
    asked = text("SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = 'SELECT pg_sleep(3)'")
    engine = open_engine(postgresql_url)
    try:
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process, engine.connect() as looking:
            wait_until(lambda: looking.execute(asked).scalar_one(), "the question has arrived")
            os.kill(process.pid, signal.SIGSTOP)
            time.sleep(2.6)  # longer than an answer may take
            os.kill(process.pid, signal.SIGCONT)
            assert process.communicate(timeout=60)[0] == "answered\n"
    finally:
        engine.dispose()


def test_where_the_watch_is_always_late_a_line_is_cut_nonetheless(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that never gets a processor in time does not spare its lines for ever."""
    now_s = itertools.count(1000.0, 0.8)  # each look at the clock is so much later
    monkeypatch.setattr(line_watch, "time", SimpleNamespace(monotonic=lambda: next(now_s)))
    watch = line_watch._Watch()
    here, there = socket.socketpair()
    with here, there:
        line = Line(here.dup())
        line.due_s = 1001.0
        watch._owners[line] = None  # type: ignore[assignment]  # its owner does not matter here
        looks = 0
        while line in watch._owners:
            watch._calls.put(None)
            watch._look()
            looks += 1
            assert looks < 10
        assert there.recv(1) == b""


def test_what_is_given_back_while_the_store_is_closed_is_closed(
    sql_server_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, lines = pooled_engine(*store_options(sql_server_url))
    roll_back = engine.dialect.do_rollback

    def roll_back_and_close(raw: Any) -> None:
        roll_back(raw)
        lines.cut()
        engine.dispose()

    connection = engine.connect()
    raw: Any = connection.connection.dbapi_connection
    monkeypatch.setattr(engine.dialect, "do_rollback", roll_back_and_close)
    connection.close()
    assert raw.closed if hasattr(raw, "closed") else not raw.open


def test_the_password_may_be_in_a_file(sql_server_url: str, tmp_path: Path) -> None:
    url = store_url(sql_server_url)
    path = tmp_path / "password"
    path.write_text(f"{url.password or 'none is asked for'}\n")
    without = url._replace(password=None)
    given, options = store_options(
        without.update_query_dict({"password_file": str(path)}).render_as_string(hide_password=False)
    )
    assert options.password_file == str(path)
    assert given.render_as_string(hide_password=False) == url.set(password=given.password).render_as_string(
        hide_password=False
    )
    engine, _ = pooled_engine(given, options)
    with engine.connect():
        pass
    engine.dispose()


@pytest.mark.parametrize(
    ("content", "url", "told"),
    [
        ("", "postgresql://joe@db/a", "there is no password in the first line"),
        ("\nx", "postgresql://joe@db/a", "there is no password in the first line"),
        (None, "postgresql://joe@db/a", "cannot read the password"),
        ("x", "postgresql://joe:y@db/a", "leave one of them out"),
    ],
)
def test_a_file_without_a_password_is_told(tmp_path: Path, content: str | None, url: str, told: str) -> None:
    path = tmp_path / "password"
    if content is not None:
        path.write_text(content)
    with pytest.raises(ConfigurationError, match=told):
        store_options(f"{url}?password_file={path}")


@pytest.mark.has_tables(False)
def test_what_the_url_says_of_sessions_and_of_time_goes_before_what_the_store_says(postgresql_url: str) -> None:
    url, options = store_options(
        f"{postgresql_url}{'&' if '?' in postgresql_url else '?'}options=-csearch_path%3Dtheirs&tcp_user_timeout=7000"
    )
    engine = open_engine(postgresql_url)
    with engine.begin() as connection:
        connection.execute(text("CREATE SCHEMA theirs"))
    engine.dispose()
    engine, _ = watched_engine(url, options, poolclass=NullPool)
    with engine.connect() as connection:
        said = {name: connection.execute(text(f"SHOW {name}")).scalar_one() for name in ("search_path", "enable_sort")}
        assert said == {"search_path": "theirs", "enable_sort": "off"}
        raw: Any = connection.connection.dbapi_connection
        assert raw.info.dsn_parameters["tcp_user_timeout"] == "7000"
        connection.execute(text("DROP SCHEMA theirs"))
    engine.dispose()


@pytest.mark.parametrize("server", ["mariadb_url", "postgresql_url"])
def test_the_time_to_connect_may_be_the_url_s(
    server: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that accepts and is silent holds up for so long, and the error names it."""
    monkeypatch.setattr(JdbcOptions, "connect_timeout_s", 300)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        url = store_url(request.getfixturevalue(server)).set(
            host="127.0.0.1", port=port, query={"connect_timeout": "2"}
        )
        _, options = store_options(url.render_as_string(hide_password=False))
        engine, _ = watched_engine(url, options, poolclass=NullPool)
        began_s = time.monotonic()
        with pytest.raises(DBAPIError, match=rf"127\.0\.0\.1\D+{port}"):
            engine.connect()
        assert time.monotonic() - began_s < 200, "it waited for as long as the store does by itself"
        engine.dispose()
