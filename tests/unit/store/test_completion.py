"""A completion is resolved once, tells everybody once, and may be watched from any thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from jdbcstore.errors import StoreError
from jdbcstore.store.completion import Completion

WAIT_S = 60.0
ROUNDS = 300


def test_a_new_completion_is_pending() -> None:
    completion: Completion[int] = Completion()
    assert not completion.done
    assert completion.error is None


def test_a_resolved_completion_has_its_result() -> None:
    completion: Completion[int] = Completion()
    completion.resolve(7)
    assert completion.done
    assert completion.result(0) == 7
    assert completion.exception(0) is None
    assert completion.error is None


def test_none_is_a_result() -> None:
    completion: Completion[None] = Completion()
    completion.resolve(None)
    completion.result(0)
    assert completion.done


def test_a_completion_may_be_resolved_from_the_start() -> None:
    assert Completion.resolved(7).result(0) == 7


def test_a_failed_completion_raises_its_error() -> None:
    completion: Completion[int] = Completion()
    error = StoreError("no")
    completion.fail(error)
    assert completion.done
    assert completion.error is error
    assert completion.exception(0) is error
    with pytest.raises(StoreError, match="no"):
        completion.result(0)


@pytest.mark.parametrize("timeout_s", [0, 0.01])
def test_waiting_ends_with_the_timeout(timeout_s: float) -> None:
    completion: Completion[int] = Completion()
    with pytest.raises(TimeoutError, match=f"{timeout_s} s"):
        completion.result(timeout_s)
    with pytest.raises(TimeoutError):
        completion.exception(timeout_s)


def test_a_timeout_does_not_spoil_the_outcome() -> None:
    completion: Completion[int] = Completion()
    with pytest.raises(TimeoutError):
        completion.result(0)
    completion.resolve(7)
    assert completion.result(0) == 7


@pytest.mark.parametrize("first", [lambda c: c.resolve(1), lambda c: c.fail(StoreError("first"))])
@pytest.mark.parametrize("second", [lambda c: c.resolve(2), lambda c: c.fail(StoreError("second"))])
def test_the_first_outcome_stands(
    first: Callable[[Completion[int]], None], second: Callable[[Completion[int]], None]
) -> None:
    completion: Completion[int] = Completion()
    told: list[Completion[int]] = []
    completion.add_done_callback(told.append)
    first(completion)
    outcome = (completion.error, None if completion.error else completion.result(0))
    with pytest.raises(RuntimeError, match="once"):
        second(completion)
    assert (completion.error, None if completion.error else completion.result(0)) == outcome
    assert told == [completion]


def test_callbacks_are_called_once_in_the_order_they_came() -> None:
    completion: Completion[int] = Completion()
    told: list[tuple[str, int]] = []
    completion.add_done_callback(lambda done: told.append(("first", done.result(0))))
    completion.add_done_callback(lambda done: told.append(("second", done.result(0))))
    assert told == []
    completion.resolve(7)
    assert told == [("first", 7), ("second", 7)]


def test_a_callback_that_comes_late_is_called_at_once() -> None:
    completion = Completion.resolved(7)
    told: list[int] = []
    completion.add_done_callback(lambda done: told.append(done.result(0)))
    assert told == [7]


def test_callbacks_hear_of_a_failure() -> None:
    completion: Completion[int] = Completion()
    told: list[BaseException | None] = []
    completion.add_done_callback(lambda done: told.append(done.error))
    error = StoreError("no")
    completion.fail(error)
    assert told == [error]


def test_a_callback_may_add_another() -> None:
    completion: Completion[int] = Completion()
    told: list[str] = []
    completion.add_done_callback(lambda done: done.add_done_callback(lambda again: told.append("inner")))
    completion.resolve(7)
    assert told == ["inner"]


def test_a_callback_that_raises_is_logged_and_stops_nobody(caplog: pytest.LogCaptureFixture) -> None:
    completion: Completion[int] = Completion()
    told: list[int] = []

    def fail(done: Completion[int]) -> None:
        raise ValueError("a bug of the caller")

    completion.add_done_callback(fail)
    completion.add_done_callback(lambda done: told.append(done.result(0)))
    completion.resolve(7)
    assert told == [7]
    assert "a bug of the caller" in caplog.text


def test_callbacks_run_in_the_thread_that_resolves() -> None:
    completion: Completion[int] = Completion()
    ran_in: list[str] = []
    completion.add_done_callback(lambda done: ran_in.append(threading.current_thread().name))
    resolver = threading.Thread(target=completion.resolve, args=(7,), name="the resolver")
    resolver.start()
    resolver.join()
    assert ran_in == ["the resolver"]


def test_everybody_who_waits_is_woken() -> None:
    with ThreadPoolExecutor(9) as pool:
        for n in range(ROUNDS):
            completion: Completion[int] = Completion()
            together = threading.Barrier(9)

            def wait(completion: Completion[int] = completion, together: threading.Barrier = together) -> int:
                together.wait(WAIT_S)
                return completion.result(WAIT_S)

            waiting = [pool.submit(wait) for _ in range(8)]
            together.wait(WAIT_S)
            completion.resolve(n)
            assert [waiter.result(WAIT_S) for waiter in waiting] == [n] * 8


def test_callbacks_that_race_with_the_outcome_are_called_exactly_once() -> None:
    with ThreadPoolExecutor(5) as pool:
        for _ in range(ROUNDS):
            completion: Completion[int] = Completion()
            told: list[int] = []
            together = threading.Barrier(5)

            def add(
                n: int,
                completion: Completion[int] = completion,
                told: list[int] = told,
                together: threading.Barrier = together,
            ) -> None:
                together.wait(WAIT_S)
                completion.add_done_callback(lambda done: told.append(n))

            adding = [pool.submit(add, n) for n in range(4)]
            together.wait(WAIT_S)
            completion.resolve(7)
            for added in adding:
                added.result(WAIT_S)
            assert sorted(told) == [0, 1, 2, 3]


def test_of_two_threads_that_resolve_one_wins() -> None:
    with ThreadPoolExecutor(2) as pool:
        for _ in range(ROUNDS):
            completion: Completion[int] = Completion()
            told: list[int] = []
            completion.add_done_callback(lambda done, told=told: told.append(done.result(0)))  # type: ignore[misc]  # a default binds the round's list
            together = threading.Barrier(2)

            def resolve(
                n: int, completion: Completion[int] = completion, together: threading.Barrier = together
            ) -> bool:
                together.wait(WAIT_S)
                try:
                    completion.resolve(n)
                except RuntimeError:
                    return False
                return True

            won = [outcome.result(WAIT_S) for outcome in [pool.submit(resolve, n) for n in range(2)]]
            assert sum(won) == 1
            assert len(told) == 1
            assert told[0] == won.index(True)
