"""Finds clients that are gone without a word, and those that are not; `jdbcstore.transport.tcp` has the theory.

Every few seconds each connection is looked at, some at a time. That is not what finds a dead one, which TCP does by
itself; it keeps those alive that TCP would take for dead, and ends those that are silent beyond what the options allow.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final, Protocol

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.transport.tcp import Socket, TcpInfo, set_keep_alive, set_keep_alive_times, set_user_timeout, tcp_info

__all__ = ["PeerWatch", "Stall", "Watched", "probe"]

log = logging.getLogger(__name__)

#: How often all connections are looked at, and how many in one turn of the loop.
_PERIOD_S: Final = 5.0
_SLICE: Final = 200
#: A client whose window is closed is asked at least this often, in parts of the time it has to answer; who has not
#: answered for a little longer gets no more time.
_MOVED_ON: Final = 0.8
_ANSWERED: Final = 0.9
_PROBE_LOOK_S: Final = 0.02
#: As how much of the time to answer the time since the last look counts at most. While the process or the whole machine
#: stood still no answer can have come.
_PROBE_COUNTS_S: Final = 0.25
#: The system counts its ticks, not milliseconds.
_TICK_MS: Final = 20


class Stall:
    """Since when a client takes nothing."""

    __slots__ = ("acknowledged_bytes", "closed_since_s", "since_s")

    def __init__(self) -> None:
        #: When its window was seen closed first.
        self.closed_since_s: float | None = None
        #: What it had acknowledged when something waited for it first, and when that was.
        self.acknowledged_bytes = -1
        self.since_s = 0.0

    def seconds(self, info: TcpInfo, now_s: float) -> float:
        """For how long something has waited for it of which it took nothing."""
        if not info.unsent_bytes or self.acknowledged_bytes != info.acknowledged_bytes:
            self.acknowledged_bytes, self.since_s = info.acknowledged_bytes, now_s
        return now_s - self.since_s


class Watched(Protocol):
    """A connection that may turn out to lead nowhere."""

    peer: str
    socket: Socket
    stall: Stall

    @property
    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""

    @property
    def is_heard_regularly(self) -> bool:
        """Whether the client has promised to say something now and then."""

    @property
    def owes(self) -> bool:
        """Whether the client has something that others wait for."""

    def show_life(self) -> None:
        """Send the client something that says nothing, unless it reads nothing."""

    def end(self, reason: str) -> None:
        """Close it now."""


class PeerWatch:
    """Looks at connections as long as it is not stopped.

    Args:
        loop: tells the time.
        options: what a client may do.
        connections: all there are.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, options: BrokerOptions, connections: Iterable[Watched]) -> None:
        self._loop = loop
        self._options = options
        self._connections = connections
        self._period_s = min(_PERIOD_S, options.peer_timeout_s / 6 or _PERIOD_S)
        self._timer = loop.call_later(self._period_s, self._look)

    def stop(self) -> None:
        """Look no more."""
        self._timer.cancel()

    def _look(self) -> None:
        self._look_on(iter(list(self._connections)))

    def _look_on(self, connections: Iterator[Watched]) -> None:
        for _ in range(_SLICE):
            connection = next(connections, None)
            if connection is None:
                self._timer = self._loop.call_later(self._period_s, self._look)
                return
            if not connection.is_closing:
                self._look_at(connection)
        self._timer = self._loop.call_later(0, self._look_on, connections)

    def _look_at(self, connection: Watched) -> None:
        try:
            info = tcp_info(connection.socket)
            if info is not None:
                self._judge(connection, info)
        except OSError as error:
            log.debug("connection cannot be looked at peer=%s error=%r", connection.peer, error)

    def _judge(self, connection: Watched, info: TcpInfo) -> None:
        now_s, options = self._loop.time(), self._options
        if info.is_closed:  # and nobody reads or writes it, or it would be known
            connection.end("it does not answer")
        elif (
            options.silence_max_s
            and info.silent_ms >= options.silence_max_s * 1000
            and not connection.is_heard_regularly
            and connection.owes
        ):
            connection.end(f"it has messages and has been silent for {info.silent_ms / 1000:.0f} s")
        elif options.write_timeout_s and connection.stall.seconds(info, now_s) >= options.write_timeout_s:
            connection.end(f"it has taken nothing for {connection.stall.seconds(info, now_s):.0f} s")
        elif options.peer_timeout_s:
            self._move_on(connection, info, now_s)

    def _move_on(self, connection: Watched, info: TcpInfo, now_s: float) -> None:
        """Give a client more time that reads nothing and answers."""
        stall, timeout_s = connection.stall, self._options.peer_timeout_s
        if not info.is_window_closed:
            if stall.closed_since_s is not None:
                stall.closed_since_s = None
                set_user_timeout(connection.socket, timeout_s)
        else:
            if stall.closed_since_s is None:
                stall.closed_since_s = now_s
            if info.unanswered_ms < timeout_s * 1000 * _ANSWERED:
                set_user_timeout(connection.socket, now_s - stall.closed_since_s + timeout_s * _MOVED_ON)


def probe(
    loop: asyncio.AbstractEventLoop, connection: Watched, options: BrokerOptions, told: Callable[[bool], object]
) -> None:
    """Find out whether the machine at the other end answers, now.

    It acknowledges what it is sent, within some 40 ms beside the way there and back. Where nothing can be sent, TCP
    asks it after a second.

    Args:
        loop: tells the time.
        connection: to a client that says nothing.
        options: how long to wait, and what TCP is told again afterwards.
        told: called once, with False if nobody answers within `BrokerOptions.probe_timeout_s`, or if the connection
            ends meanwhile. Where the system does not tell it is True.
    """
    started_s = last_s = loop.time()
    waited_s = 0.0
    asked = connection.socket
    acknowledged_bytes = sys.maxsize

    def decide(lives: bool) -> None:
        if not connection.is_closing:  # uvloop's sockets raise ValueError when they are closed
            with suppress(OSError):  # TCP has given it up, and it needs no options
                set_keep_alive(asked, options)
        told(lives)

    def look() -> None:
        nonlocal last_s, waited_s
        now_s = loop.time()
        waited_s += min(now_s - last_s, _PROBE_COUNTS_S)
        last_s = now_s
        if connection.is_closing:
            decide(False)
            return
        try:
            info = tcp_info(asked)
        except OSError:
            decide(False)
            return
        if (
            info is None
            or info.acknowledged_bytes > acknowledged_bytes
            or info.unanswered_ms + _TICK_MS < (now_s - started_s) * 1000
        ):
            decide(True)
        elif info.is_closed or waited_s >= options.probe_timeout_s:
            decide(info.is_window_closed and not info.is_closed)  # it is asked too rarely to say
        else:
            loop.call_later(_PROBE_LOOK_S, look)

    if not connection.is_closing:
        with suppress(OSError):  # look() says so
            asked.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            set_keep_alive_times(asked, 1, 1)
            if (before := tcp_info(asked)) is not None:
                acknowledged_bytes = before.acknowledged_bytes
            connection.show_life()
    loop.call_later(_PROBE_LOOK_S, look)
