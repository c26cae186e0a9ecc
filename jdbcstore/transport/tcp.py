"""What the operating system knows of a connection whose client says nothing, and what it is told to do about it.

A client whose machine is gone closes nothing. Only TCP can tell, in one of three ways:

* The connection is idle: after some seconds TCP asks the other side (*keep-alive*), and again if there is no answer.
* Something was sent and is not acknowledged: TCP sends it again and again, for a quarter of an hour unless it is told
  how long to try (`TCP_USER_TIMEOUT`).
* The client reads nothing and its window is closed. TCP asks now and then whether it is open again. **A client that is
  busy answers that, and lives.** But the user timeout ends its connection all the same, since Linux 5.11, however often
  it answers. So whoever answers has its timeout moved on: `PeerWatch` does that.

All three know the client's machine, not the client: a process that hangs answers. That is what heart-beats are for, and
`BrokerOptions.silence_max_s` for clients without.
"""

from __future__ import annotations

import socket
import struct
import sys
from dataclasses import dataclass
from typing import Final, Protocol

from jdbcstore.broker.options import BrokerOptions

__all__ = ["LINGER_S", "Socket", "TcpInfo", "set_keep_alive", "set_user_timeout", "tcp_info"]

#: How long a client may take to read the last words of a connection that is being closed.
LINGER_S: Final = 5.0

_CLOSED: Final = 7
_INFO_BYTES: Final = 256
#: Of Linux' ``struct tcp_info``: state; unacknowledged segments; ms since data, and since any answer, came; bytes that
#: were acknowledged; bytes that were never sent. Those up to byte 148 are there since Linux 4.6.
_INFO: Final = struct.Struct("=B23xI24xII60xQ16xI")
_INFO_HAS: Final = _INFO.size


class Socket(Protocol):
    """What is needed of a socket; those of event loops have more."""

    def fileno(self) -> int:
        """Its descriptor."""

    def getsockopt(self, level: int, option: int, size: int, /) -> bytes:
        """Read an option."""

    def setsockopt(self, level: int, option: int, value: int, /) -> None:
        """Set an option."""


@dataclass(frozen=True, slots=True)
class TcpInfo:
    """The state of a connection.

    Args:
        is_closed: TCP has given it up.
        is_in_flight: something was sent and is not acknowledged yet.
        silent_ms: since the client's machine sent data.
        unanswered_ms: since it answered anything at all.
        acknowledged_bytes: what it has, since the beginning.
        unsent_bytes: what waits because its window is closed, or because too much is in flight.
    """

    is_closed: bool
    is_in_flight: bool
    silent_ms: int
    unanswered_ms: int
    acknowledged_bytes: int
    unsent_bytes: int

    @property
    def is_window_closed(self) -> bool:
        """Whether the client reads nothing, so that nothing can be sent."""
        return self.unsent_bytes > 0 and not self.is_in_flight


def tcp_info(connection: Socket) -> TcpInfo | None:
    """The state of a connection; None where the system does not tell. Raises OSError for a socket that is closed."""
    if sys.platform != "linux":
        return None
    data = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _INFO_BYTES)
    if len(data) < _INFO_HAS:
        return None
    state, in_flight, silent_ms, unanswered_ms, acknowledged, unsent = _INFO.unpack_from(data)
    return TcpInfo(state == _CLOSED, in_flight > 0, silent_ms, unanswered_ms, acknowledged, unsent)


def set_keep_alive(connection: Socket, options: BrokerOptions) -> None:
    """Let TCP find clients whose machine is gone. On a socket that listens it holds for those who come."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(options.keep_alive))
    if options.keep_alive:
        set_keep_alive_times(connection, options.keep_alive_idle_s, options.keep_alive_interval_s)
    set_user_timeout(connection, options.peer_timeout_s)


def set_keep_alive_times(connection: Socket, idle_s: int, interval_s: int) -> None:
    """When to ask for the first time, and when again."""
    idle = getattr(socket, "TCP_KEEPIDLE", getattr(socket, "TCP_KEEPALIVE", None))  # macOS has the other name
    if idle is not None:
        connection.setsockopt(socket.IPPROTO_TCP, idle, idle_s)
    if hasattr(socket, "TCP_KEEPINTVL"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, interval_s)


def set_user_timeout(connection: Socket, timeout_s: float) -> None:
    """How long TCP tries before it gives the client up."""
    if hasattr(socket, "TCP_USER_TIMEOUT"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(timeout_s * 1000))
