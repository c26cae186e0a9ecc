"""What ours answers is compared with all that a real ActiveMQ answers."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import pytest

from tests.compat.oracle import differences


def test_the_real_one_is_asked_again_only_for_what_is_different() -> None:
    asked: list[list[str]] = []

    def ask(names: Collection[str]) -> Mapping[str, int]:
        asked.append(list(names))
        return dict.fromkeys(names, len(asked) + 1)

    assert differences({"same": 1, "second": 2, "third": 3}, {"same": 1, "second": 1, "third": 1}, ask) == {}
    assert asked == [["second", "third"], ["third"]]


def test_what_it_never_answers_is_told_with_all_that_it_did() -> None:
    found = differences({"a": 0}, {"a": 1}, lambda names: dict.fromkeys(names, 2))
    assert found == {"a": (0, [1, 2, 2])}


def test_no_answer_is_not_the_same_as_none_of_ours() -> None:
    found = differences(
        {"a": "late"}, {"a": "late"}, lambda names: dict.fromkeys(names, "in time"), is_answer="late".__ne__
    )
    assert found == {"a": ("late", ["late", "in time", "in time"])}


def test_the_checks_are_the_same() -> None:
    with pytest.raises(AssertionError, match="b"):
        differences({"a": 1, "b": 2}, {"a": 1}, lambda _: {})
