"""STOMP over WebSocket, between a socket (or TLS) and a `Connection`: messages below, a stream of bytes above.

What a client sends is read as a stream, so a message may hold several STOMP frames or a part of one, in text or binary
messages, in fragments or not. Payloads are passed on as they arrive: what an unfinished message may hold in memory is
bounded by the limits of STOMP frames. In the other direction each frame is a message of its own, as from ActiveMQ:
text, unless the client itself speaks in binary messages, or the frame is no text.

The library is wsproto: without input and output, it fits below a connection as TLS does; it gives away payloads before
their frame is complete, where others collect a message first; and it stands on h11, which is here already. Compression
is not offered: a small message could become a very large one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, Final, cast

import h11
from wsproto import ConnectionType, WSConnection
from wsproto.connection import ConnectionState
from wsproto.events import (
    AcceptConnection,
    BytesMessage,
    CloseConnection,
    Event,
    Message,
    Ping,
    Pong,
    RejectConnection,
    RejectData,
    Request,
    TextMessage,
)
from wsproto.utilities import LocalProtocolError, RemoteProtocolError

from jdbcstore.stomp.frame_split import split_frames
from jdbcstore.transport.tcp import LINGER_S
from jdbcstore.transport.tls_transport import peer_name

__all__ = ["SUBPROTOCOLS", "Origins", "WebSocketTransport"]

log = logging.getLogger(__name__)

#: The best one first; ``stomp`` is what some old clients say.
SUBPROTOCOLS: Final = ("v12.stomp", "v11.stomp", "v10.stomp", "stomp")
_NORMAL: Final = 1000
_TLS_HANDSHAKE: Final = b"\x16\x03"


class Origins:
    """The pages whose scripts may connect.

    Args:
        text: origins such as ``https://example.org``, with commas or blanks between them; empty lets all connect.
    """

    def __init__(self, text: str) -> None:
        self._allowed = frozenset(text.lower().replace(",", " ").split())

    def allow(self, origin: str | None) -> bool:
        """Whether a client of this origin may connect. Those that are no browsers have none, and may."""
        return not self._allowed or origin is None or origin.lower() in self._allowed


class WebSocketTransport(asyncio.Transport, asyncio.Protocol):
    """The protocol of a socket, and the transport of the connection above it.

    Args:
        connection: it is there from the beginning, and hears of no bytes before the handshake is done.
        origins: who may connect.
    """

    def __init__(self, connection: asyncio.Protocol, origins: Origins) -> None:
        super().__init__()
        self._connection = connection
        self._origins = origins
        self._socket: asyncio.Transport
        self._websocket = WSConnection(ConnectionType.SERVER)
        self._is_first = True
        self._is_open = self._is_binary = self._is_silent = self._is_closing = self._is_full = False
        self._timer: asyncio.TimerHandle | None = None
        #: The last ping of a client that does not read its pongs.
        self._unanswered: Ping | None = None
        self.peer = "?"

    # -- the socket's side -----------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client is there."""
        self._socket = cast("asyncio.Transport", transport)
        self.peer = peer_name(transport)
        self._connection.connection_made(self)

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        if self._is_first:
            self._is_first = False
            if data.startswith(_TLS_HANDSHAKE):
                self._connection.data_received(data)  # which knows what to say
                return
        if self._socket.is_closing() or self._websocket.state is ConnectionState.CLOSED:
            return
        was_closing = self._is_closing
        try:
            self._websocket.receive_data(data)
            found = self._heard(self._websocket.events())
        except RemoteProtocolError as error:
            self._refuse(error.event_hint or RejectConnection(), str(error))
        except ValueError as error:  # a host or a path that is no text
            self._refuse(RejectConnection(), str(error))
        else:
            if found and not was_closing:  # what came together with the farewell was said before it
                self._connection.data_received(found[0] if len(found) == 1 else b"".join(found))

    def _heard(self, events: Iterable[Event]) -> list[bytes]:
        """Answer what is the WebSocket's own business; returns what is the connection's."""
        found: list[bytes] = []
        for event in events:
            if isinstance(event, TextMessage):
                self._is_binary = False
                found.append(event.data.encode())
            elif isinstance(event, BytesMessage):
                self._is_binary = True
                found.append(bytes(event.data))
            elif isinstance(event, Ping):
                self._pong(event)
            elif isinstance(event, CloseConnection):
                self._farewell(event)
            elif isinstance(event, Request):
                self._shake_hands(event)
        return found

    def eof_received(self) -> bool | None:
        """The client says nothing more, not even goodbye."""
        self._is_silent = True
        return None if self._is_closing else self._connection.eof_received()

    def pause_writing(self) -> None:
        """The socket is full."""
        self._is_full = True
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        """Everything has left."""
        self._is_full = False
        ping, self._unanswered = self._unanswered, None
        if ping is not None:
            self._pong(ping)
        if not (self._is_full or self._is_closing):
            self._connection.resume_writing()

    def connection_lost(self, error: Exception | None) -> None:
        """The client is gone."""
        if self._timer is not None:
            self._timer.cancel()
        self._connection.connection_lost(error)
        del self._connection  # they know each other, and would wait for the garbage collector

    # -- the handshake -------------------------------------------------------------------------------------------

    def _shake_hands(self, request: Request) -> None:
        origin = next((value.decode("latin-1") for name, value in request.extra_headers if name == b"origin"), None)
        if not self._origins.allow(origin):
            self._refuse(RejectConnection(status_code=403), f"scripts of {origin} may not connect (websocket_origins)")
            return
        spoken = next((name for name in SUBPROTOCOLS if name in request.subprotocols), None)
        if spoken is None and request.subprotocols:
            known = ", ".join(SUBPROTOCOLS)
            self._refuse(RejectConnection(), f"none of the sub-protocols is spoken here; there are {known}")
            return
        self._send(AcceptConnection(subprotocol=spoken))
        self._is_open = True

    def _refuse(self, answer: Event, reason: str) -> None:
        log.warning("WebSocket handshake refused peer=%s reason=%r", self.peer, reason)
        text = f"{reason}\n".encode()
        if isinstance(answer, RejectConnection):
            headers = [
                *answer.headers,
                (b"content-type", b"text/plain; charset=utf-8"),
                (b"content-length", str(len(text)).encode()),
                (b"connection", b"close"),
            ]
            with suppress(LocalProtocolError, h11.LocalProtocolError):  # what it said is not even HTTP
                self._send(RejectConnection(status_code=answer.status_code, headers=headers, has_body=True))
                self._send(RejectData(data=text))
        self._is_closing = True
        self._close_socket()

    def _farewell(self, event: CloseConnection) -> None:
        """The client closes, or it has broken the protocol, or it answers our own goodbye."""
        if not self._is_closing:
            log.debug("the client closes its WebSocket peer=%s code=%s reason=%r", self.peer, event.code, event.reason)
            self._is_closing = True
            with suppress(LocalProtocolError):
                self._send(CloseConnection(code=event.code, reason=event.reason))
        self._close_socket()

    def _close_socket(self) -> None:
        """Close when everything is sent, or when the client takes too long to read it."""
        self._timer = asyncio.get_running_loop().call_later(LINGER_S, self._socket.abort)
        self._socket.close()

    def _pong(self, ping: Ping) -> None:
        """Answer, or, if the client does not read, answer the last ping when it does."""
        if self._is_full:
            self._unanswered = ping
        elif self._websocket.state is ConnectionState.OPEN:
            self._send(Pong(payload=bytes(ping.payload)))

    def _send(self, event: Event) -> None:
        data = self._websocket.send(event)
        if data and not self._socket.is_closing():
            self._socket.write(data)

    # -- the connection's side -----------------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known about the socket."""
        return self._socket.get_extra_info(name, default)

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send STOMP frames, later if the socket is full; before the handshake is done they are for nobody."""
        if not self._is_open or self.is_closing():
            return
        messages = [self._websocket.send(self._message(frame)) for frame in split_frames(bytes(data))]
        self._socket.write(messages[0] if len(messages) == 1 else b"".join(messages))

    def _message(self, frame: bytes) -> Message[Any]:
        if not self._is_binary:
            with suppress(UnicodeDecodeError):
                return TextMessage(data=frame.decode())
        return BytesMessage(data=frame)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Those of the socket."""
        self._socket.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the socket."""
        return self._socket.get_write_buffer_size()

    def pause_reading(self) -> None:
        """Do not read for now."""
        if not self._is_closing:
            self._socket.pause_reading()

    def resume_reading(self) -> None:
        """Read again."""
        self._socket.resume_reading()

    def is_closing(self) -> bool:
        """Whether it is closed, or will be."""
        return self._is_closing or self._socket.is_closing()

    def close(self) -> None:
        """Say goodbye, and close when the client has answered, if it still can; who asks does not wait for ever."""
        if self.is_closing():
            return
        self._is_closing = True
        if self._is_open:
            self._send(CloseConnection(code=_NORMAL))
        if self._is_open and not self._is_silent:
            self._socket.resume_reading()  # for the answer; all else is for nobody
        else:
            self._close_socket()

    def abort(self) -> None:
        """Close now."""
        self._is_closing = True
        self._socket.abort()
