"""The one place of this store where anything is written: what `jdbcstore.store.group_commit` is to a LevelDB log.

A batch is one unit of work of the log, which is there as a whole or not at all. The rules are those of every journal
(KahaDB's committer tells them): stored is what the disk has; a bad write is found out while the batch is made up; a
full disk undoes it; what was perhaps not forced is unknown, and ends all writing; who is not master writes nothing.

**Snapshots of the index** are for ActiveMQ, whose replay ends where a collection is removed: one is written soon after
that, when a file of the log is begun, and at the end. What only this store knows of (`trace_remarks`) is said again
behind each of them, for files before it may go.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from jdbcstore import faults
from jdbcstore.errors import (
    CodecError,
    LeaseLost,
    MessageTooLarge,
    OutcomeUnknown,
    StoreError,
    StoreUnavailable,
    TransientStoreError,
)
from jdbcstore.store.completion import Completion
from jdbcstore.store.group_commit import Abandoned, BatchLimits, CommitTarget, GroupCommit
from jdbcstore.store.journal.journal_directory import JournalDirectory, candidates
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.leveldb import trace_remarks
from jdbcstore.store.journal.leveldb.live import Live, LiveDestination, LiveSubscription
from jdbcstore.store.journal.leveldb.log import file_name, file_number
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.recovery import Recovered
from jdbcstore.store.journal.leveldb.snapshot import index_entries, snapshot_path, write_snapshot
from jdbcstore.store.journal.leveldb.work import Plan, Write

__all__ = ["Committer"]

log = logging.getLogger(__name__)

_PARTS_MAX: Final = 4000
#: Where files go that are not needed, if they are kept.
_ARCHIVE: Final = "archive"
#: A snapshot takes at most one part in so many of the time.
_REST: Final = 20


class Committer(CommitTarget[Write]):
    """Writes units of work, in the thread of its `GroupCommit`.

    Args:
        directory: of the store.
        live: what is there.
        writer: of the log, open.
        reader: of messages.
        options: when there are snapshots and cleanups.
        wire_version: of what is marshalled.
        prove: raises `LeaseLost` if we are not master.
        let_go: called when nothing is written any more.
        found: what was found at the start.
    """

    def __init__(
        self,
        directory: Path,
        live: Live,
        writer: JournalWriter[int],
        reader: MessageReader,
        options: LevelDBOptions,
        wire_version: int,
        prove: Callable[[], object],
        let_go: Callable[[], object],
        found: Recovered,
    ) -> None:
        self._directory = directory
        self._live = live
        self._writer = writer
        self._reader = reader
        self._options = options
        self._wire_version = wire_version
        self._prove = prove
        self._let_go = let_go
        # A snapshot of ActiveMQ's may be less than what the log holds: only our own lets files go.
        self._snapshot = self._clean_end = -1
        if found.clean_end == found.end:
            self._snapshot, self._clean_end = found.snapshot or 0, found.end
        self._before = found.index
        archive = Path(options.directory_archive or directory / _ARCHIVE) if options.archive_data_logs else None
        self._files = JournalDirectory(writer.directory, file_name, file_number, archive)
        limits = BatchLimits(_PARTS_MAX, options.journal_max_write_batch_size_bytes, is_strict=True)
        cancels = options.concurrent_store_and_dispatch_queues
        self.commits: Final = GroupCommit(self, limits, "jdbcstore-committer", cancels=cancels)
        #: As `GroupCommit` says.
        self.submit: Final = self.commits.submit
        self.submit_remove: Final = self.commits.submit_remove
        self.has_ended: Final = self.commits.has_ended
        self._base = writer.end[0]
        #: Whether a snapshot is wanted before the end, and not before when.
        self._is_snapshot_wanted = False
        self._snapshot_from_s = 0.0
        self._cleanup_due_s = 0.0

    def start(self) -> None:
        """Start the thread."""
        self._postpone_cleanup()
        self.commits.start()

    def stop(self) -> None:
        """Commit what was submitted, write the index, then end the thread."""
        self.commits.stop()

    def abandon(self) -> None:
        """As `GroupCommit.abandon`."""
        self.commits.abandon()

    def require_sound(self) -> None:
        """Raise why the store cannot be used any more, if so."""
        broken = self.commits.broken
        if broken is not None and not isinstance(broken, LeaseLost):
            raise StoreUnavailable(str(broken)) from broken

    # -- in the thread -------------------------------------------------------------------------------------------

    def idle_s(self) -> float | None:
        if self.commits.broken is not None:
            return None
        due = [self._snapshot_from_s] if self._is_snapshot_wanted else []
        if self._options.cleanup_interval_ms:
            due.append(self._cleanup_due_s)
        return max(0.0, min(due) - time.monotonic()) if due else None

    def look_after(self) -> None:
        if self.commits.broken is not None or self.commits.is_abandoned:
            return
        now_s = time.monotonic()
        if self._is_snapshot_wanted and now_s >= self._snapshot_from_s:
            self._snapshot_now()
        if self._options.cleanup_interval_ms and now_s >= self._cleanup_due_s:
            self._postpone_cleanup()
            self.remove_unneeded_files()

    def finish(self) -> None:
        if self.commits.broken is None:
            self._snapshot_now()

    def leave(self) -> None:
        if self.commits.is_abandoned:
            self._writer.abandon()
        self._let_go()

    def attempt(self, batch: Sequence[Write]) -> None:
        task = batch[0].task
        if task is not None:
            task()
            return
        plan = self._plan(batch)
        if plan.records or plan.effects:
            self._prove_or_break()
            faults.point("writer.before_commit")
            self._append(plan)

    def _prove_or_break(self) -> None:
        try:
            self._prove()
        except LeaseLost as error:
            self.commits.break_off(error)
            raise

    def _plan(self, batch: Sequence[Write]) -> Plan:
        """The records of a batch. What cannot be done is refused: it is alone, and the plan is an empty one, or its
        first part says so, so that no record of it is in the plan."""
        plan = self._empty_plan()
        for write in list(batch):
            let_down = write.let_down() if write.follows else None  # by one that was refused just now
            if let_down is not None:
                self.commits.refuse(write, let_down)
                continue
            try:
                for part in write.parts:
                    part.plan(plan)
            except StoreError as error:
                self.commits.refuse(write, error)
                if write.is_alone:
                    return self._empty_plan()
        plan.finish()
        return plan

    def _empty_plan(self) -> Plan:
        return Plan(self._live, self._reader, sum(self._writer.end), self._wire_version)

    def _append(self, plan: Plan) -> None:
        self.commits.sending()
        if plan.records:
            self._write(plan.records)
        faults.point("writer.after_commit")
        if self.commits.is_abandoned:
            raise Abandoned
        with self._live.lock:
            for effect in plan.effects:
                effect()
        if plan.removes_collection:
            self._want_snapshot()

    def _write(self, records: Sequence[bytes]) -> None:
        try:
            self._writer.append(records)
        except (TransientStoreError, MessageTooLarge):
            raise  # it is undone
        except StoreError as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(str(error)) from error
        try:
            self._writer.sync()
            self._prove()
        except (StoreError, LeaseLost) as error:
            self.commits.break_off(error)
            raise OutcomeUnknown(f"written, but not surely: {error}") from error
        base = self._writer.end[0]
        if base != self._base:
            self._base = base
            self._want_snapshot()
        self._reader.begin(base)

    # -- snapshots and files -------------------------------------------------------------------------------------

    def _want_snapshot(self) -> None:
        if not self._is_snapshot_wanted:
            self._is_snapshot_wanted = True
            now_s = time.monotonic() + self._options.snapshot_interval_ms / 1000
            self._snapshot_from_s = max(now_s, self._snapshot_from_s)

    def _snapshot_now(self) -> None:
        """Write a snapshot, and behind it what only this store knows of. A full disk puts it off."""
        began_s = time.monotonic()
        try:
            self._prove()
            self._write_snapshot()
        except (OSError, CodecError, StoreError, LeaseLost, ValueError) as error:
            log.warning("a snapshot of the index could not be written, the one before stays error=%r", str(error))
        self._is_snapshot_wanted = False
        now_s = time.monotonic()
        self._snapshot_from_s = now_s + _REST * (now_s - began_s)

    def _write_snapshot(self) -> None:
        if sum(self._writer.end) == self._clean_end:
            return
        position = sum(self._writer.end)
        if snapshot_path(self._directory, position).exists():
            # It is the only one, and only in part as good: the new one gets a place of its own.
            self._write([trace_remarks.snapshot()])
            position = sum(self._writer.end)
        remarks = self._remarks()
        if remarks:  # first, so that they are never missing behind a snapshot
            self._write(remarks)
        if self._options.journal_disk_sync_strategy == "NEVER":
            self._writer.force()
        logs = [one for one in self._files.numbers() if one <= position]
        ours = f"{position:x} {sum(self._writer.end):x}".encode()
        entries = index_entries(self._live, self._reader, logs, self._wire_version, self._before, ours)
        write_snapshot(self._directory, position, entries)
        self._snapshot, self._clean_end = position, sum(self._writer.end)

    def _remarks(self) -> list[bytes]:
        live = self._live
        now_ms = time.time_ns() // 1_000_000
        oldest_ms = now_ms - round(self._options.producer_memory_s * 1000)
        live.producers = {name: known for name, known in live.producers.items() if known[1] >= oldest_ms}
        found = [trace_remarks.producer(name, *known) for name, known in live.producers.items()]
        for where, subscription in live.subscriptions():
            if acked := _out_of_order(where, subscription):
                found.append(trace_remarks.acked(subscription.key, acked))
            if subscription.info.no_local:
                found.append(trace_remarks.no_local(subscription.key))
        for transaction in live.transactions.values():
            if transaction.is_each:
                found.append(trace_remarks.each(transaction.key))
            found += [
                trace_remarks.to(transaction.key, add.number, add.destination.qualified_name)
                for add in transaction.adds
            ]
        return found

    def _postpone_cleanup(self) -> None:
        self._cleanup_due_s = time.monotonic() + self._options.cleanup_interval_ms / 1000

    def remove_unneeded_files(self) -> list[int]:
        """Remove files of the log that nothing refers to and that stand before a snapshot. In the thread."""
        numbers = self._files.numbers()
        live = set(self._live.references)
        left = candidates(numbers, self._base, live, ())
        if not left:
            return []
        last = max(left)
        behind = min((one for one in numbers if one > last), default=last)
        if self._snapshot < behind:
            self._snapshot_now()
        gone = sorted(one for one in left if min((n for n in numbers if n > one), default=one) <= self._snapshot)
        if not gone:
            return []
        try:
            self._prove()
        except LeaseLost as error:
            self.commits.break_off(error)
            return []
        removed = self._files.remove(gone, {one: set() for one in gone}, self._reader.forget)
        if removed:
            log.info("removed files of the log that are not needed files=%s", ", ".join(map(file_name, removed)))
        return removed

    def run(self, task: Callable[[], object]) -> None:
        """Do something in the thread, and wait for it."""
        completion: Completion[None] = Completion()
        self.submit(Write(completion, is_alone=True, task=task))
        completion.result()


def _out_of_order(where: LiveDestination, subscription: LiveSubscription) -> list[int]:
    """What a subscription has acknowledged behind its position and others have not."""
    return sorted(
        sequence
        for sequence in where.messages
        if sequence > subscription.position
        and sequence not in subscription.pending.all
        and sequence not in subscription.hidden
    )
