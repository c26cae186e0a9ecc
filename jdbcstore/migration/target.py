"""The store that is migrated to: empty at the beginning, and nobody else's until the migration is complete."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.marker import Marker
from jdbcstore.migration.stores import StoreContents
from jdbcstore.store.contract import PersistenceAdapter, SupportsScheduling, SupportsTransactions

__all__ = ["ContentsTarget", "StoreTarget", "Target"]


class Target:
    """A store that is held for a migration. Who made this lets brokers in when it is complete.

    Args:
        name: of the store, without a password.
    """

    is_complete = False

    def __init__(self, name: str) -> None:
        self.name: Final = name

    def finish(self) -> None:
        """Everything is there, and was compared."""
        self.is_complete = True


class ContentsTarget(Target, ABC):
    """A store that is started, and takes contents of any other.

    Args:
        adapter: what to write with.
        name: of the store, without a password.
    """

    def __init__(self, adapter: PersistenceAdapter, name: str) -> None:
        super().__init__(name)
        self.adapter: Final = adapter

    @abstractmethod
    def contents(self, prioritized: Collection[Destination]) -> AbstractContextManager[Contents]:
        """What is in it now, read anew. Nothing is written to it from then on."""

    def marker(self, source: str) -> Marker:
        """How far the copy of a source has come in it.

        Raises:
            ConfigurationError: something else is in it.
        """
        return Marker(self.adapter, source, has_begun=self._has_begun())

    def _has_begun(self) -> bool:
        adapter = self.adapter
        return (
            bool(adapter.destinations())
            or (isinstance(adapter, SupportsTransactions) and bool(adapter.transaction_store().prepared_transactions()))
            or (isinstance(adapter, SupportsScheduling) and bool(adapter.job_store().job_count()))
        )

    def empty(self) -> None:
        """Remove what an earlier run has left."""
        self.adapter.delete_all_messages()


class StoreTarget(ContentsTarget):
    """A store of any kind. Who gives it sees to it that nobody else gets it."""

    _marker: Marker | None = None

    @contextmanager
    def contents(self, prioritized: Collection[Destination]) -> Iterator[Contents]:
        yield StoreContents(self.adapter, self.name, prioritized)

    def marker(self, source: str) -> Marker:
        self._marker = super().marker(source)
        return self._marker

    def finish(self) -> None:
        super().finish()
        if self._marker is not None:
            self._marker.end()
