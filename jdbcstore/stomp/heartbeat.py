"""Heart-beats both ways: when to send one, when the peer is dead. Arithmetic on a clock that is passed in.

A client's header ``heart-beat:cx,cy`` says: I can send something every cx ms, I want something every cy ms. ActiveMQ
accepts what it is offered and answers ``cy,cx``; so do we, except that an interval shorter than a floor is raised to
it: a client that asks for a beat every millisecond would keep a timer busy for itself alone. (STOMP provides for that:
the interval in force is the longer of what one side offers and the other side wants.)

Times are seconds of any monotonic clock, intervals are milliseconds as in the header, 0 is never.
"""

from __future__ import annotations

from typing import Final

__all__ = ["INTERVAL_MS_MIN", "HeartBeat", "negotiate"]

#: No heart-beat is faster than this, in either direction.
INTERVAL_MS_MIN: Final = 100

# How long a peer may be silent, in intervals. ActiveMQ looks at its read counter once per interval and gives up after
# two to three of them without data; 2.5 is their middle.
_SILENCE_FACTOR: Final = 2.5

# We beat somewhat before the interval is over: timers fire late and networks delay, and a beat that comes early hurts
# nobody.
_SEND_FACTOR: Final = 0.9


def negotiate(client: tuple[int, int], interval_ms_min: int = INTERVAL_MS_MIN) -> tuple[int, int]:
    """The server's half of the bargain.

    Args:
        client: (cx, cy) in ms from the client's CONNECT.
        interval_ms_min: floor of both intervals, in ms; 0 and negative offers stay what they are.

    Returns:
        (send_ms, expect_ms): what CONNECTED says in its ``heart-beat`` header, and what `HeartBeat` is made of.
    """
    can_send_ms, wants_ms = client
    return _at_least(wants_ms, interval_ms_min), _at_least(can_send_ms, interval_ms_min)


def _at_least(interval_ms: int, interval_ms_min: int) -> int:
    return interval_ms if interval_ms <= 0 else max(interval_ms, interval_ms_min)


class HeartBeat:
    """The two clocks of one connection.

    Args:
        send_ms: we send something at least this often; 0 or less is no obligation.
        expect_ms: the peer sends something at least this often; 0 or less expects nothing.
        now: the clock, in seconds.
        grace_multiplier: stretches the silence we bear (ActiveMQ's ``transport.hbGracePeriodMultiplier``).
        initial_delay_ms: from when on silence counts. An OpenWire client sends no KeepAliveInfo before.
    """

    __slots__ = ("_received", "_send_s", "_sent", "_silence_s")

    def __init__(
        self, send_ms: int, expect_ms: int, now: float, grace_multiplier: float = 1.0, initial_delay_ms: int = 0
    ) -> None:
        self._send_s = send_ms / 1000 * _SEND_FACTOR if send_ms > 0 else None
        self._silence_s = expect_ms / 1000 * _SILENCE_FACTOR * grace_multiplier if expect_ms > 0 else None
        self._received = now + initial_delay_ms / 1000
        self._sent = now

    @property
    def expects(self) -> bool:
        """Whether the peer has to say something now and then."""
        return self._silence_s is not None

    def data_received(self, now: float) -> None:
        """Something arrived, a lone LF included."""
        if now > self._received:
            self._received = now

    def data_sent(self, now: float) -> None:
        """Something was written."""
        self._sent = now

    def is_beat_due(self, now: float) -> bool:
        """Whether it is time to write ``\\n`` (call `data_sent` when you did)."""
        return self._send_s is not None and now >= self._sent + self._send_s

    def is_peer_dead(self, now: float) -> bool:
        """Whether the peer was silent for too long: close the socket without a word."""
        return self._silence_s is not None and now >= self._received + self._silence_s

    def next_deadline(self) -> float | None:
        """When to ask again at the latest, on the clock of ``now``; None when there is nothing to watch."""
        beat = None if self._send_s is None else self._sent + self._send_s
        death = None if self._silence_s is None else self._received + self._silence_s
        if beat is None or death is None:
            return death if beat is None else beat
        return min(beat, death)
