"""How the broker hears of the outbox: once for what was told, however long it does not listen."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator

import pytest

from jdbcstore.broker.intake import OutboxEar
from jdbcstore.store.intake import OutboxBell


class PipeBell(OutboxBell):
    """Somebody rings by a pipe."""

    def __init__(self) -> None:
        self.descriptor, self._told = os.pipe()
        self.poll_ms = 60_000
        self.is_closed = False

    def ring(self) -> None:
        os.write(self._told, b"x")

    def clear(self) -> None:
        assert self.descriptor is not None
        os.read(self.descriptor, 100)

    def close(self) -> None:
        self.is_closed = True
        for descriptor in (self.descriptor, self._told):
            assert descriptor is not None
            os.close(descriptor)


@pytest.fixture
def bell() -> Iterator[PipeBell]:
    bell = PipeBell()
    yield bell
    assert bell.is_closed


def test_who_does_not_listen_keeps_nobody_busy(bell: PipeBell) -> None:
    async def turns_in_a_while() -> int:
        loop = asyncio.get_running_loop()
        ear = OutboxEar(loop, bell)
        bell.ring()
        await ear.wait()
        before = time.process_time()
        await asyncio.sleep(0.3)  # a page is under way
        busy_s = time.process_time() - before
        ear.close()
        return round(busy_s * 1000)

    assert asyncio.run(turns_in_a_while()) < 150


def test_what_is_told_after_hearing_is_heard(bell: PipeBell) -> None:
    async def rings_twice() -> None:
        ear = OutboxEar(asyncio.get_running_loop(), bell)
        for _ in range(2):
            bell.ring()
            await asyncio.wait_for(ear.wait(), 30)
            ear.hear()
        ear.close()

    asyncio.run(rings_twice())


def test_what_is_told_while_nobody_waits_is_not_lost(bell: PipeBell) -> None:
    async def rings_before() -> None:
        ear = OutboxEar(asyncio.get_running_loop(), bell)
        ear.hear()
        bell.ring()
        await asyncio.sleep(0)
        await asyncio.wait_for(ear.wait(), 30)
        ear.close()

    asyncio.run(rings_before())
