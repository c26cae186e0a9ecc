"""How many values a test tries: few in a usual run, very many when somebody asks for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TypeVar

import pytest
from _pytest.mark import ParameterSet

__all__ = ["examples", "sampled"]

T = TypeVar("T")

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
