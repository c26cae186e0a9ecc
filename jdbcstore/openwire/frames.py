"""Cuts a connection's bytes into frames: a size of 32 bits, and so many bytes."""

from __future__ import annotations

import struct

from jdbcstore.errors import ProtocolError

__all__ = ["FrameCutter"]

_SIZE = struct.Struct(">i")


class FrameCutter:
    """Bytes in, frames out. A size is compared with the limit before anything of its frame is kept.

    Args:
        size_max: the largest size that a frame may announce.

    Attributes:
        size_max: the limit; may be changed between frames.
    """

    __slots__ = ("_data", "_offset", "size_max")

    def __init__(self, size_max: int) -> None:
        self.size_max = size_max
        self._data = bytearray()
        self._offset = 0

    @property
    def held_bytes(self) -> int:
        """Bytes of frames that were not given out."""
        return len(self._data) - self._offset

    @property
    def missing_bytes(self) -> int:
        """Bytes that the peer announced for an unfinished frame and has not sent."""
        if self.held_bytes < _SIZE.size:
            return 0
        return max(0, _SIZE.size + int(_SIZE.unpack_from(self._data, self._offset)[0]) - self.held_bytes)

    def feed(self, data: bytes) -> None:
        """Take what came from the socket."""
        if self._offset > len(self._data) // 2:  # somebody reads more slowly than bytes arrive
            self._compact()
        self._data += data

    def clear(self) -> None:
        """Forget everything that was not given out."""
        self._data = bytearray()
        self._offset = 0

    def next_frame(self) -> bytes | None:
        """The next frame behind its size; None if it is not complete.

        Raises:
            ProtocolError: the size is above the limit, or below 1; always fatal.
        """
        start = self._offset + _SIZE.size
        if len(self._data) < start:
            self._compact()
            return None
        size = _SIZE.unpack_from(self._data, self._offset)[0]
        if size < 1:
            raise ProtocolError(f"a frame of {size} bytes, 1 is the smallest", fatal=True)
        if size > self.size_max:
            raise ProtocolError(f"a frame of {size} bytes, {self.size_max} is the largest", fatal=True)
        end = start + size
        if len(self._data) < end:
            self._compact()
            return None
        frame = bytes(memoryview(self._data)[start:end])
        self._offset = end
        return frame

    def _compact(self) -> None:
        """Let go of what was given out. Costs what is left, so it is not done for each frame."""
        if self._offset:
            del self._data[: self._offset]
            self._offset = 0
