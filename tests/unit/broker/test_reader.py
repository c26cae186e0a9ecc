"""What reads of the store come to: an answer, an error, or another attempt."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from jdbcstore import JdbcStoreError, StoreError, TransientStoreError
from jdbcstore.broker.reader import Reader
from jdbcstore.errors import StoreClosed, StoreUnavailable


def reading(scenario: Callable[[Reader], Awaitable[Any]], is_serving: Callable[[], bool] = lambda: True) -> list[Any]:
    """Run with a reader; returns what the event loop had to complain about."""
    complaints: list[Any] = []

    async def run() -> None:
        loop = asyncio.get_running_loop()
        loop.set_exception_handler(lambda _, context: complaints.append(context))
        reader = Reader(loop, is_serving)
        reader.start()
        await scenario(reader)
        reader.shutdown()
        gc.collect()
        await asyncio.sleep(0)

    asyncio.run(run())
    return complaints


def failing(*errors: JdbcStoreError) -> Callable[[], str]:
    """A question that is answered after these errors."""
    left = iter(errors)

    def ask() -> str:
        error = next(left, None)
        if error is not None:
            raise error
        return "answer"

    return ask


@pytest.mark.parametrize("is_patient", [False, True])
def test_an_error_that_nobody_wants_to_know_is_no_complaint(is_patient: bool) -> None:
    async def scenario(reader: Reader) -> None:
        read = reader.read_patiently if is_patient else reader.read
        came = asyncio.Event()
        read(failing(StoreError("gone"))).add_done_callback(lambda _: came.set())
        await came.wait()

    assert reading(scenario) == []


def test_what_passes_is_waited_through() -> None:
    async def scenario(reader: Reader) -> None:
        assert await reader.read_patiently(failing(TransientStoreError("cut"), TransientStoreError("cut"))) == "answer"

    assert reading(scenario) == []


@pytest.mark.parametrize("error", [StoreError("damaged"), StoreUnavailable("for ten seconds now")])
def test_what_does_not_pass_is_told(error: JdbcStoreError) -> None:
    async def scenario(reader: Reader) -> None:
        with pytest.raises(type(error)):
            await reader.read_patiently(failing(error))

    assert reading(scenario) == []


def test_nobody_is_asked_for_clients_that_are_gone() -> None:
    serving = [True, False]

    async def scenario(reader: Reader) -> None:
        with pytest.raises(StoreClosed):
            await reader.read_patiently(failing(TransientStoreError("cut"), StoreError("asked again")))

    assert reading(scenario, lambda: serving.pop(0)) == []


def test_an_answer_that_nobody_waits_for_any_more() -> None:
    async def scenario(reader: Reader) -> None:
        answer = reader.read_patiently(failing())
        answer.cancel()
        await reader.read(failing())
        assert answer.cancelled()

    assert reading(scenario) == []
