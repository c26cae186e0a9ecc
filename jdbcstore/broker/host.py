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

__all__ = ["running", "serve"]


def serve(broker: Broker, started: Callable[[tuple[str, int]], object] = lambda address: None) -> None:
    """Run a broker until SIGTERM or SIGINT, then stop it cleanly. A second signal stops it at once.

    Args:
        broker: not started yet.
        started: called with host and port as soon as clients can connect.

    Raises:
        StoreError, ConfigurationError, ListenError: it cannot start.
    """
    # A broker keeps many objects for a short time and hardly makes cycles: with the usual thresholds the collector
    # walks over all messages in memory again and again, for up to a third of the time.
    gc.collect()
    gc.freeze()
    gc.set_threshold(100_000, 20, 20)
    _run(_serve(broker, started))


async def _serve(broker: Broker, started: Callable[[tuple[str, int]], object]) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        stopping.set()
        loop.remove_signal_handler(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
    await broker.start()
    try:
        started(broker.address)
        await stopping.wait()
    finally:
        await broker.stop()


@contextmanager
def running(broker: Broker) -> Iterator[tuple[str, int]]:
    """Run a broker in a thread of its own for the duration of the block; the value is its host and port.

    Raises:
        StoreError, ConfigurationError, ListenError: it cannot start.
    """
    ready = threading.Event()
    failure: list[BaseException] = []
    loop: list[asyncio.AbstractEventLoop] = []
    stopping = asyncio.Event()

    async def run() -> None:
        loop.append(asyncio.get_running_loop())
        try:
            await broker.start()
        except BaseException as error:
            failure.append(error)
            ready.set()
            raise
        ready.set()
        await stopping.wait()
        await broker.stop()

    def thread() -> None:
        try:
            _run(run())
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


def _run(work: Coroutine[Any, Any, None]) -> None:
    """Run a coroutine on the fastest event loop there is."""
    if sys.platform != "win32":
        try:
            import uvloop
        except ImportError:
            pass
        else:
            uvloop.run(work)
            return
    asyncio.run(work)
