"""Group commit: the one place of this store where anything is written.

Every write is a `Write` put into a queue and answered through its `Completion`. One thread takes whatever has arrived
while the last batch was under way, makes one batch of the journal of it, forces it to the disk once, applies it to the
index and answers. There is no timer: a lone producer never waits for company, sixteen share one disk flush.

A batch of the journal is there as a whole or not at all, because of its checksum; a broker drops a torn one, too. So
what is committed together needs no transaction around it, however much it is: one write is never divided.

Who learns what, and when:

* **Stored.** Completions are resolved after the disk has it (as ``journalDiskSyncStrategy`` says), in the order of
  submission, never before, and when pages have it.
* **A bad write fails alone.** It is found out while the batch is made up.
* **What follows a write that failed fails, too.**
* **A full disk fails what needs room.** The batch is undone; removes that were in it are tried on their own.
* **Not forced to the disk: nobody knows.** The senders of the batch are told `OutcomeUnknown`, and nothing is written
  or read any more until the store is started again: then the journal tells what the disk has. The same holds when the
  index cannot be written.
* **Who is not master writes nothing.** Every batch proves the mastership; when it does not hold, this batch and
  everything after it fails with `LeaseLost`.
* **An add and its remove that both wait cancel out** (``concurrentStoreAndDispatchQueues``): the consumer is done with
  the message, so nobody will ever ask for it. If the process dies before, the sender has heard nothing and sends again.
"""

from __future__ import annotations

import logging
import queue
import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from jdbcstore import faults
from jdbcstore.errors import (
    JdbcStoreError,
    LeaseLost,
    MessageTooLarge,
    OutcomeUnknown,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.kahadb.appending import Appender
from jdbcstore.store.kahadb.applying import Applier
from jdbcstore.store.kahadb.cleanup import Cleanup
from jdbcstore.store.kahadb.commands import Command
from jdbcstore.store.kahadb.compaction import Compaction
from jdbcstore.store.kahadb.index import Index
from jdbcstore.store.kahadb.journal import Journal, Location
from jdbcstore.store.kahadb.options import KahaDBOptions
from jdbcstore.store.kahadb.scheduling import SchedulerJournal
from jdbcstore.store.kahadb.work import Part, Plan, Write
from jdbcstore.store.lease import boot_time_ns
from jdbcstore.store.write_queue import WriteQueue

__all__ = ["Committer"]

log = logging.getLogger(__name__)

#: Parts in one batch; more would keep the first senders waiting.
_PARTS_MAX: Final = 4000
_ABANDONED: Final = "the store was closed without waiting for the disk"
#: Producers that are forgotten at one checkpoint.
_PRODUCERS_SWEPT: Final = 1000
_NS_PER_S: Final = 1_000_000_000


class _Abandoned(Exception):
    """The thread has nothing to do any more."""


class Committer:
    """The thread that commits.

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
    """

    def __init__(
        self,
        index: Index,
        appender: Appender,
        options: KahaDBOptions,
        read: Callable[[Location], Command],
        scheduler: SchedulerJournal,
        prove: Callable[[], object],
        let_go: Callable[[], object],
        forget: Callable[[int], object],
        producer_memory_ms: int,
    ) -> None:
        self._index = index
        self._appender = appender
        self._options = options
        self._read = read
        self._scheduler = scheduler
        self._prove = prove
        self._let_go = let_go
        self._producer_memory_ms = producer_memory_ms
        self._applier = Applier(index)
        self._waiting: WriteQueue[Write] = WriteQueue(cancels=options.concurrent_store_and_dispatch_queues)
        #: Why nothing is written any more.
        self._broken: JdbcStoreError | None = None
        self._checkpoint_due_s = 0.0
        self._cleanup = Cleanup(index, appender, options, forget)
        self._compaction = Compaction(index, self._cleanup, lambda: Journal(appender.directory), self.submit)
        self._cleanup.compact = self._compaction.start
        self._cleanup_due_s = 0.0
        self._is_dirty = False
        # What the thread has in hand, and whether it may be on the disk. Whoever takes it out tells its senders: the
        # thread, or `abandon`.
        self._telling = threading.Lock()
        self._in_hand: list[Write] = []
        self._is_sent = False
        self._abandoned = threading.Event()
        self._thread = threading.Thread(target=self._run, name="jdbcstore-committer", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._postpone_checkpoint()
        self._postpone_cleanup()
        self._thread.start()

    def stop(self) -> None:
        """Commit what was submitted, write the index, then end the thread."""
        self._waiting.close()
        if self._thread.is_alive():
            self._thread.join()
        self._waiting.refuse(StoreClosed("the store was stopped before this was written"))
        self._compaction.stop()

    def abandon(self) -> None:
        """Tell everybody what is known now, and end without waiting: the thread does nothing more that is seen."""
        with self._telling:
            self._abandoned.set()
            self._compaction.cancel()
            writes, self._in_hand = self._in_hand, []
            is_sent = self._is_sent
        self._waiting.close()
        error: StoreError = OutcomeUnknown(_ABANDONED) if is_sent else StoreUnavailable(_ABANDONED)
        for write in writes:
            write.fail(error)
        self._waiting.refuse(StoreUnavailable(_ABANDONED))

    def has_ended(self, timeout_s: float) -> bool:
        """Wait until the thread is over; False when it still is not after `timeout_s`."""
        if self._thread.is_alive():
            self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def require_sound(self) -> None:
        """Raise why the store cannot be used any more, if so."""
        if self._broken is not None and not isinstance(self._broken, LeaseLost):
            raise StoreUnavailable(str(self._broken)) from self._broken

    def submit(self, write: Write) -> None:
        """Hand a write to the thread. The caller submits adds in the order of their sequences.

        Raises:
            StoreClosed: the store is stopping.
        """
        self._waiting.submit(write)

    def submit_remove(self, sequences: Sequence[int], remove: Callable[[Sequence[int]], Write]) -> None:
        """Hand over the remove of messages, as `WriteQueue.submit_remove`: those that wait are never written."""
        self._waiting.submit_remove(sequences, remove)

    # -- the thread ----------------------------------------------------------------------------------------------

    def _run(self) -> None:
        try:
            while True:
                try:
                    first = self._waiting.take(self._idle_s())
                except queue.Empty:
                    self._look_after()
                    continue
                if first is None:
                    break
                for group in self._take(first):
                    self._commit(group)
                self._look_after()
            if not self._abandoned.is_set() and self._broken is None:
                if self._options.cleanup_on_stop:
                    self._clean_up()
                self._checkpoint(force=True)
        except _Abandoned:
            pass
        finally:
            if self._abandoned.is_set():
                self._appender.abandon()
                self._scheduler.abandon()
            self._let_go()

    def _idle_s(self) -> float | None:
        """How long to wait for work before something else is to be done."""
        if self._broken is not None:
            return None
        due = [self._checkpoint_due_s] if self._is_dirty and self._options.checkpoint_interval_ms else []
        if self._options.cleanup_interval_ms:
            due.append(self._cleanup_due_s)
        if (sync_due_ns := self._appender.sync_due_ns) is not None:
            due.append(time.monotonic() + (sync_due_ns - boot_time_ns()) / _NS_PER_S)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def _look_after(self) -> None:
        """What has its time, whatever arrives."""
        if self._broken is not None or self._abandoned.is_set():
            return
        try:
            if self._appender.sync_due_ns is not None:
                self._appender.sync()
            is_due = self._options.checkpoint_interval_ms and time.monotonic() >= self._checkpoint_due_s
            if self._is_dirty and is_due:
                self._checkpoint()
                if self._broken is None:
                    self._clean_scheduler()
            if self._options.cleanup_interval_ms and time.monotonic() >= self._cleanup_due_s:
                self._postpone_cleanup()
                self._clean_up()
        except StoreError as error:
            self._break(error)
        except Exception as error:
            log.exception("the index cannot be written for no reason that is known")
            self._break(StoreError(f"the index cannot be written: {error!r}"))

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
            self._break(error)

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
        self._commit([Write(Completion(), task=self.remove_unneeded_files)])

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
        plan = Plan(self._index, part.looks(), self._read, self._scheduler.reader.read)
        part.plan(plan)
        payloads = plan.finish()
        if payloads:
            self._prove_or_break()
            self._append(plan, payloads)

    def _break(self, error: StoreError) -> None:
        log.error("nothing can be read or written any more until the store is started again error=%r", str(error))
        self._broken = error

    def _take(self, first: Write) -> list[list[Write]]:
        """What becomes one batch: `first` and whatever else has arrived, within the limits; what is alone apart."""
        writes: list[Write] = []
        groups = [writes]
        parts, room = 0, self._options.journal_max_write_batch_size_bytes
        write: Write | None = first
        while write is not None:
            if write.is_alone:
                groups.append([write])
                break
            if writes and write.size > room:
                groups.append([write])
                break
            parts += len(write.parts)
            room -= write.size
            writes.append(write)
            if parts >= _PARTS_MAX or room <= 0:
                break
            write = self._waiting.take_more()
        return [group for group in groups if group]

    def _commit(self, group: list[Write]) -> None:
        """Commit a batch, whatever it takes, and resolve every completion in it."""
        with self._telling:
            if not self._abandoned.is_set():
                self._in_hand, group = group, list(group)
            elif group:
                for write in group:
                    write.fail(StoreUnavailable(_ABANDONED))
                raise _Abandoned
        try:
            group = self._attempt(group)
        except StoreFull as error:
            removing = [write for write in group if not write.takes_room and not write.completion.done]
            failed = [write for write in group if not write.completion.done and write not in removing]
            if not failed:
                failed, removing = removing, []
            log.warning("write failed writes=%d error=%r", len(failed), str(error))
            self._tell(failed, error, left=removing)
            if removing:
                self._commit(removing)
        except (StoreError, LeaseLost) as error:
            log.warning("write failed writes=%d error=%r", len(group), str(error))
            self._tell([write for write in group if not write.completion.done], error)
        except _Abandoned:
            raise
        except Exception as error:  # whatever it is, nobody may wait for ever
            log.exception("writing failed for no reason that is known")
            self._break(StoreError(f"writing failed: {error!r}"))
            unknown = OutcomeUnknown(f"writing failed: {error!r}")
            self._tell([write for write in group if not write.completion.done], unknown)
        else:
            self._tell(group)

    def _tell(self, group: Sequence[Write], error: JdbcStoreError | None = None, left: Sequence[Write] = ()) -> None:
        with self._telling:
            if self._abandoned.is_set():
                raise _Abandoned
            self._is_sent = False
            self._in_hand = list(left)
        for write in group:
            if error is not None:
                write.fail(error)
            else:
                write.succeed()

    def _attempt(self, group: list[Write]) -> list[Write]:
        """Write and apply a batch.

        Returns:
            The writes that are durable now; others were told that they are not.

        Raises:
            StoreError, LeaseLost: it could not be written.
        """
        if self._broken is not None:
            raise self._refusal()
        if group[0].task is not None:
            self._run_task(group[0].task)
            return group
        plan, group = self._plan(group)
        payloads = plan.finish()
        if not payloads:
            return group
        self._prove_or_break()
        faults.point("writer.before_commit")
        self._append(plan, payloads)
        return group

    def _prove_or_break(self) -> None:
        try:
            self._prove()
        except LeaseLost as error:
            self._broken = error
            raise

    def _refusal(self) -> JdbcStoreError:
        if isinstance(self._broken, LeaseLost):
            return LeaseLost(str(self._broken))
        return StoreUnavailable(str(self._broken))

    def _run_task(self, task: Callable[[], object]) -> None:
        try:
            task()
        except sqlite3.Error as error:
            self._break(StoreError(f"the index cannot be used: {error}"))
            raise self._refusal() from error

    def _plan(self, group: list[Write]) -> tuple[Plan, list[Write]]:
        """The records of a batch, and the writes that are in it."""
        looks = [one for write in group for part in write.parts for one in part.looks()]
        plan = Plan(self._index, looks, self._read, self._scheduler.reader.read)
        let_down: set[int] = set()
        failed: list[tuple[Write, StoreError | None]] = []
        planned: list[Write] = []
        for write in group:
            if write.follows and write.is_let_down(let_down):
                failed.append((write, None))
            else:
                try:
                    for part in write.parts:
                        part.plan(plan)
                except StoreError as error:  # it is alone, or its first part says so
                    failed.append((write, error))
                else:
                    planned.append(write)
                    continue
            let_down.add(id(write.completion))
        if failed:
            with self._telling:
                if self._abandoned.is_set():
                    raise _Abandoned
                self._in_hand = planned
            for write, reason in failed:
                if reason is None:
                    write.let_down()
                else:
                    write.fail(reason)
        return plan, planned

    def _append(self, plan: Plan, payloads: list[bytes]) -> None:
        with self._telling:
            if self._abandoned.is_set():
                raise _Abandoned
            self._is_sent = True
        try:
            locations = self._appender.append(payloads)
        except (TransientStoreError, MessageTooLarge):
            raise  # it is undone
        except StoreError as error:
            self._break(error)
            raise OutcomeUnknown(str(error)) from error
        try:
            self._appender.sync()
            self._prove()
        except (StoreError, LeaseLost) as error:
            self._broken = error
            if isinstance(error, StoreError):
                self._break(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error
        faults.point("writer.after_commit")
        if self._abandoned.is_set():
            raise _Abandoned
        index, batch = self._index, self._appender.last_batch
        assert batch is not None
        try:
            scheduled = self._schedule(plan)
            with index.lock:
                self._applier.apply(zip(locations, plan.commands, plan.hints, strict=True), scheduled)
                index.position = batch
                index.job_position = self._scheduler.last_batch or index.job_position
        except (sqlite3.Error, StoreError) as error:
            self._break(StoreError(f"the index cannot be written: {error}"))
            raise OutcomeUnknown(f"in the journal, but not in the index: {error}") from error
        self._is_dirty = True

    def _schedule(self, plan: Plan) -> list[Location]:
        """Give the scheduler's journal what belongs there; after a kill, the next start does it."""
        commands = plan.scheduled() if plan.is_scheduling else []
        return self._scheduler.append(commands) if commands else []
