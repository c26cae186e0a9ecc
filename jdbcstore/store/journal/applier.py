"""What each record of the journal does to the index.

This is the only place that knows: a batch that was just written is applied here, and after a kill the same batch is,
read from the journal. The difference is what is known beforehand. Whoever has written a record has looked up which
message it is about, and says so (`Hint`); from the journal a message is known by its id.

Within a batch it makes no difference whether messages are first added, then acknowledged, then removed, or in another
order: a record is about a message that was there when it was written. So adds, acknowledgements and removes are
collected and done in bulk, up to the next record of another kind.

The rules are those of `jdbcstore.store.journal.replay`. Only what this store writes has to be understood here: a
directory in which a broker was is replayed there.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.identifiers import TransactionId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.journal import index as sql
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    RemoveScheduledJob,
    RemoveScheduledJobs,
    RescheduleJob,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.index import HIDDEN, VISIBLE, WAITING, Index, JobRow, Operation, Row, id_hash
from jdbcstore.store.journal.known import DEFAULT_LEVEL, KnownDestination, KnownSubscription, named_destination
from jdbcstore.store.journal.records import Location

__all__ = ["Applied", "Applier", "ForeignRecord", "Hint", "level_of"]


class Hint(NamedTuple):
    """What its writer knows of a record."""

    sequence: int = 0
    expiration: int = 0
    row: Row | None = None
    """The message that it is about. Its file is 0 when it was added in the same batch."""


#: A record, where it stands, and what is known beforehand.
Applied: TypeAlias = tuple[Location, Command, Hint | None]

#: A sequence of a producer has 64 bits.
_DIGITS: Final = 19

#: Of a transaction; with the sequence of the message that is meant, 0 for the first of its id.
_Operation: TypeAlias = tuple[Location, AddMessage | RemoveMessage, Hint | None, int]


#: What brokers call their only scheduler.
SCHEDULER: Final = "JMS"
#: What the scheduler's journal gets, in the order in which the journal of messages has it.
SCHEDULER_COMMANDS: Final = (AddScheduledJob, RescheduleJob, RemoveScheduledJob, RemoveScheduledJobs)


class ForeignRecord(Exception):
    """A broker has written here: the index has to be made anew."""


def repeat_after(row: JobRow) -> int:
    """How often a job is sent after the next time when it was rescheduled once, as brokers count."""
    return row.repeat - 1 if not row.cron and row.repeat > 0 else row.repeat


def level_of(add: AddMessage) -> int:
    """Where a message stands: its priority, if that counts."""
    return min(max(add.priority, 0), 9) if add.priority_supported else DEFAULT_LEVEL


def expiration_of(add: AddMessage) -> int:
    """When a message expires, epoch milliseconds; 0 if never, or if it cannot be read."""
    try:
        message: Message = unmarshal_message(add.message or b"")
    except CodecError:
        return 0
    return message.expiration


class Applier:
    """Applies records to an index. Whoever calls it holds the index's lock.

    Args:
        index: to be changed.
    """

    def __init__(self, index: Index) -> None:
        self.index: Final = index
        self._known = index.known
        self._begun: dict[TransactionId, list[_Operation]] = {}
        # Of the batch.
        self._numbers: list[int] = []
        self._meant = 0
        # Collected until something of another kind comes.
        self._adds: list[tuple[Any, ...]] = []
        self._pending: list[tuple[int, int, int]] = []
        self._acks: list[tuple[int, Row, KnownSubscription]] = []
        self._removes: list[int] = []
        self._removed: set[int] = set()
        self._scheduled: Iterator[Location] = iter(())
        #: Where messages of this batch stand now.
        self._files: dict[int, int] = {}
        self._handlers: Final[dict[type, Callable[[Location, Any, Hint | None], None]]] = {
            AddMessage: self._add,
            RemoveMessage: self._remove,
            UpdateMessage: self._update,
            Prepare: self._prepare,
            Commit: self._commit,
            Rollback: self._roll_back,
            RemoveDestination: self._remove_destination,
            Subscription: self._subscription,
            Trace: self._trace,
            AddScheduledJob: self._add_job,
            RescheduleJob: self._reschedule_job,
            RemoveScheduledJob: self._remove_job,
            RemoveScheduledJobs: self._remove_jobs,
        }

    def apply(self, batch: Iterable[Applied], scheduled: Iterable[Location] = ()) -> None:
        """Apply the records of one batch, in their order.

        Args:
            batch: records, where they stand, what is known of them.
            scheduled: where the scheduler's commands among them stand in the scheduler's journal.

        Raises:
            ForeignRecord: a record is not by this store.
            sqlite3.Error: the index cannot be written.
        """
        self._numbers, self._files, self._meant, self._scheduled = [], {}, 0, iter(scheduled)
        handlers = self._handlers
        for location, command, hint in batch:
            handler = handlers.get(type(command))
            if handler is None:
                raise ForeignRecord(f"{location}: {type(command).__name__}")
            handler(location, command, hint)
        self._flush()

    @property
    def _connection(self) -> sqlite3.Connection:
        return self.index.connection

    # -- remarks -------------------------------------------------------------------------------------------------

    def _trace(self, location: Location, trace: Trace, hint: Hint | None) -> None:
        remark = remarks.of_trace(trace)
        if remark is None:
            if trace.message:  # without text it forced the disk
                raise ForeignRecord(f"{location}: {trace.message[:60]}")
            return
        match remark:
            case "sequences", about:
                self._numbers = remarks.sequences_of(about)[::-1]
            case "message", about:
                self._meant = int(about)
            case "producer", about:
                last, _, producer = about.partition(" ")
                self._came(producer, int(last))
            case "still", about:
                _, _, producer = about.partition(" ")
                self._connection.execute("UPDATE producers SET file = ? WHERE producer = ?", (location.file, producer))
            case "acknowledges", about:
                for file in about.split():
                    self.index.refer(location.file, int(file))
            case "compacted", about:
                self.index.release(int(about))
            case "unknown", _:
                for known in self._known:
                    known.is_kept = False
            case "producers", _:
                self.index.producers.clear()
                self._connection.execute("DELETE FROM producers")
            case "known", about:
                self._known.of(named_destination(about)).is_kept = True
            case "released", about:
                self._known.of(named_destination(about)).is_kept = False

    def _came(self, producer: str, last: int) -> None:
        producers = self.index.producers
        if last > producers.get(producer, -1):
            producers[producer] = last

    def _came_with(self, message_id: str) -> None:
        producer, _, number = message_id.rpartition(":")
        if producer and len(number) < _DIGITS and number.isdecimal():
            self._came(producer, int(number))

    def _next(self, hint: Hint | None) -> int:
        index = self.index
        sequence = self._numbers.pop() if self._numbers else index.written + 1
        if hint is not None and hint.sequence != sequence:
            raise StoreError(f"the journal says sequence {sequence}, and {hint.sequence} was given")
        # `given` is not touched: who sends counts it on meanwhile.
        index.written = max(index.written, sequence)
        return sequence

    # -- messages ------------------------------------------------------------------------------------------------

    def _add(self, location: Location, add: AddMessage, hint: Hint | None) -> None:
        if add.transaction is not None:
            self._begun.setdefault(add.transaction, []).append((location, add, hint, 0))
            return
        sequence = self._next(hint)
        known, message_id = self._of(add.destination), add.message_id or ""
        level, file = level_of(add), location.file
        self._came_with(message_id)
        subscriptions = known.subscriptions
        if subscriptions:
            self._pending += [(one.id, level, sequence) for one in subscriptions.values()]
            for one in subscriptions.values():
                one.count += 1
        elif known.destination.is_topic:
            return  # nobody waits for it
        known.levels.add(level)
        known.count += 1
        live = self.index.live
        live[file] = live.get(file, 0) + 1
        self._files[sequence] = file
        self._adds.append(
            (
                sequence,
                known.id,
                level,
                message_id,
                id_hash(message_id),
                file,
                location.offset,
                location.size,
                expiration_of(add) if hint is None else hint.expiration,
                len(subscriptions),
                VISIBLE,
            )
        )

    def _update(self, location: Location, update: UpdateMessage, hint: Hint | None) -> None:
        add = update.message
        if add is None:
            return
        row = self._meant_by(self._of(add.destination), add.message_id, hint)
        if row is None:
            return
        self._flush()
        expiration = expiration_of(add) if hint is None else hint.expiration
        self._connection.execute(
            "UPDATE messages SET file = ?, offset = ?, size = ?, expiration = ? WHERE sequence = ?",
            (*location, expiration, row.sequence),
        )
        file = self._file_of(row)
        self._unpin(file)
        live = self.index.live
        live[location.file] = live.get(location.file, 0) + 1
        self._files[row.sequence] = location.file
        # The older record has to be there no longer than the newer one, or it would come back.
        self.index.refer(location.file, file)
        # And the newer one only with it: it tells the message's place, and what was acknowledged before the update.
        self.index.refer(file, location.file)

    def _remove(self, location: Location, remove: RemoveMessage, hint: Hint | None) -> None:
        if remove.transaction is not None:
            meant, self._meant = self._meant, 0
            self._begun.setdefault(remove.transaction, []).append((location, remove, hint, meant))
            return
        row = None if hint is None else hint.row
        if row is None:
            row = self._meant_by(self._of(remove.destination), remove.message_id, hint)
            if row is None:
                return
        known, file = self._known.by_id(row.destination), self._file_of(row)
        self.index.refer(location.file, file)
        if remove.subscription_key is not None:
            subscription = known.subscriptions.get(remove.subscription_key)
            if subscription is not None:
                self._acks.append((known.id, row, subscription))
        elif row.sequence not in self._removed:
            self._removed.add(row.sequence)
            self._removes.append(row.sequence)
            self._unpin(file)
            known.count -= 1

    def _meant_by(self, known: KnownDestination, message_id: str | None, hint: Hint | None) -> Row | None:
        """The message that a record is about."""
        if hint is not None:
            return hint.row
        meant, self._meant = self._meant, 0
        if self._acks:
            self._flush()
        else:
            self._flush_adds()
        for row in self.index.rows_by_id(known.id, message_id or ""):
            if row.state == VISIBLE and row.sequence not in self._removed and meant in (0, row.sequence):
                return row
        return None

    def _of(self, destination: Destination | None) -> KnownDestination:
        if destination is None:
            raise ForeignRecord("a record without destination")
        return self._known.of(destination)

    def _file_of(self, row: Row) -> int:
        return self._files.get(row.sequence, row.file)

    def _unpin(self, file: int, messages: int = 1) -> None:
        live = self.index.live
        left = live.get(file, 0) - messages
        if left > 0:
            live[file] = left
        else:
            live.pop(file, None)

    def _flush_adds(self) -> None:
        sql.insert(self._connection, sql.ADD, self._adds)
        sql.insert(self._connection, sql.PEND, self._pending)
        self._adds.clear()
        self._pending.clear()

    def _flush(self) -> None:
        """Do what was collected."""
        self._flush_adds()
        connection = self._connection
        if self._acks:
            for destination, row, subscription in self._acks:
                self._acknowledge(destination, row, subscription)
            self._acks.clear()
        if self._removes:
            connection.execute(sql.REMOVE_ALL, (str(self._removes),))
            self._removes.clear()
            self._removed.clear()

    def _acknowledge(self, destination: int, row: Row, subscription: KnownSubscription) -> None:
        if self._take(row, subscription):
            self._waits_no_more(destination, row.sequence)

    def _take(self, row: Row, subscription: KnownSubscription) -> bool:
        """Take a message out of what a subscription has not acknowledged; whether it was there."""
        taken = self._connection.execute(sql.ACKNOWLEDGE, (subscription.id, row.level, row.sequence)).rowcount == 1
        subscription.count -= taken
        return taken

    def _waits_no_more(self, destination: int, sequence: int) -> None:
        """One subscription less waits for a message; with the last one it goes."""
        self._connection.execute("UPDATE messages SET waiting = waiting - 1 WHERE sequence = ?", (sequence,))
        row = self.index.row(sequence)
        if row is not None and row.waiting <= 0 and row.state == VISIBLE:
            self._connection.execute(sql.REMOVE, (sequence,))
            self._unpin(row.file)
            self._known.by_id(destination).count -= 1

    # -- transactions --------------------------------------------------------------------------------------------

    def _prepare(self, location: Location, prepare: Prepare, hint: Hint | None) -> None:
        self._flush()
        xid = prepare.transaction
        begun = self._begun.pop(xid, []) if xid is not None else []
        if not isinstance(xid, XATransactionId):
            raise ForeignRecord(f"{location}: a local transaction that is prepared")
        files = {location.file, *(where.file for where, *_ in begun)}
        connection = self._connection
        id = connection.execute(
            "INSERT INTO transactions (format, global, branch, first_file, last_file) VALUES (?, ?, ?, ?, ?)",
            (xid.format_id, xid.global_transaction_id, xid.branch_qualifier, min(files), max(files)),
        ).lastrowid
        operations: list[Operation] = []
        for where, operation, known_of_it, meant in begun:
            self._meant = meant
            self.index.refer(location.file, where.file)
            if isinstance(operation, AddMessage):
                operations.append(self._wait(where, operation, known_of_it))
            elif (found := self._hide(where, operation, known_of_it)) is not None:
                operations.append(found)
        connection.executemany(
            "INSERT INTO operations VALUES (?, ?, ?, ?, ?, ?)",
            [(id, place, *operation) for place, operation in enumerate(operations)],
        )

    def _wait(self, where: Location, add: AddMessage, hint: Hint | None) -> Operation:
        known, message_id, sequence = self._of(add.destination), add.message_id or "", self._next(hint)
        level = level_of(add)
        self._came_with(message_id)
        expiration = expiration_of(add) if hint is None else hint.expiration
        self._connection.execute(
            sql.ADD, (sequence, known.id, level, message_id, id_hash(message_id), *where, expiration, 0, WAITING)
        )
        live = self.index.live
        live[where.file] = live.get(where.file, 0) + 1
        return Operation(True, sequence, 0, where.file)

    def _hide(self, where: Location, remove: RemoveMessage, hint: Hint | None) -> Operation | None:
        known = self._of(remove.destination)
        row = self._meant_by(known, remove.message_id, hint)
        if row is None:
            return None
        if remove.subscription_key is None:
            self._set_state(row.sequence, HIDDEN)
            known.count -= 1
            return Operation(False, row.sequence, 0, where.file)
        subscription = known.subscriptions.get(remove.subscription_key)
        if subscription is None or not self._take(row, subscription):
            return None
        return Operation(False, row.sequence, subscription.id, where.file)

    def _commit(self, location: Location, commit: Commit, hint: Hint | None) -> None:
        self._flush()
        for operation in self._ended(commit.transaction):
            self.index.refer(location.file, operation.file)
            row = self.index.row(operation.sequence)
            if operation.adds:
                self._show(row, self._next(None))
            elif operation.subscription:
                if row is not None:
                    self.index.refer(operation.file, row.file)
                    self._waits_no_more(row.destination, row.sequence)
            elif row is not None:
                self.index.refer(operation.file, row.file)
                self._connection.execute(sql.REMOVE, (row.sequence,))
                self._unpin(row.file)

    def _show(self, row: Row | None, sequence: int) -> None:
        """A message that was added in doubt is there, behind all others."""
        if row is None:
            raise StoreError("the index has lost a message in doubt")
        known = self._known.by_id(row.destination)
        subscriptions = list(known.subscriptions.values())
        if known.destination.is_topic and not subscriptions:
            self._connection.execute(sql.REMOVE, (row.sequence,))
            self._unpin(row.file)
            return
        self._connection.execute(
            "UPDATE messages SET sequence = ?, waiting = ?, state = ? WHERE sequence = ?",
            (sequence, len(subscriptions), VISIBLE, row.sequence),
        )
        sql.insert(self._connection, sql.PEND, [(one.id, row.level, sequence) for one in subscriptions])
        for one in subscriptions:
            one.count += 1
        known.count += 1
        known.levels.add(row.level)

    def _roll_back(self, location: Location, rollback: Rollback, hint: Hint | None) -> None:
        if rollback.transaction is not None and self._begun.pop(rollback.transaction, None) is not None:
            return  # what makes a broker know a queue
        self._flush()
        for operation in self._ended(rollback.transaction):
            self.index.refer(location.file, operation.file)
            row = self.index.row(operation.sequence)
            if row is None:
                raise StoreError("the index has lost a message in doubt")
            known = self._known.by_id(row.destination)
            if operation.adds:
                self._connection.execute(sql.REMOVE, (row.sequence,))
                self._unpin(row.file)
            elif operation.subscription:
                self._connection.execute(sql.PEND, (operation.subscription, row.level, row.sequence))
                for subscription in known.subscriptions.values():
                    subscription.count += subscription.id == operation.subscription
            else:
                self._set_state(row.sequence, VISIBLE)
                known.count += 1

    def _ended(self, transaction: TransactionId | None) -> Sequence[Operation]:
        """What a transaction has done that is in doubt no longer."""
        if not isinstance(transaction, XATransactionId):
            raise ForeignRecord("a local transaction")
        id = self.index.prepared().get(transaction)
        if id is None:
            return ()
        operations = self.index.operations(id)
        self._connection.execute("DELETE FROM operations WHERE of = ?", (id,))
        self._connection.execute("DELETE FROM transactions WHERE id = ?", (id,))
        return operations

    def _set_state(self, sequence: int, state: int) -> None:
        self._connection.execute("UPDATE messages SET state = ? WHERE sequence = ?", (state, sequence))

    # -- destinations and subscriptions --------------------------------------------------------------------------

    def _remove_destination(self, location: Location, remove: RemoveDestination, hint: Hint | None) -> None:
        self._flush()
        known = self._of(remove.destination)
        for subscription in list(known.subscriptions.values()):
            self._end(location, known, subscription)
        for level in list(known.levels):
            among = (known.id, level)
            self._drop(location, "destination = ? AND level = ? AND state = 0", among)
        known.levels.clear()
        known.count = 0

    def _drop(self, location: Location, condition: str, values: tuple[int, ...]) -> int:
        """Delete messages, and with them what they keep; how many there were.

        Without the record that says so they would be there again after a rebuild.
        """
        counted = self._connection.execute(
            f"SELECT file, count(*) FROM messages WHERE {condition} GROUP BY file", values
        ).fetchall()
        self._connection.execute(f"DELETE FROM messages WHERE {condition}", values)
        for file, messages in counted:
            self.index.refer(location.file, file)
            self._unpin(file, messages)
        return sum(messages for _, messages in counted)

    def _subscription(self, location: Location, command: Subscription, hint: Hint | None) -> None:
        self._flush()
        destination, text, retroactive, info = command
        known = self._of(destination)
        subscription = known.subscriptions.get(text or "")
        if info is None:
            if subscription is not None:
                self._end(location, known, subscription)
            return
        if subscription is None:
            self._begin(known, location, text or "", info, retroactive=retroactive)
            return
        self.index.refer(location.file, subscription.location[0])
        self._connection.execute(
            "UPDATE subscriptions SET info = ?, retroactive = ?, file = ?, offset = ?, size = ? WHERE id = ?",
            (info, retroactive, *location, subscription.id),
        )
        again = KnownSubscription(
            subscription.id,
            subscription.text,
            info,
            location,
            known.destination,
            retroactive=retroactive,
            count=subscription.count,
        )
        known.subscriptions[subscription.text] = again

    def _begin(self, known: KnownDestination, location: Location, text: str, info: bytes, *, retroactive: bool) -> None:
        connection = self._connection
        id = connection.execute(
            "INSERT INTO subscriptions (destination, text, info, retroactive, file, offset, size, count)"
            " VALUES (?, ?, ?, ?, ?, ?, ?, 0)",
            (known.id, text, info, retroactive, *location),
        ).lastrowid
        assert id is not None
        subscription = KnownSubscription(id, text, info, location, known.destination, retroactive=retroactive)
        known.subscriptions[text] = subscription
        if retroactive:
            others = [one.location[0] for one in known.subscriptions.values() if one is not subscription]
            for level in list(known.levels):
                among = (known.id, level)
                # Without the others nobody would wait for these messages when they are sent.
                statement = "SELECT DISTINCT file FROM messages WHERE destination = ? AND level = ? AND state = 0"
                for (file,) in connection.execute(statement, among).fetchall():
                    for other in others:
                        self.index.refer(other, file)
                subscription.count += connection.execute(
                    "INSERT INTO pending SELECT ?, level, sequence FROM messages"
                    " WHERE destination = ? AND level = ? AND state = 0",
                    (id, *among),
                ).rowcount
                connection.execute(
                    "UPDATE messages SET waiting = waiting + 1 WHERE destination = ? AND level = ? AND state = 0", among
                )

    def _end(self, location: Location, known: KnownDestination, subscription: KnownSubscription) -> None:
        """A subscription goes, and with it what only it has kept."""
        self.index.refer(location.file, subscription.location[0])
        connection, id = self._connection, (subscription.id,)
        del known.subscriptions[subscription.text]
        for of_it in (
            "SELECT sequence FROM pending WHERE subscription = ?",
            "SELECT sequence FROM operations WHERE subscription = ?",
        ):
            connection.execute(f"UPDATE messages SET waiting = waiting - 1 WHERE sequence IN ({of_it})", id)
            known.count -= self._drop(location, f"sequence IN ({of_it}) AND waiting <= 0 AND state = 0", id)
        connection.execute("DELETE FROM pending WHERE subscription = ?", id)
        connection.execute("DELETE FROM operations WHERE subscription = ?", id)
        connection.execute("DELETE FROM subscriptions WHERE id = ?", id)

    # -- scheduled messages --------------------------------------------------------------------------------------

    def _add_job(self, location: Location, add: AddScheduledJob, hint: Hint | None) -> None:
        self.put_job(add, next(self._scheduled))

    def put_job(self, add: AddScheduledJob, location: Location, rescheduled: int = 0) -> None:
        """A job is added; where its record stands in the scheduler's journal."""
        cron, due_ms = add.cron_entry or "", add.next_execution_time
        row = JobRow(add.job_id or "", due_ms, add.delay, add.period, add.repeat, cron, rescheduled, *location)
        self._connection.execute("INSERT OR IGNORE INTO jobs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)", row)

    def _reschedule_job(self, location: Location, command: RescheduleJob, hint: Hint | None) -> None:
        next(self._scheduled)
        row = self.index.job(command.job_id or "")
        if row is not None and row.due_ms == command.execution_time:
            self._connection.execute(
                "UPDATE jobs SET due_ms = ?, repeat = ?, rescheduled = ? WHERE job_id = ?",
                (command.next_execution_time, repeat_after(row), command.rescheduled_count, row.job_id),
            )

    def _remove_job(self, location: Location, command: RemoveScheduledJob, hint: Hint | None) -> None:
        next(self._scheduled)
        self._connection.execute(
            "DELETE FROM jobs WHERE job_id = ? AND due_ms = ?", (command.job_id, command.next_execution_time)
        )

    def _remove_jobs(self, location: Location, command: RemoveScheduledJobs, hint: Hint | None) -> None:
        next(self._scheduled)
        self._connection.execute(
            "DELETE FROM jobs WHERE due_ms BETWEEN ? AND ?", (command.start_time, command.end_time)
        )
