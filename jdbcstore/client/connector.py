"""How a connection is made: to a broker that runs, or with one of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from types import TracebackType

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.runner import BrokerThread, reached_mastership, start_as_master
from jdbcstore.client.async_connection import AsyncConnection
from jdbcstore.client.connection import Connection
from jdbcstore.client.port import Port
from jdbcstore.config.urls import open_spool, open_store

__all__ = ["Connecting", "connect", "connect_async"]


class Connecting:
    """A connection that is going to be made: ``await`` it, or use it in ``async with``."""

    def __init__(self, make: Callable[[], Awaitable[AsyncConnection]]) -> None:
        self._make = make
        self._connection: AsyncConnection

    def __await__(self) -> Generator[object, None, AsyncConnection]:
        return self._make().__await__()

    async def __aenter__(self) -> AsyncConnection:
        self._connection = await self._make()
        return self._connection

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self._connection.__aexit__(kind, error, traceback)


def connect_async(
    target: str | Broker,
    *,
    client_id: str | None = None,
    login: str | None = None,
    passcode: str | None = None,
    options: BrokerOptions | None = None,
    master_timeout_s: float | None = 0.0,
) -> Connecting:
    """Connect to a broker in this process, from a program on asyncio: ``async with connect_async(…) as connection``.

    Args:
        target: the URL of a store (``sqlite:///data/orders.db``, ``postgresql://…``, ``kahadb:data``, ``memory:``): a
            broker without a listener is started on it, in this event loop, and stopped with the connection. Or a broker
            that runs in this event loop.
        client_id: names the connection; durable subscriptions belong to it. No two connections have the same.
        login, passcode: for a broker that has users.
        options: of the broker that is started.
        master_timeout_s: how long to wait if another broker is master of the store, in seconds; None for ever.

    Raises:
        ConfigurationError: the URL is wrong or its driver is not installed.
        StoreError: the store cannot be opened.
        LockHeld: another broker is master of the store.
        LoginRefused: login or passcode is wrong.
        ProtocolError: another connection has the client id.
        ConnectionClosed: the broker serves nobody.
        RuntimeError: the broker does not run, or in another event loop.
    """
    _check_options(target, options)
    return Connecting(partial(_connect, target, client_id, login, passcode, options, master_timeout_s))


async def _connect(
    target: str | Broker,
    client_id: str | None,
    login: str | None,
    passcode: str | None,
    options: BrokerOptions | None,
    master_timeout_s: float | None,
) -> AsyncConnection:
    if isinstance(target, str):
        # Reading the URL imports drivers: others are served meanwhile.
        broker = await asyncio.to_thread(_embedded, target, options)
        await start_as_master(broker, master_timeout_s)

        async def retire() -> None:
            await broker.stop()
            await broker.ended()

        try:
            port = await _open(broker, client_id, login, passcode, 0.0)
        except BaseException:
            await broker.stop()
            raise
        return AsyncConnection(broker, port, retire)
    if _loop_of(target) is not asyncio.get_running_loop():
        raise RuntimeError("the broker runs in another event loop than this: use jdbcstore.connect")
    return AsyncConnection(target, await _open(target, client_id, login, passcode, master_timeout_s))


async def _open(
    broker: Broker, client_id: str | None, login: str | None, passcode: str | None, master_timeout_s: float | None
) -> Port:
    await reached_mastership(broker, master_timeout_s)
    port = Port(broker)
    await port.open(client_id, login, passcode)
    return port


def connect(
    target: str | Broker,
    *,
    client_id: str | None = None,
    login: str | None = None,
    passcode: str | None = None,
    options: BrokerOptions | None = None,
    master_timeout_s: float | None = 0.0,
) -> Connection:
    """Connect to a broker in this process: ``with connect(…) as connection``.

    Args:
        target: the URL of a store (``sqlite:///data/orders.db``, ``postgresql://…``, ``kahadb:data``, ``memory:``): a
            broker without a listener is started on it, in a thread, and stopped with the connection. Or a broker that
            runs in another thread.
        client_id, login, passcode, options, master_timeout_s: as `connect_async`.

    Raises:
        JdbcStoreError: as `connect_async`.
        RuntimeError: the broker does not run, or in this very thread.
    """
    _check_options(target, options)
    if isinstance(target, Broker):
        loop = _loop_of(target)
        opening = partial(_open, target, client_id, login, passcode, master_timeout_s)
        return Connection.open(target, loop, opening)
    broker = _embedded(target, options)
    thread = BrokerThread(broker, master_timeout_s)
    thread.start()
    try:
        opening = partial(_open, broker, client_id, login, passcode, 0.0)
        return Connection.open(broker, broker.loop, opening, thread.stop)
    except BaseException:
        thread.stop()
        raise


def _embedded(url: str, options: BrokerOptions | None) -> Broker:
    """A broker that nobody reaches but from its own process, not started yet."""
    return Broker(open_store(url), options, open_spool)


def _check_options(target: str | Broker, options: BrokerOptions | None) -> None:
    if options is not None and not isinstance(target, str):
        raise ValueError("options are for a broker that is started here: this one has its own")


def _loop_of(broker: Broker) -> asyncio.AbstractEventLoop:
    loop: asyncio.AbstractEventLoop | None = getattr(broker, "loop", None)
    if loop is None:
        raise RuntimeError("the broker does not run: start it first, or connect to the URL of its store")
    return loop
