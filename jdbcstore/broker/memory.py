"""How much memory all queues together use for messages."""

from __future__ import annotations

__all__ = ["Memory"]


class Memory:
    """An account of bytes.

    Args:
        bytes_max: the limit that `has_room` goes by; deliveries in flight may push `used` a little beyond it.
    """

    __slots__ = ("bytes_max", "used")

    def __init__(self, bytes_max: int) -> None:
        self.bytes_max = bytes_max
        self.used = 0

    def has_room(self, size: int) -> bool:
        """Whether so many bytes more are within the limit."""
        return self.used + size <= self.bytes_max
