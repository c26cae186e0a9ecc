"""STOMP frames: cutting a stream of bytes into them, and writing them.

::

    SEND                        command line
    destination:/queue/A        header lines, name and value split at the first colon
    content-length:5
                                a blank line
    hello^@                     the body, and a NUL

Rules, as ActiveMQ has them:

- Blank lines between frames are heart-beats and mean nothing here; nor does a NUL there, which some clients write.
- Of a header that comes twice the first one counts.
- A body with ``content-length`` is counted and must be followed by NUL; any other ends at its first NUL. It counts in
  the frames that may have a body, SEND, MESSAGE and ERROR. In any other it means nothing: clients copy the headers of a
  MESSAGE into its ACK.
- Header lines are decoded in the way of the connection's version (`jdbcstore.stomp.dialect`); bodies stay bytes.
- A frame we write ends with NUL and LF.

Stricter than ActiveMQ, which would lose its way silently: a NUL among the headers is an error. The client forgot the
blank line, and its next frame would be eaten as a body.

**Cost.** Every byte is looked at and copied a constant number of times, however the stream is chunked. A frame that
lies within one chunk, which is nearly every frame, is cut out of it in one step and without another copy, and ACKs that
follow one another all together (`FrameParser.next_acks`). Of an unfinished head we remember where the search for its
end stopped; the body of an unfinished frame grows in place. What an unfinished frame can hold in memory is bounded by
`Limits`; how much it holds now is told by `FrameParser.held_bytes`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from jdbcstore.errors import ProtocolError
from jdbcstore.stomp.dialect import JAVA_BLANKS, UNCONNECTED, Dialect, dialect_of

__all__ = ["COMMANDS", "DEFAULT_LIMITS", "FRAME_END", "Frame", "FrameParser", "Limits", "counted", "serialise"]

#: What a client may say. Matched exactly: ActiveMQ matches prefixes, which no client relies on.
COMMANDS: Final = frozenset(
    ["CONNECT", "STOMP", "SEND", "SUBSCRIBE", "UNSUBSCRIBE", "ACK", "NACK", "BEGIN", "COMMIT", "ABORT", "DISCONNECT"]
)

#: What ends a frame on the wire, after the body.
FRAME_END: Final = b"\0\n"

# Looked for as numbers: CPython takes what it looks for in bytes for a number first, and raises an error if it is none.
#: What ends a frame's body.
NUL: Final = 0
_CR: Final = ord("\r")


@dataclass(frozen=True, slots=True)
class Limits:
    """What a frame may measure, in bytes unless it says otherwise. Exceeding one ends the connection."""

    command_line_bytes: int = 1024
    header_line_bytes: int = 10 * 1024
    headers_max: int = 1000
    """How many header lines a frame may have."""
    header_block_bytes: int = 1024 * 1024
    """The command line and all headers together."""
    body_bytes: int = 100 * 1024 * 1024
    unconnected_head_bytes: int = 16 * 1024
    unconnected_body_bytes: int = 16 * 1024
    """Of somebody who is not connected yet: strangers get a few KiB of memory."""


#: What ActiveMQ allows, and a bound on all headers together.
DEFAULT_LIMITS: Final = Limits()


@dataclass(slots=True)
class Frame:
    """A frame as it was read: command, decoded headers in order, body."""

    command: str
    headers: dict[str, str]
    body: bytes


def serialise(command: str, headers: Mapping[str, str], body: bytes = b"", version: str = "1.2") -> bytes:
    """A complete frame, NUL and LF included. Headers are escaped as the version wants it.

    A body that contains NUL gets a ``content-length``; one that is there already is corrected.
    """
    return dialect_of(version).encode_head(command, counted(headers, body)) + body + FRAME_END


def counted(headers: Mapping[str, str], body: bytes) -> Mapping[str, str]:
    """The headers with a true ``content-length`` if they have one or the body needs one.

    A message may carry a ``content-length`` as an ordinary property that a producer made up; sent as it is, it would
    make the consumer lose its place in the stream.
    """
    if "content-length" in headers or NUL in body:
        return {**headers, "content-length": str(len(body))}
    return headers


# --- parsing ----------------------------------------------------------------------------------------------------------

_find_head_end: Final = re.compile(rb"\n\r?\n").search
#: The longest end of a head, and one byte more, so that a head that is cut is too long.
_HEAD_END_BYTES: Final = 4
_find_frame_start: Final = re.compile(rb"[^\0 \t\r\n]").search

#: The shortest frame that says anything: a command, one header, no body. Long headers are not looked for twice.
_match_short: Final = re.compile(rb"[ \t\r\n]*+([A-Z]++)\n([^\0\r\n]{1,500}+)\n\n\0").match

#: ACKs of 1.2 that name a message, with nothing to unescape, and say nothing else; most of what a consumer sends. The
#: match ends before an id that is longer than any of ours: it must not be tried again, and in vain, for each ACK.
_ACK: Final = b"ACK\nid:"
_ACK_BYTES_MAX: Final = len(_ACK) + 200
_match_acks: Final = re.compile(rb"(?:ACK\nid:[^\0\r\n\\]{1,200}\n\n\0\n*){1,500}").match
_find_ack_ids: Final = re.compile(r"ACK\nid:([^\n]+)").findall

#: What no short frame begins with.
_SEND: Final = b"SEND"
#: Whose bodies may be counted.
_WITH_BODY: Final = frozenset(["SEND", "MESSAGE", "ERROR"])

_COMMAND_LINES: Final = {command.encode(): command for command in COMMANDS}

_UNTIL_NUL: Final = -1
#: A ``content-length`` of so many digits is none of a frame that comes in one piece.
_LENGTH_DIGITS: Final = 10

#: A decoded header beside its characters: two strings and their place in a dictionary.
_HEADER_BYTES: Final = 200


def _nul_in_head() -> ProtocolError:
    return ProtocolError(
        "A frame ended among its headers: write a blank line between the headers and the NUL", fatal=True
    )


class FrameParser:
    """Cuts the bytes of one connection into frames.

    Give it bytes with `feed`, then call `next_frame` until it returns None. After a ProtocolError, which is always
    fatal here, it cannot go on.

    Args:
        limits: what a frame may measure.
        commands: the command lines to accept, with their names; by default what clients say.

    Attributes:
        headers: of the frame that is being read or was read last, as far as they are known.
    """

    __slots__ = (
        "_body",
        "_body_bytes_max",
        "_body_limit",
        "_command",
        "_commands",
        "_data",
        "_decode_line",
        "_decode_once",
        "_drops_cr",
        "_head",
        "_head_bytes",
        "_head_bytes_max",
        "_head_limit",
        "_limits",
        "_missing",
        "_position",
        "_searched",
        "_short_head_bytes",
        "headers",
    )

    def __init__(self, limits: Limits = DEFAULT_LIMITS, commands: Mapping[bytes, str] = _COMMAND_LINES) -> None:
        self.headers: dict[str, str] = {}
        self._limits = limits
        # A head of this size can have no line that is too long, which saves measuring them.
        head_bytes_max = min(limits.header_block_bytes, limits.unconnected_head_bytes)
        short = min(limits.command_line_bytes, limits.header_line_bytes, head_bytes_max)
        self._short_head_bytes = short if limits.headers_max else 0
        self._commands = commands
        is_less = limits.unconnected_head_bytes <= limits.header_block_bytes
        head_limit = "unconnected_head_bytes" if is_less else "header_block_bytes"
        self._speak(UNCONNECTED, head_limit, "unconnected_body_bytes")
        self._data = b""  # the chunk being cut
        self._position = 0  # where in it the next unread byte is
        self._head = bytearray()  # start of a head whose end has not come yet; empty between frames
        self._searched = 0  # no head ends before this place in _head
        self._command = ""  # of a frame whose body has not come completely
        self._head_bytes = 0  # of that frame
        self._body = bytearray()  # start of that body
        self._missing = 0  # how much of it is missing, the NUL not counted, or _UNTIL_NUL

    def speak(self, version: str) -> None:
        """From the next frame on read headers as this version has them, and allow bodies of full size."""
        self._speak(dialect_of(version), "header_block_bytes", "body_bytes")

    def _speak(self, dialect: Dialect, head_limit: str, body_limit: str) -> None:
        self._decode_line = dialect.decode_line
        self._decode_once = dialect.decode_once
        self._drops_cr = dialect.drops_cr
        self._head_limit = head_limit
        self._head_bytes_max: int = getattr(self._limits, head_limit)
        self._body_limit = body_limit
        self._body_bytes_max: int = getattr(self._limits, body_limit)

    def feed(self, data: bytes) -> None:
        """Take the next bytes of the stream."""
        left = self._data[self._position :]
        self._data = left + data if left else data
        self._position = 0

    @property
    def held_bytes(self) -> int:
        """Bytes that are here and are no complete frame yet, or are not looked at yet."""
        head_bytes = self._head_bytes + _HEADER_BYTES * len(self.headers) if self._command else 0
        return len(self._data) - self._position + len(self._head) + head_bytes + len(self._body)

    @property
    def missing_bytes(self) -> int:
        """Bytes of a body that its ``content-length`` has announced and that have not come."""
        return max(self._missing - len(self._data) + self._position, 0) if self._command else 0

    def clear(self) -> None:
        """Nothing more is read: let go of what is here."""
        self._data, self._position, self._command = b"", 0, ""
        self._head, self._body = bytearray(), bytearray()

    def next_frame(self) -> Frame | None:
        """The next complete frame, or None when more bytes are needed.

        Raises:
            ProtocolError: the stream is not STOMP or exceeds a limit; fatal.
        """
        if not self._command:
            self.headers = {}  # an error in this head must not be blamed on the frame before
            if not self._head:
                if self._data.startswith(b"\n", self._position):
                    self._position += 1  # many write one behind each frame
                if self._position == len(self._data):
                    self._data, self._position = b"", 0
                    return None
                is_send = self._data.startswith(_SEND, self._position)
                frame = self._read_whole() if is_send else self._read_short() or self._read_whole()
                if frame is not None:
                    return frame
            if not self._read_head():
                return None
        body = self._read_body()
        if body is None:
            return None
        command, self._command = self._command, ""
        return Frame(command, self.headers, body)

    def next_acks(self) -> list[str]:
        """The ids of the ACKs that come next, of 1.2 and without a receipt; what is left is for `next_frame`."""
        data, position = self._data, self._position
        if not data.startswith(_ACK, position) or self._command or self._head:
            return []
        if self._short_head_bytes < _ACK_BYTES_MAX:
            return []  # perhaps too long, which is told there
        match = _match_acks(data, position)
        if match is None:
            return []
        self._position = match.end()
        ids: list[str] = _find_ack_ids(match[0].decode("utf-8", "replace"))
        return ids

    def _read_short(self) -> Frame | None:
        """A frame of one header and no body, if that is what comes next and all of it is there."""
        match = _match_short(self._data, self._position)
        if match is None or match.end() - match.start() > self._short_head_bytes:
            return None
        command_line, line = match.groups()
        command = self._commands.get(command_line)
        if command is None or line.startswith(b"content-length"):
            return None
        name, value = self._decode_once(line)
        self.headers = {name: value}
        self._position = match.end()
        return Frame(command, self.headers, b"")

    def _read_whole(self) -> Frame | None:
        """A frame that is here from beginning to end, if there is nothing unusual about it.

        None if there is, or if it may be so, and nothing has changed: `_read_head` and `_read_body` take it, and know
        all the rules. This is what nearly every SEND is, without their searches and calls.
        """
        data, position = self._data, self._position
        end = data.find(b"\n\n", position, position + self._short_head_bytes)
        if end < 0:
            return None
        head = data[position:end]
        if NUL in head or _CR in head:
            return None
        command_line, *lines = head.split(b"\n")
        command = self._commands.get(command_line)
        if command is None or len(lines) > self._limits.headers_max:
            return None
        headers = dict(map(self._decode_line, lines))
        if len(headers) < len(lines):
            return None
        begin = end + 2
        length = headers.get("content-length")
        if length is None or command not in _WITH_BODY:
            end = data.find(NUL, begin)
        elif length.isascii() and length.isdigit() and len(length) < _LENGTH_DIGITS:
            end = begin + int(length)
            if end >= len(data) or data[end]:
                return None
        else:
            return None
        if end < 0 or end - begin > self._body_bytes_max:
            return None
        self.headers = headers
        self._position = end + 1
        return Frame(command, headers, data[begin:end])

    # -- head

    def _read_head(self) -> bool:
        """Read up to the body; False when the head is incomplete."""
        data, position = self._data, self._position
        if self._head:
            self._head += data[position:]
            end = _find_head_end(self._head, self._searched)
            if end is None:
                return self._keep_head()
            data = self._data = bytes(self._head)
            self._head.clear()
            position = 0
        else:
            start = _find_frame_start(data, position)
            position = start.start() if start else len(data)
            # Strangers may send any number of bytes, of which no more are looked at than a head may have.
            looked_at = position + self._head_bytes_max + _HEAD_END_BYTES
            end = _find_head_end(data, position, looked_at)
            if end is None:
                self._head += data[position:looked_at]
                return self._keep_head()
        self._position = end.end()
        self._parse_head(data[position : end.start()])
        return True

    def _keep_head(self) -> bool:
        """Everything is in _head and that is not all of it: check what is certain already."""
        head, limits = self._head, self._limits
        self._data, self._position = b"", 0
        if head:
            if head.find(b"\0", self._searched) >= 0:
                raise _nul_in_head()
            line_bytes = len(head) - (head.rfind(b"\n") + 1)
            if line_bytes == len(head):
                self._check("command length", "command_line_bytes", line_bytes, limits.command_line_bytes)
            self._check("header length", "header_line_bytes", line_bytes, limits.header_line_bytes)
            # Its end may have come up to "\n\r", which does not count.
            self._searched = max(0, len(head) - 2)
            self._check("header block", self._head_limit, self._searched, self._head_bytes_max)
        return False

    def _parse_head(self, head: bytes) -> None:
        limits = self._limits
        self._searched = 0
        if NUL in head:
            raise _nul_in_head()
        command_line, *lines = head.split(b"\n")
        if len(lines) > limits.headers_max:
            self._check("number of headers", "headers_max", len(lines), limits.headers_max)
        if len(head) > self._short_head_bytes:
            self._check_lengths(head, command_line, lines)
        if _CR in head and self._drops_cr:
            lines = [line.removesuffix(b"\r") for line in lines]
        headers = dict(map(self._decode_line, lines))
        if len(headers) < len(lines):
            headers = {}
            for name, value in map(self._decode_line, lines):
                headers.setdefault(name, value)
        self.headers = headers
        command = self._commands.get(command_line) or self._commands.get(command_line.strip())
        if command is None:
            name = command_line.strip().decode("utf-8", "replace")
            raise ProtocolError(f"Unknown STOMP action: {name}", fatal=True)
        length = headers.get("content-length") if command in _WITH_BODY else None
        self._missing = _UNTIL_NUL if length is None else self._parse_length(length)
        self._head_bytes = len(head)
        self._command = command

    def _check_lengths(self, head: bytes, command_line: bytes, lines: list[bytes]) -> None:
        limits = self._limits
        self._check("command length", "command_line_bytes", len(command_line), limits.command_line_bytes)
        self._check("header length", "header_line_bytes", max(map(len, lines), default=0), limits.header_line_bytes)
        self._check("header block", self._head_limit, len(head), self._head_bytes_max)

    def _parse_length(self, text: str) -> int:
        digits = text.strip(JAVA_BLANKS).removeprefix("+")
        if not (digits.isascii() and digits.isdigit() and len(digits) <= 20):
            raise ProtocolError(f"Specified content-length is not a valid integer: {text[:80]}", fatal=True)
        length = int(digits)
        self._check("data length", self._body_limit, length, self._body_bytes_max)
        return length

    @staticmethod
    def _check(what: str, limit: str, measured: int, allowed: int) -> None:
        if measured > allowed:
            raise ProtocolError(f"The maximum {what} was exceeded: {limit} is {allowed}", fatal=True)

    # -- body

    def _read_body(self) -> bytes | None:
        """The body, its NUL consumed; None when it is incomplete."""
        data, position = self._data, self._position
        missing = self._missing
        end = data.find(b"\0", position) if missing == _UNTIL_NUL else position + missing
        if not 0 <= end < len(data):
            self._keep_body()
            return None
        if data[end]:
            raise ProtocolError("content-length bytes were read and there was no trailing null byte", fatal=True)
        self._position = end + 1
        if missing == _UNTIL_NUL:
            body_bytes = len(self._body) + end - position
            self._check("data length", self._body_limit, body_bytes, self._body_bytes_max)
        if not self._body:
            return data[position:end]
        self._body += data[position:end]
        body = bytes(self._body)
        self._body = bytearray()
        return body

    def _keep_body(self) -> None:
        data, position = self._data, self._position
        self._body += data[position:] if position else data
        if self._missing == _UNTIL_NUL:
            self._check("data length", self._body_limit, len(self._body), self._body_bytes_max)
        else:
            self._missing -= len(data) - position
        self._data, self._position = b"", 0
