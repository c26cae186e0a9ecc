"""stomp.py as the tests use it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import stomp

from tests.waiting import wait_until

__all__ = ["Collector", "client"]


class Collector(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Keeps every MESSAGE: its headers and its body, bytes."""

    def __init__(self) -> None:
        self.messages: list[tuple[dict[str, str], bytes]] = []

    def on_message(self, frame: Any) -> None:
        """Called by stomp.py's thread."""
        body = frame.body
        self.messages.append((frame.headers, body if isinstance(body, bytes) else body.encode()))

    def wait_for(self, count: int, timeout_s: float = 20) -> None:
        """Return when so many have come."""
        wait_until(
            lambda: len(self.messages) >= count,
            lambda: f"{count} messages have come, not {len(self.messages)}",
            timeout_s=timeout_s,
        )


@contextmanager
def client(
    port: int, client_id: str | None = None, *, sends_text: bool = False
) -> Iterator[tuple[stomp.Connection12, Collector]]:
    """A STOMP 1.2 connection to a broker on loopback, and what it receives.

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
            connection.disconnect(receipt="bye")
