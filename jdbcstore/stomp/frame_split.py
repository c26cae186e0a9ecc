"""Where frames end in what the broker writes: for those who carry them one by one, as WebSocket messages are."""

from __future__ import annotations

import re
from typing import Final

from jdbcstore.stomp.frames import FRAME_END

__all__ = ["split_frames"]

_LINE_END: Final = b"\n"
_find_length: Final = re.compile(rb"\ncontent-length:([0-9]+)\n").search


def split_frames(data: bytes) -> list[bytes]:
    """Complete frames, as `jdbcstore.stomp.frames.serialise` writes them, and the heart-beats between them.

    Raises:
        ValueError: the last one is not complete.
    """
    frames: list[bytes] = []
    start = 0
    while start < len(data):
        if data.startswith(_LINE_END, start):
            end = start + 1
        else:
            head_end = data.index(b"\n\n", start)
            length = _find_length(data, start, head_end + 1)
            body = head_end + 2
            last = data.index(b"\0", body) if length is None else body + int(length[1])
            end = last + len(FRAME_END)
            if data[last:end] != FRAME_END:
                raise ValueError(f"no frame ends at byte {last} of {len(data)}")
        frames.append(data[start:end] if start or end < len(data) else data)
        start = end
    return frames
