"""The KahaDB store under the contract suite."""

from __future__ import annotations

import queue
import threading
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import faults
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import LockHeld, StoreUnavailable
from jdbcstore.store.completion import Completion
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableScheduleContract,
    DurableTopicContract,
    DurableTransactionContract,
    KilledStoreContract,
    OpenAdapter,
)
from jdbcstore.testing.messages import text_message


class TestKahaDB(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBSchedule(DurableScheduleContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBKilled(KilledStoreContract):
    @pytest.fixture
    def store_url(self, tmp_path: Path) -> str:
        return f"kahadb:{tmp_path / 'kahadb'}"


def test_nobody_else_is_master_while_an_abandoned_store_is_still_writing(tmp_path: Path) -> None:
    first, second = (open_store(f"kahadb:{tmp_path}") for _ in range(2))
    writing, go_on = threading.Event(), threading.Event()

    def stall() -> None:
        writing.set()
        go_on.wait(30)

    first.start()
    with faults.inject("writer.before_commit", stall):
        answer = first.queue_message_store(Queue("A")).add_message(text_message(1))
        assert writing.wait(30)
        first.abandon()
        assert isinstance(answer.exception(0), StoreUnavailable)
        with pytest.raises(LockHeld):
            second.start()
        go_on.set()
    first.start()  # when the thread is over
    first.stop()
    with second:
        assert second.queue_message_store(Queue("A")).message_count == 0


def test_what_was_to_have_a_batch_to_itself_is_answered_when_the_store_is_abandoned(tmp_path: Path) -> None:
    store = open_store(f"kahadb:{tmp_path}")
    arrived, released = (queue.SimpleQueue[bool]() for _ in range(2))

    def stall() -> None:
        arrived.put(True)
        released.get(timeout=30)

    store.start()
    messages = store.queue_message_store(Queue("A"))
    with faults.inject("writer.before_commit", stall):
        answers: list[Completion[Any]] = [messages.add_message(text_message(1))]
        arrived.get(timeout=30)
        answers += [messages.add_message(text_message(2)), messages.remove_all_messages()]
        released.put(True)
        arrived.get(timeout=30)  # the thread has both in hand
        store.abandon()
        assert [type(answer.exception(0)) for answer in answers] == [type(None), StoreUnavailable, StoreUnavailable]
        released.put(True)
    store.start()
    assert store.queue_message_store(Queue("A")).message_count == 1
    store.stop()
