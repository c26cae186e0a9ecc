"""TLS between a socket and a `Connection`: below it bytes of the network, above it those of the client.

OpenSSL works in memory here and never sees the socket, so it is the same on every event loop, a full socket is told to
the connection exactly as without TLS, and a handshake that fails has one place that says why.

A client costs a handshake before it has said who it is, and `Handshakes` bounds that: so many at the same time, and
none for long. Who waits for its turn costs a socket.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from itertools import chain
from typing import Any, Final, cast

from jdbcstore.transport.seats import Seats
from jdbcstore.transport.tls import ServerTls

__all__ = ["Handshakes", "TlsTransport"]

log = logging.getLogger(__name__)

#: What is read of a connection at a time; a record of TLS has at most 16 KiB.
_READ_BYTES: Final = 1 << 18
#: What is encrypted at a time.
_WRITE_BYTES: Final = 1 << 18
#: What every connection that speaks TLS begins with: a record with a handshake.
_HANDSHAKE_RECORD: Final = 0x16
#: How long a handshake may take while others wait for their turn.
_PATIENCE_S: Final = 2.0
_LOOK_S: Final = 0.5


class Handshakes:
    """Those who have not agreed on keys yet.

    Args:
        loop: tells the time.
        tls: has the limits, and the context for each.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, tls: ServerTls) -> None:
        self._loop = loop
        self._tls = tls
        #: With the time of their beginning, the oldest first.
        self._running: dict[TlsTransport, float] = {}
        #: By address: each of them has its turn, or one that opens thousands would keep all others out.
        self._waiting: dict[str, deque[TlsTransport]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._is_over = False

    def enter(self, transport: TlsTransport) -> None:
        """Let a client begin, or wait until another one has ended."""
        if self._is_over:
            transport.abort()  # accepted in the moment of the end
        elif len(self._running) < self._tls.options.handshakes_max:
            self._begin(transport)
        else:
            self._waiting.setdefault(transport.address, deque()).append(transport)

    def leave(self, transport: TlsTransport) -> None:
        """A handshake has ended, well or not."""
        if self._running.pop(transport, None) is not None:
            self._loop.call_soon(self._fill)
        elif transport in (waiting := self._waiting.get(transport.address, ())):
            self._put_back(transport.address, deque(other for other in waiting if other is not transport))

    def abort(self) -> None:
        """End them all, and whoever comes."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        for transport in (*chain.from_iterable(self._waiting.values()), *self._running):
            transport.abort()

    def _fill(self) -> None:
        while self._waiting and len(self._running) < self._tls.options.handshakes_max:
            address = next(iter(self._waiting))
            waiting = self._waiting.pop(address)
            self._begin(waiting.popleft())
            self._put_back(address, waiting)  # behind all others

    def _put_back(self, address: str, waiting: deque[TlsTransport]) -> None:
        if waiting:
            self._waiting[address] = waiting
        else:
            self._waiting.pop(address, None)

    def _begin(self, transport: TlsTransport) -> None:
        self._running[transport] = self._loop.time()
        transport.begin(self._tls.context)
        if self._timer is None:
            self._timer = self._loop.call_later(_LOOK_S, self._look)

    def _look(self) -> None:
        """End what takes too long."""
        now_s = self._loop.time()
        timeout_s = self._tls.options.handshake_timeout_s
        room_for = sum(map(len, self._waiting.values()))
        for transport, started_s in list(self._running.items()):
            took_s = now_s - started_s
            if took_s < min(timeout_s, _PATIENCE_S):
                break
            if took_s >= timeout_s or room_for > 0:
                room_for -= 1
                transport.fail(f"no end after {took_s:.1f} s")
        self._timer = self._loop.call_later(_LOOK_S, self._look) if self._running else None


class TlsTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of a socket, and the transport of the connection above it.

    Args:
        connection: told of nothing before the handshake is done.
        handshakes: where to wait.
        seats: it has one until the handshake is done.
    """

    def __init__(self, connection: asyncio.Protocol, handshakes: Handshakes, seats: Seats) -> None:
        super().__init__()
        self._connection = connection
        self._handshakes = handshakes
        self._seats = seats
        self._is_seated = False
        self._socket: asyncio.Transport
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls: ssl.SSLObject | None = None
        #: OpenSSL does not tell it any more after an error, and what came before that may ask for it.
        self._peer_certificate: Mapping[str, Any] | None = None
        self.peer = "?"
        self._has_heard = self._is_open = self._is_full = self._is_silent = self._has_failed = False

    # -- the socket's side -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there, and has to agree on keys first."""
        self._socket = cast("asyncio.Transport", transport)
        self._socket.set_write_buffer_limits(high=0)
        self.peer = peer_name(transport)
        self._is_seated = True
        if self._seats.take(self.address):
            self._handshakes.enter(self)
        else:
            log.warning("connections_max or connections_per_address_max is reached, closing peer=%s", self.peer)
            self._socket.abort()

    def begin(self, context: ssl.SSLContext) -> None:
        """It is its turn."""
        if self._socket.is_closing():
            return  # it does not wait any more, and `connection_lost` is about to say so
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket.resume_reading()
        if self._incoming.pending:
            self._shake_hands(self._tls)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._is_open and self._tls is not None:
            if not self._is_silent:
                self._incoming.write(data)
                self._read(self._tls)
            return
        if not self._has_heard:
            self._has_heard = True
            if data[0] != _HANDSHAKE_RECORD:
                self.fail("the client does not speak TLS, and this port does nothing else")
                return
        self._incoming.write(data)
        if self._tls is None:
            self._socket.pause_reading()  # until it is its turn
        else:
            self._shake_hands(self._tls)

    def eof_received(self) -> bool | None:
        """The client says nothing more; during the handshake that closes the socket."""
        return self._hear_no_more() if self._is_open else None

    def pause_writing(self) -> None:
        """The socket is full."""
        self._is_full = True
        if self._is_open:
            self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Everything has left."""
        self._is_full = False
        if self._is_open:
            self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        self._leave_seat()
        if self._is_open:
            self._connection.connection_lost(error)
        else:
            self._handshakes.leave(self)
        del self._connection  # they know each other, and would wait for the garbage collector

    @property
    def address(self) -> str:
        """Where the client is, without its port."""
        return self.peer.rpartition(":")[0]

    # -- the handshake -------------------------------------------------------------------------------------------

    def _shake_hands(self, tls: ssl.SSLObject) -> None:
        try:
            tls.do_handshake()
        except ssl.SSLWantReadError:
            self._flush()
        except ssl.SSLError as error:
            self._flush()  # which tells the client why
            self.fail(_reason(error))
        else:
            self._flush()
            self._is_open = True
            self._peer_certificate = tls.getpeercert()
            self._handshakes.leave(self)
            self._leave_seat()  # the connection takes one
            self._connection.connection_made(self)
            if self._is_full:
                self._connection.pause_writing()
            self._read(tls)

    def fail(self, reason: str) -> None:
        """End a handshake, and say why."""
        log.warning("TLS handshake failed peer=%s reason=%r", self.peer, reason)
        self._handshakes.leave(self)
        self._socket.close()

    def _leave_seat(self) -> None:
        if self._is_seated:
            self._is_seated = False
            self._seats.leave(self.address)

    def _read(self, tls: ssl.SSLObject) -> None:
        """Give the connection what came for it."""
        found: list[bytes] = []
        is_over = False
        try:
            while True:
                data = tls.read(_READ_BYTES)
                if not data:
                    is_over = True
                    break
                found.append(data)
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            log.info("TLS failed, closing peer=%s reason=%r", self.peer, _reason(error))
            is_over = self._has_failed = True
        if found:
            self._connection.data_received(found[0] if len(found) == 1 else b"".join(found))
        if self._outgoing.pending:
            self._flush()
        if self._has_failed and self.get_write_buffer_size():
            self.abort()  # it could do nothing with that, and may never take it
        elif self._has_failed or (is_over and not self._hear_no_more()):
            self.close()

    def _hear_no_more(self) -> bool | None:
        """The client has said goodbye, or closed its side of the socket; whether the connection closes the other."""
        if self._is_silent:
            return True
        self._is_silent = True
        return self._connection.eof_received()

    def _flush(self) -> None:
        if self._outgoing.pending and not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    # -- the connection's side -----------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known about the socket, and ``ssl_object`` and ``peercert``."""
        known = {"ssl_object": self._tls, "peercert": self._peer_certificate}
        return known[name] if name in known else self._socket.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Go on with another connection above."""
        self._connection = cast("asyncio.Protocol", protocol)

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The connection above."""
        return self._connection

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes, later if the socket is full. After an error of TLS nothing can be sent."""
        if self._tls is None or self._has_failed or self._socket.is_closing():
            return
        view = memoryview(data)
        sent = 0
        while sent < len(view):
            sent += self._tls.write(view[sent : sent + _WRITE_BYTES])
            if self._outgoing.pending >= _WRITE_BYTES:
                self._flush()
        self._flush()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """They are the socket's, set already."""

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the socket."""
        return self._socket.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Do not read for now."""
        self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._socket.resume_reading()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._socket.is_closing()

    def close(self) -> None:
        """Say goodbye, and close when everything is sent. The client's goodbye is not waited for."""
        if not self._socket.is_closing():
            if self._tls is not None and self._is_open:
                with suppress(ssl.SSLError):  # it wants to read that goodbye
                    self._tls.unwrap()
            self._flush()
            self._socket.close()

    def abort(self) -> None:
        """Close now."""
        self._socket.abort()


def peer_name(transport: asyncio.BaseTransport) -> str:
    """Who is at the other end of a socket, for log lines."""
    peer = transport.get_extra_info("peername")
    return f"{peer[0]}:{peer[1]}" if isinstance(peer, tuple) else str(peer)


def _reason(error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the client's certificate is refused: {error.verify_message}"
    return _REASONS.get(error.reason or "", (error.reason or str(error)).lower().replace("_", " "))


_REASONS: Final = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "the client has no certificate, and needs one",
    "UNSUPPORTED_PROTOCOL": "the client's version of TLS is too old",
    "NO_SHARED_CIPHER": "the client has no cipher in common with tls.ciphers",
    "TLSV1_ALERT_UNKNOWN_CA": "the client does not trust the broker's certificate",
    "SSLV3_ALERT_BAD_CERTIFICATE": "the client does not take the broker's certificate",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": "the client does not take the broker's certificate",
}
