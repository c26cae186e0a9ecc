"""What callers ask of the thread that commits, whatever the parts of a write are in a format."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, Generic, Protocol, TypeVar

from jdbcstore.errors import JdbcStoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import IndependentAdds, Unit
from jdbcstore.store.refusals import NOTHING_REFUSED, Refusals

__all__ = ["Adds", "Sized", "Write"]


class Sized(Protocol):
    """Something that a write does. What it has to be able to do besides is said where its records are made."""

    size: int
    """About how many bytes it takes in the journal."""
    takes_room: bool


P = TypeVar("P", bound=Sized)


class Write(Unit, Generic[P]):
    """One thing to be made durable.

    Args:
        completion: told the outcome.
        result: what it is resolved with.
        parts: what is to be done, in this order.
        follows: writes without which this one is not done.
        may_cancel: the sequences of the messages that its first parts add, if their removes may cancel these.
        is_alone: whether it needs to see everything before it, and everything behind it has to see it.
        task: what the thread runs instead of writing; what it raises is the outcome.
        undo: called when it was not done.
    """

    __slots__ = ("is_alone", "may_cancel", "parts", "size", "task", "undo")

    #: Whether brokers of the format have to take all its records or none, too.
    is_whole: ClassVar[bool] = True

    is_alone: bool
    may_cancel: Sequence[int]
    size: int

    def __init__(
        self,
        completion: Completion[Any],
        result: object = None,
        *,
        parts: Sequence[P] = (),
        follows: Sequence[Completion[Any]] = (),
        may_cancel: Sequence[int] = (),
        is_alone: bool = False,
        task: Callable[[], object] | None = None,
        undo: Callable[[], object] | None = None,
    ) -> None:
        self.completion = completion
        self.result = result
        self.parts = parts
        self.follows = follows
        self.may_cancel = may_cancel
        self.is_alone = is_alone
        self.task = task
        self.undo = undo
        self.size = sum(part.size for part in parts)

    def cancel(self, numbers: Collection[int]) -> None:
        first = len(self.may_cancel)
        both = zip(self.parts[:first], self.may_cancel, strict=True)
        left = [(part, number) for part, number in both if number not in numbers]
        self.parts = [*(part for part, _ in left), *self.parts[first:]]
        self.may_cancel = [number for _, number in left]

    @property
    def takes_room(self) -> bool:
        return any(part.takes_room for part in self.parts)

    @property
    def weight(self) -> int:
        return len(self.parts)

    def fail(self, error: JdbcStoreError) -> None:
        if self.undo is not None:
            self.undo()
        self.completion.fail(error)


class Adds(IndependentAdds, Write[P]):
    """Messages of one queue, each for itself.

    Args:
        completion: resolved with the refusals.
        parts: what adds them, one for each.
        sequences: theirs.
    """

    __slots__ = ()

    is_whole = False

    def __init__(self, completion: Completion[Refusals], parts: Sequence[P], sequences: Sequence[int]) -> None:
        super().__init__(completion, NOTHING_REFUSED, parts=parts, may_cancel=sequences)

    def part(self, place: int, completion: Completion[int]) -> Write[P]:
        number = self.may_cancel[place]
        return Write(completion, number, parts=(self.parts[place],), may_cancel=(number,))
