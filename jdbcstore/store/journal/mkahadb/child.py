"""One of several KahaDB stores: a KahaDB store that takes lock and numbers from all of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.scheduler_journal import SchedulerJournal
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.transactions import BufferedTransactionStore
from jdbcstore.store.unlocked import NoLocker

__all__ = ["Child", "Parent"]


class Parent(Protocol):
    """All stores together, as one of them sees them."""

    @property
    def directory(self) -> Path:
        """The one with all of them in it."""

    @property
    def shared_locker(self) -> SharedFileLocker | NoLocker:
        """The lock of all."""

    def next_number(self, least: int, step: int = 1) -> int:
        """A number behind all that were given out in any store, and behind this one."""


class _SharedLocker(NoLocker):
    """The lock of all, as one of the stores sees it."""

    def __init__(self, locker: SharedFileLocker | NoLocker) -> None:
        super().__init__(locker.options)
        self._of_all = locker

    def prove(self) -> None:
        self._of_all.prove()

    def hold(self) -> Callable[[], object]:
        return self._of_all.hold()


class Child(KahaDBPersistenceAdapter):
    """One of the stores.

    Args:
        parent: all of them.
        directory: its own.
        options: how it is kept.
        keeps_jobs: whether the scheduled messages of all are in its index.
    """

    def __init__(self, parent: Parent, directory: Path, options: KahaDBOptions, *, keeps_jobs: bool) -> None:
        self._parent = parent
        super().__init__(directory, options)
        if keeps_jobs:
            self.scheduler = SchedulerJournal(parent.directory, options)

    @property
    def transactions(self) -> BufferedTransactionStore:
        """Its transactions."""
        return self._transactions

    def _new_locker(self) -> NoLocker:
        return _SharedLocker(self._parent.shared_locker)

    def _look_beside(self) -> None:
        """The parent does."""

    def numbers_for(self, xid: XATransactionId) -> list[int]:
        """Numbers for what a prepared transaction adds. The caller holds `order`."""
        index = self.reading()
        return [self.next_sequence() for one in index.operations(index.prepared()[xid]) if one.adds]

    def has_anything(self) -> bool:
        """Whether there is anything in it that somebody may ask for."""
        index = self.reading()
        return bool(self.destinations() or index.prepared() or index.remembers_producers())

    def next_sequence(self) -> int:
        index = self.opened()
        index.given = self._parent.next_number(index.given)
        return index.given
