"""What is remembered of the outcomes of distributed transactions."""

from __future__ import annotations

import pytest

from jdbcstore.broker.decisions import marks_of, outcome_in, places_of
from jdbcstore.identifiers import ProducerId, XATransactionId

NOW_MS = 1_800_000_000_000


def branch(number: int) -> XATransactionId:
    return XATransactionId(1, b"global", number.to_bytes(4))


def found(transaction_id: XATransactionId, marks: dict[ProducerId, int]) -> bool | None:
    return outcome_in(transaction_id, [marks.get(place, -1) for place in places_of(transaction_id)])


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_outcome_is_known_again_and_by_no_other_transaction(is_commit: bool) -> None:
    marks: dict[ProducerId, int] = {}
    for number in range(2000):
        marks |= marks_of(branch(number), NOW_MS + number, is_commit=is_commit)
    assert all(found(branch(number), marks) is None for number in range(2000, 60_000))
    known = [found(branch(number), marks) for number in range(2000)]
    assert set(known) <= {is_commit, None}
    assert known.count(None) < 300, "only those whose place another one has taken"
    assert known[-1] is is_commit


def test_a_later_decision_counts_whatever_it_is() -> None:
    one = branch(1)
    for is_commit in (True, False):
        first, second = (marks_of(one, NOW_MS + ms, is_commit=is_commit == (ms == 1)) for ms in (0, 1))
        assert all(second[place] > first[place] for place in places_of(one))
        assert found(one, second) is is_commit


def test_numbers_fit_into_a_column_and_halves_of_two_decisions_tell_nothing() -> None:
    latest = marks_of(branch(1), 3_755_000_000_000, is_commit=True)  # 2088
    assert all(0 <= number < 1 << 63 for number in latest.values())
    one, other = places_of(branch(1))
    earlier = marks_of(branch(1), NOW_MS, is_commit=True)
    assert outcome_in(branch(1), [latest[one], earlier[other]]) is None
