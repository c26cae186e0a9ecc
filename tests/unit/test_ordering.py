"""The order of tests: nothing is lost, and what takes long comes first in each worker's piece."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tests.ordering import arranged


def item(name: str, seconds: float = 0, *fixtures: str, whole_machine: bool = False) -> Any:
    marks = {"timeout": SimpleNamespace(args=(seconds,))} if seconds else {}
    if whole_machine:
        marks["whole_machine"] = SimpleNamespace(args=())
    return SimpleNamespace(name=name, fixturenames=fixtures, get_closest_marker=marks.get)


@pytest.mark.parametrize("workers", [1, 2, 3, 4, 7])
def test_nothing_is_lost(workers: int) -> None:
    items = [item(str(number), 100 if number % 5 == 3 else 0, *["spark"] * (number % 7 == 0)) for number in range(50)]
    found = arranged(items, workers)
    assert sorted(found, key=id) == sorted(items, key=id)
    others = [each for each in items if not each.fixturenames and not each.get_closest_marker("timeout")]
    assert [each for each in found if each in others] == others


def test_the_long_ones_are_at_the_heads_of_the_pieces() -> None:
    short = [item(f"short {number}") for number in range(8)]
    found = arranged([item("spark", 0, "spark"), *short, item("60", 60), item("90", 90), item("120", 120)], 3)
    pieces = [[each.name for each in found[start : start + 4]] for start in (0, 4, 8)]
    assert pieces == [["spark", "short 0", "short 1", "short 2"], ["120", "short 3", "short 4", "short 5"],
                      ["90", "60", "short 6", "short 7"]]  # fmt: skip


def test_those_that_need_the_whole_machine_run_one_after_the_other() -> None:
    short = [item(f"short {number}") for number in range(4)]
    alone = [item(f"alone {number}", 90, whole_machine=True) for number in range(2)]
    found = arranged([*alone, *short, item("60", 60), item("spark", 0, "spark")], 2)
    assert [each.name for each in found] == [
        "spark",
        "short 0",
        "short 1",
        "short 2",
        "alone 0",
        "alone 1",
        "60",
        "short 3",
    ]


def test_more_long_ones_than_fit_into_a_piece() -> None:
    items = [item(str(number), 100) for number in range(5)] + [item("a"), item("b", 0, "spark")]
    assert sorted(each.name for each in arranged(items, 6)) == sorted(each.name for each in items)
