"""What ends the wait of an event loop of kombu at once.

kombu's loop looks at its ``call_soon`` callbacks before its timers and before it waits for sockets. A callback that a
callback, a timer or, before kombu 5.7, another thread asks for is therefore found only when that wait is over: after a
second, or when the next timer is due. A socket that can be read ends the wait whoever writes to it.
"""

from __future__ import annotations

import socket
from contextlib import suppress

__all__ = ["Wakeup"]


class Wakeup:
    """A pair of connected sockets. `fileno` is readable after `wake`, until `clear`."""

    def __init__(self) -> None:
        self._reader, self._writer = socket.socketpair()
        self._reader.setblocking(False)
        self._writer.setblocking(False)
        self._is_awake = False

    def fileno(self) -> int:
        """Of the socket to wait for."""
        return self._reader.fileno()

    def wake(self) -> None:
        """Make it readable; any thread may."""
        if not self._is_awake:
            self._is_awake = True
            with suppress(OSError):  # it is full, and so readable, or closed
                self._writer.send(b"\0")

    def clear(self) -> None:
        """Make it unreadable. What was the case before a `wake` has to be looked at after this."""
        with suppress(BlockingIOError):
            self._reader.recv(1024)
        self._is_awake = False

    def close(self) -> None:
        """Close both sockets."""
        self._reader.close()
        self._writer.close()
