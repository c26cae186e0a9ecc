"""A broker inside a program: built from the URL of its store, without a listener, in this event loop or in a thread."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import Future

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.lifecycle import State
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.runner import run_in_loop
from jdbcstore.config.urls import open_spool, open_store
from jdbcstore.errors import ConnectionClosed, LockHeld

__all__ = ["BrokerThread", "embedded_broker", "reached_mastership", "start_as_master"]


def embedded_broker(url: str, options: BrokerOptions | None) -> Broker:
    """A broker that nobody reaches but from its own process, not started yet. Raises ConfigurationError."""
    return Broker(open_store(url), options, open_spool)


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
        if ended.done():
            ended.result()
    finally:
        ended.cancel()
        reached.cancel()
    status = broker.lifecycle.status
    if status.state is State.STANDBY:
        raise LockHeld(f"this broker stands by, {status.reason}: connect there, or wait for longer (master_timeout_s)")
    if status.state is not State.MASTER:
        raise ConnectionClosed(f"the broker serves nobody, it is {status.state}: {status.reason}")


class BrokerThread:
    """A broker in a thread of its own, with an event loop of its own.

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
        self._thread = threading.Thread(target=self._run, name="jdbcstore-embedded-broker", daemon=True)

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
