"""The harness waits for brokers: for how long, and for whom."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from pathlib import Path
from typing import cast

import pytest

from tests.failover.cluster import Broker, Cluster, Failed

PATIENCE_S = 0.1


class Actor:
    """Plays a broker.

    Args:
        name: its name.
        states: what it says, one after the other, and the last one for ever.
        starved_part: for how much of the time it waits for a processor.
    """

    is_wanted = is_paused = False

    def __init__(self, name: str, *states: str, starved_part: float = 0.0) -> None:
        self.name = name
        self._states: Iterator[str] = itertools.chain(states, itertools.repeat(states[-1]))
        self._starved_part = starved_part

    @property
    def state(self) -> str:
        """The next one."""
        return next(self._states)

    @property
    def waited_s(self) -> float:
        """As `Broker.waited_s`."""
        return time.monotonic() * self._starved_part

    def log_tail(self) -> str:
        """Nothing."""
        return ""


def cluster_of(folder: Path, *actors: Actor) -> Cluster:
    cluster = Cluster("sqlite", folder)
    cluster.brokers = [cast(Broker, actor) for actor in actors]
    return cluster


def waited_in_vain_s(cluster: Cluster) -> float:
    began = time.monotonic()
    with pytest.raises(Failed, match="in vain until pigs fly; b0 standby"):
        cluster.wait_for("pigs fly", lambda: False, PATIENCE_S)
    return time.monotonic() - began


def test_time_in_which_a_broker_had_no_processor_does_not_count(tmp_path: Path) -> None:
    assert waited_in_vain_s(cluster_of(tmp_path, Actor("b0", "standby", starved_part=0.5))) > 1.9 * PATIENCE_S


def test_a_broker_that_never_has_a_processor_is_not_waited_for_without_end(tmp_path: Path) -> None:
    took_s = waited_in_vain_s(cluster_of(tmp_path, Actor("b0", "standby", starved_part=1.0)))
    assert took_s > 2.9 * PATIENCE_S


def test_a_broker_that_has_a_processor_is_waited_for_no_longer_than_that(tmp_path: Path) -> None:
    assert "for 0 s of which" in told_in_vain(cluster_of(tmp_path, Actor("b0", "standby")))


def told_in_vain(cluster: Cluster) -> str:
    with pytest.raises(Failed) as failed:
        cluster.wait_for("pigs fly", lambda: False, PATIENCE_S)
    return str(failed.value)


def test_master_and_standby_are_those_of_one_moment(tmp_path: Path) -> None:
    """Who asked for one after the other would have got b0 as both."""
    first, second = Actor("b0", "standby", "master"), Actor("b1", "suspended", "standby")
    master, standby = cluster_of(tmp_path, first, second).pair()
    assert (master.name, standby.name) == ("b0", "b1")
