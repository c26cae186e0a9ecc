"""The mark and the ranges above it, against a set of numbers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.store.jdbc.marks import NOTHING, Acknowledged, Draft, Range

IDS = st.lists(st.integers(1, 40), unique=True, min_size=1, max_size=20).map(sorted)


def acknowledge(draft: Draft, ids: list[int], id: int) -> None:
    """As the planner does: with everything behind the message before."""
    end = draft.end_below(id)
    draft.add(max([end, *(other for other in ids if end < other < id)]) + 1, id)


def drafted(mark: int, *ranges: tuple[int, int]) -> Draft:
    return Draft(Acknowledged(mark, [Range(*one) for one in ranges]))


@given(IDS, st.data())
def test_it_is_the_set_of_what_was_acknowledged_in_any_order(ids: list[int], data: st.DataObject) -> None:
    mark = data.draw(st.sampled_from([NOTHING, 0, *ids]))
    done = {id for id in ids if id <= mark}
    committed, written = Acknowledged(mark), set[Range]()
    for batch in data.draw(batches([id for id in ids if id > mark])):
        draft = Draft(committed)
        for id in batch:
            acknowledge(draft, ids, id)
            done.add(id)
        after = draft.committed()
        assert after.mark >= committed.mark
        # What is written again is what has changed, and nothing else has.
        written = {one for one in written if one.first not in draft.touched}
        written |= {one for one in after.ranges if one.first in draft.touched}
        assert written == set(after.ranges)
        committed = after
        assert {id for id in ids if id in committed} == done
        assert_canonical(committed, ids, done)
        assert [id for gap in committed.gaps(40) for id in ids if gap.first <= id <= gap.last] == [
            id for id in ids if id not in done
        ]
    assert not committed.ranges
    assert committed.mark == max(max(ids), mark)


def batches(ids: list[int]) -> st.SearchStrategy[list[list[int]]]:
    """All ids in some order, in parts."""

    def cut(order: list[int]) -> st.SearchStrategy[list[list[int]]]:
        sizes = st.lists(st.integers(1, 4), min_size=len(order), max_size=len(order))
        return sizes.map(lambda sizes: list(parts(order, sizes)))

    return st.permutations(ids).flatmap(cut)


def parts(order: list[int], sizes: list[int]) -> list[list[int]]:
    found, start = [], 0
    for size in sizes:
        found.append(order[start : start + size])
        start += size
    return found


def assert_canonical(acknowledged: Acknowledged, ids: list[int], done: set[int]) -> None:
    """Between two ranges, and between the mark and the first, there is a message that is not acknowledged."""
    end = acknowledged.mark
    assert all(id in done for id in ids if id <= end)
    for first, last in acknowledged.ranges:
        assert first <= last
        assert any(end < id < first and id not in done for id in ids)
        end = last


@given(IDS, st.data())
def test_reading_goes_on_behind_a_range(ids: list[int], data: st.DataObject) -> None:
    draft = Draft(Acknowledged(data.draw(st.sampled_from([NOTHING, *ids]))))
    for id in data.draw(st.lists(st.sampled_from(ids))):
        if id not in draft:
            acknowledge(draft, ids, id)
    for id in range(42):
        after = draft.skipped(id)
        assert after >= id
        assert all(between in draft for between in range(id + 1, after + 1))
        assert after + 1 not in draft


def test_a_million_above_one_that_is_held_are_one_range() -> None:
    draft = drafted(4)
    for id in range(7, 1_000):
        draft.add(id, id)
    assert draft.ranges == [Range(7, 999)]
    draft.add(5, 6)
    assert (draft.mark, draft.ranges) == (999, [])


def test_a_purge_takes_in_everything_up_to_an_id() -> None:
    draft = drafted(4, (7, 8), (12, 15), (20, 30))
    draft.add(draft.mark + 1, 13)
    assert (draft.mark, draft.ranges) == (15, [Range(20, 30)])
    draft.add(draft.mark + 1, 3)
    assert draft.mark == 15
    assert draft.touched == {7, 12}


def test_what_is_above_the_mark_of_a_retroactive_subscription_can_be_told_from_its_successors() -> None:
    draft = drafted(NOTHING)
    draft.add(5, 5)
    assert (draft.mark, draft.ranges) == (0, [Range(5, 5)])
    draft.add(1, 1)
    assert (draft.mark, draft.ranges) == (1, [Range(5, 5)])


def test_a_draft_leaves_what_is_committed_as_it_is() -> None:
    committed = Acknowledged(4, [Range(7, 8)])
    draft = Draft(committed)
    draft.add(5, 6)
    draft.add(10, 11)
    assert (committed.mark, committed.ranges) == (4, [Range(7, 8)])
