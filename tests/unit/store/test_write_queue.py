"""Writes that wait for the thread that commits."""

from __future__ import annotations

import queue
import threading
from dataclasses import dataclass, field
from typing import Any

import pytest

from jdbcstore.errors import StoreClosed, StoreError, StoreUnavailable
from jdbcstore.store.completion import Completion
from jdbcstore.store.write_queue import WriteQueue


@dataclass(eq=False)
class Write:
    may_cancel: int = 0
    completion: Completion[Any] = field(default_factory=Completion)
    partner: Completion[None] | None = None

    def cancel(self, partner: Completion[None]) -> None:
        self.partner = partner

    def fail(self, error: StoreError) -> None:
        self.completion.fail(error)


@pytest.fixture
def waiting() -> WriteQueue[Write]:
    return WriteQueue(cancels=True)


def test_in_the_order_of_their_submission(waiting: WriteQueue[Write]) -> None:
    writes = [Write(), Write(1), Write()]
    for write in writes:
        waiting.submit(write)
    assert [waiting.take(), waiting.take_more(), waiting.take_more()] == writes
    assert waiting.take_more() is None
    with pytest.raises(queue.Empty):
        waiting.take(0.001)


def test_a_remove_cancels_an_add_that_waits(waiting: WriteQueue[Write]) -> None:
    add, remove = Write(7), Write()
    waiting.submit(add)
    waiting.submit_remove(7, remove)
    assert add.partner is remove.completion
    assert waiting.take() is add
    assert waiting.take_more() is None


def test_what_was_taken_is_not_cancelled(waiting: WriteQueue[Write]) -> None:
    add, remove = Write(7), Write()
    waiting.submit(add)
    assert waiting.take() is add
    waiting.submit_remove(7, remove)
    assert add.partner is None
    assert waiting.take() is remove


def test_nothing_is_cancelled_unless_wanted() -> None:
    waiting: WriteQueue[Write] = WriteQueue(cancels=False)
    add, remove = Write(7), Write()
    waiting.submit(add)
    waiting.submit_remove(7, remove)
    assert [waiting.take(), waiting.take()] == [add, remove]


def test_the_end_comes_behind_what_was_submitted(waiting: WriteQueue[Write]) -> None:
    write = Write()
    waiting.submit(write)
    waiting.close()
    assert waiting.take() is write
    assert waiting.take_more() is None
    assert waiting.take() is None
    with pytest.raises(StoreClosed):
        waiting.submit(Write())


def test_what_nobody_takes_is_refused(waiting: WriteQueue[Write]) -> None:
    write = Write(7)
    waiting.submit(write)
    waiting.refuse(StoreUnavailable("why"))
    waiting.refuse(StoreClosed("later"))
    assert str(write.completion.error) == "why"
    assert waiting.take() is None


def test_a_write_that_comes_just_as_it_ends_is_refused(waiting: WriteQueue[Write]) -> None:
    class Slow(Write):
        """Its submission takes as long as the end."""

        def __getattribute__(self, name: str) -> Any:
            if name == "may_cancel":
                waiting.refuse(StoreUnavailable("over"))
            return super().__getattribute__(name)

    write = Slow()
    waiting.submit(write)
    assert str(write.completion.error) == "over"


def test_whoever_submits_while_it_ends_is_answered(waiting: WriteQueue[Write]) -> None:
    writes: list[Write] = []

    def submit() -> None:
        for _ in range(100_000):
            write = Write()
            try:
                waiting.submit(write)
            except StoreClosed:
                return
            writes.append(write)

    threads = [threading.Thread(target=submit) for _ in range(4)]
    for thread in threads:
        thread.start()
    taken = waiting.take(10)
    waiting.refuse(StoreUnavailable("over"))
    for thread in threads:
        thread.join()
    assert [write for write in writes if not write.completion.done] in ([], [taken])
