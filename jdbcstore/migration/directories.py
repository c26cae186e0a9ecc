"""A new KahaDB directory as the target of a migration.

It is made beside its place, as ``NAME.migrating``, and gets its name when it is complete: a broker that is started on
the name meanwhile finds nothing, also after a crash.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from jdbcstore.config.urls import journal_options
from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError, LockHeld, StoreError
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.journals import contents_of_amq_store, contents_of_journals, scheduler_in
from jdbcstore.migration.leveldb import contents_of_leveldb_store
from jdbcstore.migration.target import ContentsTarget
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.disk import move
from jdbcstore.store.journal.adapter import JournalPersistenceAdapter
from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.adapter import LevelDBPersistenceAdapter
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker

__all__ = ["check_directory", "directory_target"]

_TRANSACTION_MESSAGES_MAX: Final = (1 << 31) - 1
_TRANSACTION_BYTES_MAX: Final = (1 << 30) - 1
_FOREVER_S: Final = 10 * 365 * 86_400.0
_SUFFIX: Final = ".migrating"


class _DirectoryTarget(ContentsTarget):
    def __init__(self, adapter: JournalPersistenceAdapter | LevelDBPersistenceAdapter, name: str) -> None:
        super().__init__(adapter, name)
        self._directory: Final = adapter.directory

    @contextmanager
    def contents(self, prioritized: Collection[Destination]) -> Iterator[Contents]:
        self.adapter.stop()
        if isinstance(self.adapter, LevelDBPersistenceAdapter):
            with contents_of_leveldb_store(self._directory) as written:
                yield written
            return
        is_amq = isinstance(self.adapter, AMQPersistenceAdapter)
        contents_of = contents_of_amq_store if is_amq else contents_of_journals
        with contents_of(self._directory, scheduler_in(self._directory)) as found:
            yield found

    def empty(self) -> None:
        self.adapter.start()  # what is in it was compared
        super().empty()


@contextmanager
def directory_target(url: str, empty_queues: Collection[Queue]) -> Iterator[ContentsTarget]:
    """A directory with a journal that is not there yet, or empty.

    Args:
        url: ``kahadb:DIRECTORY``, ``amq:DIRECTORY`` or ``leveldb:DIRECTORY``.
        empty_queues: queues that are to be known although they are empty.

    Raises:
        LockHeld: another migration is at it.
        ConfigurationError: it is not empty.
        StoreError: it cannot be written.
    """
    directory, options = journal_options(url)
    check_directory(url)
    work = directory.with_name(directory.name + _SUFFIX)
    locker = SharedFileLocker(work)
    if locker.acquire() is None:
        raise LockHeld(f"another migration to {directory} is under way ({work})")
    known = [VIRTUAL_TOPIC_CONSUMERS, *(queue for queue in empty_queues if not queue.is_composite)]
    options = replace(
        options,
        use_lock=False,
        transaction_messages_max=_TRANSACTION_MESSAGES_MAX,
        transaction_bytes_max=_TRANSACTION_BYTES_MAX,
        producer_memory_s=_FOREVER_S,
        virtual_topic_consumers=",".join(queue.physical_name for queue in known),
    )
    try:
        adapter: JournalPersistenceAdapter | LevelDBPersistenceAdapter
        if isinstance(options, AMQOptions):
            adapter = AMQPersistenceAdapter(work, options)
        elif isinstance(options, LevelDBOptions):
            adapter = LevelDBPersistenceAdapter(work, options)
        else:
            adapter = KahaDBPersistenceAdapter(work, options)
        with adapter:
            target = _DirectoryTarget(adapter, f"{url.partition(':')[0]}:{directory}")
            yield target
        if target.is_complete:
            _name(work, directory)
    finally:
        locker.release()


def _name(work: Path, directory: Path) -> None:
    try:
        move(work, directory)
    except OSError as error:
        raise StoreError(
            f"the migration is complete in {work}, and cannot be named {directory}: {error.strerror}"
        ) from error


def check_directory(url: str) -> str:
    """Make sure that a migration to a directory would begin, or go on; changes nothing. Returns the store's name.

    Raises:
        ConfigurationError: there is something in it.
    """
    directory, _ = journal_options(url)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(
            f"the target is not empty: there is something in {directory}. Migrate into a directory that does not exist"
        )
    return f"{url.partition(':')[0]}:{directory}"
