"""Ways to run a broker: until a signal comes, in a thread beside other work, or in the event loop of a program."""

from __future__ import annotations

import asyncio
import gc
import signal
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.heap import use_one_arena
from jdbcstore.broker.lifecycle import State, Status
from jdbcstore.errors import ConnectionClosed, LockHeld

__all__ = ["BrokerThread", "reached_mastership", "run_in_loop", "running", "serve", "start_as_master"]


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
    gc.set_threshold(10_000, 5, 400)
    use_one_arena()
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
        ConnectionClosed: it was stopped before it was master.
    """
    with BrokerThread(broker, None):
        yield broker.address


async def start_as_master(broker: Broker, master_timeout_s: float | None) -> None:
    """Start a broker, and wait until it is master. If that fails it is stopped again.

    Raises:
        StoreError, ConfigurationError: the store cannot be opened.
        LockHeld: another broker is master of the store, for longer than `master_timeout_s`.
    """
    try:
        await broker.start()
        await reached_mastership(broker, master_timeout_s)
    except BaseException:
        await broker.stop()
        raise


async def reached_mastership(broker: Broker, timeout_s: float | None) -> None:
    """Wait until a started broker serves clients.

    Args:
        broker: in this event loop.
        timeout_s: how long, in seconds; None for ever.

    Raises:
        LockHeld: another broker is master.
        ConnectionClosed: it serves nobody for another reason.
        StoreError, LockError: what ended it.
    """
    ended = asyncio.ensure_future(broker.ended())
    reached = asyncio.ensure_future(broker.lifecycle.reached(State.MASTER, State.STOPPING))
    try:
        await asyncio.wait((ended, reached), timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        if ended.done() or broker.lifecycle.state is State.STOPPING:
            await ended  # what it failed with, if it did
    finally:
        ended.cancel()
        reached.cancel()
    status = broker.lifecycle.status
    if status.state is State.STANDBY:
        where = "connect there, or wait for longer (master_timeout_s)"
        raise LockHeld(f"another broker is at work on this store, {status.reason}: {where}")
    if status.state is not State.MASTER:
        raise ConnectionClosed(f"the broker serves nobody, it is {status.state}: {status.reason}")


class BrokerThread:
    """A broker in a thread of its own, with an event loop of its own. Also a context manager.

    Args:
        broker: not started yet.
        master_timeout_s: how long to wait until it is master, in seconds; None for ever.
    """

    def __init__(self, broker: Broker, master_timeout_s: float | None) -> None:
        self._broker = broker
        self._master_timeout_s = master_timeout_s
        self._started: Future[None] = Future()
        self._ended: Future[None] = Future()
        self._stopping = asyncio.Event()
        self._loop: Future[asyncio.AbstractEventLoop] = Future()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-broker", daemon=True)

    def start(self) -> None:
        """Return when it is master. Raises as `start_as_master`; it is stopped then."""
        self._thread.start()
        try:
            self._started.result()
        except BaseException:
            self._stop()
            raise

    def stop(self) -> None:
        """Stop the broker. Raises what ended it by itself, if something did."""
        self._stop()
        self._ended.result()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None:
            self.stop()
        else:
            self._stop()

    def _stop(self) -> None:
        if not self._ended.done():
            self._loop.result().call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self) -> None:
        try:
            run_in_loop(self._live())
        except BaseException as error:  # noqa: BLE001  # it is raised again in another thread
            if not self._started.done():
                self._started.set_exception(error)
            self._ended.set_exception(error)
        else:
            self._ended.set_result(None)

    async def _live(self) -> None:
        self._loop.set_result(asyncio.get_running_loop())
        starting = asyncio.ensure_future(start_as_master(self._broker, self._master_timeout_s))
        stopping = asyncio.ensure_future(self._stopping.wait())
        await asyncio.wait((starting, stopping), return_when=asyncio.FIRST_COMPLETED)
        if starting.done():
            starting.result()
            self._started.set_result(None)
            await stopping
        else:
            starting.cancel()
            await asyncio.wait((starting,))
        await self._broker.stop()
        await self._broker.ended()


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
