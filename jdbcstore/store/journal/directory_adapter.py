"""What every store in a directory is, whatever keeps its contents: one lock, one thread that commits, one message store
for each destination.

`jdbcstore.store.journal.adapter` derives from it for journals with an index of our own,
`jdbcstore.store.journal.leveldb.adapter` for a log whose contents are in memory.
"""

from __future__ import annotations

import threading
from abc import abstractmethod
from pathlib import Path
from typing import Any, Final, Generic, Protocol, TypeVar

from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError, StoreClosed, StoreError, StoreUnavailable
from jdbcstore.store.commit_numbers import CommitNumbers
from jdbcstore.store.contract import Locker, MessageStore, PersistenceAdapter, TopicMessageStore
from jdbcstore.store.disk import bytes_in
from jdbcstore.store.journal.batch_committer import BatchCommitter
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.journal.store_format import StoreOptions
from jdbcstore.store.unlocked import NoLocker

__all__ = ["Contents", "DirectoryAdapter"]

#: How long to wait for a disk that did not answer when the store was abandoned.
_SETTLE_S: Final = 30.0


class Contents(Protocol):
    """What is in a store that is open."""

    given: int
    """The last number that was given to a message."""


C = TypeVar("C", bound=Contents)
S = TypeVar("S", bound=MessageStore)
T = TypeVar("T", bound=TopicMessageStore)


class DirectoryAdapter(PersistenceAdapter, Generic[C, S, T]):
    """A store in a directory.

    Args:
        directory: of the store.
        options: how it is kept.
        store_kind: of its message stores.
        topic_kind: of those that are topics; it derives from `store_kind`.
        file_pattern: whose access rights new files get.
    """

    #: The one door to the journal.
    committer: BatchCommitter[Any, Any]

    def __init__(
        self, directory: Path, options: StoreOptions, store_kind: type[S], topic_kind: type[T], file_pattern: str
    ) -> None:
        self.directory: Final = directory
        self.options = options
        #: Held while a number is given out and its message submitted: messages are committed in the order of their
        #: numbers.
        self.order: Final = threading.Lock()
        #: In which OpenWire version messages are written: that of the directory, which may not be the configured one.
        self.wire_version = options.store_open_wire_version
        self._file_pattern = file_pattern
        self._store_kind = store_kind
        self._topic_kind = topic_kind
        self._contents: C | None = None
        self._stores: dict[Destination, S] = {}
        self._locker: Final = self._new_locker()
        self._acquired_itself = False

    def _new_locker(self) -> SharedFileLocker | NoLocker:
        """The adapter's locker; somebody who has several stores may have one for all."""
        options = self.options
        if not options.use_lock:
            return NoLocker(options.lock)
        return SharedFileLocker(self.directory, options.lock, file_pattern=self._file_pattern)

    # -- mastership ----------------------------------------------------------------------------------------------

    def locker(self) -> Locker:
        """The adapter's locker, the same from construction on: the shared file lock, which Java brokers take, too.

        Who wants to wait for mastership acquires it first, then calls `start`; the way back is `stop`, then
        `Locker.release`. `start` acquires and in the end releases by itself what nobody has acquired before.
        """
        return self._locker

    def _become_master(self) -> None:
        locker = self._locker
        if isinstance(locker, SharedFileLocker) and locker.lease is None:
            if locker.acquire() is None:
                raise locker.held_by_another()
            self._acquired_itself = True

    def _resign(self) -> None:
        if self._acquired_itself:
            self._acquired_itself = False
            self._locker.release()

    # -- life ----------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """As the contract says. Raises `ConfigurationError` when the directory is another store's."""
        if self._contents is not None:
            raise StoreError("the store is started already")
        self.wait_for_abandoned()
        self._refuse_another_store()
        self._become_master()
        try:
            self._open()
        except BaseException:
            self._resign()
            raise

    def wait_for_abandoned(self) -> None:
        """Return when nothing is written any more that `abandon` did not wait for: it may not come in between.

        Raises:
            StoreUnavailable: the disk does not answer.
        """
        committer: BatchCommitter[Any, Any] | None = getattr(self, "committer", None)
        if committer is not None and not committer.has_ended(_SETTLE_S):
            raise StoreUnavailable("the store was closed without waiting, and its last write is still under way")

    @abstractmethod
    def _refuse_another_store(self) -> None:
        """Raise `ConfigurationError` when the directory is another store's."""

    @abstractmethod
    def _open(self) -> None:
        """Read the directory, set `_contents`, start `committer`. The lock is ours."""

    def stop(self) -> None:
        contents, self._contents = self._contents, None
        if contents is None:
            return
        self.committer.stop()
        self._stores.clear()
        try:
            self._close(contents)
        finally:
            self._resign()

    @abstractmethod
    def _close(self, contents: C) -> None:
        """Everything is written: close the files."""

    def abandon(self) -> None:
        """As the contract says. The journal is closed by the thread that writes it, when the disk answers."""
        contents, self._contents = self._contents, None
        if contents is None:
            return
        self.committer.abandon()
        self._stores.clear()
        self._let_be(contents)
        self._resign()

    @abstractmethod
    def _let_be(self, contents: C) -> None:
        """Close what is read, without waiting."""

    def reading(self) -> C:
        """What is there, to read.

        Raises:
            StoreClosed: stopped.
            StoreUnavailable: a write failed in a way that leaves open what is stored.
        """
        contents = self.opened()
        self.committer.require_sound()
        return contents

    def opened(self) -> C:
        """The same, whatever happened. Raises `StoreClosed` unless started."""
        contents = self._contents
        if contents is None:
            raise StoreClosed("the store is stopped; start it first")
        return contents

    # -- destinations --------------------------------------------------------------------------------------------

    def queue_message_store(self, queue: Queue, *, prioritized: bool = False) -> S:
        self.opened()
        store = self._stores.get(queue)
        if store is None:
            store = self._opened_store(queue, prioritized=prioritized)
            if self.options.is_kept(queue):
                self._keep(store)
        return store

    def remove_queue_message_store(self, queue: Queue) -> None:
        self._stores.pop(queue, None)

    def topic_message_store(self, topic: Topic, *, prioritized: bool = False) -> T:
        """As `SupportsTopics`."""
        self.opened()
        store = self._stores.get(topic) or self._opened_store(topic, prioritized=prioritized)
        assert isinstance(store, self._topic_kind)
        return store

    def remove_topic_message_store(self, topic: Topic) -> None:
        """As `SupportsTopics`."""
        self._stores.pop(topic, None)

    def _opened_store(self, destination: Destination, *, prioritized: bool) -> S:
        contents = self.opened()
        self._check_name(destination)
        with self.order:
            return self._stores.setdefault(destination, self._new_store(contents, destination, prioritized=prioritized))

    @abstractmethod
    def _new_store(self, contents: C, destination: Destination, *, prioritized: bool) -> S:
        """The message store of a queue, or of a topic."""

    @abstractmethod
    def _keep(self, store: S) -> None:
        """Make a queue known although it is empty, unless it is."""

    def _check_name(self, destination: Destination) -> None:
        """Raise `ConfigurationError` unless a destination can be written."""
        name = destination.qualified_name
        if destination.is_composite or destination.is_wildcard:
            raise ConfigurationError(f"{name} names several destinations; a store keeps one")
        try:
            self._encode(name)
        except UnicodeEncodeError:
            raise ConfigurationError(f"{name!r} has characters that the journal does not take") from None

    def _encode(self, name: str) -> bytes:
        """A name as bytes."""
        return name.encode()

    def own(self, store: MessageStore) -> S:
        """A store that was made here and is open. Raises `StoreError` when it is another."""
        if not isinstance(store, self._store_kind) or self._stores.get(store.destination) is not store:
            raise StoreError(f"{store!r} is not an open store of this adapter")
        return store

    def own_topic(self, store: TopicMessageStore) -> T:
        """The same, of a topic."""
        own = self.own(store)
        if not isinstance(own, self._topic_kind):
            raise StoreError(f"{own.destination} is no topic: it has no durable subscriptions")
        return own

    def clean_up(self) -> int:
        """As `SupportsTopics`; there is never anything left."""
        self.opened()
        return 0

    def remove_unneeded_files(self) -> list[int]:
        """Look at once for files of the journal that are not needed. Waits until it is done.

        Returns:
            The numbers of those that are gone.

        Raises:
            StoreError: something could not be written.
        """
        self.opened()
        gone: list[int] = []
        self.committer.run(lambda: gone.extend(self.committer.remove_unneeded_files()))
        return gone

    # -- numbers -------------------------------------------------------------------------------------------------

    def next_sequence(self) -> int:
        """The next number. The caller holds `order`."""
        contents = self.opened()
        contents.given += 1
        return contents.given

    def last_message_broker_sequence_id(self) -> int:
        return self.opened().given

    def checkpoint(self) -> None:
        self.reading()

    def size_bytes(self) -> int | None:
        return bytes_in([self.directory])

    @property
    def commit_numbers(self) -> CommitNumbers | None:
        return None if self._contents is None else self.committer.commits.numbers

    @property
    def writes_waiting(self) -> int:
        return 0 if self._contents is None else self.committer.commits.waiting
