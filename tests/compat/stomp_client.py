"""stomp.py as the tests use it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stomp

from tests.waiting import wait_until

__all__ = ["Collector", "client"]

#: The receipt of a DISCONNECT.
_LAST = "bye"


class Collector(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Keeps every MESSAGE: its headers and its body, bytes; and the ids of receipts."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []
        self.receipts: set[str] = set()

    def on_message(self, frame: Any) -> None:
        """Called by stomp.py's thread."""
        body = frame.body
        self.messages.append((frame.headers, body if isinstance(body, bytes) else body.encode()))

    def on_receipt(self, frame: Any) -> None:
        """Called by stomp.py's thread."""
        self.receipts.add(frame.headers["receipt-id"])

    def wait_for(self, count: int, timeout_s: float = 60) -> None:
        """Return when so many have come."""
        wait_until(
            lambda: len(self.messages) >= count,
            lambda: f"{count} messages have come, not {len(self.messages)}",
            timeout_s=timeout_s,
        )

    def comes(self, count: int, silence_s: float) -> bool:
        """Whether so many come before it was silent for so long."""
        until = time.monotonic() + silence_s
        while len(self.messages) < count and time.monotonic() < until:
            time.sleep(0.005)
        return len(self.messages) >= count


@contextmanager
def client(
    port: int, client_id: str | None = None, *, sends_text: bool = False
) -> Iterator[tuple[stomp.Connection12, Collector]]:
    """A STOMP 1.2 connection to a broker on loopback, and what it receives.

    At its end the broker has done all that it was told, or has gone.

    Args:
        port: of the broker.
        client_id: of the client, if it has one.
        sends_text: leave the length of the body out, which makes a message a text for JMS clients.
    """
    connection = stomp.Connection12([("127.0.0.1", port)], auto_decode=False, auto_content_length=not sends_text)
    collector = Collector()
    connection.set_listener("collector", collector)
    connection.connect(wait=True, headers={} if client_id is None else {"client-id": client_id})
    try:
        yield connection, collector
    finally:
        if connection.is_connected():
            connection.disconnect(receipt=_LAST)
            wait_until(lambda: _LAST in collector.receipts or not connection.is_connected(), "the broker has done all")
