"""A lone write that an event loop commits itself: it never waits for whoever has the file."""

from __future__ import annotations

import asyncio
import math
import sqlite3
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import closing
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.store import group_commit
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import MessageStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect.sqlite.write import SQLiteStatements
from jdbcstore.testing import text_message

WAIT_S = 10.0


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Who wrote."""
    names: list[str] = []
    write = SQLiteStatements.write

    def told(self: SQLiteStatements, *arguments: Any) -> int:
        names.append(threading.current_thread().name)
        return write(self, *arguments)

    monkeypatch.setattr(SQLiteStatements, "write", told)
    return names


@pytest.fixture
def adapter(file: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[JdbcPersistenceAdapter]:
    monkeypatch.setattr(group_commit, "_BRIEF_S", math.inf)  # however busy the disk is
    monkeypatch.setattr(group_commit, "_BRIEF_COMMITS", 0)
    adapter = open_store(f"sqlite:///{file}")
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        yield adapter


def in_a_loop(adapter: JdbcPersistenceAdapter, work: Callable[[MessageStore], Awaitable[None]]) -> None:
    """Run something in an event loop that the store has joined."""

    async def run() -> None:
        adapter.join_loop(asyncio.get_running_loop().call_soon)
        await work(adapter.queue_message_store(Queue("Q")))

    asyncio.run(run())


async def stored(completion: Completion[Any]) -> None:
    loop = asyncio.get_running_loop()
    done = asyncio.Event()
    completion.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    await asyncio.wait_for(done.wait(), WAIT_S)
    assert completion.error is None


def test_the_loop_commits_a_lone_write(adapter: JdbcPersistenceAdapter, threads: list[str]) -> None:
    async def work(store: MessageStore) -> None:
        message = text_message(1)
        await stored(store.add_message(message))
        assert message.message_id is not None
        await stored(store.remove_message(message.message_id))

    in_a_loop(adapter, work)
    assert threads == [threading.current_thread().name] * 2
    assert adapter.queue_message_store(Queue("Q")).message_count == 0


def test_while_another_has_the_file_the_loop_goes_on_and_the_thread_waits(
    adapter: JdbcPersistenceAdapter, file: Path, threads: list[str]
) -> None:
    async def work(store: MessageStore) -> None:
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            began_s = monotonic()
            completion = store.add_message(text_message(1))
            while len(threads) < 2:  # the loop turns
                await asyncio.sleep(0)
            assert monotonic() - began_s < WAIT_S, "the loop has waited as long as statements may"
            assert not completion.done
            other.execute("ROLLBACK")
            await stored(completion)
        await stored(store.add_message(text_message(2)))

    in_a_loop(adapter, work)
    assert threads[0] == threading.current_thread().name
    assert threads[1] == "jdbcstore-writer"
    assert adapter.queue_message_store(Queue("Q")).message_count == 2


def test_a_wrong_count_is_put_right_by_the_thread(adapter: JdbcPersistenceAdapter, file: Path) -> None:
    async def work(store: MessageStore) -> None:
        messages = [text_message(number) for number in (1, 2)]
        for message in messages:
            await stored(store.add_message(message))
        with closing(sqlite3.connect(file, isolation_level=None)) as other:
            other.execute("DELETE FROM ACTIVEMQ_MSGS")
        for message in messages:
            assert message.message_id is not None
            await stored(store.remove_message(message.message_id))
        while store.message_count:
            await asyncio.sleep(0.001)

    in_a_loop(adapter, work)


def test_the_thread_copies_the_log_before_a_commit_of_the_loop_has_to(
    adapter: JdbcPersistenceAdapter, threads: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    tidied: list[str] = []
    tidy = adapter.dialect.tidy

    def told(connection: Any) -> None:
        tidied.append(threading.current_thread().name)
        tidy(connection)

    monkeypatch.setattr(adapter.dialect, "tidy", told)

    async def work(store: MessageStore) -> None:
        number = 0
        while not tidied:
            number += 1
            await stored(store.add_message(text_message(number)))
            assert number < 1000
        await stored(store.add_message(text_message(number + 1)))

    in_a_loop(adapter, work)
    assert set(tidied) == {"jdbcstore-writer"}
