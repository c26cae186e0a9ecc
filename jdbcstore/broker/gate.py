"""Who may not send at the moment, by order of an operator: some destinations take nothing, or none does.

What is refused was never taken: its sender hears an error instead of a receipt. What the broker sends by itself
(dead letters, scheduled messages, copies of virtual topics) passes.
"""

from __future__ import annotations

from jdbcstore.destination import Destination
from jdbcstore.errors import ProtocolError

__all__ = ["Gate"]


class Gate:
    """Asked before each message of a client.

    Attributes:
        closed: destinations that take nothing.
        is_draining: whether none takes anything.
        is_open: whether nothing is refused; looked at for each message.
    """

    __slots__ = ("closed", "is_draining", "is_open")

    def __init__(self) -> None:
        self.closed: set[Destination] = set()
        self.is_draining = False
        self.is_open = True

    def close(self, destination: Destination) -> None:
        """Let a destination take nothing until `open`."""
        self.closed.add(destination)
        self.is_open = False

    def open(self, destination: Destination) -> None:
        """Let it take messages again."""
        self.closed.discard(destination)
        self.is_open = not self.closed and not self.is_draining

    def drain(self, *, is_on: bool) -> None:
        """Let no destination take anything, or end that."""
        self.is_draining = is_on
        self.is_open = not self.closed and not is_on

    def check(self, destination: Destination) -> None:
        """Raise ProtocolError if a client may not send there now."""
        if self.is_draining:
            raise ProtocolError("The broker takes no messages now, it is drained for a hand-over: send again later")
        for element in destination.elements():
            if element in self.closed:
                raise ProtocolError(f"{element} is paused for senders by an operator: send again later")
