"""Silence in both directions: when to send KeepAliveInfo, when the peer is dead. Arithmetic on a clock passed in.

Times are seconds of any monotonic clock, intervals are milliseconds as in WireFormatInfo. 0 watches nothing.
"""

from __future__ import annotations

from typing import Final

__all__ = ["Inactivity"]

#: A peer that hears nothing for the agreed time closes the connection. We send after half of it.
_SEND_FACTOR: Final = 0.5


class Inactivity:
    """The two clocks of one connection.

    Args:
        duration_ms: the agreed time that either side may be silent; 0 or less is forever.
        initial_delay_ms: how much later the first silence counts.
        now: the clock, in seconds.
    """

    __slots__ = ("_heard", "_send_s", "_sent", "_silence_s")

    def __init__(self, duration_ms: int, initial_delay_ms: int, now: float) -> None:
        watches = duration_ms > 0
        self._silence_s = duration_ms / 1000 if watches else None
        self._send_s = duration_ms / 1000 * _SEND_FACTOR if watches else None
        self._heard = now + max(0, initial_delay_ms) / 1000
        self._sent = now

    def data_received(self, now: float) -> None:
        """Something arrived."""
        self._heard = max(self._heard, now)

    def data_sent(self, now: float) -> None:
        """Something was written."""
        self._sent = now

    def is_keep_alive_due(self, now: float) -> bool:
        """Whether it is time to send a KeepAliveInfo (call `data_sent` when you did)."""
        return self._send_s is not None and now >= self._sent + self._send_s

    def is_peer_dead(self, now: float) -> bool:
        """Whether the peer was silent for too long: close the socket."""
        return self._silence_s is not None and now >= self._heard + self._silence_s

    def next_deadline(self) -> float | None:
        """When to ask again at the latest, on the clock of ``now``; None when nothing is watched."""
        if self._send_s is None or self._silence_s is None:
            return None
        return min(self._sent + self._send_s, self._heard + self._silence_s)
