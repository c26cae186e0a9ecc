"""A new KahaDB directory as the target of a migration.

It is made beside its place, as ``NAME.migrating``, and gets its name when it is complete: a broker that is started on
the name meanwhile finds nothing, also after a crash.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from jdbcstore.config.urls import kahadb_options
from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError, LockHeld, StoreError
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.journals import contents_of_journals
from jdbcstore.migration.marker import Marker
from jdbcstore.migration.target import Target
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS, ScheduledJob
from jdbcstore.store.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.kahadb.appending import Appender
from jdbcstore.store.kahadb.commands import AddScheduledJob
from jdbcstore.store.kahadb.encoding import encode
from jdbcstore.store.kahadb.journal import Journal
from jdbcstore.store.kahadb.lockers import SharedFileLocker
from jdbcstore.store.kahadb.options import KahaDBOptions
from jdbcstore.store.kahadb.scheduler import replay_scheduler

__all__ = ["check_directory", "directory_target"]

_TRANSACTION_MESSAGES_MAX: Final = (1 << 31) - 1
_TRANSACTION_BYTES_MAX: Final = (1 << 30) - 1
_FOREVER_S: Final = 10 * 365 * 86_400.0
_SUFFIX: Final = ".migrating"
#: Brokers' name for their scheduler, and for the directory of its journal.
_SCHEDULER: Final = "JMS"
_SCHEDULER_FOLDER: Final = "scheduler"


class _DirectoryTarget(Target):
    def __init__(self, adapter: KahaDBPersistenceAdapter, name: str, options: KahaDBOptions) -> None:
        super().__init__(adapter, name)
        self._directory: Final = adapter.directory
        self._options = options
        self._job_ids: set[str] | None = None
        self.is_complete = False

    @contextmanager
    def contents(self, prioritized: Collection[Destination]) -> Iterator[Contents]:
        self.adapter.stop()
        with contents_of_journals(self._directory, self._scheduler if self._has_jobs else None) as found:
            yield found

    def finish(self, marker: Marker) -> None:
        self.is_complete = True

    def empty(self) -> None:
        self.adapter.start()  # what is in it was compared
        super().empty()
        for path in self._scheduler.glob("db-*.log"):
            path.unlink()
        self._job_ids = None

    # The store keeps no scheduled messages; brokers have a journal of its own for them.

    @property
    def _scheduler(self) -> Path:
        return self._directory / _SCHEDULER_FOLDER

    @property
    def _has_jobs(self) -> bool:
        return self._scheduler.is_dir()

    @property
    def keeps_jobs(self) -> bool:
        return True

    def has_job(self, job_id: str) -> bool:
        if self._job_ids is None:
            schedulers = replay_scheduler(Journal(self._scheduler)) if self._has_jobs else {}
            self._job_ids = {job.job_id for jobs in schedulers.values() for job in jobs}
        return job_id in self._job_ids

    def add_jobs(self, jobs: Sequence[ScheduledJob]) -> None:
        appender = Appender(self._scheduler, self._options)
        appender.open()
        try:
            appender.append([encode(_added(job)) for job in jobs])
            appender.sync()
        finally:
            appender.close()

    def found(self) -> list[str]:
        return super().found() + (["scheduled messages"] if self._has_jobs else [])


def _added(job: ScheduledJob) -> AddScheduledJob:
    return AddScheduledJob(
        _SCHEDULER, job.job_id, job.due_ms - job.delay_ms, job.cron, job.delay_ms, job.period_ms, job.repeat,
        marshal(job.message), job.due_ms,
    )  # fmt: skip


@contextmanager
def directory_target(url: str, empty_queues: Collection[Queue]) -> Iterator[Target]:
    """A KahaDB directory that is not there yet, or empty.

    Args:
        url: ``kahadb:DIRECTORY``.
        empty_queues: queues that are to be known although they are empty.

    Raises:
        LockHeld: another migration is at it.
        ConfigurationError: it is not empty.
        StoreError: it cannot be written.
    """
    directory, options = kahadb_options(url)
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
        with KahaDBPersistenceAdapter(work, options) as adapter:
            target = _DirectoryTarget(adapter, f"kahadb:{directory}", options)
            yield target
        if target.is_complete:
            _name(work, directory)
    finally:
        locker.release()


def _name(work: Path, directory: Path) -> None:
    try:
        os.rename(work, directory)
        descriptor = os.open(directory.absolute().parent, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
    except OSError as error:
        raise StoreError(
            f"the migration is complete in {work}, and cannot be named {directory}: {error.strerror}"
        ) from error


def check_directory(url: str) -> str:
    """Make sure that a migration to a directory would begin, or go on; changes nothing. Returns the store's name.

    Raises:
        ConfigurationError: there is something in it.
    """
    directory, _ = kahadb_options(url)
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise ConfigurationError(
            f"the target is not empty: there is something in {directory}. Migrate into a directory that does not exist"
        )
    return f"kahadb:{directory}"
