"""The one place of this store where anything is written: what `jdbcstore.store.group_commit` is to a journal.

A batch is one batch of the journal: it is forced to the disk once, applied to the index, and answered. A batch of the
journal is there as a whole or not at all, because of its checksum; a broker drops a torn one, too. So what is committed
together needs no transaction around it, however much it is: one write is never divided.

What a journal adds to the rules of group commit:

* **Stored** is what the disk has (as ``journalDiskSyncStrategy`` says), when pages have it.
* **A bad write** is found out while the batch is made up, so nothing is tried twice because of it.
* **A full disk**: the batch is undone.
* **Not forced to the disk: nobody knows.** The senders of the batch are told `OutcomeUnknown`, and nothing is written
  or read any more until the store is started again: then the journal tells what the disk has. The same holds when the
  index cannot be written.
* **Who is not master writes nothing.** Every batch proves the mastership, before it is written and before it is
  answered.
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
from jdbcstore.errors import (
    LeaseLost,
    MessageTooLarge,
    OutcomeUnknown,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import Abandoned, BatchLimits, CommitTarget, GroupCommit
from jdbcstore.store.journal.applier import Applier
from jdbcstore.store.journal.cleanup import Cleanup
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.compaction import Compaction
from jdbcstore.store.journal.index import Index
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.scheduling import Scheduling
from jdbcstore.store.journal.store_format import StoreFormat, StoreOptions
from jdbcstore.store.journal.work import Part, Plan, Write
from jdbcstore.store.lease import boot_time_ns

__all__ = ["Committer"]

log = logging.getLogger(__name__)

#: Parts in one batch; more would keep the first senders waiting.
_PARTS_MAX: Final = 4000
#: Producers that are forgotten at one checkpoint.
_PRODUCERS_SWEPT: Final = 1000
_NS_PER_S: Final = 1_000_000_000


class Committer(CommitTarget[Write]):
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
        self._index = index
        self._appender = appender
        self._options = options
        self._read = read
        self._scheduler = scheduler
        self._prove = prove
        self._let_go = let_go
        self._producer_memory_ms = producer_memory_ms
        self._format = store_format
        self._applier = Applier(index)
        limits = BatchLimits(_PARTS_MAX, options.journal_max_write_batch_size_bytes, is_strict=True)
        cancels = options.concurrent_store_and_dispatch_queues
        self.commits: Final = GroupCommit(self, limits, "jdbcstore-committer", cancels=cancels)
        #: As `GroupCommit` says.
        self.submit: Final = self.commits.submit
        self.submit_remove: Final = self.commits.submit_remove
        self.has_ended: Final = self.commits.has_ended
        self._checkpoint_due_s = 0.0
        self._cleanup = Cleanup(index, appender, options, forget, store_format, archive)
        self._compaction = Compaction(
            index, self._cleanup, lambda: store_format.journal(appender.directory), self.submit
        )
        self._cleanup.compact = self._compaction.start
        self._cleanup_due_s = 0.0
        self._is_dirty = False

    def start(self) -> None:
        """Start the thread."""
        self._postpone_checkpoint()
        self._postpone_cleanup()
        self.commits.start()

    def stop(self) -> None:
        """Commit what was submitted, write the index, then end the thread."""
        self.commits.stop()
        self._compaction.stop()

    def abandon(self) -> None:
        """As `GroupCommit.abandon`."""
        self._compaction.cancel()
        self.commits.abandon()

    def require_sound(self) -> None:
        """Raise why the store cannot be used any more, if so."""
        broken = self.commits.broken
        if broken is not None and not isinstance(broken, LeaseLost):
            raise StoreUnavailable(str(broken)) from broken

    # -- in the thread -------------------------------------------------------------------------------------------

    def is_brief(self, unit: Write) -> bool:
        lock = self._index.lock
        if unit.task is not None or not self._appender.has_room(unit.size) or not lock.acquire(blocking=False):
            return False
        lock.release()
        return True

    def idle_s(self) -> float | None:
        if self.commits.broken is not None:
            return None
        due = [self._checkpoint_due_s] if self._is_dirty and self._options.checkpoint_interval_ms else []
        if self._options.cleanup_interval_ms:
            due.append(self._cleanup_due_s)
        if (sync_due_ns := self._appender.sync_due_ns) is not None:
            due.append(time.monotonic() + (sync_due_ns - boot_time_ns()) / _NS_PER_S)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def look_after(self) -> None:
        if self.commits.broken is not None or self.commits.is_abandoned:
            return
        try:
            if self._appender.sync_due_ns is not None:
                self._appender.sync()
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
            self._appender.abandon()
            self._scheduler.abandon()
        self._let_go()

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

    def attempt(self, batch: Sequence[Write]) -> None:
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

    def _prove_or_break(self) -> None:
        try:
            self._prove()
        except LeaseLost as error:
            self.commits.break_off(error)
            raise

    def force(self) -> None:
        """Return when everything that was submitted before survives a power failure. Not in the thread itself.

        Raises:
            StoreError: nobody knows what is on the disk.
            LeaseLost: we are not master any more.
        """
        completion: Completion[None] = Completion()
        self.submit(Write(completion, is_alone=True, task=self._force))
        completion.result()

    def _force(self) -> None:
        try:
            self._appender.force()
        except StoreError as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error

    def _run_task(self, task: Callable[[], object]) -> None:
        try:
            task()
        except sqlite3.Error as error:
            self.commits.break_off(StoreError(f"the index cannot be used: {error}"))
            raise self.commits.refusal() from error

    def _plan(self, batch: Sequence[Write]) -> Plan:
        """The records of a batch. What cannot be done is refused: it is alone, or its first part says so, so that no
        record of it is in the plan."""
        looks = [one for write in batch for part in write.parts for one in part.looks()]
        plan = Plan(self._index, looks, self._read, self._scheduler.reader.read, self._format)
        for write in list(batch):
            let_down = write.let_down() if write.follows else None  # by one that was refused just now
            if let_down is not None:
                self.commits.refuse(write, let_down)
                continue
            try:
                first = len(plan.payloads)
                for part in write.parts:
                    part.plan(plan)
                plan.close_write(first)
            except StoreError as error:
                self.commits.refuse(write, error)
        return plan

    def _append(self, plan: Plan, payloads: list[bytes]) -> None:
        self.commits.sending()
        try:
            locations = self._appender.append(payloads)
        except (TransientStoreError, MessageTooLarge):
            raise  # it is undone
        except StoreError as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(str(error)) from error
        try:
            self._appender.sync()
            self._prove()
        except (StoreError, LeaseLost) as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error
        faults.point("writer.after_commit")
        if self.commits.is_abandoned:
            raise Abandoned
        index, last = self._index, self._appender.last_batch
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
