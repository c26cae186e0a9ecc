"""``jdbcstore kahadb repair``: all that is live in a KahaDB directory, written anew into another one.

The old directory is only read. The new one has a journal and no index; a broker makes that when it starts. In it stand
the live messages in the order in which they became visible, with their priorities, durable subscriptions with what each
waits for, and prepared transactions. Nothing else: what was damaged, acknowledged or rolled back is not taken along.

A durable subscription is written before the first message that it waits for; what it does not want of the messages
behind it is acknowledged at once. So it waits for exactly what it waited for.

At the end the new journal is read and compared with what was meant to be written. Only then it gets its name, also
when the power fails: until then it is ``NAME.repairing``, which the next repair writes anew.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NamedTuple, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, ConfigurationError, JournalDamaged, LockHeld, StoreError
from jdbcstore.identifiers import TransactionId
from jdbcstore.openwire import STORE_VERSION, marshal, unmarshal
from jdbcstore.store.disk import move, remove
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import (
    AddMessage,
    AddScheduledJob,
    Command,
    Prepare,
    RemoveMessage,
    Subscription,
    Trace,
    UpdateMessage,
)
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.inspection import CheckReport, check, message_problem
from jdbcstore.store.journal.kahadb.journal import Location, file_number
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.kahadb.survey import Survey, lock_holder
from jdbcstore.store.journal.state import (
    State,
    StoredDestination,
    StoredMessage,
    StoredSubscription,
    StoredTransaction,
)

__all__ = ["RepairReport", "repair"]

#: Kinds of findings that say that something is gone.
_LOST: Final = ("torn-end", "record", "batch", "index-only", "missing-file", "index-ahead")
#: Of one write.
_BATCH_BYTES: Final = 1 << 20
#: Of the directory's name until it is complete: a broker that is started on the name meanwhile finds nothing.
_SUFFIX: Final = ".repairing"

_Acknowledged: TypeAlias = tuple[Destination, str, str | None]


class _Outline(NamedTuple):
    """What is in a directory, but for contents. Once as it was meant, once as it is read."""

    messages: dict[Destination, list[tuple[str, int]]]
    """Ids and tiers, in their order."""
    subscriptions: dict[tuple[Destination, str], list[str]]
    """Ids of what waits."""
    transactions: dict[TransactionId, tuple[list[tuple[Destination, str]], list[_Acknowledged]]]


@dataclass(slots=True)
class RepairReport:
    """What became of a directory.

    Args:
        messages: written, by destination.
        subscriptions: how many durable subscriptions were written.
        prepared: how many prepared transactions were.
        lost: a line for each thing that is not in the new directory and may be missed.
        notes: what else is to be known.
    """

    messages: dict[str, int] = field(default_factory=dict)
    subscriptions: int = 0
    prepared: int = 0
    lost: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def repair(
    directory: Path | str,
    target: Path | str,
    *,
    index_directory: Path | str | None = None,
    options: KahaDBOptions | None = None,
) -> RepairReport:
    """Write what is live into a new directory.

    Args:
        directory: the old one. No broker may run on it.
        target: does not exist, or is empty.
        index_directory: where the old ``db.data`` is, if not with the journal.
        options: how long the new journal files become.

    Raises:
        ConfigurationError: the old one is no KahaDB directory, or the new one is in the way.
        LockHeld: a broker runs.
        StoreError: a file cannot be read or written, or the new directory is not what it should be.
    """
    directory, target = Path(directory), Path(target)
    _refuse_a_broker(directory)
    _refuse_target(directory, target)
    checked = check(directory, index_directory=index_directory, messages=False)
    found = checked.survey
    if found.commands[AddScheduledJob]:
        raise ConfigurationError(
            f"{directory} is the store of a scheduler: its messages to be sent later cannot be repaired"
        )
    report = RepairReport()
    _tell(report, checked)
    work = _work_directory(target)
    appender = Appender(work, options or KahaDBOptions(preallocation_scope="NONE"))
    writing = _Writing(found, appender, report)
    appender.open()
    try:
        writing.write()
    finally:
        appender.close()
    _refuse_a_broker(directory)
    writing.verify(work)
    with _disk_errors(f"the repaired directory is complete in {work}, and cannot be named {target}"):
        move(work, target)
    return report


def _work_directory(target: Path) -> Path:
    """Where it is written until it is complete; what an earlier run has left there is removed."""
    work = target.with_name(target.name + _SUFFIX)
    with _disk_errors(f"what an earlier repair left in {work} cannot be removed"):
        for path in work.iterdir() if work.exists() else ():
            if file_number(path.name) is None:
                raise ConfigurationError(f"{path} is in the way: {work} is where {target} is written")
            remove(path)
    return work


@contextmanager
def _disk_errors(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{what}: {error.strerror or error}") from error


def _refuse_a_broker(directory: Path) -> None:
    holder = lock_holder(directory) if directory.is_dir() else 0
    if holder:
        who = f"process {holder}" if holder > 0 else "somebody"
        raise LockHeld(f"{who} holds the lock of {directory}: stop the broker first, or repair a copy")


def _refuse_target(directory: Path, target: Path) -> None:
    if target.resolve() == directory.resolve() or directory.resolve() in target.resolve().parents:
        raise ConfigurationError(f"{target} is {directory} or in it: give a new directory elsewhere")
    if target.exists() and not target.is_dir():
        raise ConfigurationError(f"{target} exists and is no directory: give a new one")
    if target.is_dir() and any(target.iterdir()):
        raise ConfigurationError(f"{target} is not empty: give a new directory")


def _tell(report: RepairReport, checked: CheckReport) -> None:
    """What is not taken along, as far as journal and index say."""
    state = checked.survey.state
    report.lost += [f"{one.place}: {one.what}" for one in checked.findings if one.kind in _LOST]
    report.lost += [f"{count} more of kind {kind}" for kind, count in checked.unlisted.items() if kind in _LOST]
    if state.damages:
        report.notes.append("what was acknowledged in a damaged place is delivered again; what was sent there is lost")
    again = sum(one.kind == "journal-only" for one in checked.findings) + checked.unlisted["journal-only"]
    for count, what in (
        (again, "messages are kept that the old index does not know: perhaps they were consumed"),
        (len(state.perhaps_acknowledged), "messages are kept that were perhaps acknowledged"),
        (len(state.revived_by_broker), "messages are left out that a rebuild of the old index would deliver again"),
        (sum(len(one.messages) for one in state.lost_by_broker), "messages are kept that such a rebuild would lose"),
        (len(state.unfinished), "transactions that were neither ended nor prepared are rolled back"),
    ):
        if count:
            report.notes.append(f"{count} {what}")


class _Writing:
    """Writes the live part of a state, and knows afterwards what should be there."""

    def __init__(self, found: Survey, appender: Appender, report: RepairReport) -> None:
        self._found = found
        self._appender = appender
        self._report = report
        self._payloads: list[bytes] = []
        self._bytes = 0
        self._hash = hashlib.sha256()
        self._renamed: dict[tuple[Destination, str], str] = {}
        self._dropped: set[tuple[Destination, str]] = set()
        self._converted = 0
        self._prepared: set[TransactionId] = set()
        self._subscriptions: set[tuple[Destination, str]] = set()

    # -- writing -------------------------------------------------------------------------------------------------

    def write(self) -> None:
        state = self._found.state
        self._append(Trace("repaired by jdbcstore"))
        for name in self._found.remarked.known:
            self._append(remarks.known(name))
        for producer, last_number in self._found.remarked.producers.items():
            self._append(remarks.producer(producer, last_number))
        waiting = self._first_pending(state)
        last: list[tuple[StoredDestination, StoredSubscription]] = []
        by_order: dict[int, list[tuple[StoredDestination, StoredSubscription]]] = {}
        for stored, subscription, order in waiting:
            (last if order is None else by_order.setdefault(order, [])).append((stored, subscription))
        messages = [
            (message.order, stored, message) for stored in state.destinations.values() for message in stored.all()
        ]
        messages.sort(key=lambda one: one[0])
        places = (message.location for _, _, message in messages)
        read = self._found.journal.read_many(places)
        for (order, stored, message), (location, command) in zip(messages, read, strict=True):
            for one in by_order.pop(order, ()):
                self._subscribe(*one)
            self._message(stored, message, location, command)
        for one in last:
            self._subscribe(*one)
        for transaction in state.prepared.values():
            self._transaction(transaction)
        self._flush()
        self._appender.sync()
        if self._converted:
            self._report.notes.append(
                f"{self._converted} messages are written in OpenWire {STORE_VERSION}, which brokers since 5.12 expect"
            )

    def _first_pending(self, state: State) -> Iterator[tuple[StoredDestination, StoredSubscription, int | None]]:
        for stored in state.destinations.values():
            if stored.subscriptions:
                messages = sorted(stored.all(), key=lambda message: message.order)
                for subscription in stored.subscriptions.values():
                    pending = subscription.pending
                    first = next((one.order for one in messages if one.sequence in pending), None)
                    yield stored, subscription, first

    def _subscribe(self, stored: StoredDestination, subscription: StoredSubscription) -> None:
        where = stored.destination
        try:
            info = _current(subscription.info_bytes)
        except CodecError as error:
            self._report.lost.append(
                f"{subscription.location}: durable subscription {subscription.key} of {where} cannot be read: {error}"
            )
            return
        # A retroactive one would wait for what others wait for.
        self._append(Subscription(where, subscription.key, False, info))
        self._subscriptions.add((where, subscription.key))
        self._report.subscriptions += 1

    def _message(
        self, stored: StoredDestination, message: StoredMessage, location: Location, command: Command | JournalDamaged
    ) -> None:
        where = stored.destination
        add = command.message if isinstance(command, UpdateMessage) else command
        try:
            if not isinstance(add, AddMessage):
                raise CodecError(str(command) if isinstance(command, JournalDamaged) else "no message stands here")
            written = self._sound(stored, add)
        except CodecError as error:
            self._dropped.add((where, message.message_id))
            self._report.lost.append(f"{location}: {message.message_id} of {where}: {error}")
            return
        keys = [key for key in stored.subscriptions if (where, key) in self._subscriptions]
        if where.is_topic and not any(message.sequence in stored.subscriptions[key].pending for key in keys):
            self._dropped.add((where, message.message_id))
            return  # nobody waits for it
        self._append(written)
        assert written.message_id is not None
        assert written.message is not None
        for part in (str(where), written.message_id, str(int(message.tier))):
            self._hash.update(part.encode("utf-8", "surrogatepass") + b"\0")
        self._hash.update(hashlib.sha256(written.message).digest())
        self._report.messages[str(where)] = self._report.messages.get(str(where), 0) + 1
        for key in keys:
            if message.sequence not in stored.subscriptions[key].pending:
                self._append(RemoveMessage(None, where, written.message_id, None, key))

    def _sound(self, stored: StoredDestination, add: AddMessage) -> AddMessage:
        """The message as it is written: without a transaction, in today's OpenWire, under its own id."""
        where, message_id = stored.destination, add.message_id or ""
        data = add.message or b""
        current = _current(data)
        self._converted += current is not data
        if message_problem(add) is not None:
            own = str(add.unmarshal().message_id)
            if stored.get(own) is not None:
                raise CodecError(f"it is {own}, of which there is another one")
            self._renamed[where, message_id] = own
            self._report.notes.append(f"{message_id} of {where} is written under its own id, {own}")
            message_id = own
        return AddMessage(None, where, message_id, current, add.priority, add.priority_supported)

    def _transaction(self, transaction: StoredTransaction) -> None:
        commands: list[Command] = []
        try:
            for location, command in self._found.journal.read_many(transaction.operations):
                if isinstance(command, AddMessage):
                    commands.append(command._replace(message=_current(command.message or b"")))
                elif isinstance(command, RemoveMessage) and command.ack:
                    assert command.destination is not None
                    own = self._kept(command.destination, command.message_id or "")
                    if own is not None:  # else there is nothing to acknowledge
                        commands.append(command._replace(message_id=own, ack=_current(command.ack)))
                else:
                    raise CodecError(f"{location}: {'no bytes of its acknowledgement' if command else command}")
        except CodecError as error:
            self._report.lost.append(f"prepared transaction {transaction.transaction_id}: {error}")
            return
        if not commands:
            self._report.notes.append(
                f"prepared transaction {transaction.transaction_id} has nothing left to do and is left out"
            )
            return
        for command in commands:
            self._append(command)
        self._append(Prepare(transaction.transaction_id))
        self._prepared.add(transaction.transaction_id)
        self._report.prepared += 1

    def _append(self, command: Command) -> None:
        payload = encode(command)
        if self._payloads and self._bytes + len(payload) > _BATCH_BYTES:
            self._flush()
        self._payloads.append(payload)
        self._bytes += len(payload)

    def _flush(self) -> None:
        if self._payloads:
            self._appender.append(self._payloads)
        self._payloads, self._bytes = [], 0

    # -- looking at it -------------------------------------------------------------------------------------------

    def verify(self, target: Path) -> None:
        """Compare what was written with what should be there.

        Raises:
            StoreError: it is something else.
        """
        report = check(target)
        if report.findings:
            raise StoreError(f"{target} is not sound, do not use it: {report.findings[0]}")
        state = report.survey.state
        for name, ours, theirs in zip(_Outline._fields, self._meant(), _outline(state), strict=True):
            if ours != theirs:
                raise StoreError(f"{target} does not hold the {name} that it should, do not use it")
        found = hashlib.sha256()
        tiers = {
            (stored.destination, message.message_id): message.tier
            for stored in state.destinations.values()
            for message in stored.all()
        }
        for _, command in report.survey.journal.records():
            if isinstance(command, AddMessage) and command.transaction is None and command.destination is not None:
                tier = tiers[command.destination, command.message_id or ""]
                for part in (str(command.destination), command.message_id or "", str(int(tier))):
                    found.update(part.encode("utf-8", "surrogatepass") + b"\0")
                found.update(hashlib.sha256(command.message or b"").digest())
        if found.digest() != self._hash.digest():
            raise StoreError(f"{target} does not hold the contents that it should, do not use it")

    def _kept(self, where: Destination, message_id: str) -> str | None:
        """The id of a live message in the new directory; None if it is not there."""
        stored = self._found.state.destinations.get(where)
        if stored is None or stored.get(message_id) is None or (where, message_id) in self._dropped:
            return None
        return self._renamed.get((where, message_id), message_id)

    def _meant(self) -> _Outline:
        messages, subscriptions, transactions = _outline(self._found.state)

        kept = self._kept
        return _Outline(
            {
                where: left
                for where, ids in messages.items()
                if (left := [(own, tier) for one, tier in ids if (own := kept(where, one)) is not None])
            },
            {
                (where, key): [own for one in ids if (own := kept(where, one)) is not None]
                for (where, key), ids in subscriptions.items()
                if (where, key) in self._subscriptions
            },
            {
                key: (
                    added,
                    [(where, own, sub) for where, one, sub in acknowledged if (own := kept(where, one)) is not None],
                )
                for key, (added, acknowledged) in transactions.items()
                if key in self._prepared
            },
        )


def _current(data: bytes) -> bytes:
    """The same in the wire version that a broker expects if its index does not say another.

    Raises:
        CodecError: it is in no version.
    """
    try:
        unmarshal(data, STORE_VERSION)
    except CodecError:
        return marshal(unmarshal(data), STORE_VERSION)
    return data


def _outline(state: State) -> _Outline:
    return _Outline(
        {
            where: [(message.message_id, int(message.tier)) for message in stored.messages()]
            for where, stored in state.destinations.items()
            if len(stored)
        },
        {
            (where, key): [message.message_id for message in stored.pending(subscription)]
            for where, stored in state.destinations.items()
            for key, subscription in stored.subscriptions.items()
        },
        {
            key: (
                [(where, message_id) for where, message_id, _ in transaction.added],
                [(ack.destination, ack.message_id, ack.subscription_key) for ack in transaction.acknowledged],
            )
            for key, transaction in state.prepared.items()
        },
    )
