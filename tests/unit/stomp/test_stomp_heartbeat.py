"""Heart-beats: what is agreed, when one is due, when silence is death."""

from __future__ import annotations

import pytest

from jdbcstore.stomp import HeartBeat, negotiate


@pytest.mark.parametrize(
    ("client", "server"),
    [
        ((0, 0), (0, 0)),
        ((60_000, 50_000), (50_000, 60_000)),
        ((1000, 0), (0, 1000)),
        ((-1, -1), (-1, -1)),
        ((1, 99), (100, 100)),
    ],
)
def test_the_answer_is_the_offer_reversed_and_not_too_fast(client: tuple[int, int], server: tuple[int, int]) -> None:
    assert negotiate(client) == server


def test_the_floor_can_be_chosen() -> None:
    assert negotiate((10, 20), interval_ms_min=15) == (20, 15)


def test_a_beat_is_due_before_the_interval_is_over_and_not_at_once() -> None:
    beat = HeartBeat(1000, 0, now=10.0)
    assert not beat.is_beat_due(10.8)
    assert beat.is_beat_due(10.95)


def test_what_we_send_postpones_the_beat() -> None:
    beat = HeartBeat(1000, 0, now=10.0)
    beat.data_sent(10.5)
    assert not beat.is_beat_due(11.3)
    assert beat.is_beat_due(11.45)


def test_the_peer_is_dead_between_two_and_three_intervals_of_silence() -> None:
    beat = HeartBeat(0, 1000, now=10.0)
    assert not beat.is_peer_dead(12.0)
    assert beat.is_peer_dead(13.0)


def test_what_arrives_keeps_the_peer_alive() -> None:
    beat = HeartBeat(0, 1000, now=10.0)
    beat.data_received(12.0)
    assert not beat.is_peer_dead(14.0)
    assert beat.is_peer_dead(15.0)


def test_grace_stretches_silence() -> None:
    beat = HeartBeat(0, 1000, now=10.0, grace_multiplier=4.0)
    assert not beat.is_peer_dead(18.0)
    assert beat.is_peer_dead(22.0)


def test_the_first_silence_may_be_longer() -> None:
    beat = HeartBeat(1000, 1000, now=10.0, initial_delay_ms=5000)
    beat.data_received(10.1)
    assert beat.is_beat_due(10.9)
    assert not beat.is_peer_dead(17.4)
    assert beat.is_peer_dead(17.5)
    beat.data_received(17.0)
    assert not beat.is_peer_dead(19.4)
    assert beat.is_peer_dead(19.5)


@pytest.mark.parametrize("never_ms", [0, -1])
def test_never_is_never(never_ms: int) -> None:
    beat = HeartBeat(never_ms, never_ms, now=0.0)
    assert not beat.is_beat_due(1e9)
    assert not beat.is_peer_dead(1e9)
    assert beat.next_deadline() is None


@pytest.mark.parametrize(
    ("send_ms", "expect_ms", "deadline"), [(1000, 0, 0.9), (0, 1000, 2.5), (1000, 1000, 0.9), (10_000, 1000, 2.5)]
)
def test_the_next_deadline_is_the_nearer_one(send_ms: int, expect_ms: int, deadline: float) -> None:
    assert HeartBeat(send_ms, expect_ms, now=0.0).next_deadline() == pytest.approx(deadline)


@pytest.mark.parametrize(("send_ms", "expect_ms"), [(1000, 0), (0, 1000)])
def test_something_is_to_be_done_at_the_deadline(send_ms: int, expect_ms: int) -> None:
    beat = HeartBeat(send_ms, expect_ms, now=12345.678)
    deadline = beat.next_deadline()
    assert deadline is not None
    assert beat.is_beat_due(deadline) or beat.is_peer_dead(deadline)
