"""How many values a test tries: few in a usual run, very many when somebody asks for them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, TypeVar

import pytest
from _pytest.mark import ParameterSet

__all__ = ["examples", "sampled", "thin_out"]

T = TypeVar("T")

#: Servers that repeat most of what another one shows, and one in how many of the tests that both have is for every run.
#: MySQL's dialect is MariaDB's but for a few methods, as its driver is.
_REPEATING: Final = {"mysql": ("mariadb", 6), "mariadb": ("postgresql15", 2), "postgresql18": ("postgresql15", 6)}
#: The same where the subject is what the store does, with statements that SQLAlchemy writes for every server.
_REPEATING_STORE: Final = {
    "mysql": ("mariadb", 10),
    "mariadb": ("postgresql15", 4),
    "postgresql18": ("postgresql15", 6),
}
#: The same of the contract, which knows no SQL: `tests/sql` has what a server does otherwise.
_REPEATING_CONTRACT: Final = _REPEATING_STORE | {"postgresql15": ("sqlite", 3)}
#: The same of Spark, which reads each database by statements of its own.
_REPEATING_SPARK: Final = {"mysql": ("mariadb", 8), "mariadb": ("postgresql15", 3), "postgresql18": ("postgresql15", 6)}
_OF_FOLDER: Final = {"contract": _REPEATING_CONTRACT, "sql": _REPEATING_STORE, "spark": _REPEATING_SPARK}
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

    Of those with the marker ``one_in`` one in so many stays, and of those on MySQL that MariaDB has, too, on
    MariaDB that PostgreSQL has, and on the newer PostgreSQL, unless that marker says something else. The first of
    each file is among them. What asks for one of these servers by itself stays. The marker's ``of`` has the
    parameters that it is about, such as servers: all others stay. With the marker ``variants`` one in so many of
    each test stays, so one at least.

    Args:
        items: all tests, in the order of their collection.
    """
    chosen = {item: {value for value in _parameters(item) if isinstance(value, str)} for item in items}
    shown = {(_place(item), value) for item, values in chosen.items() for value in values}
    seen: Counter[tuple[object, str]] = Counter()
    for item, values in chosen.items():
        place = _place(item)
        repeated = _OF_FOLDER.get(item.path.parent.name, _REPEATING)
        repeating = next(
            (one for one, (other, _) in repeated.items() if one in values and (place, other) in shown), None
        )
        if (mark := item.get_closest_marker("one_in")) is not None:
            if mark.kwargs and values.isdisjoint(mark.kwargs["of"].split()):
                continue
            step, kind = int(mark.args[0]), "one_in"
        elif (mark := item.get_closest_marker("variants")) is not None:
            step, kind = int(mark.args[0]), place
        elif repeating is not None and item.get_closest_marker("server"):
            step, kind = repeated[repeating][1], repeating
        else:
            continue
        if seen[item.path, kind] % step:
            item.add_marker(pytest.mark.exhaustive)
        seen[item.path, kind] += 1


def _place(item: pytest.Item) -> str:
    """A test without its parameters."""
    return item.nodeid.partition("[")[0]


def _parameters(item: pytest.Item) -> Iterable[object]:
    callspec = getattr(item, "callspec", None)
    return () if callspec is None else callspec.params.values()
