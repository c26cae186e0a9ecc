"""The store for non-persistent messages that do not fit into memory.

It is opened when it may soon be needed, since that takes some tenths of a second on a busy machine, or at the first
need. When that fails, whoever needed it is told, and the next one tries again. Somebody may tidy up the folder that its
files are in: those who have them open go on reading what is in them, and when that is nothing any more, the next
message opens a new one.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable, Iterable
from typing import Protocol, TypeAlias, runtime_checkable

from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError, StoreError
from jdbcstore.store.contract import PersistenceAdapter

__all__ = ["Removable", "Spool", "User"]

log = logging.getLogger(__name__)

Read: TypeAlias = Callable[[Callable[[], PersistenceAdapter]], "asyncio.Future[PersistenceAdapter]"]


@runtime_checkable
class Removable(Protocol):
    """A store whose files somebody else may remove while it is open."""

    def is_removed(self) -> bool:
        """Whether somebody has."""


class User(Protocol):
    """Something whose messages may be in the spool."""

    def needs_spool(self) -> bool:
        """Whether some are, or are on their way to it or from it."""

    def let_go_of_spool(self) -> None:
        """Ask for it anew at the next need."""


class Spool:
    """The store of one broker; closed at first.

    Args:
        make: makes a store, not started.
    """

    def __init__(self, make: Callable[[], PersistenceAdapter]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._store: PersistenceAdapter | None = None
        self._opening: asyncio.Future[PersistenceAdapter] | None = None
        #: Why it could not be opened in a thread; the next one who needs it hears that.
        self._failure: StoreError | None = None
        #: Whether anybody waits for its being opened, and whether that was tried before.
        self._is_needed = self._was_tried_ahead = False
        self._is_told = False

    @property
    def store(self) -> PersistenceAdapter:
        """The store, opened if it is not.

        Raises:
            StoreError: that is not possible now.
        """
        if self._store is not None:
            return self._store
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return self._opened()

    def opening(self, read: Read) -> asyncio.Future[PersistenceAdapter] | None:
        """Its being opened in a thread, which begins if it was not opened yet; None if that is over.

        Args:
            read: calls a function in a thread.
        """
        self._is_needed = True
        return self._begin(read)

    def open_ahead(self, read: Read) -> None:
        """Have it opened in a thread before anybody needs it. That is tried once; should it fail, nobody is refused."""
        if not self._was_tried_ahead:
            self._was_tried_ahead = True
            self._begin(read)

    def _begin(self, read: Read) -> asyncio.Future[PersistenceAdapter] | None:
        if self._store is None and self._opening is None and self._failure is None:
            self._opening = read(self._opened)
            self._opening.add_done_callback(self._opening_done)
        return self._opening

    def _opening_done(self, opening: asyncio.Future[PersistenceAdapter]) -> None:
        error = None if opening.cancelled() else opening.exception()
        if opening is self._opening:
            self._opening = None
            if error is not None and not isinstance(error, StoreError):
                error = StoreError(f"the spool cannot be opened: {error!r}")
            self._failure = error if self._is_needed else None
            self._is_needed = False

    def _opened(self) -> PersistenceAdapter:
        with self._lock:
            if self._store is None:
                try:
                    store = self._make()
                    store.start()
                except (OSError, JdbcStoreError) as error:
                    if not self._is_told:
                        log.warning(
                            "the spool cannot be opened, messages that need it are refused: make room in the folder for"
                            " temporary files (TMPDIR) error=%r",
                            str(error),
                        )
                    self._is_told = True
                    raise StoreError(
                        f"a non-persistent message that does not fit into memory cannot be kept: {error}; send it later"
                    ) from error
                self._store, self._is_told = store, False
            return self._store

    def forget(self, queue: Queue) -> None:
        """There is nothing of a queue in it."""
        if self._store is not None:
            self._store.remove_queue_message_store(queue)

    def drop(self) -> None:
        """What is in it is of no use any more."""
        with self._lock:
            store, self._store = self._store, None
            self._opening, self._failure, self._is_told = None, None, False
            self._is_needed = self._was_tried_ahead = False
        if store is not None:
            store.stop()

    def tend(self, users: Callable[[], Iterable[User]]) -> None:
        """Look whether its files are still there; if not, let go of it as soon as nobody needs it."""
        if _is_removed(self._store):
            self._leave(users)

    def _leave(self, users: Callable[[], Iterable[User]]) -> None:
        if not self._is_told:
            log.warning("somebody removed the files of the spool, what is in it is delivered as long as they stay open")
        self._is_told = True
        if not any(user.needs_spool() for user in users()):
            for user in users():
                user.let_go_of_spool()
            self.drop()
            log.warning("the removed spool is empty now, the next message that needs one gets a new one")


def _is_removed(store: object) -> bool:
    return isinstance(store, Removable) and store.is_removed()
