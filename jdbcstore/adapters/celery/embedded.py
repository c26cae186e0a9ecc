"""A broker inside of a program: the first that connects to a store runs it, all others find it there.

Who is master stands in the store: the holder's name of its lock is the address at which its broker listens. When that
program ends, the next one that connects runs the broker. Only programs on the same machine get at it.
"""

from __future__ import annotations

import atexit
import logging
import os
import socket
import threading
from contextlib import closing
from dataclasses import dataclass
from typing import Final

from sqlalchemy import make_url

from jdbcstore.adapters.stomp_link import Address, LinkLost
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.lifecycle import State
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.runner import BrokerThread
from jdbcstore.config.urls import open_spool, open_store
from jdbcstore.errors import ConnectionClosed, JdbcStoreError, LockHeld, StoreError
from jdbcstore.store.contract import SupportsLocking
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.network import NetworkBroker

__all__ = ["address_of", "stop"]

log = logging.getLogger(__name__)

_HOST: Final = "127.0.0.1"
#: How the holder of a lock is called that is one of these; the port and a random part follow.
_HOLDER: Final = f"kombu-{_HOST}:"
_POLICIES: Final = (DestinationPolicy(prioritized_messages=True),)
_LOOK_TIMEOUT_S: Final = 1.0

_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class _Running:
    """A broker that was started here.

    Args:
        pid: the process that runs it. A process that was forked has no such thread.
        port: where it listens while it is master.
    """

    pid: int
    port: int
    broker: NetworkBroker
    thread: BrokerThread

    @property
    def is_here(self) -> bool:
        return self.pid == os.getpid()


#: By the URL of the store.
_running: dict[str, _Running] = {}


def address_of(url: str) -> Address:
    """Where the broker of a store listens; it is started if there is none.

    Args:
        url: of a store.

    Raises:
        LinkLost: nobody can be reached at present: the master is going, or coming, or is somebody else's broker.
        ConfigurationError: the URL is wrong, or its driver is not installed.
        StoreError: the store cannot be opened.
    """
    with _lock:
        running = _running.get(url)
        if running is not None and running.is_here:
            if running.broker.lifecycle.state is State.MASTER:
                return _HOST, running.port
            _forget_ended(url, running)
        holder = _master(url)
        port = _port_of(holder)
        if port is None or not _answers(port):
            if url in _running and _running[url].is_here:
                raise LinkLost(f"the broker in this program is not master of {_shown(url)} any more, {_whose(holder)}")
            port = _started(url, holder)
        return _HOST, port


def _forget_ended(url: str, running: _Running) -> None:
    """A broker that has failed for good is told, and another one may be started."""
    if running.broker.lifecycle.state is not State.STOPPING:
        return
    del _running[url]
    try:
        running.thread.stop()
    except JdbcStoreError as error:
        log.warning(
            "the broker in this program has ended, starting another one store=%s error=%r", _shown(url), str(error)
        )


def _shown(url: str) -> str:
    """Without its password."""
    return make_url(url).render_as_string() if "://" in url else url


def _whose(holder: str) -> str:
    if not holder:
        return "nobody is"
    if _port_of(holder) is not None:
        return f"{holder} is, which does not answer"
    return f"{holder} is, a broker of its own: connect to its address, jdbcstore://HOST:PORT"


def _master(url: str) -> str:
    """The holder's name of the store's lock; empty if there is none, or it cannot be known."""
    store = open_store(url)
    if not isinstance(store, SupportsLocking):
        return ""
    locker = store.locker()
    try:
        return locker.status().holder or ""
    except StoreError:
        return ""  # there is no table yet, or no database: starting a broker tells
    finally:
        locker.release()


def _port_of(holder: str) -> int | None:
    """Where a holder listens, if it is a broker inside of a program."""
    port, _, _ = holder.removeprefix(_HOLDER).partition("-")
    return int(port) if holder.startswith(_HOLDER) and port.isdecimal() else None


def _answers(port: int) -> bool:
    try:
        with closing(socket.create_connection((_HOST, port), _LOOK_TIMEOUT_S)):
            return True
    except OSError:
        return False


def _started(url: str, holder: str) -> int:
    with closing(socket.create_server((_HOST, 0))) as free:
        port: int = free.getsockname()[1]
    options = BrokerOptions(bind=f"{_HOST}:{port}", broker_name=f"kombu-{os.getpid()}")
    store = open_store(url, JdbcOptions(lock=LockerOptions(lease_holder_id=f"{_HOLDER}{port}")))
    broker = NetworkBroker(store, options, open_spool, _POLICIES)
    thread = BrokerThread(broker, 0.0)
    try:
        thread.start()
    except (LockHeld, ConnectionClosed) as error:
        raise LinkLost(f"no broker can be reached that is master of {_shown(url)}, {_whose(holder)}") from error
    _running[url] = _Running(os.getpid(), port, broker, thread)
    return port


def stop(url: str) -> None:
    """Stop the broker that was started here, if there is one; the next program need not wait for the lease to end."""
    running = _running.pop(url, None)
    if running is not None and running.is_here:
        running.thread.stop()


@atexit.register
def _stop_all() -> None:
    for url in list(_running):
        stop(url)
