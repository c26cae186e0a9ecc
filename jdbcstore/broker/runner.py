"""Ways to run a broker: until a signal comes, or beside other work."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.lifecycle import State, Status

__all__ = ["run_in_loop", "running", "serve"]


def serve(broker: Broker, told: Callable[[Status], object] = lambda status: None) -> None:
    """Run a broker until SIGTERM or SIGINT, then stop it cleanly. A second signal stops it at once.

    SIGHUP lets it read its certificates again.

    Args:
        broker: not started yet.
        told: called in the event loop at every change of its state.

    Raises:
        StoreError, ConfigurationError, ListenError: it cannot start, or failed for good.
        LockError: another broker is master, and that is to be the end.
    """
    # A broker keeps many objects for a short time and hardly makes cycles: with the usual thresholds the collector
    # walks over all messages in memory again and again, for up to a third of the time. It looks at new objects often,
    # a few ms at a time, at what has survived that in portions of some 10 ms, and at everything as seldom as possible.
    gc.collect()
    gc.freeze()
    gc.set_threshold(10_000, 20, 100)
    broker.lifecycle.listeners.append(told)
    run_in_loop(_serve(broker))


async def _serve(broker: Broker) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        stopping.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    if sys.platform != "win32":
        loop.add_signal_handler(signal.SIGHUP, broker.reload)
    until_stopped, until_ended = asyncio.create_task(stopping.wait()), asyncio.create_task(_until_ended(broker))
    await asyncio.wait((until_stopped, until_ended), return_when=asyncio.FIRST_COMPLETED)
    await broker.stop()
    await until_ended


async def _until_ended(broker: Broker) -> None:
    await broker.start()
    await broker.ended()


@contextmanager
def running(broker: Broker) -> Iterator[tuple[str, int]]:
    """Run a broker in a thread of its own for the duration of the block; the value is its `Broker.address`.

    Waits until it is master. What ends it for good before the block does is raised at the end of the block.

    Raises:
        StoreError, ConfigurationError, ListenError, LockError: it cannot start.
    """
    ready = threading.Event()
    failure: list[BaseException] = []
    loop: list[asyncio.AbstractEventLoop] = []
    stopping = asyncio.Event()

    async def run() -> None:
        loop.append(asyncio.get_running_loop())
        until_ended = asyncio.create_task(_until_ended(broker))
        until_master = asyncio.create_task(broker.lifecycle.reached(State.MASTER))
        await asyncio.wait((until_ended, until_master), return_when=asyncio.FIRST_COMPLETED)
        if until_ended.done():
            failure.append(until_ended.exception() or RuntimeError("the broker was stopped before it was master"))
        ready.set()
        if not failure:
            until_stopped = asyncio.create_task(stopping.wait())
            await asyncio.wait((until_ended, until_stopped), return_when=asyncio.FIRST_COMPLETED)
            await broker.stop()
            await until_ended

    def thread() -> None:
        try:
            run_in_loop(run())
        except BaseException as error:  # noqa: BLE001  # it is raised again in the caller's thread
            if not failure:
                failure.append(error)

    worker = threading.Thread(target=thread, name="jdbcstore-broker")
    worker.start()
    ready.wait()
    try:
        if failure:
            raise failure[0]
        yield broker.address
    finally:
        if not failure:
            loop[0].call_soon_threadsafe(stopping.set)
        worker.join()
    if failure:
        raise failure[0]


def run_in_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on a new event loop, the fastest that there is, until it is done."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            uvloop.run(work)
            return
    asyncio.run(work)
