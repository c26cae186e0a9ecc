"""Jobs that begin together: however many clients break off in one turn of the event loop, the others have the next."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from functools import partial
from time import perf_counter

from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.broker.slices import Slices

JOBS = 50


def busy(done: list[int], number: int) -> Iterator[None]:
    """A job that needs more than half a slice, and is not interrupted."""
    ends_s = perf_counter() + SLICE_S * 0.6
    while perf_counter() < ends_s:
        pass
    done.append(number)
    yield from ()


def test_jobs_that_begin_in_one_turn_share_a_slice() -> None:
    async def begin() -> None:
        slices, done, ended = Slices(asyncio.get_running_loop()), list[int](), list[int]()
        for number in range(JOBS):
            job = busy(done, number)
            if slices.begin(job):
                ended.append(number)
            else:
                slices.go_on(job, partial(ended.append, number))
        assert done == ended == list(range(len(done)))
        assert 1 <= len(done) <= 2
        await slices.drained()
        assert done == ended == list(range(JOBS))

    asyncio.run(begin())


def test_one_that_begins_later_begins_at_once() -> None:
    async def begin() -> None:
        slices, done = Slices(asyncio.get_running_loop()), list[int]()
        for number in range(JOBS):
            assert slices.begin(busy(done, number))
            await asyncio.sleep(0)
        assert done == list(range(JOBS))

    asyncio.run(begin())
