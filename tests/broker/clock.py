"""The time of a broker, for what expires: a test moves it instead of being quicker than it."""

from __future__ import annotations

from jdbcstore import Broker

__all__ = ["Clock"]


class Clock:
    """A broker's clock: by it messages expire. It goes, and can be put forward.

    Args:
        broker: started or not.
    """

    def __init__(self, broker: Broker) -> None:
        self._ahead_ms = 0
        now_ms = broker.now_ms
        broker.now_ms = lambda: now_ms() + self._ahead_ms

    def move(self, milliseconds: int) -> None:
        """Put it forward."""
        self._ahead_ms += milliseconds
