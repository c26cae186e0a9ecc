"""One STOMP connection, server side: which frame is allowed when, and what it must contain.

What the client may say depends on one of four states. A connection starts in EXPECTING_CONNECT, and the table at the
end of this file says for each state what each command does there::

                        CONNECT, STOMP        DISCONNECT         any other command      unknown, malformed, over a limit
    EXPECTING_CONNECT   → CONNECTED           ✗ Not connected.   ✗ Not connected.       → CLOSED
    CONNECTED           ✗ Already connected.  → DISCONNECTING    event                  → CLOSED
    DISCONNECTING       ignored               ignored            ignored                ignored
    CLOSED              ignored               ignored            ignored                ignored

    ✗  an ERROR frame is queued, with receipt-id if a receipt was asked for, and the connection goes on: unlike the
       specification, ActiveMQ closes only after fatal errors, and clients count on that
    →  the event (or the fatal ERROR) is given out and the state changes

Two verbs of the broker change the state, too: ``finish_disconnect`` (DISCONNECTING → CLOSED) and ``send_error`` with
``fatal=True`` (→ CLOSED).

These states run ahead of the broker: one chunk may hold CONNECT, a SEND and DISCONNECT, and the state is DISCONNECTING
when the broker gets to see the Connect event. So it is kept apart whether the broker has let the client in. Until it
calls ``send_connected``, only that and ``send_error`` may be said; anything else is a mistake of the broker and raises
RuntimeError. And the broker must take the events in order, and none that follows a Connect it has refused.

Talking to a connection that is CLOSED is ordinary (a receipt comes back from the disk when the client is long gone), so
verbs are then ignored; `send_message` says so, because a message that was not sent must be kept.

The shell around it::

    for event in connection.receive_data(data):
        …                                       # calls send_… sooner or later
    write(connection.data_to_send())
    if connection.close_expected:
        close()
"""

from __future__ import annotations

import re
import sys
from collections.abc import Mapping
from enum import Enum
from typing import Final

from jdbcstore.errors import ProtocolError
from jdbcstore.stomp import commands
from jdbcstore.stomp.dialect import dialect_of
from jdbcstore.stomp.events import Acks, Connect, Disconnect, Event
from jdbcstore.stomp.frames import COMMANDS, DEFAULT_LIMITS, FRAME_END, NUL, FrameParser, Limits, counted

__all__ = ["State", "StompConnection"]


class State(Enum):
    """Where a connection stands; see the table in the module's docstring."""

    EXPECTING_CONNECT = "expecting connect"
    CONNECTED = "connected"
    DISCONNECTING = "disconnecting"
    CLOSED = "closed"


_TURNING_POINTS: Final = frozenset({Connect, Disconnect})

_DEAF: Final = frozenset({State.DISCONNECTING, State.CLOSED})

#: A value that no version escapes.
_is_plain: Final = re.compile(r"[\w.-]*", re.ASCII).fullmatch


class StompConnection:
    """Bytes in, events out; verbs in, bytes out.

    Args:
        limits: what a frame may measure.

    Attributes:
        version: negotiated version, ``1.0`` until CONNECT.
        state: see `State`.
        has_more: whether `receive_data` stopped before it had read everything.
    """

    __slots__ = (
        "_awaits_answer",
        "_dialect",
        "_disconnect_receipt",
        "_held",
        "_is_let_in",
        "_is_listening",
        "_may_talk",
        "_output",
        "_parser",
        "_readers",
        "_reply_to_connect",
        "_takes_acks",
        "has_more",
        "state",
        "version",
    )

    def __init__(self, limits: Limits = DEFAULT_LIMITS) -> None:
        self.version = "1.0"
        self._dialect = dialect_of(self.version)
        self._parser = FrameParser(limits)
        self._output: list[bytes] = []
        self._held: list[bytes] = []  # what must not overtake CONNECTED
        self._awaits_answer = False  # a Connect event is out, and neither let in nor refused
        self._is_let_in = False
        self._reply_to_connect: dict[str, str] = {}
        self._disconnect_receipt: str | None = None
        self.has_more = False
        self._enter(State.EXPECTING_CONNECT)

    def _enter(self, state: State) -> None:
        self.state = state
        self._is_listening = state not in _DEAF
        self._may_talk = self._is_let_in and state is not State.CLOSED
        self._takes_acks = state is State.CONNECTED and self.version == "1.2"
        self._readers = TABLE[state]

    # --- the socket's side

    @property
    def close_expected(self) -> bool:
        """Whether to close the socket once `data_to_send` has been written."""
        return self.state is State.CLOSED

    @property
    def held_bytes(self) -> int:
        """Bytes from the client that have not become an event yet."""
        return self._parser.held_bytes

    @property
    def missing_bytes(self) -> int:
        """Bytes that the client has announced for the body of an unfinished frame, and has not sent."""
        return self._parser.missing_bytes

    def forget_data(self) -> None:
        """The client is gone: let go of what it has sent and nobody has looked at."""
        self._parser.clear()
        self.has_more = False

    def receive_data(self, data: bytes, frames_max: int = sys.maxsize) -> list[Event]:
        """Take bytes from the client.

        Args:
            data: as it came from the socket; any chunking. LFs between frames are fine.
            frames_max: how many frames to read; if there may be more, `has_more` is true, and they are read by the next
                call, whose data may be empty. A run of short ACKs counts as one, and is one event.

        Returns:
            What the client asked for, in order. Errors of the client are answered here already: look at
            `data_to_send` and `close_expected` afterwards.
        """
        events: list[Event] = []
        parser = self._parser
        if self._is_listening:
            parser.feed(data)
        self.has_more = self._is_listening
        for _ in range(frames_max):
            if not self._is_listening:
                self.has_more = False
                break
            if self._takes_acks and (ids := parser.next_acks()):
                events.append(Acks(ids))
                continue
            try:
                frame = parser.next_frame()
                if frame is None:
                    self.has_more = False
                    break
                event = self._readers[frame.command](frame.headers, frame.body, self.version)
                events.append(event)
                if event.__class__ in _TURNING_POINTS:
                    self._turn(event)
            except ProtocolError as error:
                advice = error.advice if isinstance(error, commands.Refusal) else None
                self.send_error(str(error), advice, parser.headers.get("receipt"), fatal=error.fatal)
        return events

    @property
    def has_output(self) -> bool:
        """Whether `data_to_send` has anything."""
        return bool(self._output)

    def data_to_send(self) -> bytes:
        """Everything that waits to be written, once; empty when there is nothing."""
        data = b"".join(self._output)
        self._output.clear()
        return data

    # --- the broker's side

    def send_connected(
        self, server: str, session: str, heart_beat: tuple[int, int], version: str | None = None
    ) -> None:
        """Let the client in: answer its CONNECT with CONNECTED.

        Args:
            server: name and version of the broker, ``jdbcstore/1.0``.
            session: the client id, or a generated one.
            heart_beat: (send_ms, expect_ms) as `jdbcstore.stomp.negotiate` returned it.
            version: the negotiated one unless given.

        Raises:
            RuntimeError: no CONNECT is waiting for an answer.
        """
        if self._is_over():
            return
        if not self._awaits_answer:
            raise RuntimeError("send_connected answers a CONNECT, and none is waiting")
        headers = {
            "server": server,
            "heart-beat": f"{heart_beat[0]},{heart_beat[1]}",
            "session": session,
            **self._reply_to_connect,
            "version": version or self.version,
        }
        # CONNECTED is never escaped: the client learns the version only from reading it.
        self._output += (dialect_of("1.0").encode_head("CONNECTED", headers), FRAME_END)
        self._output += self._held
        self._held.clear()
        self._awaits_answer = False
        self._is_let_in = self._may_talk = True

    def send_receipt(self, receipt_id: str) -> None:
        """Tell the client that its request took effect.

        Args:
            receipt_id: the event's ``receipt``.

        Raises:
            RuntimeError: before `send_connected`.
        """
        if not self._may_talk:
            if self._is_over():
                return
            self._require_let_in("send_receipt")
        if _is_plain(receipt_id):
            self._output.append(b"RECEIPT\nreceipt-id:%s\n\n%s" % (receipt_id.encode(), FRAME_END))
        else:
            self._output += (self._dialect.encode_head("RECEIPT", {"receipt-id": receipt_id}), FRAME_END)

    def header_lines(self, headers: Mapping[str, str]) -> bytes:
        """Headers that several messages have in common, encoded for `send_message` in the way of this connection."""
        return self._dialect.encode_lines(headers)

    def send_message(
        self, headers: Mapping[str, str], body: bytes, more: bytes = b"", *, has_length: bool = False
    ) -> bool:
        """Deliver a message.

        Args:
            headers: unescaped, in the order to be sent. A ``content-length`` among them is corrected.
            body: the bytes to send.
            more: lines that follow the headers, as `header_lines` makes them; ``content-length`` is not among them.
            has_length: whether to tell the ``content-length``: for bodies that are bytes and not for text, by which
                clients tell the two apart. A body that contains NUL gets it in any case.

        Returns:
            Whether it was queued. False when the client has said DISCONNECT or the connection has ended: it will not
            see the message.

        Raises:
            RuntimeError: before `send_connected`.
        """
        if not self._is_listening:
            return False
        if not self._may_talk:
            self._require_let_in("send_message")
        if "content-length" in headers:
            headers = counted(headers, body)
        elif has_length or NUL in body:
            more = b"content-length:%d\n%s" % (len(body), more)
        head = self._dialect.encode_head("MESSAGE", headers, more) if headers else b"MESSAGE\n%s\n" % more
        self._output += (head, body, FRAME_END)
        return True

    def send_error(
        self, message: str, body: str | None = None, receipt_id: str | None = None, *, fatal: bool = False
    ) -> None:
        """Tell the client that something was wrong. The connection goes on unless it is fatal.

        Args:
            message: short, for the ``message`` header.
            body: a sentence that helps, the message again if there is none.
            receipt_id: the ``receipt`` of the request that failed, if it had one.
            fatal: → CLOSED: nothing is sent after this ERROR.
        """
        if self._is_over():
            return
        headers = {"content-type": "text/plain"}
        if receipt_id is not None:
            headers["receipt-id"] = receipt_id
        headers["message"] = message
        text = (message if body is None else body).encode("utf-8", "replace").replace(b"\0", b"\xef\xbf\xbd")
        output = self._held if self._awaits_answer and not fatal else self._output
        output += (self._dialect.encode_head("ERROR", headers), text, FRAME_END)
        if fatal:
            self._enter(State.CLOSED)
            self._parser.clear()

    def finish_disconnect(self) -> None:
        """Everything before DISCONNECT has taken effect: RECEIPT if the client wants one, and → CLOSED.

        Raises:
            RuntimeError: the client did not say DISCONNECT.
        """
        if self._is_over():
            return
        if self.state is not State.DISCONNECTING:
            raise RuntimeError(f"finish_disconnect answers a DISCONNECT, but the connection is {self.state.value}")
        self._require_let_in("finish_disconnect")
        if self._disconnect_receipt is not None:
            headers = {"receipt-id": self._disconnect_receipt}
            self._output += (self._dialect.encode_head("RECEIPT", headers), FRAME_END)
        self._enter(State.CLOSED)

    def send_heart_beat(self) -> None:
        """Write a lone LF: we are alive.

        Raises:
            RuntimeError: before `send_connected`.
        """
        if self._is_over():
            return
        self._require_let_in("send_heart_beat")
        self._output.append(b"\n")

    def _turn(self, event: Event) -> None:
        """An event that changes the state."""
        if isinstance(event, Connect):
            echo = event.headers.get("request-id", event.receipt)
            if echo is not None:
                self._reply_to_connect = {"response-id": echo, "receipt-id": echo}
            self.version = event.version
            self._dialect = dialect_of(event.version)
            self._parser.speak(event.version)
            self._awaits_answer = True
            self._enter(State.CONNECTED)
        elif isinstance(event, Disconnect):
            self._disconnect_receipt = event.receipt
            self._enter(State.DISCONNECTING)

    def _is_over(self) -> bool:
        return self.state is State.CLOSED

    def _require_let_in(self, verb: str) -> None:
        if not self._is_let_in:
            raise RuntimeError(f"{verb} before send_connected")


# --- the table of the module's docstring ------------------------------------------------------------------------------

_WHEN_UNCONNECTED: Final[Mapping[str, commands.Reader]] = {
    **dict.fromkeys(COMMANDS, commands.refuse_unconnected),
    "CONNECT": commands.read_connect,
    "STOMP": commands.read_connect,
}

_WHEN_CONNECTED: Final[Mapping[str, commands.Reader]] = {
    "CONNECT": commands.refuse_connected,
    "STOMP": commands.refuse_connected,
    "SEND": commands.read_send,
    "SUBSCRIBE": commands.read_subscribe,
    "UNSUBSCRIBE": commands.read_unsubscribe,
    "ACK": commands.read_ack,
    "NACK": commands.read_nack,
    "BEGIN": commands.read_begin,
    "COMMIT": commands.read_commit,
    "ABORT": commands.read_abort,
    "DISCONNECT": commands.read_disconnect,
}

#: State → command → who reads the frame. The deaf states read nothing.
TABLE: Final[Mapping[State, Mapping[str, commands.Reader]]] = {
    State.EXPECTING_CONNECT: _WHEN_UNCONNECTED,
    State.CONNECTED: _WHEN_CONNECTED,
    State.DISCONNECTING: {},
    State.CLOSED: {},
}
