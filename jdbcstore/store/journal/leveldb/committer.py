"""The one place of this store where anything is written: what `jdbcstore.store.group_commit` is to a LevelDB log.

A batch is one unit of work of the log, which is there as a whole or not at all. The rules are those of every journal
(`jdbcstore.store.journal.batch_committer`); what there is changes in memory when the disk has the batch.

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
from jdbcstore.errors import CodecError, LeaseLost, StoreError
from jdbcstore.store.group_commit import Abandoned
from jdbcstore.store.journal.batch_committer import BatchCommitter
from jdbcstore.store.journal.journal_directory import JournalDirectory, candidates
from jdbcstore.store.journal.journal_writer import JournalWriter
from jdbcstore.store.journal.leveldb import trace_remarks
from jdbcstore.store.journal.leveldb.live import Live, LiveDestination, LiveSubscription
from jdbcstore.store.journal.leveldb.log import file_name, file_number
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.leveldb.plan import Plan
from jdbcstore.store.journal.leveldb.recovery import Recovered
from jdbcstore.store.journal.leveldb.snapshot import index_entries, snapshot_path, write_snapshot
from jdbcstore.store.journal.leveldb.work import Part
from jdbcstore.store.journal.writes import Write

__all__ = ["Committer"]

log = logging.getLogger(__name__)

#: Where files go that are not needed, if they are kept.
_ARCHIVE: Final = "archive"
#: A snapshot takes at most one part in so many of the time.
_REST: Final = 20


class Committer(BatchCommitter[Part, int]):
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
        super().__init__(writer, options, prove, let_go)
        self._directory = directory
        self._live = live
        self._reader = reader
        self._options = options
        self._wire_version = wire_version
        # A snapshot of ActiveMQ's may be less than what the log holds: only our own lets files go.
        self._snapshot = self._clean_end = -1
        if found.clean_end == found.end:
            self._snapshot, self._clean_end = found.snapshot or 0, found.end
        self._before = found.index
        archive = Path(options.directory_archive or directory / _ARCHIVE) if options.archive_data_logs else None
        self._files = JournalDirectory(writer.directory, file_name, file_number, archive)
        self._base = writer.end[0]
        #: Whether a snapshot is wanted before the end, and not before when.
        self._is_snapshot_wanted = False
        self._snapshot_from_s = 0.0
        self._cleanup_due_s = 0.0

    def start(self) -> None:
        self._postpone_cleanup()
        super().start()

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

    def attempt(self, batch: Sequence[Write[Part]]) -> None:
        task = batch[0].task
        if task is not None:
            task()
            return
        plan = self._plan(batch)
        if plan.records or plan.effects:
            self._prove_or_break()
            faults.point("writer.before_commit")
            self._append(plan)

    def _plan(self, batch: Sequence[Write[Part]]) -> Plan:
        plan = self._empty_plan()

        def take(write: Write[Part]) -> None:
            for part in write.parts:
                part.plan(plan)

        self._make_up(batch, take)
        if not batch:  # one that was alone, and had begun
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

    def _write(self, records: Sequence[bytes]) -> Sequence[int]:
        places = super()._write(records)
        base = self._writer.end[0]
        if base != self._base:
            self._base = base
            self._want_snapshot()
        self._reader.begin(base)
        return places

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


def _out_of_order(where: LiveDestination, subscription: LiveSubscription) -> list[int]:
    """What a subscription has acknowledged behind its position and others have not."""
    return sorted(
        sequence
        for sequence in where.messages
        if sequence > subscription.position
        and sequence not in subscription.pending.all
        and sequence not in subscription.hidden
    )
