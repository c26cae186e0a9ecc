"""How long messages take: for their senders, and on their way to consumers."""

from __future__ import annotations

from typing import Final

from jdbcstore.store.histogram import Histogram

__all__ = ["Latencies"]

_SEND_S: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
_QUEUE_S: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 60.0, 300.0, 3600.0, 86400.0)


class Latencies:
    """Of one broker, since it exists.

    Attributes:
        send: seconds from a message's arrival until its sender is answered.
        queue: seconds from its arrival at a broker until it is delivered, each time that it is.
    """

    __slots__ = ("queue", "send")

    def __init__(self) -> None:
        self.send = Histogram(_SEND_S)
        self.queue = Histogram(_QUEUE_S)
