"""Which protocol a client speaks, by its first bytes: what ActiveMQ calls ``auto``.

Every STOMP connection begins with a line ``CONNECT`` or ``STOMP``, every OpenWire connection with a WireFormatInfo: its
size, its type 1, and the letters ``ActiveMQ``. Thirteen bytes tell in any case. A client that says less, or nothing, is
cut off after `BrokerOptions.connect_timeout_s`, as one that says no CONNECT is. It has a seat until then.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from typing import Final, cast

from jdbcstore.addresses import Protocol
from jdbcstore.transport.seats import Seats
from jdbcstore.transport.tls_transport import peer_name

__all__ = ["Detection", "Undecided", "detect"]

log = logging.getLogger(__name__)

_STOMP: Final = (b"CONNECT", b"STOMP")
#: Behind the size of a WireFormatInfo.
_OPENWIRE: Final = b"\x01ActiveMQ"
_SIZE_BYTES: Final = 4
_NEEDED_BYTES: Final = _SIZE_BYTES + len(_OPENWIRE)
#: A client that says nothing else may say so many of them.
_LINE_ENDS_MAX: Final = 1024
_TLS_HANDSHAKE: Final = b"\x16\x03"


def detect(data: bytes) -> Protocol | None:
    """The protocol of a connection that begins with these bytes; None if there are not enough of them.

    Raises:
        ValueError: they are the beginning of neither.
    """
    text = data.lstrip(b"\r\n")  # as between two frames
    if not text:
        return None
    for word in _STOMP:
        if text.startswith(word):
            return Protocol.STOMP
        if word.startswith(text):
            return None
    magic = data[_SIZE_BYTES:_NEEDED_BYTES]
    if not _OPENWIRE.startswith(magic):
        raise ValueError(data[:_NEEDED_BYTES])
    return Protocol.OPENWIRE if magic == _OPENWIRE else None


class Undecided:
    """Those of whom it is not known yet what they speak."""

    def __init__(self) -> None:
        self._all: set[Detection] = set()
        self._is_over = False

    def enter(self, detection: Detection) -> bool:
        """A client is there; False if that is in the moment of the end, and nobody would decide."""
        if not self._is_over:
            self._all.add(detection)
        return not self._is_over

    def leave(self, detection: Detection) -> None:
        """It is decided, or the client is gone."""
        self._all.discard(detection)

    def abort(self) -> None:
        """End them all, and whoever comes."""
        self._is_over = True
        for detection in list(self._all):
            detection.abort()


class Detection(asyncio.Protocol):
    """The protocol of a socket until it is known what its client speaks.

    Args:
        loop: tells the time.
        connections: by protocol, what makes the connection that goes on with the socket.
        seats: it has one.
        undecided: it is one of them until it is decided, and whoever ends the server ends it.
        timeout_s: how long that may take.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        connections: Mapping[Protocol, Callable[[], asyncio.Protocol]],
        seats: Seats,
        undecided: Undecided,
        timeout_s: float,
    ) -> None:
        self._loop = loop
        self._connections = connections
        self._seats = seats
        self._undecided = undecided
        self._timeout_s = timeout_s
        self._data = b""
        self._transport: asyncio.Transport
        self._timer: asyncio.TimerHandle | None = None
        self._is_seated = False
        self.peer = "?"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._transport = cast("asyncio.Transport", transport)
        self.peer = peer_name(transport)
        if not self._undecided.enter(self):
            self._transport.abort()
            return
        self._is_seated = True
        if not self._seats.take(self._address):
            self._end("there are as many clients as there may be (connections_max, connections_per_address_max)")
            return
        self._timer = self._loop.call_later(
            self._timeout_s, self._end, f"it has said nothing of use for {self._timeout_s:g} s"
        )

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._data = (self._data + data) if self._data else data
        if self._data.startswith(_TLS_HANDSHAKE):
            self._end("it speaks TLS, and this port does not")
            return
        try:
            protocol = detect(self._data)
        except ValueError as error:
            self._end(f"it speaks neither STOMP nor OpenWire, it begins with {error.args[0]!r}")
            return
        if protocol is not None:
            self._hand_over(self._connections[protocol]())
        elif len(self._data) > _LINE_ENDS_MAX:
            self._end("it sends nothing but line ends")

    def _hand_over(self, connection: asyncio.Protocol) -> None:
        self._leave()
        self._transport.set_protocol(connection)
        connection.connection_made(self._transport)
        connection.data_received(self._data)

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._leave()

    def abort(self) -> None:
        """Close now."""
        self._transport.abort()

    @property
    def _address(self) -> str:
        return self.peer.rpartition(":")[0]

    def _leave(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._undecided.leave(self)
        if self._is_seated:
            self._is_seated = False
            self._seats.leave(self._address)

    def _end(self, reason: str) -> None:
        log.warning("closing a connection peer=%s reason=%r", self.peer, reason)
        self._transport.abort()
