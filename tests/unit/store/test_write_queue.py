"""Writes that wait for the thread that commits."""

from __future__ import annotations

import queue
import threading
from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest

from jdbcstore.errors import StoreClosed, StoreError, StoreUnavailable
from jdbcstore.store.completion import Completion
from jdbcstore.store.write_queue import WriteQueue


@dataclass
class Write:
    may_cancel: Sequence[int] = ()
    completion: Completion[Any] = field(default_factory=Completion, compare=False)
    cancelled: Collection[int] = ()
    removes: Sequence[int] = ()

    __hash__ = object.__hash__

    def cancel(self, numbers: Collection[int]) -> None:
        self.cancelled = {*self.cancelled, *numbers}.intersection(self.may_cancel)

    def fail(self, error: StoreError) -> None:
        self.completion.fail(error)


def submit_remove(waiting: WriteQueue[Write], *numbers: int) -> None:
    waiting.submit_remove(list(numbers), lambda left: Write(removes=left))


@pytest.fixture
def waiting() -> WriteQueue[Write]:
    return WriteQueue(cancels=True)


def test_in_the_order_of_their_submission(waiting: WriteQueue[Write]) -> None:
    writes = [Write(), Write([1]), Write()]
    for write in writes:
        waiting.submit(write)
    assert [waiting.take(), waiting.take_more(), waiting.take_more()] == writes
    assert waiting.take_more() is None
    with pytest.raises(queue.Empty):
        waiting.take(0.001)


def test_a_remove_cancels_an_add_that_waits(waiting: WriteQueue[Write]) -> None:
    adds = [Write([7]), Write([8]), Write([9])]
    for add in adds:
        waiting.submit(add)
    submit_remove(waiting, 5, 7, 9)
    assert [bool(add.cancelled) for add in adds] == [True, False, True]
    assert [waiting.take() for _ in adds] == adds
    remove = waiting.take()
    assert remove is not None
    assert remove.removes == [5], "answered behind the adds, and only for what is left"
    submit_remove(waiting, 7)
    assert [waiting.take(), waiting.take_more()] == [Write(removes=[7]), None]


def test_a_remove_cancels_some_of_the_adds_of_one_write(waiting: WriteQueue[Write]) -> None:
    adds = [Write([4, 5, 6]), Write([7]), Write([8, 9])]
    for add in adds:
        waiting.submit(add)
    submit_remove(waiting, 3, 4, 6, 7)
    submit_remove(waiting, 5)
    assert [add.cancelled for add in adds] == [{4, 5, 6}, {7}, ()]
    assert [waiting.take() for _ in adds] == adds
    submit_remove(waiting, 8, 9)
    left = [write.removes for _ in range(3) if (write := waiting.take()) is not None]
    assert left == [[3], [], [8, 9]], "what was taken is not cancelled"


def test_nothing_is_cancelled_when_nothing_is_accepted(waiting: WriteQueue[Write]) -> None:
    add = Write([7])
    waiting.submit(add)
    waiting.close()
    with pytest.raises(StoreClosed):
        submit_remove(waiting, 7)
    assert waiting.take() is add
    assert not add.cancelled


def test_what_was_taken_is_not_cancelled(waiting: WriteQueue[Write]) -> None:
    add = Write([7])
    waiting.submit(add)
    assert waiting.take() is add
    submit_remove(waiting, 7)
    assert not add.cancelled
    assert waiting.take() == Write(removes=[7])


def test_nothing_is_cancelled_unless_wanted() -> None:
    waiting: WriteQueue[Write] = WriteQueue(cancels=False)
    waiting.submit(Write([7]))
    submit_remove(waiting, 7)
    assert [waiting.take(), waiting.take()] == [Write([7]), Write(removes=[7])]


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
    write = Write([7])
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
