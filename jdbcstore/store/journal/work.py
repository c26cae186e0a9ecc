"""What writes are made of in a journal with an index.

A write becomes durable as a whole. Its parts say which records it takes when its turn has come: only then it is known
which messages there are, and under which ids (`Plan`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, Protocol

from jdbcstore.destination import Destination
from jdbcstore.errors import StoreError
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import MessageAck
from jdbcstore.store.jobs import HELD_MS
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.applier import SCHEDULER, SCHEDULER_COMMANDS, Hint
from jdbcstore.store.journal.commands import (
    AddMessage,
    Command,
    Commit,
    Prepare,
    RemoveDestination,
    RemoveMessage,
    RemoveScheduledJobs,
    Rollback,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.index import HIDDEN, VISIBLE, Index, JobRow, Row
from jdbcstore.store.journal.kept_queue import keeping
from jdbcstore.store.journal.known import KnownDestination, destination_name
from jdbcstore.store.journal.records import Location
from jdbcstore.store.journal.store_format import StoreFormat
from jdbcstore.store.journal.writes import Sized

__all__ = [
    "Acknowledge",
    "Add",
    "Came",
    "Decide",
    "DeleteAll",
    "Forget",
    "Keep",
    "Meant",
    "Part",
    "Plan",
    "PrepareAll",
    "Purge",
    "Remark",
    "Remove",
    "Subscribe",
    "Unsubscribe",
    "Update",
]


class Part(Sized, Protocol):
    """Something that a write does."""

    def looks(self) -> Sequence[int]:
        """The sequences of messages that have to be looked up."""

    def plan(self, plan: Plan) -> None:
        """Say which records it takes.

        Raises:
            StoreError: it cannot be done; nothing of its write is.
        """


class Plan:
    """A batch that is being made up.

    Args:
        index: as it is before the batch.
        sequences: of messages that will be asked for.
        read: gives a record of the journal.
        read_job: gives a record of the scheduler's journal.
        store_format: of the journal.
    """

    def __init__(
        self,
        index: Index,
        sequences: Sequence[int],
        read: Callable[[Location], Command],
        read_job: Callable[[Location], Command],
        store_format: StoreFormat,
    ) -> None:
        self.index: Final = index
        self.read: Final = read
        self.read_job: Final = read_job
        self.format: Final = store_format
        #: Jobs that are changed in this batch; None for those that are gone.
        self.jobs: dict[str, JobRow | None] = {}
        #: Whether the scheduler's journal gets something, too.
        self.is_scheduling = False
        self.payloads: list[bytes] = []
        self.commands: list[Command] = []
        self.hints: list[Hint | None] = []
        #: Sequences, in the order of the records that take them.
        self.numbers: list[int] = []
        self._rows = index.rows(sequences)
        self._added: dict[int, Row] = {}
        self._gone: set[int] = set()

    def record(self, command: Command, hint: Hint | None = None, payload: bytes | None = None) -> None:
        """One record; its payload if it is another than usual."""
        self.payloads.append(self.format.encode(command) if payload is None else payload)
        if type(command) in SCHEDULER_COMMANDS:
            self.is_scheduling = True
        self.commands.append(command)
        self.hints.append(hint)

    def scheduled(self) -> list[Command]:
        """What the scheduler's journal gets, too."""
        return [command for command in self.commands if isinstance(command, SCHEDULER_COMMANDS)]

    def add(self, known: KnownDestination, add: Add) -> None:
        """A record that adds a message."""
        hint = add.hint
        self.payloads.append(add.payload)
        self.commands.append(add.command)
        self.hints.append(hint)
        self.numbers.append(hint.sequence)
        message_id = add.command.message_id or ""
        if add.command.transaction is None:
            self._added[hint.sequence] = Row(hint.sequence, known.id, add.level, message_id, 0, 0, 0, 0, VISIBLE)

    def is_added(self, add: Add) -> bool:
        """Whether a message is added in this batch."""
        return add.hint.sequence in self._added

    def rows(self, known: KnownDestination, meant: Meant) -> list[Row]:
        """The messages of a destination that are meant, those in doubt and those that are gone left out."""
        if meant.sequence > 0:
            row = self.row(known, meant.sequence)
            return [] if row is None else [row]
        found = self.index.rows_by_id(known.id, meant.message_id)
        found += [row for row in self._added.values() if row.message_id == meant.message_id]
        return [row for row in found if self._is_there(known, row)]

    def row(self, known: KnownDestination, sequence: int) -> Row | None:
        """The same for one whose sequence is known."""
        row = self._added.get(sequence) or self._rows.get(sequence)
        return row if row is not None and self._is_there(known, row) else None

    def _is_there(self, known: KnownDestination, row: Row) -> bool:
        return row.destination == known.id and row.state == VISIBLE and row.sequence not in self._gone

    def remove(self, known: KnownDestination, row: Row) -> None:
        """Records that remove a message."""
        twins = self.say_which(known, row)
        self.record(RemoveMessage(None, known.destination, row.message_id), Hint(0, 0, row))
        self._gone.add(row.sequence)
        if twins:
            # A broker, and a rebuild, know one message of an id: that is gone now, so the next is written again.
            self._again(twins[0])

    def say_which(self, known: KnownDestination, row: Row) -> list[Row]:
        """Say that the next record is about this message, if it is not the first of its id.

        Returns:
            Other messages of this id, the oldest first.
        """
        if row.twins == 1:
            return []
        rows = self.rows(known, Meant(0, row.message_id))
        twins = sorted(twin for twin in rows if twin.sequence != row.sequence)
        if twins and twins[0].sequence < row.sequence:
            self.record(remarks.message(row.sequence))
        return twins

    def _again(self, row: Row) -> None:
        if row.file:
            add = self.read(Location(row.file, row.offset, row.size))
            add = add.message if isinstance(add, UpdateMessage) and add.message is not None else add
        else:
            add = next(
                command
                for command, hint in zip(self.commands, self.hints, strict=True)
                if hint is not None and hint.sequence == row.sequence
            )
        assert isinstance(add, AddMessage)
        expiration = next(
            (hint.expiration for hint in self.hints if hint is not None and hint.sequence == row.sequence), None
        )
        hint = Hint(0, self.index.expiration(row.sequence) if expiration is None else expiration, row)
        update = UpdateMessage(add._replace(transaction=None))
        self.record(update, hint, self.format.encode_again(update))

    def close_write(self, first: int) -> None:
        """All records from this one on are of one write: they happen together, for brokers of the format, too."""
        if len(self.payloads) - first > 1:
            self.payloads[first:] = self.format.together(self.commands[first:], self.payloads[first:])

    def finish(self) -> list[bytes]:
        """The payloads of all records; none if nothing is to be done."""
        numbers, first = self.numbers, self.index.written + 1
        if numbers and (numbers[0] != first or numbers[-1] - first + 1 != len(numbers)):
            trace = remarks.sequences(numbers)
            self.payloads.insert(0, self.format.encode(trace))
            self.commands.insert(0, trace)
            self.hints.insert(0, None)
        return self.payloads


class Meant:
    """Which message somebody means: by its sequence if that is known, else by its id."""

    __slots__ = ("message_id", "sequence")

    def __init__(self, sequence: int, message_id: str) -> None:
        self.sequence = sequence
        self.message_id = message_id

    @classmethod
    def of(cls, message_id: MessageId, store_format: StoreFormat) -> Meant:
        """By an id as callers give it."""
        sequence = message_id.broker_sequence_id
        return cls(sequence, "") if sequence > 0 else cls(0, store_format.message_id(message_id))

    def looks(self) -> tuple[int, ...]:
        """What has to be looked up."""
        return (self.sequence,) if self.sequence > 0 else ()


class _Small:
    """A part that takes little room and looks for nothing."""

    __slots__ = ()
    size = 256
    takes_room = False

    def looks(self) -> Sequence[int]:
        """Nothing."""
        return ()


class Add:
    """Add a message."""

    __slots__ = ("command", "hint", "known", "level", "payload", "size")
    takes_room = True

    def __init__(self, known: KnownDestination, level: int, command: AddMessage, payload: bytes, hint: Hint) -> None:
        self.known = known
        self.level = level
        self.command = command
        self.payload = payload
        self.hint = hint
        self.size = len(payload)

    def looks(self) -> Sequence[int]:
        """Nothing."""
        return ()

    def plan(self, plan: Plan) -> None:
        """One record."""
        plan.add(self.known, self)


class Remove(_Small):
    """Remove messages of a queue; of a topic for all subscriptions.

    Args:
        known: the destination.
        sequences: the messages.
        message_ids: those whose sequences are not known.
    """

    __slots__ = ("known", "message_ids", "sequences", "size")

    def __init__(
        self, known: KnownDestination, sequences: Sequence[int], message_ids: Sequence[MessageId] = ()
    ) -> None:
        self.known = known
        self.sequences = sequences
        self.message_ids = message_ids
        self.size = _Small.size * (len(sequences) + len(message_ids))

    def looks(self) -> Sequence[int]:
        return self.sequences

    def plan(self, plan: Plan) -> None:
        known = self.known
        remove = _acknowledge_for_all if known.destination.is_topic else Plan.remove
        for sequence in self.sequences:
            row = plan.row(known, sequence)
            if row is not None:
                remove(plan, known, row)
        for message_id in self.message_ids:
            for row in plan.rows(known, Meant.of(message_id, plan.format)):
                remove(plan, known, row)


class Acknowledge(_Small):
    """Acknowledge messages of a topic for one subscription."""

    __slots__ = ("known", "meant", "size", "text")

    def __init__(self, known: KnownDestination, text: str, meant: Sequence[Meant]) -> None:
        self.known = known
        self.text = text
        self.meant = meant
        self.size = 256 * len(meant)

    def looks(self) -> Sequence[int]:
        return [one.sequence for one in self.meant if one.sequence > 0]

    def plan(self, plan: Plan) -> None:
        if self.text not in self.known.subscriptions:
            return
        for meant in self.meant:
            for row in plan.rows(self.known, meant):
                _acknowledge(plan, self.known, row, self.text)


class Update:
    """Write a message anew."""

    __slots__ = ("add", "expiration", "known", "meant", "size")
    takes_room = True

    def __init__(self, known: KnownDestination, meant: Meant, add: AddMessage, expiration: int) -> None:
        self.known = known
        self.meant = meant
        self.add = add
        self.expiration = expiration
        self.size = len(add.message or b"")

    def looks(self) -> Sequence[int]:
        """The message."""
        return self.meant.looks()

    def plan(self, plan: Plan) -> None:
        """One record, if it is there."""
        for row in plan.rows(self.known, self.meant)[:1]:
            plan.say_which(self.known, row)
            plan.record(UpdateMessage(self.add), Hint(0, self.expiration, row))


class Came(_Small):
    """How far a producer came.

    Args:
        producer: its id as text.
        last: its number.
        shown_by: the message that shows it, if it is added with this.
    """

    __slots__ = ("last", "producer", "shown_by")

    def __init__(self, producer: str, last: int, shown_by: Add | None) -> None:
        self.producer = producer
        self.last = last
        self.shown_by = shown_by

    def plan(self, plan: Plan) -> None:
        if self.shown_by is None or not plan.is_added(self.shown_by):
            plan.record(remarks.producer(self.producer, self.last))


class Remark(_Small):
    """Something that only this store knows."""

    __slots__ = ("trace",)

    def __init__(self, trace: Trace) -> None:
        self.trace = trace

    def plan(self, plan: Plan) -> None:
        plan.record(self.trace)


class Keep(_Small):
    """Make a queue known although it is empty."""

    __slots__ = ("queue",)

    def __init__(self, queue: Destination) -> None:
        self.queue = queue

    def plan(self, plan: Plan) -> None:
        for command in keeping(self.queue):
            plan.record(command)


# -- what is alone in its batch ----------------------------------------------------------------------------------------


class Purge(_Small):
    """Remove all messages of a destination that are not in doubt."""

    __slots__ = ("known",)

    def __init__(self, known: KnownDestination) -> None:
        self.known = known

    def plan(self, plan: Plan) -> None:
        known = self.known
        if known.destination.is_topic:
            for row in plan.index.rows_of(known.id):
                _acknowledge_for_all(plan, known, row)
        elif plan.index.is_in_doubt(known.id) or not plan.format.removes_destinations:
            # A broker would forget what is in doubt with the destination.
            for row in plan.index.rows_of(known.id):
                plan.say_which(known, row)
                plan.record(RemoveMessage(None, known.destination, row.message_id), Hint(row=row))
        elif known.count:
            plan.record(RemoveDestination(known.destination))


class Forget(Purge):
    """Forget a destination: messages, subscriptions, and that it is known."""

    __slots__ = ()

    def plan(self, plan: Plan) -> None:
        known = self.known
        if not known.destination.is_topic:
            super().plan(plan)
        for text in known.subscriptions:
            plan.record(Subscription(known.destination, text))
        if known.is_kept:
            plan.record(remarks.released(destination_name(known.destination)))
            if not known.count and plan.format.removes_destinations and not plan.index.is_in_doubt(known.id):
                plan.record(RemoveDestination(known.destination))  # or a broker's rebuild knows it


class DeleteAll(_Small):
    """Forget everything."""

    __slots__ = ()

    def plan(self, plan: Plan) -> None:
        for xid in plan.index.prepared():
            plan.record(Rollback(xid))
        for known in plan.index.known:
            if not plan.format.removes_destinations:
                Forget(known).plan(plan)
            elif known.count or known.subscriptions or known.is_kept or plan.index.is_in_doubt(known.id):
                plan.record(RemoveDestination(known.destination))
            if known.is_kept:
                plan.record(remarks.released(destination_name(known.destination)))
        if plan.index.job_count():
            plan.record(RemoveScheduledJobs(SCHEDULER, 0, HELD_MS))
        plan.record(remarks.forgotten())


class Subscribe(_Small):
    """Begin a durable subscription; one that there is begins anew."""

    __slots__ = ("info", "is_retroactive", "known", "text")

    def __init__(self, known: KnownDestination, text: str, info: bytes, *, retroactive: bool) -> None:
        self.known = known
        self.text = text
        self.info = info
        self.is_retroactive = retroactive

    def plan(self, plan: Plan) -> None:
        destination = self.known.destination
        if self.text in self.known.subscriptions:
            plan.record(Subscription(destination, self.text))
        plan.record(Subscription(destination, self.text, self.is_retroactive, self.info))


class Unsubscribe(_Small):
    """End a durable subscription."""

    __slots__ = ("known", "text")

    def __init__(self, known: KnownDestination, text: str) -> None:
        self.known = known
        self.text = text

    def plan(self, plan: Plan) -> None:
        if self.text in self.known.subscriptions:
            plan.record(Subscription(self.known.destination, self.text))


class PrepareAll:
    """Prepare a transaction."""

    __slots__ = ("acknowledged", "adds", "removes", "size", "wire_version", "xid")
    takes_room = True

    def __init__(
        self,
        xid: XATransactionId,
        adds: Sequence[Add],
        removes: Sequence[tuple[KnownDestination, Meant]],
        acknowledged: Sequence[tuple[KnownDestination, str, Meant]],
        wire_version: int,
    ) -> None:
        self.xid = xid
        self.wire_version = wire_version
        self.adds = adds
        self.removes = removes
        self.acknowledged = acknowledged
        self.size = sum(add.size for add in adds) + 512 * (len(removes) + len(acknowledged))

    def looks(self) -> Sequence[int]:
        """What it removes and acknowledges."""
        meant = [one for _, one in self.removes] + [one for _, _, one in self.acknowledged]
        return [one.sequence for one in meant if one.sequence > 0]

    def plan(self, plan: Plan) -> None:
        """Its records. Raises `StoreError` when another transaction removes the same message."""
        self._refuse_what_is_in_doubt(plan)
        for add in self.adds:
            plan.add(add.known, add)
        seen: set[tuple[int, str]] = set()
        for known, meant in self.removes:
            for row in plan.rows(known, meant):
                if (row.sequence, "") not in seen:
                    seen.add((row.sequence, ""))
                    self._take(plan, known, row, None)
        for known, text, meant in self.acknowledged:
            subscription = known.subscriptions.get(text)
            for row in plan.rows(known, meant) if subscription is not None else ():
                assert subscription is not None
                if (row.sequence, text) not in seen and plan.index.is_pending(subscription.id, row.level, row.sequence):
                    seen.add((row.sequence, text))
                    self._take(plan, known, row, text)
        plan.record(Prepare(self.xid))

    def _refuse_what_is_in_doubt(self, plan: Plan) -> None:
        for known, meant in self.removes:
            if meant.sequence > 0:
                row = plan.index.row(meant.sequence)
                found = [] if row is None else [row]
            else:
                found = plan.index.rows_by_id(known.id, meant.message_id)
            for one in found:
                if one.destination == known.id and one.state == HIDDEN:
                    raise StoreError(f"message {one.message_id} is in doubt: another transaction removes it")

    def _take(self, plan: Plan, known: KnownDestination, row: Row, text: str | None) -> None:
        message_id = MessageId.parse(row.message_id)
        message_id.broker_sequence_id = row.sequence
        ack = MessageAck.of(message_id, known.destination, self.xid)
        plan.say_which(known, row)
        command = RemoveMessage(self.xid, known.destination, row.message_id, marshal(ack, self.wire_version), text)
        plan.record(command, Hint(row=row))


class Decide(_Small):
    """Commit a prepared transaction, or roll it back."""

    __slots__ = ("commits", "numbers", "xid")

    def __init__(self, xid: XATransactionId, numbers: Sequence[int], *, commits: bool) -> None:
        self.xid = xid
        self.numbers = numbers
        self.commits = commits

    def plan(self, plan: Plan) -> None:
        plan.numbers += self.numbers
        plan.record(Commit(self.xid) if self.commits else Rollback(self.xid))


def _acknowledge(plan: Plan, known: KnownDestination, row: Row, text: str) -> None:
    plan.say_which(known, row)
    plan.record(RemoveMessage(None, known.destination, row.message_id, None, text), Hint(row=row))


def _acknowledge_for_all(plan: Plan, known: KnownDestination, row: Row) -> None:
    for text, subscription in known.subscriptions.items():
        if not row.file or plan.index.is_pending(subscription.id, row.level, row.sequence):
            _acknowledge(plan, known, row, text)
