"""The one place of this store where anything is written: what `jdbcstore.store.group_commit` is to a journal.

A batch is one batch of the journal: it is forced to the disk once, applied to the index, and answered. A batch of the
journal is there as a whole or not at all, because of its checksum; a broker drops a torn one, too. So what is committed
together needs no transaction around it, however much it is: one write is never divided.

The rules of every journal are those of `batch_committer`. When the index cannot be written, it is as when the disk is
not known to have the batch: nothing is written or read any more until the store is started again.
"""

from __future__ import annotations

import logging
import sqlite3
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final

from jdbcstore import faults
from jdbcstore.errors import OutcomeUnknown, StoreError, StoreFull
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import Abandoned
from jdbcstore.store.journal.applier import Applier
from jdbcstore.store.journal.batch_committer import BatchCommitter
from jdbcstore.store.journal.cleanup import Cleanup
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.compaction import Compaction
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions
from jdbcstore.store.journal.work import Part, Plan
from jdbcstore.store.journal.writes import Write
from jdbcstore.store.lease import boot_time_ns

__all__ = ["Committer"]

log = logging.getLogger(__name__)

#: Producers that are forgotten at one checkpoint.
_PRODUCERS_SWEPT: Final = 1000
_NS_PER_S: Final = 1_000_000_000


class Committer(BatchCommitter[Part, Location]):
    """Writes batches to the journal, in the thread of its `GroupCommit`.

    Args:
        index: open and up to date with the journal.
        appender: open.
        options: lengths of batches, when there are checkpoints.
        read: gives a record of the journal.
        scheduler: the scheduler's journal, which gets its commands behind this one.
        prove: raises `LeaseLost` if we are not master; called before each batch is written and before it is answered.
        let_go: called when nothing is written any more.
        forget: told the number of a journal file before it is removed.
        producer_memory_ms: how long it is remembered how far a producer came.
        store_format: of the journal.
        archive: where files go that are not needed; None removes them.
    """

    def __init__(
        self,
        index: Index,
        appender: JournalWriter[Location],
        options: StoreOptions,
        read: Callable[[Location], Command],
        scheduler: Scheduling,
        prove: Callable[[], object],
        let_go: Callable[[], object],
        forget: Callable[[int], object],
        producer_memory_ms: int,
        store_format: StoreFormat,
        archive: Path | None,
    ) -> None:
        super().__init__(appender, options, prove, let_go)
        self._index = index
        self._options = options
        self._read = read
        self._scheduler = scheduler
        self._producer_memory_ms = producer_memory_ms
        self._format = store_format
        self._applier = Applier(index)
        self._checkpoint_due_s = 0.0
        self._cleanup = Cleanup(index, appender, options, forget, store_format, archive)
        self._compaction = Compaction(
            index,
            self._cleanup,
            lambda: store_format.journal(appender.directory),
            lambda part: self.write(part, is_alone=True),
        )
        self._cleanup.compact = self._compaction.start
        self._cleanup_due_s = 0.0
        self._is_dirty = False

    def start(self) -> None:
        self._postpone_checkpoint()
        self._postpone_cleanup()
        super().start()

    def stop(self) -> None:
        super().stop()
        self._compaction.stop()

    def abandon(self) -> None:
        self._compaction.cancel()
        super().abandon()

    # -- in the thread -------------------------------------------------------------------------------------------

    def idle_s(self) -> float | None:
        if self.commits.broken is not None:
            return None
        due = [self._checkpoint_due_s] if self._is_dirty and self._options.checkpoint_interval_ms else []
        if self._options.cleanup_interval_ms:
            due.append(self._cleanup_due_s)
        if (sync_due_ns := self._writer.sync_due_ns) is not None:
            due.append(time.monotonic() + (sync_due_ns - boot_time_ns()) / _NS_PER_S)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def look_after(self) -> None:
        if self.commits.broken is not None or self.commits.is_abandoned:
            return
        try:
            if self._writer.sync_due_ns is not None:
                self._writer.sync()
            is_due = self._options.checkpoint_interval_ms and time.monotonic() >= self._checkpoint_due_s
            if self._is_dirty and is_due:
                self._checkpoint()
                if self.commits.broken is None:
                    self._clean_scheduler()
            if self._options.cleanup_interval_ms and time.monotonic() >= self._cleanup_due_s:
                self._postpone_cleanup()
                self._clean_up()
        except StoreError as error:
            self.commits.break_off(error)
        except Exception as error:
            log.exception("defect in writing the index")
            self.commits.break_off(StoreError(f"the index cannot be written: {error!r}"))

    def finish(self) -> None:
        if self.commits.broken is None:
            if self._options.cleanup_on_stop:
                self._clean_up()
            self._checkpoint(force=True)

    def leave(self) -> None:
        if self.commits.is_abandoned:
            self._scheduler.abandon()
        super().leave()

    def checkpoint(self, *, force: bool = False) -> None:
        """Write the index. In the thread, or when it is over."""
        now_ms = time.time_ns() // 1_000_000
        self._scheduler.force()
        self._index.forget_producers(now_ms - self._producer_memory_ms, _PRODUCERS_SWEPT)
        self._index.checkpoint(now_ms, force=force)
        self._is_dirty = False
        self._postpone_checkpoint()

    def _checkpoint(self, *, force: bool = False) -> None:
        try:
            self.checkpoint(force=force)
        except StoreError as error:
            self.commits.break_off(error)

    def _clean_scheduler(self) -> None:
        try:
            self._scheduler.clean(self._index, partial(self.checkpoint, force=True))
        except StoreFull as error:
            log.warning("the scheduler's journal is not made smaller error=%r", str(error))

    def _postpone_checkpoint(self) -> None:
        self._checkpoint_due_s = time.monotonic() + self._options.checkpoint_interval_ms / 1000

    def _postpone_cleanup(self) -> None:
        self._cleanup_due_s = time.monotonic() + self._options.cleanup_interval_ms / 1000

    def _clean_up(self) -> None:
        """Remove journal files that are not needed; what keeps it from that is logged."""
        self.commits.commit_now([Write(Completion(), task=self.remove_unneeded_files)])

    def remove_unneeded_files(self) -> list[int]:
        """Remove journal files that are not needed, and tell which. In the thread."""
        gone = self._cleanup.run(self._write_part, self._prove, self.checkpoint)
        if gone:
            log.info("removed journal files that are not needed files=%s", ", ".join(map(str, gone)))
        return gone

    def compact_acknowledgements(self) -> int | None:
        """Write the acknowledgements of one file again, in the caller's thread; the file's number."""
        return self._compaction.run()

    def _write_part(self, part: Part) -> None:
        """Make something durable that nobody has submitted. In the thread, in a task."""
        plan = Plan(self._index, part.looks(), self._read, self._scheduler.reader.read, self._format)
        part.plan(plan)
        plan.close_write(0)
        payloads = plan.finish()
        if payloads:
            self._prove_or_break()
            self._append(plan, payloads)

    def attempt(self, batch: Sequence[Write[Part]]) -> None:
        task = batch[0].task
        if task is not None:
            self._run_task(task)
            return
        plan = self._plan(batch)
        payloads = plan.finish()
        if payloads:
            self._prove_or_break()
            faults.point("writer.before_commit")
            self._append(plan, payloads)

    def force(self) -> None:
        """Return when everything that was submitted before survives a power failure. Not in the thread itself.

        Raises:
            StoreError: nobody knows what is on the disk.
            LeaseLost: we are not master any more.
        """
        self.run(self._force)

    def _force(self) -> None:
        try:
            self._writer.force()
        except StoreError as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error

    def _run_task(self, task: Callable[[], object]) -> None:
        try:
            task()
        except sqlite3.Error as error:
            self.commits.break_off(StoreError(f"the index cannot be used: {error}"))
            raise self.commits.refusal() from error

    def _plan(self, batch: Sequence[Write[Part]]) -> Plan:
        looks = [one for write in batch for part in write.parts for one in part.looks()]
        plan = Plan(self._index, looks, self._read, self._scheduler.reader.read, self._format)

        def take(write: Write[Part]) -> None:
            first = len(plan.payloads)
            for part in write.parts:
                part.plan(plan)
            if write.is_whole:
                plan.close_write(first)

        self._make_up(batch, take)
        return plan

    def _append(self, plan: Plan, payloads: list[bytes]) -> None:
        self.commits.sending()
        locations = self._write(payloads)
        faults.point("writer.after_commit")
        if self.commits.is_abandoned:
            raise Abandoned
        index, last = self._index, self._writer.last_batch
        assert last is not None
        try:
            scheduled = self._schedule(plan)
            with index.lock:
                self._applier.apply(zip(locations, plan.commands, plan.hints, strict=True), scheduled)
                index.position = last
                index.job_position = self._scheduler.last_batch or index.job_position
        except (sqlite3.Error, StoreError) as error:
            self.commits.break_off(StoreError(f"the index cannot be written: {error}"))
            raise OutcomeUnknown(f"in the journal, but not in the index: {error}") from error
        self._is_dirty = True

    def _schedule(self, plan: Plan) -> Sequence[Location]:
        """Give the scheduler's journal what belongs there; after a kill, the next start does it."""
        commands = plan.scheduled() if plan.is_scheduling else []
        return self._scheduler.append(commands) if commands else []
