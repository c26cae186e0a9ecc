"""Scheduled messages: a second journal, in the directory ``scheduler`` next to the messages, as brokers keep it.

**One commit over two journals.** A firing adds a message here and ends or advances a job there, and happens once or not
at all. So the scheduler's commands are written into the batch of the message journal first, as they are: brokers ignore
them there. When that batch is safe they are appended to the scheduler's journal, in the same order, and this needs no
disk to be waited for: after a crash what is missing there is appended again from the message journal. It is forced to
the disk before the index is written, so no file of the message journal goes that is still needed for that.

A copy of a job that `SchedulerJournal.clean` makes is one that a replay ignores while the original is there. A remark
in front of the copies says so to who compares the two journals.

Sources of the format: the scheduler of ActiveMQ 5.17.2, whose jobs are all of the scheduler ``JMS``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from jdbcstore.errors import StoreError
from jdbcstore.store.disk import remove
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.applier import SCHEDULER, ForeignRecord
from jdbcstore.store.journal.commands import AddScheduledJob, Command
from jdbcstore.store.journal.index import Index, JobRow
from jdbcstore.store.journal.journal_format import BatchPlace
from jdbcstore.store.journal.kahadb.appender import KAHADB, Appender
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import Journal, KahaDBLocation, Location, Record, file_name
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.scheduler import DIRECTORY, replay_scheduler
from jdbcstore.store.journal.record_reader import RecordReader

__all__ = ["SchedulerJournal"]

log = logging.getLogger(__name__)

_NOT_BY_ITSELF_MS: Final = (1 << 31) - 1


class SchedulerJournal:
    """The scheduler's journal; made when the first job is.

    Args:
        directory: of the messages.
        options: of the store.
    """

    def __init__(self, directory: Path, options: KahaDBOptions) -> None:
        self.directory: Final = directory / DIRECTORY
        self.reader: Final = RecordReader(self.directory, KAHADB)
        self._options = replace(
            options, journal_disk_sync_strategy="PERIODIC", journal_disk_sync_interval_ms=_NOT_BY_ITSELF_MS
        )
        self._appender: Appender | None = None
        #: The file that was written when `clean` looked last.
        self._cleaned_before = 0

    def open(self) -> None:
        """Find its end, if it is there. Raises as `Appender.open`."""
        if self.directory.is_dir() and Journal(self.directory).files:
            self._opened()

    @property
    def last_batch(self) -> BatchPlace | None:
        """Its last batch."""
        return None if self._appender is None else self._appender.last_batch

    def append(self, commands: Sequence[Command]) -> list[Location]:
        """Write a batch. Raises as `Appender.append`."""
        return self._opened().append([encode(command) for command in commands])

    def force(self) -> None:
        """Return when everything is safe. Raises as `Appender.force`."""
        if self._appender is not None:
            self._appender.force()

    def records(self) -> Iterator[Record]:
        """All that is in it."""
        if self.directory.is_dir():
            yield from Journal(self.directory).records()

    def behind(self, position: BatchPlace) -> Iterator[Record]:
        """What stands behind a batch of it. Raises `ForeignRecord` if it is not there."""
        if self.last_batch is None and not position.file:
            return
        journal = Journal(self.directory)
        if position.file and position.file not in journal.files:
            raise ForeignRecord(f"the scheduler has no {file_name(position.file)}")
        for number in [number for number in journal.files if number >= position.file]:
            is_first = number == position.file
            with journal.opened(number) as source:
                file = journal.file(source, number, start=position.offset if is_first else 0)
                batches = file.batches()
                if is_first:
                    first = next(batches, None)
                    if first is None or first.place(number) != position:
                        raise ForeignRecord(
                            f"the batch at {position.offset} of the scheduler's {file_name(number)} is another one"
                        )
                for batch in batches:
                    yield from file.records_of(batch)

    def jobs(self) -> Iterator[tuple[Command, Location, int]]:
        """The jobs that there are, each as the command that adds it, where it stands, how often it was rescheduled."""
        if not self.directory.is_dir():
            return
        for name, jobs in replay_scheduler(Journal(self.directory)).items():
            if name != SCHEDULER:
                log.warning("jobs of another scheduler are left alone scheduler=%s jobs=%d", name, len(jobs))
                continue
            for job in jobs:
                add = AddScheduledJob(
                    name,
                    job.job_id,
                    job.start_time,
                    job.cron_entry,
                    job.delay,
                    job.period,
                    job.repeat,
                    None,
                    job.next_execution_time,
                )
                yield add, job.location, job.rescheduled_count

    def clean(self, index: Index, checkpoint: Callable[[], object]) -> None:
        """Remove the oldest files if most of what the journal holds is over. The jobs in them are written again first.

        A broker keeps such a file as long as one job in it lives. Looks only when a new file was begun.

        Args:
            index: where the jobs are; in the thread that applies.
            checkpoint: forces the index to the disk.

        Raises:
            StoreError: the disk does not take it.
        """
        current = 0 if self._appender is None else self._appender.end[0]
        if current == self._cleaned_before:
            return
        self._cleaned_before = current
        sizes = {number: path.stat().st_size for number, path in Journal(self.directory).files.items()}
        needed = index.job_bytes()
        room = sum(sizes.values()) - self._options.journal_max_file_length_bytes - 2 * needed
        going: list[int] = []
        for number in [number for number in sizes if number < current]:
            if room <= 0:
                break
            room -= sizes[number]
            self._copy(index, index.jobs_in(number))
            going.append(number)
        if going:
            checkpoint()
            for number in going:
                self.reader.forget(number)
                remove(self.directory / file_name(number))
            log.info("removed files of the scheduler files=%s", ", ".join(map(file_name, going)))

    def _copy(self, index: Index, rows: Sequence[JobRow]) -> None:
        """Write jobs again as they are now."""
        if not rows:
            return
        commands: list[Command] = [remarks.copied(len(rows))]
        for row in rows:
            add = self.reader.read(KahaDBLocation(row.file, row.offset, row.size))
            if not isinstance(add, AddScheduledJob):
                raise StoreError(f"the job {row.job_id} cannot be read any more: its file stays")
            commands.append(add._replace(repeat=row.repeat, next_execution_time=row.due_ms))
        locations = self.append(commands)
        with index.lock:
            for row, location in zip(rows, locations[1:], strict=True):
                index.move_job(row.job_id, location)
            index.job_position = self.last_batch or index.job_position

    def close(self) -> None:
        """Force it to the disk and let go of it."""
        self.reader.close()
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.close()

    def abandon(self) -> None:
        """Let go of it."""
        self.reader.close()
        appender, self._appender = self._appender, None
        if appender is not None:
            appender.abandon()

    def _opened(self) -> Appender:
        if self._appender is None:
            appender = Appender(self.directory, self._options)
            appender.open()
            self._appender = appender
        return self._appender
