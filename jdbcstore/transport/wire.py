"""What a session needs of its socket, and a socket of its session."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jdbcstore.broker.client import Client
from jdbcstore.transport.arrivals import Arrivals
from jdbcstore.transport.peer_certificate import PeerCertificate

__all__ = ["TransportSession", "Wire"]


class Wire(Protocol):
    """A socket, as the session sees it."""

    def write(self, data: bytes) -> None:
        """Send bytes, later if the socket is full."""

    def pause(self) -> None:
        """Do not read for now."""

    def resume(self) -> None:
        """Read again."""

    def beat(self, send_ms: int, expect_ms: int, initial_delay_ms: int = 0) -> None:
        """Send heart-beats and expect them, every so many milliseconds, the first ones after the delay; 0 is never."""

    def probe(self, told: Callable[[bool], object]) -> None:
        """Find out whether the client's machine answers; `told` is called once."""

    def end(self, reason: str) -> None:
        """Close the socket now; the reason is for the log."""

    def close(self) -> None:
        """Close the socket once everything is sent."""

    @property
    def arrivals(self) -> Arrivals:
        """Says who is heard when."""

    @property
    def peer(self) -> str:
        """The client's address, for log lines."""

    @property
    def is_encrypted(self) -> bool:
        """Whether the client came by TLS."""

    @property
    def peer_certificate(self) -> PeerCertificate | None:
        """By which the client has proved who it is; None if it has not."""


class TransportSession(Protocol):
    """One client of one protocol, as its socket sees it."""

    @property
    def client(self) -> Client:
        """What it is to the broker."""

    def receive(self, data: bytes) -> None:
        """Bytes have arrived."""

    def hear_no_more(self) -> bool:
        """The client says nothing more. Returns whether the session closes the socket, when there is an answer to
        everything."""

    def unchoke(self) -> None:
        """Everything written has left."""

    def beat(self) -> None:
        """It is time to write something, so that the client knows that we are there."""
