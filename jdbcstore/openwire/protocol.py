"""One OpenWire connection, broker side: bytes in, commands out, and which command is allowed when.

Both peers send WireFormatInfo first; `OpenWireConnection.start` gives the broker's. The table at the end of this file
says what the client may send in each state::

                             WireFormatInfo    ConnectionInfo   KeepAliveInfo   ShutdownInfo   other commands
    EXPECTING_WIRE_FORMAT    → EXPECTING_…     ✗                ✗               ✗              ✗
    EXPECTING_CONNECTION     ✗                 → CONNECTED      answered        → CLOSING      BrokerInfo, and those
                                                                                               that need no connection
    CONNECTED                ✗                 event            answered        → CLOSING      those of clients
    CLOSING, CLOSED          ignored

    ✗  → CLOSED, as after malformed bytes and frames above a limit: a ConnectionError is queued for the client, and the
       last event is a `Failure`

A KeepAliveInfo that wants a response gets one here and is never an event. `OpenWireConnection.send` writes what the
broker says. A response has the `correlation_id` of the command that it answers, which is that command's `command_id`.
Talking to a connection that is CLOSED is ordinary, and is ignored.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
from typing import Final, TypeAlias

from jdbcstore.errors import CodecError, ConfigurationError, ProtocolError
from jdbcstore.message import Message
from jdbcstore.openwire import commands as c
from jdbcstore.openwire.codec import STORE_VERSION
from jdbcstore.openwire.connection_codec import FRAME_BYTES_MAX, ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import MESSAGES
from jdbcstore.openwire.frames import FrameCutter
from jdbcstore.openwire.wire_format import WireFormat

__all__ = ["FIRST_FRAME_BYTES_MAX", "Command", "Event", "Failure", "OpenWireConnection", "State"]

#: The largest WireFormatInfo.
FIRST_FRAME_BYTES_MAX: Final = 64 * 1024

#: A command of either peer. Clients send messages as they are; brokers send them within MessageDispatch.
Command: TypeAlias = c.BaseCommand | c.WireFormatInfo | Message


class State(Enum):
    """Where a connection stands; see the table in the module's docstring."""

    EXPECTING_WIRE_FORMAT = "expecting WireFormatInfo"
    EXPECTING_CONNECTION = "expecting ConnectionInfo"
    CONNECTED = "connected"
    CLOSING = "closing"
    CLOSED = "closed"

    __hash__ = object.__hash__  # Enum's is a call of Python, and states are looked up for every command


@dataclass(frozen=True, slots=True)
class Failure:
    """The last event of a connection that broke the protocol."""

    error: ProtocolError


Event: TypeAlias = Command | Failure


@lru_cache(maxsize=16)
def _greeting(local: WireFormat) -> bytes:
    """The WireFormatInfo of a listener, which is the same for all its clients."""
    # Always loose, without the cache, whatever is agreed on.
    return ConnectionCodec(Encoding(local.version)).marshal(local.info())


class OpenWireConnection:
    """Bytes in, events out; commands in, bytes out.

    Args:
        local: what the broker can do. `WireFormat.max_frame_size` bounds what the client may send.

    Raises:
        ConfigurationError: frames without a size, which would be unbounded.

    Attributes:
        agreed: what both peers do; None until the client's WireFormatInfo.
        state: see `State`.
        has_more: whether `receive` stopped before it had read everything.
    """

    __slots__ = ("_codec", "_cutter", "_is_started", "_local", "_output", "agreed", "has_more", "state")

    def __init__(self, local: WireFormat) -> None:
        if local.size_prefix_disabled:
            raise ConfigurationError("frames without a size are not supported: size_prefix_disabled must be false")
        self._local = local
        self._codec = ConnectionCodec(Encoding(local.version))
        self._cutter = FrameCutter(FIRST_FRAME_BYTES_MAX)
        self._is_started = False
        self._output: list[bytes] = []
        self.agreed: WireFormat | None = None
        self.has_more = False
        self.state = State.EXPECTING_WIRE_FORMAT

    @property
    def close_expected(self) -> bool:
        """Whether to close the socket once everything has been written."""
        return self.state is State.CLOSED

    @property
    def held_bytes(self) -> int:
        """Bytes from the client that have not become an event yet."""
        return self._cutter.held_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes that the client has announced for an unfinished frame, and has not sent."""
        return self._cutter.missing_bytes

    @property
    def cached_bytes(self) -> int:
        """What the client's object cache takes in memory, roughly."""
        return self._codec.cached_bytes

    def start(self) -> bytes:
        """The broker's WireFormatInfo, which is the first thing to write.

        Raises:
            RuntimeError: it was asked for before.
        """
        if self._is_started:
            raise RuntimeError("the connection has been started")
        self._is_started = True
        return _greeting(self._local)

    def receive(self, data: bytes, frames_max: int = sys.maxsize) -> list[Event]:
        """Take bytes from the client.

        Args:
            data: as it came from the socket; any chunking.
            frames_max: how many frames to read; if there may be more, `has_more` is true, and they are read by the next
                call, whose data may be empty.

        Returns:
            The client's commands, in order. Look at `data_to_send` and `close_expected` afterwards.
        """
        events: list[Event] = []
        self.has_more = False
        if self.state in _DEAF:
            return events
        self._cutter.feed(data)
        self.has_more = True
        try:
            for _ in range(frames_max):
                frame = None if self.state in _DEAF else self._cutter.next_frame()
                if frame is None:
                    self.has_more = False
                    break
                self._command(self._codec.unmarshal(frame), events)
        except (ProtocolError, CodecError) as error:
            failure = ProtocolError(str(error), fatal=True)
            self._fail(failure)
            events.append(Failure(failure))
        if self.state in _DEAF:
            self.has_more = False
            self._cutter.clear()
        return events

    def data_to_send(self) -> bytes:
        """What `receive` answered by itself, once; empty when there is nothing."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    def send(self, command: Command) -> bytes:
        """Write a command.

        Args:
            command: what the broker says.

        Returns:
            The frame, to be written in the order in which frames were made; empty if the connection is closed.

        Raises:
            CodecError: a value does not fit its field, the version has no such command, or the frame is larger than the
                client takes.
            RuntimeError: the client's WireFormatInfo has not come, or the command is one that only clients send.
        """
        if self.state is State.CLOSED:
            return b""
        self._require_agreement()
        if type(command) not in _SENT_BY_BROKERS:
            raise RuntimeError(f"a broker sends no {type(command).__name__}")
        return self._bounded(self._codec.marshal(command))

    def send_stored(self, dispatch: c.MessageDispatch, frame: bytes, version: int = STORE_VERSION) -> bytes:
        """Dispatch a message as the store holds it; see `ConnectionCodec.marshal_stored`.

        Args:
            dispatch: without its message.
            frame: the stored message.
            version: wire version in which it is stored.

        Returns:
            As `send`.

        Raises:
            CodecError: as `send`; or the stored bytes are no message.
            RuntimeError: the client's WireFormatInfo has not come.
        """
        if self.state is State.CLOSED:
            return b""
        self._require_agreement()
        return self._bounded(self._codec.marshal_stored(dispatch, frame, version))

    def close(self) -> None:
        """→ CLOSED: nothing more is read or written."""
        self.state = State.CLOSED
        self._cutter.clear()
        self.has_more = False

    def _require_agreement(self) -> None:
        if self.agreed is None:
            raise RuntimeError("nothing can be sent before the client's WireFormatInfo")

    def _bounded(self, frame: bytes) -> bytes:
        # The cache holds what this frame carries, so the connection cannot go on without it.
        assert self.agreed is not None
        if 0 < self.agreed.max_frame_size < len(frame) - 4:
            self.close()
            raise CodecError(f"a frame of {len(frame) - 4} bytes, the client takes {self.agreed.max_frame_size}")
        return frame

    def _command(self, command: object, events: list[Event]) -> None:
        if command is None:
            return
        allowed = TABLE[self.state]
        if type(command) not in allowed:
            raise ProtocolError(f"{type(command).__name__} is not allowed: {self.state.value}", fatal=True)
        following = allowed[type(command)]
        if isinstance(command, c.WireFormatInfo):
            self._agree(WireFormat.of(command))
        if following is not None:
            self.state = following
            if following is State.CONNECTED:
                limit = self._local.max_frame_size
                self._cutter.size_max = min(limit, FRAME_BYTES_MAX) if limit > 0 else FRAME_BYTES_MAX
        if isinstance(command, c.KeepAliveInfo):
            if command.response_required:
                self._output.append(self._codec.marshal(c.KeepAliveInfo(command_id=command.command_id)))
            return
        assert isinstance(command, c.BaseCommand | c.WireFormatInfo | Message)
        events.append(command)

    def _agree(self, peer: WireFormat) -> None:
        agreed = self._local.agreed(peer)
        self.agreed = agreed
        self._codec = ConnectionCodec(agreed.encoding, agreed.cache_size)

    def _fail(self, error: ProtocolError) -> None:
        if self.agreed is not None:
            exception = c.Throwable(class_name="java.io.IOException", message=str(error))
            self._output.append(self._codec.marshal(c.ConnectionError(exception=exception)))
        self.close()


# --- the table of the module's docstring ------------------------------------------------------------------------------

_DEAF: Final = frozenset({State.CLOSING, State.CLOSED})

#: What needs no ConnectionInfo.
_UNCONNECTED: Final[Mapping[type, State | None]] = {
    c.KeepAliveInfo: None,
    c.BrokerInfo: None,
    c.BrokerSubscriptionInfo: None,
    c.ConnectionControl: None,
    c.ConnectionError: None,
    c.ControlCommand: None,
    c.FlushCommand: None,
    c.Response: None,
    c.ExceptionResponse: None,
    c.ShutdownInfo: State.CLOSING,
}

#: State → command of the client → the state that follows, None for the same.
TABLE: Final[Mapping[State, Mapping[type, State | None]]] = {
    State.EXPECTING_WIRE_FORMAT: {c.WireFormatInfo: State.EXPECTING_CONNECTION},
    State.EXPECTING_CONNECTION: {**_UNCONNECTED, c.ConnectionInfo: State.CONNECTED},
    State.CONNECTED: {
        **_UNCONNECTED,
        **dict.fromkeys(MESSAGES),
        c.ConnectionInfo: None,
        c.ConsumerControl: None,
        c.ConsumerInfo: None,
        c.DataArrayResponse: None,
        c.DataResponse: None,
        c.DestinationInfo: None,
        c.IntegerResponse: None,
        c.MessageAck: None,
        c.MessageDispatch: None,
        c.MessageDispatchNotification: None,
        c.MessagePull: None,
        c.ProducerAck: None,
        c.ProducerInfo: None,
        c.RemoveInfo: None,
        c.RemoveSubscriptionInfo: None,
        c.SessionInfo: None,
        c.TransactionInfo: None,
    },
    State.CLOSING: {},
    State.CLOSED: {},
}

_SENT_BY_BROKERS: Final = frozenset(
    {
        c.BrokerInfo,
        c.BrokerSubscriptionInfo,
        c.ConnectionControl,
        c.ConnectionError,
        c.ConsumerControl,
        c.ControlCommand,
        c.DataArrayResponse,
        c.DataResponse,
        c.ExceptionResponse,
        c.IntegerResponse,
        c.KeepAliveInfo,
        c.MessageDispatch,
        c.MessageDispatchNotification,
        c.ProducerAck,
        c.Response,
        c.ShutdownInfo,
    }
)
