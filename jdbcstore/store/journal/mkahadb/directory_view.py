"""Looking into a directory of several KahaDB stores: nothing is locked, nothing is changed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.store.journal.directory_view import DirectoryView
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.kahadb.directory_kind import refuse_an_index_alone
from jdbcstore.store.journal.kahadb.recovery import made_anew
from jdbcstore.store.journal.mkahadb.adapter import MKahaDBPersistenceAdapter
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.journal.mkahadb.filters import stores_of
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions

__all__ = ["MKahaDBView", "refuse_what_is_not_several"]


class _ChildView(DirectoryView, Child):
    """One of the stores, with the outcomes of transactions that stand in ``txStore``."""

    def _refuse_another_store(self) -> None:
        super()._refuse_another_store()
        refuse_an_index_alone(self.directory)

    def _made_anew(self, path: Path) -> Index:
        return made_anew(path, self.directory, self.options, self.scheduler)


class MKahaDBView(MKahaDBPersistenceAdapter):
    """Several KahaDB stores, to read.

    Args:
        directory: the one with ``txStore`` in it; it is there.
    """

    def __init__(self, directory: Path | str) -> None:
        super().__init__(directory, MKahaDBOptions(use_lock=False, virtual_topic_consumers=""))

    def start(self) -> None:
        if self._worker is not None:
            raise StoreError("the store is started already")
        refuse_what_is_not_several(self.directory)
        try:
            for path in stores_of(self.directory):
                self._child(path.name)
        except BaseException:
            self._close_children(abandon=True)
            raise
        self._worker = ThreadPoolExecutor(1, "jdbcstore-mkahadb")

    def _new_child(self, name: str) -> Child:
        # Any of them tells the scheduled messages: nobody writes.
        return _ChildView(self, self.directory / name, self.options.of_others(), keeps_jobs=not self._children)

    def scheduling_child_if_there(self) -> Child:
        return self.any_child()

    def child_of(self, destination: Destination) -> Child:
        """The store of a destination, or any that does not know it."""
        return self._where.get(destination) or self.any_child()


def refuse_what_is_not_several(directory: Path) -> None:
    """Make sure that there are KahaDB stores in a directory; nothing is changed.

    Raises:
        ConfigurationError: there is none.
        StoreError: it cannot be read.
    """
    if not stores_of(directory):
        raise ConfigurationError(f"{directory} holds no KahaDB stores: give the directory with 'txStore' in it")
