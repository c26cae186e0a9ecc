"""Who is told what by the thread that commits, whatever it commits to."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

import pytest

from jdbcstore.errors import (
    JdbcStoreError,
    LeaseLost,
    MessageTooLarge,
    OutcomeUnknown,
    SchemaMismatch,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import Abandoned, BatchLimits, CommitTarget, GroupCommit, Unit
from jdbcstore.store.refusals import Division

WAIT_S = 60.0


class Work(Unit):
    """A number, and what has to be known about it."""

    __slots__ = ("is_alone", "may_cancel", "number", "size", "takes_room")

    is_alone: bool
    may_cancel: Sequence[int]
    size: int
    takes_room: bool
    weight = 1

    def __init__(
        self,
        number: int,
        *,
        follows: Sequence[Unit] = (),
        is_alone: bool = False,
        takes_room: bool = True,
        size: int = 1,
        may_cancel: Sequence[int] = (),
    ) -> None:
        self.completion: Completion[Any] = Completion()
        self.result = number
        self.follows = [one.completion for one in follows]
        self.number = number
        self.is_alone = is_alone
        self.takes_room = takes_room
        self.size = size
        self.may_cancel = may_cancel

    def cancel(self, numbers: Collection[int]) -> None:
        assert self.number in numbers
        self.number = 0


class Several(Work):
    """Numbers that need not be stored together; its own is their sum."""

    __slots__ = ("numbers",)

    def __init__(self, *numbers: int) -> None:
        super().__init__(sum(numbers))
        self.numbers = numbers

    @property
    def count(self) -> int:
        return len(self.numbers)

    def divided(self) -> Sequence[Work]:
        division = Division(self.completion, len(self.numbers))
        parts = [Work(number) for number in self.numbers]
        for part in parts:
            part.completion = division.part(part.number)
        return parts


class Numbers(CommitTarget[Work]):
    """Stores numbers. What an attempt does is said by `act`, which gets them."""

    def __init__(self, limits: BatchLimits | None = None) -> None:
        limits = limits or BatchLimits(100, 100, is_strict=False)
        self.commits = GroupCommit(self, limits, "numbers", cancels=True)
        self.tried: list[list[int]] = []
        self.stored: list[int] = []
        self.settled: list[list[int]] = []
        self.act: Callable[[list[int]], object] = lambda numbers: None
        self.settle: Callable[[list[int]], object] = self.settled.append
        self.bad: dict[int, StoreError] = {}
        self.events: list[str] = []

    def attempt(self, batch: Sequence[Work]) -> Callable[[], object]:
        for one in list(batch):
            if (error := one.let_down() or self.bad.get(one.number)) is not None:
                self.commits.refuse(one, error)
        numbers = [one.number for one in batch]
        self.tried.append(numbers)
        self.act(numbers)
        self.commits.sending()
        self.stored += numbers
        return lambda: self.settle(numbers)

    def finish(self) -> None:
        self.events.append("finish")

    def leave(self) -> None:
        self.events.append("leave")

    def run(self, *works: Work) -> list[type[BaseException] | int]:
        """Commit what is there as one batch; what became of each."""
        for work in works:
            self.commits.submit(work)
        self.commits.start()
        self.commits.stop()
        return outcomes(works)


class Gate:
    """Holds an attempt."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.opened = threading.Event()

    def __call__(self, *_: object) -> None:
        self.reached.set()
        assert self.opened.wait(WAIT_S)


def outcomes(works: Sequence[Work]) -> list[type[BaseException] | int]:
    return [work.number if (error := work.completion.exception(0)) is None else type(error) for work in works]


def refusing(error: JdbcStoreError, *bad: int) -> Callable[[list[int]], None]:
    """Attempts fail that contain something bad."""

    def act(numbers: list[int]) -> None:
        if not set(bad).isdisjoint(numbers):
            raise error

    return act


@pytest.fixture
def target() -> Iterator[Numbers]:
    target = Numbers()
    yield target
    target.commits.abandon()
    assert target.commits.has_ended(WAIT_S)


def test_what_waits_is_one_batch_and_is_answered_in_its_order(target: Numbers) -> None:
    told: list[int] = []
    works = [Work(number) for number in range(1, 6)]
    for work in works:
        work.completion.add_done_callback(lambda done: told.append(done.result()))
    assert target.run(*works) == [1, 2, 3, 4, 5]
    assert target.tried == target.settled == [[1, 2, 3, 4, 5]]
    assert told == [1, 2, 3, 4, 5]
    assert target.events == ["finish", "leave"]


def test_it_is_settled_before_anybody_is_told(target: Numbers) -> None:
    work = Work(1)
    target.settle = lambda _: target.events.append(f"told: {work.completion.done}")
    target.run(work)
    assert target.events[0] == "told: False"


@pytest.mark.parametrize(
    ("is_strict", "tried"), [(False, [[1, 2, 3], [4]]), (True, [[1, 2], [3], [4]])], ids=["loose", "strict"]
)
def test_a_batch_is_limited(is_strict: bool, tried: list[list[int]]) -> None:
    target = Numbers(BatchLimits(100, 10, is_strict=is_strict))
    assert target.run(*(Work(number, size=4) for number in range(1, 5))) == [1, 2, 3, 4]
    assert target.tried == tried


def test_a_batch_is_limited_by_weight() -> None:
    target = Numbers(BatchLimits(2, 100, is_strict=False))
    target.run(*(Work(number) for number in range(1, 6)))
    assert target.tried == [[1, 2], [3, 4], [5]]


def test_one_that_is_larger_than_the_limit_fits(target: Numbers) -> None:
    target = Numbers(BatchLimits(100, 10, is_strict=True))
    assert target.run(Work(1, size=1000), Work(2)) == [1, 2]


def test_what_has_to_be_alone_is(target: Numbers) -> None:
    assert target.run(Work(1), Work(2), Work(3, is_alone=True), Work(4)) == [1, 2, 3, 4]
    assert target.tried == [[1, 2], [3], [4]]


@pytest.mark.parametrize("bad", [1, 4, 8])
def test_a_bad_one_is_found_by_halving_and_fails_alone(target: Numbers, bad: int) -> None:
    target.act = refusing(MessageTooLarge("too large"), bad)
    good = [number for number in range(1, 9) if number != bad]
    assert [one for one in target.run(*map(Work, range(1, 9))) if isinstance(one, int)] == good
    assert target.stored == good


@pytest.mark.parametrize("bad", [1, 2, 3, 4])
def test_what_need_not_be_stored_together_is_divided_when_it_fails(target: Numbers, bad: int) -> None:
    error = MessageTooLarge("too large")
    target.act = refusing(error, bad, 10)  # as a whole, 1 + 2 + 3 + 4, it fails, too
    first, several, last = Work(11), Several(1, 2, 3, 4), Work(12)
    assert target.run(first, several, last)[::2] == [11, 12]
    assert several.completion.result(0) == {bad: error}
    assert target.stored == [11, *(number for number in (1, 2, 3, 4) if number != bad), 12], "in their order"


def test_it_fails_if_all_its_parts_do(target: Numbers) -> None:
    target.act = refusing(MessageTooLarge("too large"), 1, 2, 3)
    assert target.run(Several(1, 2)) == [MessageTooLarge]
    assert target.tried == [[3], [1], [2]]


@pytest.mark.parametrize("error", [TransientStoreError("deadlock"), OutcomeUnknown("?"), StoreFull("full")])
def test_it_is_not_divided_when_that_does_not_help(target: Numbers, error: StoreError) -> None:
    target.act = refusing(error, 3)
    assert target.run(Several(1, 2)) == [type(error)]
    assert target.tried == [[3]]


def test_its_parts_are_told_when_the_store_is_abandoned(target: Numbers) -> None:
    gate, several = Gate(), Several(1, 2)

    def act(numbers: list[int]) -> None:
        if numbers == [3]:
            raise MessageTooLarge("too large")
        if numbers == [2]:
            gate()

    target.act = act
    target.commits.submit(several)
    target.commits.start()
    assert gate.reached.wait(WAIT_S)
    target.commits.abandon()
    gate.opened.set()
    refusals = several.completion.result(WAIT_S)
    assert {number: type(error) for number, error in refusals.items()} == {2: StoreUnavailable}


def test_the_writes_of_a_commit_are_those_of_its_callers(target: Numbers) -> None:
    target.run(Work(1), Several(2, 3, 4))
    assert (target.commits.numbers.writes.count, target.commits.numbers.writes.total) == (1, 4)


def test_a_bad_one_that_is_known_fails_without_another_attempt(target: Numbers) -> None:
    target.bad = {2: MessageTooLarge("too large")}
    assert target.run(*map(Work, range(1, 4))) == [1, MessageTooLarge, 3]
    assert target.tried == [[1, 3]]


@pytest.mark.parametrize("is_known", [False, True])
def test_what_follows_a_bad_one_fails_and_what_follows_that(target: Numbers, is_known: bool) -> None:
    if is_known:
        target.bad = {2: MessageTooLarge("too large")}
    else:
        target.act = refusing(MessageTooLarge("too large"), 2)
    first, bad = Work(1), Work(2)
    following = Work(3, follows=[first, bad])
    last = Work(4, follows=[following])
    found = target.run(first, bad, following, last, Work(5, follows=[first]))
    assert found == [1, MessageTooLarge, TransientStoreError, TransientStoreError, 5]
    assert "too large" in str(last.completion.error)
    assert target.stored == [1, 5]


@pytest.mark.parametrize(
    "error", [TransientStoreError("deadlock"), OutcomeUnknown("?"), SchemaMismatch("no table"), StoreUnavailable("!")]
)
def test_what_halves_do_not_mend_is_everybodys(target: Numbers, error: StoreError) -> None:
    target.act = refusing(error, 2)
    assert target.run(*map(Work, range(1, 5))) == [type(error)] * 4
    assert len(target.tried) == 1


def test_a_full_disk_fails_what_needs_room(target: Numbers) -> None:
    target.act = refusing(StoreFull("full"), 1, 3)
    works = [Work(1), Work(2, takes_room=False), Work(3), Work(4, takes_room=False)]
    assert target.run(*works) == [StoreFull, 2, StoreFull, 4]
    assert target.tried == [[1, 2, 3, 4], [2, 4]]


def test_a_disk_so_full_that_nothing_can_be_removed_fails_all(target: Numbers) -> None:
    target.act = refusing(StoreFull("full"), 1, 2)
    assert target.run(Work(1), Work(2, takes_room=False)) == [StoreFull, StoreFull]


def test_nothing_is_written_when_mastership_is_lost(target: Numbers) -> None:
    target.act = refusing(LeaseLost("another is master"), 2)
    assert target.run(Work(1), Work(2), Work(3, is_alone=True)) == [LeaseLost] * 3
    assert target.tried == [[1, 2]]
    assert target.stored == []


def test_a_defect_leaves_nobody_waiting_and_nothing_is_written_on_top_of_it(target: Numbers) -> None:
    def act(numbers: list[int]) -> None:
        raise ZeroDivisionError

    target.act = act
    assert target.run(Work(1), Work(2), Work(3, is_alone=True)) == [OutcomeUnknown, OutcomeUnknown, StoreUnavailable]
    assert len(target.tried) == 1
    assert target.events == ["finish", "leave"]


def test_what_is_stored_is_told_though_it_cannot_be_settled(target: Numbers) -> None:
    def settle(numbers: list[int]) -> None:
        raise ZeroDivisionError

    target.settle = settle
    assert target.run(Work(1), Work(2, is_alone=True)) == [1, StoreUnavailable]


def test_an_add_is_cancelled_by_its_remove_and_both_are_answered(target: Numbers) -> None:
    gate = target.act = Gate()
    target.commits.start()
    first, add, remove = Work(1), Work(7, may_cancel=[7]), Work(8)
    target.commits.submit(first)
    assert gate.reached.wait(WAIT_S)
    left: list[Sequence[int]] = []
    target.commits.submit(add)
    target.commits.submit_remove([7, 5], lambda numbers: left.append(numbers) or remove)  # type: ignore[func-returns-value]
    gate.opened.set()
    target.commits.stop()
    assert outcomes([first, add, remove]) == [1, 0, 8]
    assert left == [[5]]


# -- abandoning ------------------------------------------------------------------------------------------------------


def abandoned(target: Numbers, gate: Gate, *works: Work) -> list[type[BaseException] | int]:
    """Abandon while the first batch is being attempted; what everybody was told at once."""
    target.act = lambda _: None
    for work in works:
        target.commits.submit(work)
    target.commits.start()
    assert gate.reached.wait(WAIT_S)
    late = Work(99)
    target.commits.submit(late)
    target.commits.abandon()
    told = outcomes([*works, late])
    gate.opened.set()
    assert target.commits.has_ended(WAIT_S)
    assert target.events == ["leave"]
    with pytest.raises(StoreClosed):
        target.commits.submit(Work(100))
    return told


class BeforeSending(Numbers):
    """Stands still before a batch is sent."""

    gate: Gate

    def attempt(self, batch: Sequence[Work]) -> Callable[[], object]:
        self.gate()
        return super().attempt(batch)


class AfterSending(Numbers):
    """Stands still after a batch was sent."""

    gate: Gate

    def attempt(self, batch: Sequence[Work]) -> Callable[[], object]:
        settle = super().attempt(batch)
        self.gate()
        return settle


def test_what_was_not_sent_is_not_stored_and_never_will_be() -> None:
    target = BeforeSending()
    target.gate = Gate()
    works = [Work(1), Work(2), Work(3, is_alone=True)]
    assert abandoned(target, target.gate, *works) == [StoreUnavailable] * 4
    assert target.stored == []
    assert target.commits.has_settled(0)


def test_nobody_knows_of_what_was_sent_and_of_nothing_else() -> None:
    target = AfterSending()
    target.gate = Gate()
    works = [Work(1), Work(2), Work(3, is_alone=True)]
    told = abandoned(target, target.gate, *works)
    assert told == [OutcomeUnknown, OutcomeUnknown, StoreUnavailable, StoreUnavailable]
    assert target.stored == [1, 2]
    assert target.settled == [], "who abandons a store does not want to hear of it"


def test_it_is_settled_when_what_was_sent_is_over() -> None:
    target = AfterSending()
    target.gate = Gate()
    target.commits.submit(Work(1))
    target.commits.start()
    assert target.gate.reached.wait(WAIT_S)
    target.commits.abandon()
    assert not target.commits.has_settled(0.01)
    target.gate.opened.set()
    assert target.commits.has_settled(WAIT_S)


def test_a_failure_that_comes_after_abandoning_is_told_nobody() -> None:
    class Failing(BeforeSending):
        def attempt(self, batch: Sequence[Work]) -> Callable[[], object]:
            self.gate()
            raise StoreError("too late")

    target = Failing()
    target.gate = Gate()
    assert abandoned(target, target.gate, Work(1)) == [StoreUnavailable] * 2


def test_who_pauses_is_woken(target: Numbers) -> None:
    paused = threading.Event()
    outcome: list[Any] = []

    def act(numbers: list[int]) -> None:
        paused.set()
        try:
            target.commits.pause(WAIT_S)
        except Abandoned as error:
            outcome.append(error)
            raise

    target.act = act
    work = Work(1)
    target.commits.submit(work)
    target.commits.start()
    assert paused.wait(WAIT_S)
    target.commits.abandon()
    assert target.commits.has_ended(WAIT_S)
    assert outcome
    assert outcomes([work]) == [StoreUnavailable]


def test_what_is_looked_after_ends_with_abandoning() -> None:
    """What a target commits of its own accord is the senders' thread, too."""

    class Looking(Numbers):
        gate = Gate()

        def look_after(self) -> None:
            self.gate()
            try:
                self.commits.commit_now([Work(50)])
            except Exception:  # noqa: BLE001  # what a target does with its failures
                self.events.append("taken for a failure")

    target = Looking()
    assert abandoned(target, target.gate, Work(1)) == [1, StoreUnavailable]
    assert target.stored == [1]
