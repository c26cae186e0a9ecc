"""In which order tests run: those that take long begin early, so that a run does not end with one worker at work."""

from __future__ import annotations

from collections.abc import Sequence
from operator import itemgetter

import pytest

__all__ = ["arranged"]

#: What the tests of a session of Spark weigh among the times that tests may take, in seconds.
_SPARK_S = 4000.0


def arranged(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """The tests as pytest-xdist's ``worksteal`` is to get them, which cuts the list into one piece for each worker.

    Tests that share a session of Spark come first and so to one worker: each session costs ten seconds and 1 GiB. Those
    with the mark ``whole_machine`` are one worker's too, so that two of them never run at a time. Those that may take
    longer than usual, as their mark ``timeout`` says, are dealt out to the heads of the pieces. All others keep their
    order.

    Args:
        items: as collected.
        workers: how many there are.
    """
    heads: list[list[pytest.Item]] = [[] for _ in range(workers)]
    loads = [0.0] * workers
    alone, usual, long = list[pytest.Item](), list[pytest.Item](), list[tuple[float, pytest.Item]]()
    for item in items:
        if _has_spark(item):
            heads[0].append(item)
            loads[0] = _SPARK_S
        elif _needs_whole_machine(item):
            alone.append(item)
            loads[-1] += _seconds(item)
        elif seconds := _seconds(item):
            long.append((seconds, item))
        else:
            usual.append(item)
    heads[-1] += alone
    for seconds, item in sorted(long, key=itemgetter(0), reverse=True):
        worker = loads.index(min(loads))
        heads[worker].append(item)
        loads[worker] += seconds
    others = iter(usual)
    left, found = len(items), list[pytest.Item]()
    for number, head in enumerate(heads):
        size = left // (workers - number)
        found += head
        found += [item for _, item in zip(range(size - len(head)), others, strict=False)]
        left -= max(size, len(head))
    return [*found, *others]


def _has_spark(item: pytest.Item) -> bool:
    return "spark" in getattr(item, "fixturenames", ())


def _needs_whole_machine(item: pytest.Item) -> bool:
    return item.get_closest_marker("whole_machine") is not None


def _seconds(item: pytest.Item) -> float:
    """What a test that takes long may take; 0 for all others."""
    mark = item.get_closest_marker("timeout")
    return float(mark.args[0]) if mark and mark.args else 0.0
