"""A migration from its first check to the moment that brokers are let in, whatever it copies with.

A `Copier` is one way to bring what is in a store into another that is held, and to compare the two. There are two
ways: `ContentsCopier`, in this process, between stores of any kind; and `RowCopier`, into tables, by `Workers` that
may be on many machines.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Final, Generic, Protocol, TypeVar

from jdbcstore.errors import StoreError
from jdbcstore.migration.migrated import Migrated
from jdbcstore.migration.target import Target

__all__ = ["Copier", "MigrationPlan", "Workers"]

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")
T_target = TypeVar("T_target", bound=Target)
T_contra = TypeVar("T_contra", bound=Target, contravariant=True)

#: Differences that are told; more are counted.
_TOLD: Final = 5


class Workers(Protocol):
    """Those who copy and compare partitions at the same time."""

    def run(self, title: str, action: Callable[[], T]) -> T:
        """Do one step of a migration, and show how far it is. Raises what the action raises."""

    def map(
        self, work: Callable[[Iterable[P]], Iterator[R]], partitions: Sequence[P], tasks_max: int | None = None
    ) -> list[R]:
        """Have some work done on all partitions; to be called within a step.

        Args:
            work: a function, which may be pickled, from the partitions of one task to its results. It may be called
                again for a task that has failed.
            partitions: values that may be pickled.
            tasks_max: how many may work at the same time; None for any number.
        """


class Copier(Protocol[T_contra]):
    """One way to bring what is in a store into another."""

    #: What to do when the stores are not alike.
    advice: str

    def survey(self, done: Migrated) -> None:
        """Fill in what would be copied; changes nothing."""

    def copy(self, target: T_contra, done: Migrated) -> list[str]:
        """Copy what is not there yet, compare both, and fill in what was done.

        Returns:
            What is not alike, in words.

        Raises:
            StoreError: one of the stores cannot be read or written.
        """


@dataclass(frozen=True)
class MigrationPlan(Generic[T_target]):
    """What is to be migrated, where to, and how.

    Args:
        source, target: the stores, without passwords.
        copier: how.
        hold: holds the target against everybody else; the end of the block lets brokers in if `Target.finish` was
            called, else nothing does, not even a crash.
        is_live: whether a broker is at work on the source.
    """

    source: str
    target: str
    copier: Copier[T_target]
    hold: Callable[[], AbstractContextManager[T_target]]
    is_live: bool = False

    def survey(self) -> Migrated:
        """What it would do; nothing is changed."""
        done = Migrated(self.source, self.target, is_dry=True, is_live=self.is_live)
        self.copier.survey(done)
        return done

    def carry_out(self) -> Migrated:
        """Do it, from where an earlier run stopped.

        Raises:
            ConfigurationError: the target cannot be used; the text says why.
            LockHeld: a broker or another migration has it.
            StoreError: the stores cannot be read or written, or are not alike afterwards.
        """
        done = Migrated(self.source, self.target, is_live=self.is_live)
        with self.hold() as target:
            different = self.copier.copy(target, done)
            if different:
                more = f" and {len(different) - _TOLD} more" if len(different) > _TOLD else ""
                raise StoreError(
                    f"the stores are not alike: {'; '.join(different[:_TOLD])}{more}. The target stays closed to"
                    f" brokers; {self.copier.advice}"
                )
            target.finish()
        return done
