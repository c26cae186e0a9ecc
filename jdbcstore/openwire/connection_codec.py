"""`ConnectionCodec`: the frames of one connection to values and back, in the encoding that its peers agreed on."""

from __future__ import annotations

import struct
from functools import cache
from typing import Final

from jdbcstore.errors import CodecError
from jdbcstore.openwire.codec import STORE_VERSION, Value, unmarshal_message
from jdbcstore.openwire.commands import MessageDispatch
from jdbcstore.openwire.connection_readers import connection_readers, flags_of
from jdbcstore.openwire.connection_writers import boolean_stream, connection_writers
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import COMMANDS, Kind
from jdbcstore.openwire.object_cache import SLOTS_MAX, ReadCache, WriteCache
from jdbcstore.openwire.readers import NESTING_MAX
from jdbcstore.openwire.source import UNREADABLE, UNWRITABLE, misfits, trace

__all__ = ["FRAME_BYTES_MAX", "ConnectionCodec"]

#: What a frame's size prefix can announce.
FRAME_BYTES_MAX: Final = 0x7FFFFFFF

_SIZE = struct.Struct(">i")
_NULL: Final = b"\0"
#: How a dispatch without a message ends: no message, and its redelivery counter.
_NO_MESSAGE: Final = 1 + _SIZE.size


class ConnectionCodec:
    """Reads and writes frames; remembers what is in the caches of both directions.

    Args:
        encoding: how.
        cache_size: slots of each direction's cache; 0 is `SLOTS_MAX`.
    """

    __slots__ = ("_readers", "_received", "_sent", "_writers", "encoding")

    def __init__(self, encoding: Encoding, cache_size: int = 0) -> None:
        slots = cache_size if 0 < cache_size < SLOTS_MAX else SLOTS_MAX
        self.encoding = encoding
        self._readers = connection_readers(encoding)
        self._writers = connection_writers(encoding)
        self._received = ReadCache(slots)
        self._sent = WriteCache(slots)

    @property
    def cached_bytes(self) -> int:
        """What the peer has put into its slots, in bytes of memory, roughly."""
        return self._received.kept_bytes

    def unmarshal(self, body: bytes) -> Value:
        """Read a frame.

        Args:
            body: the frame behind its size prefix.

        Returns:
            As `jdbcstore.openwire.unmarshal`.

        Raises:
            CodecError: malformed. The cache may have changed, so the connection cannot go on.
        """
        if body == _NULL:
            return None
        self._received.begin_frame()
        try:
            flags, offset = flags_of(body, 1) if self.encoding.tight else (b"", 1)
            value, end, used = self._readers[body[0]](body, offset, NESTING_MAX, flags, 0, self._received)
        except UNREADABLE as error:
            raise _named(error, f"{_said(error)}, in a frame of {len(body)} bytes") from error
        if end != len(body):
            raise CodecError(f"{len(body) - end} bytes follow the last field", offset=end + _SIZE.size)
        if len(flags) - used >= 8 or any(flags[used:]):
            raise CodecError(f"{len(flags) - used} flags follow the last one")
        return value

    def marshal(self, value: Value) -> bytes:
        """Write a frame.

        Args:
            value: what `unmarshal` returns.

        Returns:
            The frame, its size prefix included. The peer must get it: its cache follows ours.

        Raises:
            CodecError: a value does not fit its field, or the version has no such type; it names the field.
        """
        if value is None:
            return _SIZE.pack(1) + _NULL
        pieces = list[bytes]()
        flags = bytearray()
        self._sent.begin_frame()
        try:
            self._writers[value.__class__](value, NESTING_MAX, pieces, flags, self._sent)
            if self.encoding.tight:
                pieces[0] += boolean_stream(flags)
            body = b"".join(pieces)
            return _SIZE.pack(len(body)) + body
        except UNWRITABLE as error:
            self._sent.abandon_frame()
            raise _named(error, _said(error)) from error

    def marshal_stored(self, dispatch: MessageDispatch, frame: bytes, version: int = STORE_VERSION) -> bytes:
        """Write the dispatch of a stored message.

        The stored bytes are sent as they are if the encoding is the store's but for the version, and that makes no
        difference. Else their fields are written anew; bodies and properties are never looked into.

        Args:
            dispatch: without its message.
            frame: the message as it is stored.
            version: wire version in which it is stored.

        Returns:
            As `marshal`.

        Raises:
            CodecError: as `marshal`; or the stored bytes are no message.
        """
        encoding = self.encoding
        if encoding.tight or encoding.cached or not _is_same_layout(version, encoding.version):
            dispatch.message = unmarshal_message(frame, version)
            try:
                return self.marshal(dispatch)
            finally:
                dispatch.message = None
        if dispatch.message is not None:
            raise CodecError("the dispatch has a message already", field="message")
        bare = self.marshal(dispatch)
        head, counter = bare[_SIZE.size : -_NO_MESSAGE], bare[1 - _NO_MESSAGE :]
        message = frame[_SIZE.size :]
        size = len(head) + 1 + len(message) + len(counter)
        if size > FRAME_BYTES_MAX:
            raise CodecError(f"a frame of {size} bytes, {FRAME_BYTES_MAX} is the largest")
        return b"".join((_SIZE.pack(size), head, b"\1", message, counter))


@cache
def _is_same_layout(stored: int, sent: int) -> bool:
    """Whether every type that `stored` knows looks the same in `sent`."""
    return all(
        command.since <= sent and command.fields_at(stored) == command.fields_at(sent)
        for command in COMMANDS
        if command.since <= stored
    )


def _said(error: Exception) -> str:
    if isinstance(error, IndexError):
        return "truncated, or a flag other than 0 and 1"
    if isinstance(error, struct.error):
        return f"truncated or out of range ({error})"
    return str(error)


def _named(error: Exception, message: str) -> CodecError:
    path = []
    for parts, found in trace(error):
        if parts:
            culprit = parts[0]
            if len(parts) > 1:  # so it is in writers only
                culprit = next((part for part in parts if misfits(part, found["v"])), culprit)
            field = culprit.field
            index = found.get("i") if field.kind is Kind.ARRAY else None
            path.append(field.name if index is None else f"{field.name}[{index}]")
    return CodecError(message, field=".".join(path) or None)
