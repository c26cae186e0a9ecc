"""How many values a test tries: few in a usual run, very many when somebody asks for them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Final, TypeVar

import pytest
from _pytest.mark import ParameterSet

__all__ = ["examples", "sampled", "thin_out"]

T = TypeVar("T")

#: MySQL's dialect is MariaDB's but for a few methods, and so is its driver: one in so many of the tests that both have
#: is for every run.
_OF_MYSQL: Final = 3
_FACTOR = int(os.environ.get("JDBCSTORE_TEST_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """How many Hypothesis makes up: so many, and ``JDBCSTORE_TEST_EXAMPLES`` times as many if that is set."""
    return usual * _FACTOR


def sampled(values: Sequence[T], kept: int) -> list[ParameterSet | T]:
    """Parameters of a test: some of them for every run, the others with the marker ``exhaustive``.

    Args:
        values: all parameters.
        kept: how many have no marker; they are evenly spread, the first one is among them.
    """
    size = len(values)
    usual = {number * size // kept for number in range(min(kept, size))} if kept < size else set(range(size))
    return [
        value if number in usual else pytest.param(value, marks=pytest.mark.exhaustive)
        for number, value in enumerate(values)
    ]


def thin_out(items: Sequence[pytest.Item]) -> None:
    """Give the marker ``exhaustive`` to tests that show again what others show.

    Of those with the marker ``one_in`` one in so many stays, and of those on a server of MySQL that MariaDB has, too,
    unless that marker says something else. The first of each file is among them. What asks for MySQL by itself stays.

    Args:
        items: all tests, in the order of their collection.
    """
    places = {item: _place(item) for item in items}
    on_mariadb = {place for item, place in places.items() if "mariadb" in _parameters(item)}
    seen: Counter[tuple[object, str]] = Counter()
    for item, place in places.items():
        if (mark := item.get_closest_marker("one_in")) is not None:
            step, kind = int(mark.args[0]), "one_in"
        elif "mysql" in _parameters(item) and place in on_mariadb and item.get_closest_marker("server"):
            step, kind = _OF_MYSQL, "mysql"
        else:
            continue
        if seen[item.path, kind] % step:
            item.add_marker(pytest.mark.exhaustive)
        seen[item.path, kind] += 1


def _place(item: pytest.Item) -> str:
    """A test without its parameters."""
    return item.nodeid.partition("[")[0]


def _parameters(item: pytest.Item) -> list[object]:
    callspec = getattr(item, "callspec", None)
    return [] if callspec is None else [value for value in callspec.params.values() if isinstance(value, str)]
