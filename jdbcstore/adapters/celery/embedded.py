"""A broker inside of a program: the first that connects to a store runs it, all others find it there.

Who is master stands in the store: the holder's name of its lock is the address at which its broker listens. When that
program ends, the next one that connects runs the broker. Only programs on the same machine get at it.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from contextlib import closing
from typing import Final

from jdbcstore.adapters.stomp_link import Address
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.runner import BrokerThread
from jdbcstore.config.urls import open_spool, open_store
from jdbcstore.errors import ConnectionClosed, LockHeld, StoreError
from jdbcstore.store.contract import SupportsLocking
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.network import NetworkBroker

__all__ = ["address_of"]

_HOST: Final = "127.0.0.1"
#: How the holder of a lock is called that is one of these; the port and a random part follow.
_HOLDER: Final = f"kombu-{_HOST}:"
_POLICIES: Final = (DestinationPolicy(prioritized_messages=True),)
_LOOK_TIMEOUT_S: Final = 1.0

_lock = threading.Lock()
#: URL → the process that runs a broker on it, the port, the thread. A process that was forked has no such thread.
_running: dict[str, tuple[int, int, BrokerThread]] = {}


def address_of(url: str) -> Address | None:
    """Where the broker of a store listens; it is started if there is none.

    Args:
        url: of a store.

    Returns:
        None if nobody can be reached at present: the master is going, or coming.

    Raises:
        ConfigurationError: the URL is wrong, or its driver is not installed.
        StoreError: the store cannot be opened.
    """
    with _lock:
        running = _running.get(url)
        if running is not None and running[0] == os.getpid():
            return _HOST, running[1]
        port = _master_port(url)
        if port is None or not _answers(port):
            port = _started(url)
        return None if port is None else (_HOST, port)


def _master_port(url: str) -> int | None:
    """Where the master says that it listens; None if it is none of ours, or there is none."""
    store = open_store(url)
    if not isinstance(store, SupportsLocking):
        return None
    locker = store.locker()
    try:
        holder = locker.status().holder or ""
    except StoreError:
        return None  # there is no table yet, or no database: starting a broker tells
    finally:
        locker.release()
    port, _, _ = holder.removeprefix(_HOLDER).partition("-")
    return int(port) if holder.startswith(_HOLDER) and port.isdecimal() else None


def _answers(port: int) -> bool:
    try:
        with closing(socket.create_connection((_HOST, port), _LOOK_TIMEOUT_S)):
            return True
    except OSError:
        return False


def _started(url: str) -> int | None:
    with closing(socket.create_server((_HOST, 0))) as free:
        port: int = free.getsockname()[1]
    options = BrokerOptions(bind=f"{_HOST}:{port}", broker_name=f"kombu-{os.getpid()}")
    store = open_store(url, JdbcOptions(lock=LockerOptions(lease_holder_id=f"{_HOLDER}{port}")))
    thread = BrokerThread(NetworkBroker(store, options, open_spool, _POLICIES), 0.0)
    try:
        thread.start()
    except (LockHeld, ConnectionClosed):
        return None
    _running[url] = (os.getpid(), port, thread)
    return port


@atexit.register
def _stop_all() -> None:
    """The next program need not wait for the lease to run out."""
    for url, (pid, _, thread) in list(_running.items()):
        if pid == os.getpid():
            del _running[url]
            thread.stop()
