"""What brings clients to a broker while it is master: the face of the sockets, as the broker sees them."""

from __future__ import annotations

from typing import Protocol

from jdbcstore.errors import JdbcStoreError

__all__ = ["ListenError", "NoServer", "Server"]


class ListenError(JdbcStoreError):
    """The broker cannot listen where it should."""


class Server(Protocol):
    """Listens, and knows who is connected. Made anew whenever the broker becomes master."""

    @property
    def addresses(self) -> list[tuple[str, int]]:
        """Host and port of each listener, in the order of the options."""

    async def start(self) -> None:
        """Listen. Raises ListenError."""

    def stop_listening(self) -> None:
        """Accept nobody any more."""

    async def close_connections(self, timeout_s: float) -> None:
        """Close all connections; returns when they are, or at the timeout, when `abort_connections` has to."""

    async def abort_connections(self) -> None:
        """Cut off those who have not taken what was written to them."""


class NoServer:
    """A broker that nobody reaches but from its own process."""

    def __init__(self) -> None:
        self.addresses: list[tuple[str, int]] = []

    async def start(self) -> None:
        """There is nothing to listen on."""

    def stop_listening(self) -> None:
        """Likewise."""

    async def close_connections(self, timeout_s: float) -> None:
        """Likewise."""

    async def abort_connections(self) -> None:
        """Likewise."""
