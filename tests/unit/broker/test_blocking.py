"""Calls that block: each has a thread of its own, and one that hangs holds up nobody for ever."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from jdbcstore.broker.blocking_calls import BlockingCalls, GivenUp
from jdbcstore.errors import StoreUnavailable, TransientStoreError
from tests.threads import no_new_threads


def test_what_a_call_returns_or_raises_is_what_its_caller_gets() -> None:
    def fail() -> None:
        raise StoreUnavailable("gone")

    async def call() -> None:
        calls = BlockingCalls()
        assert await calls.call(max, 1, 2) == 2
        assert await calls.call(threading.current_thread) is not threading.current_thread()
        with pytest.raises(StoreUnavailable, match="gone"):
            await calls.call(fail)
        calls.end()

    asyncio.run(call())


def test_calls_that_hang_do_not_hold_up_others_nor_the_loop() -> None:
    may_go_on = threading.Event()

    async def call() -> None:
        calls = BlockingCalls()
        hanging = [asyncio.create_task(calls.call(may_go_on.wait, 100)) for _ in range(20)]
        async with asyncio.timeout(60):
            assert await calls.call(max, 1, 2) == 2
        assert not any(task.done() for task in hanging)
        may_go_on.set()
        async with asyncio.timeout(60):
            assert all(await asyncio.gather(*hanging))
        calls.end()

    asyncio.run(call())


def test_calls_one_after_the_other_need_no_new_thread() -> None:
    may_go_on = threading.Event()

    async def call() -> None:
        calls = BlockingCalls()
        thread = await calls.call(threading.current_thread)
        with no_new_threads():
            assert await calls.call(threading.current_thread) is thread
            waiting = asyncio.create_task(calls.call(may_go_on.wait, 100))
            await asyncio.sleep(0)
            with pytest.raises(TransientStoreError, match="no more threads"):
                await calls.call(max, 1, 2)
        calls.end()
        may_go_on.set()
        assert await waiting
        thread.join(60)
        assert not thread.is_alive()

    asyncio.run(call())


def test_after_giving_up_nobody_waits_any_more(caplog: pytest.LogCaptureFixture) -> None:
    may_go_on = threading.Event()
    ended = threading.Semaphore(0)

    def hang() -> None:
        may_go_on.wait(100)
        ended.release()
        raise StoreUnavailable("too late for anybody")

    async def call() -> None:
        calls = BlockingCalls()
        hanging = asyncio.create_task(calls.call(hang))
        await asyncio.sleep(0)
        calls.give_up()
        calls.give_up()
        for task in (hanging, calls.call(hang)):
            async with asyncio.timeout(60):
                with pytest.raises(GivenUp):
                    await task

    asyncio.run(call())
    may_go_on.set()
    assert ended.acquire(timeout=60)
    assert ended.acquire(timeout=60)
    time.sleep(0.05)
    assert caplog.records == []
