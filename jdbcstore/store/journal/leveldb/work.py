"""What writes are made of in a LevelDB log: parts, each of which takes records of a `plan.Plan`.

The parts are named as those of `jdbcstore.store.journal.work` and mean the same. They share no code, because a LevelDB
log is written in terms of places and of collections with entries, where KahaDB and AMQ write commands with names in
them: one removal is an entry of a collection here, and a record that names a message there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import partial
from typing import Final, Protocol

from jdbcstore.destination import Destination
from jdbcstore.errors import StoreError
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import MessageAck
from jdbcstore.store.journal.leveldb import trace_remarks
from jdbcstore.store.journal.leveldb.live import (
    Live,
    LiveDestination,
    LiveMessage,
    LiveSubscription,
    LiveTransaction,
    TransactedAck,
    TransactedAdd,
    id_hash,
)
from jdbcstore.store.journal.leveldb.plan import Plan
from jdbcstore.store.journal.leveldb.records import (
    ACK_POSITION,
    ADD_COLLECTION,
    ADD_ENTRY,
    REMOVE_ENTRY,
    SEQUENCE,
    SUBSCRIPTION,
    TRANSACTION,
    UPDATE_ENTRY,
    CollectionRecord,
    EntryRecord,
    SubscriptionRecord,
    XaAck,
    framed,
)
from jdbcstore.store.journal.writes import Sized
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "Acknowledge",
    "Add",
    "Came",
    "Decide",
    "DeleteAll",
    "Forget",
    "Keep",
    "Part",
    "PrepareAll",
    "Purge",
    "Remove",
    "Restore",
    "Subscribe",
    "Unsubscribe",
    "Update",
    "hide",
]

#: About what an entry takes in the log.
_ENTRY_BYTES: Final = 128


class Part(Sized, Protocol):
    """Something that a write does."""

    def plan(self, plan: Plan) -> None:
        """Say which records it takes.

        Raises:
            StoreError: it cannot be done; nothing of its write is.
        """


# -- parts -------------------------------------------------------------------------------------------------------------


class _Small:
    """A part that takes little room."""

    __slots__ = ()
    size = 256
    takes_room = False


class Add:
    """Add a message.

    Args:
        where: to which destination.
        message: its location is not known yet.
        data: its data record, framed.
    """

    __slots__ = ("data", "message", "size", "where")
    takes_room = True

    def __init__(self, where: LiveDestination, message: LiveMessage, data: bytes) -> None:
        self.where = where
        self.message = message
        self.data = data
        self.size = len(data) + _ENTRY_BYTES

    def plan(self, plan: Plan) -> None:
        """Two records."""
        self.message.location = plan.record(self.data)
        plan.enter(self.where, self.message)


class Remove(_Small):
    """Remove messages; of a topic for all subscriptions."""

    __slots__ = ("meant", "size", "where")

    def __init__(self, where: LiveDestination, meant: Sequence[MessageId]) -> None:
        self.where = where
        self.meant = meant
        self.size = _ENTRY_BYTES * len(meant)

    def plan(self, plan: Plan) -> None:
        for meant in self.meant:
            for message in plan.find(self.where, meant):
                plan.remove(self.where, message)


class Acknowledge(_Small):
    """Acknowledge messages of a topic for one subscription."""

    __slots__ = ("key", "meant", "size", "where")

    def __init__(self, where: LiveDestination, key: SubscriptionKey, meant: Sequence[MessageId]) -> None:
        self.where = where
        self.key = key
        self.meant = meant
        self.size = 16 * len(meant) + _ENTRY_BYTES

    def plan(self, plan: Plan) -> None:
        subscription = self.where.subscriptions.get(self.key)
        if subscription is not None:
            for meant in self.meant:
                plan.acknowledge(self.where, subscription, plan.find(self.where, meant), settles=False)


class Update:
    """Write a message anew, in its place."""

    __slots__ = ("data", "meant", "message", "size", "where")
    takes_room = True

    def __init__(self, where: LiveDestination, meant: MessageId, message: LiveMessage, data: bytes) -> None:
        self.where = where
        self.meant = meant
        self.message = message
        self.data = data
        self.size = len(data) + _ENTRY_BYTES

    def plan(self, plan: Plan) -> None:
        """Its entry goes and comes: a mere update would leave ActiveMQ with wrong counts of what refers to files."""
        where, new = self.where, self.message
        for old in plan.find(where, self.meant)[:1]:
            new.sequence = old.sequence
            new.location = plan.record(self.data)
            plan.replace(where, old, new)


class Came(_Small):
    """How far a producer came."""

    __slots__ = ("last", "name", "now_ms")

    def __init__(self, name: str, last: int, now_ms: int) -> None:
        self.name = name
        self.last = last
        self.now_ms = now_ms

    def plan(self, plan: Plan) -> None:
        plan.record(trace_remarks.producer(self.name, self.last, self.now_ms))
        plan.effects.append(partial(self._came, plan.live))

    def _came(self, live: Live) -> None:
        last = max(self.last, live.producers.pop(self.name, (-1, 0))[0])
        live.producers[self.name] = last, self.now_ms


class Keep(_Small):
    """Make a queue known although it is empty."""

    __slots__ = ("where",)

    def __init__(self, where: LiveDestination) -> None:
        self.where = where

    def plan(self, plan: Plan) -> None:
        plan.key(self.where)


class Restore(_Small):
    """Messages that ActiveMQ had lost are in their destinations again, behind the others.

    Args:
        found: where, and what; each has its new sequence.
    """

    __slots__ = ("found",)

    def __init__(self, found: Sequence[tuple[LiveDestination, LiveMessage]]) -> None:
        self.found = found

    def plan(self, plan: Plan) -> None:
        for where, message in self.found:
            plan.enter(where, message)
        plan.record(trace_remarks.restored())


# -- what is alone in its batch ----------------------------------------------------------------------------------------


class Purge(_Small):
    """Remove all messages of a destination that are not in doubt."""

    __slots__ = ("where",)

    def __init__(self, where: LiveDestination) -> None:
        self.where = where

    def plan(self, plan: Plan) -> None:
        where = self.where
        for message in list(where.messages.values()):
            in_doubt = message.sequence in where.hidden or any(
                message.sequence in one.hidden for one in where.subscriptions.values()
            )
            if not in_doubt:
                plan.remove(where, message)


class Forget(Purge):
    """Forget a destination: messages, subscriptions, and that it is known."""

    __slots__ = ()

    def plan(self, plan: Plan) -> None:
        where = self.where
        super().plan(plan)
        for subscription in where.subscriptions.values():
            plan.remove_collection(subscription.key)
        plan.effects.append(partial(_end_subscriptions, plan, where))
        if where.key and not where.hidden:
            plan.remove_collection(where.key)
            plan.effects.append(partial(setattr, where, "key", 0))
            plan.effects.append(partial(setattr, where, "last", 0))  # a collection of this name begins anew
        plan.effects.append(partial(setattr, where, "is_kept", False))


def _end_subscriptions(plan: Plan, where: LiveDestination) -> None:
    where.subscriptions.clear()
    if where.destination.is_topic:
        for message in list(where.messages.values()):
            plan.live.drop(where, message, plan.base(message.location))


class DeleteAll(_Small):
    """Forget everything."""

    __slots__ = ()

    def plan(self, plan: Plan) -> None:
        live = plan.live
        for transaction in live.transactions.values():
            plan.remove_collection(transaction.key)
        for _, subscription in live.subscriptions():
            plan.remove_collection(subscription.key)
        for where in live.destinations.values():
            if where.key:
                plan.remove_collection(where.key)
        for one in live.unknown:
            plan.remove_collection(one.key)
        plan.record(trace_remarks.forgotten())
        plan.effects.append(partial(_empty, live))


def _empty(live: Live) -> None:
    live.transactions.clear()
    live.producers.clear()
    live.seen.clear()
    live.references.clear()
    live.unknown.clear()
    live.expirations.clear()
    for where in live.destinations.values():
        where.key, where.last, where.is_kept = 0, 0, False
        where.messages.clear()
        where.numbers.all.clear()
        where.numbers.levels = None
        where.ids.clear()
        where.hidden.clear()
        where.subscriptions.clear()


class Subscribe(_Small):
    """Begin a durable subscription; one that there is begins anew.

    Args:
        where: the topic.
        info: whose, and what of.
        retroactive: whether it begins with the oldest message, not behind the last.
    """

    __slots__ = ("info", "is_retroactive", "where")

    def __init__(self, where: LiveDestination, info: SubscriptionInfo, *, retroactive: bool) -> None:
        self.where = where
        self.info = info
        self.is_retroactive = retroactive

    def plan(self, plan: Plan) -> None:
        where, info = self.where, self.info
        before = where.subscriptions.get(info.key)
        if before is not None:
            plan.remove_collection(before.key)
            plan.effects.append(partial(_unsubscribe, plan, where, info.key, drops=False))
        topic, key = plan.key(where), plan.new_key()
        record = SubscriptionRecord(
            topic,
            info.key.client_id,
            info.key.subscription_name,
            info.selector,
            where.destination.qualified_name,
            info.subscribed_destination.qualified_name,
        )
        plan.record(framed(ADD_COLLECTION, CollectionRecord(key, SUBSCRIPTION, record.written()).written()))
        there = sorted(where.messages) if self.is_retroactive else []
        # The topic's own last number, not the highest of all: ActiveMQ numbers the next message of the topic behind it.
        last = where.last
        position = there[0] - 1 if there else last
        plan.record(framed(UPDATE_ENTRY, EntryRecord(key, ACK_POSITION, position).written()))
        gaps = _gaps(there, last)
        if gaps:  # messages that are gone for everybody else
            plan.record(trace_remarks.acked_ranges(key, gaps))
        if info.no_local:
            plan.record(trace_remarks.no_local(key))
        subscription = LiveSubscription(key, info, position)
        plan.effects.append(partial(self._begin, plan, subscription, there))

    def _begin(self, plan: Plan, subscription: LiveSubscription, there: list[int]) -> None:
        where = self.where
        where.subscriptions[self.info.key] = subscription
        for sequence in there:
            if (message := where.messages.get(sequence)) is not None:
                subscription.pending.add(message)
        _drop_unwanted(plan, where)


def _gaps(there: list[int], last: int) -> list[tuple[int, int]]:
    """What lies between these numbers, and behind them."""
    return [
        (first + 1, following - 1)
        for first, following in zip(there, [*there[1:], last + 1], strict=bool(there))
        if first + 1 < following
    ]


def _drop_unwanted(plan: Plan, where: LiveDestination) -> None:
    for message in list(where.messages.values()):
        if not plan.live.is_waited_for(where, message.sequence):
            plan.live.drop(where, message, plan.base(message.location))


class Unsubscribe(_Small):
    """End a durable subscription."""

    __slots__ = ("key", "where")

    def __init__(self, where: LiveDestination, key: SubscriptionKey) -> None:
        self.where = where
        self.key = key

    def plan(self, plan: Plan) -> None:
        subscription = self.where.subscriptions.get(self.key)
        if subscription is not None:
            plan.remove_collection(subscription.key)
            plan.effects.append(partial(_unsubscribe, plan, self.where, self.key, drops=True))


def _unsubscribe(plan: Plan, where: LiveDestination, key: SubscriptionKey, *, drops: bool) -> None:
    subscription = where.subscriptions.pop(key)
    for transaction in plan.live.transactions.values():
        transaction.acks = [one for one in transaction.acks if one.subscription is not subscription]
    if drops:
        _drop_unwanted(plan, where)


class PrepareAll:
    """Prepare a transaction.

    Args:
        xid: its id.
        adds: what it adds; the numbers of the messages are not given yet.
        removes: queues and their messages.
        acknowledged: topics, subscriptions and messages.
    """

    __slots__ = ("acknowledged", "adds", "removes", "size", "xid")
    takes_room = True

    def __init__(
        self,
        xid: XATransactionId,
        adds: Sequence[tuple[LiveDestination, LiveMessage, bytes, bool]],
        removes: Sequence[tuple[LiveDestination, MessageId]],
        acknowledged: Sequence[tuple[LiveDestination, SubscriptionKey, MessageId]],
    ) -> None:
        self.xid = xid
        self.adds = adds
        self.removes = removes
        self.acknowledged = acknowledged
        self.size = sum(len(data) for _, _, data, _ in adds) + 512 * (len(removes) + len(acknowledged) + 1)

    def plan(self, plan: Plan) -> None:
        """Its records. Raises `StoreError` when another transaction removes the same message."""
        self._refuse_what_is_in_doubt()
        transaction = LiveTransaction(plan.new_key(), self.xid)
        key = transaction.key
        xid = marshal(self.xid, plan.wire_version)
        plan.record(framed(ADD_COLLECTION, CollectionRecord(key, TRANSACTION, xid).written()))
        plan.record(trace_remarks.each(key))
        number = 0
        for where, message, data, is_elsewhere in self.adds:
            number += 1
            message.location = plan.record(data)
            plan.entry(ADD_ENTRY, key, number, message.location, message.length)
            if is_elsewhere:
                plan.record(trace_remarks.to(key, number, where.destination.qualified_name))
            transaction.adds.append(TransactedAdd(number, message, where.destination))
        for ack, message in self._acks(plan):
            number += 1
            ack.number = number
            self._record(plan, key, ack, message)
            transaction.acks.append(ack)
        plan.effects.append(partial(_begin_doubt, plan, transaction))

    def _refuse_what_is_in_doubt(self) -> None:
        for where, meant in self.removes:
            sequences = [meant.broker_sequence_id] if meant.broker_sequence_id > 0 else where.by_hash(id_hash(meant))
            for sequence in sequences:
                if sequence in where.hidden:
                    raise StoreError(
                        f"message {sequence} of {where.destination} is in doubt: another transaction removes it"
                    )

    def _acks(self, plan: Plan) -> Iterable[tuple[TransactedAck, LiveMessage]]:
        seen: set[tuple[Destination, int, SubscriptionKey | None]] = set()
        for where, meant in self.removes:
            for message in plan.find(where, meant):
                if (where.destination, message.sequence, None) not in seen:
                    seen.add((where.destination, message.sequence, None))
                    yield TransactedAck(0, where.destination, message.sequence, None), message
        for where, key, meant in self.acknowledged:
            subscription = where.subscriptions.get(key)
            for message in plan.find(where, meant) if subscription is not None else ():
                assert subscription is not None
                place = where.destination, message.sequence, key
                if place not in seen and plan.is_pending(where, subscription, message.sequence):
                    seen.add(place)
                    yield TransactedAck(0, where.destination, message.sequence, subscription), message

    def _record(self, plan: Plan, key: int, ack: TransactedAck, message: LiveMessage) -> None:
        where = plan.live.of(ack.destination)
        command = MessageAck.of(plan.message_id(message), ack.destination, self.xid)
        subscription = -1 if ack.subscription is None else ack.subscription.key
        meta = XaAck(
            message.location,
            message.length,
            plan.key(where),
            message.sequence,
            subscription,
            marshal(command, plan.wire_version),
        )
        record = EntryRecord(key, SEQUENCE.pack(ack.number), meta=meta.written())
        plan.record(framed(ADD_ENTRY, record.written()))


def _begin_doubt(plan: Plan, transaction: LiveTransaction) -> None:
    live = plan.live
    live.transactions[transaction.xid] = transaction
    for add in transaction.adds:
        live.references[plan.base(add.message.location)] += 1
    for ack in transaction.acks:
        hide(live.of(ack.destination), ack, is_each=True)


def hide(where: LiveDestination, ack: TransactedAck, *, is_each: bool) -> None:
    """What a transaction in doubt removes or acknowledges is not seen. The caller holds the lock.

    Args:
        where: the destination.
        ack: what.
        is_each: whether an acknowledgement of a subscription stands for its message only, not for all before it.
    """
    subscription = ack.subscription
    if subscription is None:
        message = where.messages.get(ack.sequence)
        if message is not None and where.numbers.discard(message):
            where.hidden.add(ack.sequence)
            ack.hides = [ack.sequence]
        return
    wanted = [ack.sequence] if is_each else [one for one in subscription.pending.all if one <= ack.sequence]
    for sequence in wanted:
        message = where.messages.get(sequence)
        if message is not None and subscription.pending.discard(message):
            subscription.hidden.add(sequence)
            ack.hides.append(sequence)


class Decide(_Small):
    """Commit a prepared transaction, or roll it back.

    Args:
        xid: its id.
        numbers: sequences for the messages that it adds.
        commits: or rolls back.
    """

    __slots__ = ("commits", "numbers", "xid")

    def __init__(self, xid: XATransactionId, numbers: Sequence[int], *, commits: bool) -> None:
        self.xid = xid
        self.numbers = numbers
        self.commits = commits

    def plan(self, plan: Plan) -> None:
        transaction = plan.live.transactions[self.xid]
        if self.commits:
            self._commit(plan, transaction)
        else:
            for ack in transaction.acks:
                plan.effects.append(partial(_show, plan.live.of(ack.destination), ack))
        plan.remove_collection(transaction.key)
        plan.effects.append(partial(_end_doubt, plan, transaction))

    def _commit(self, plan: Plan, transaction: LiveTransaction) -> None:
        for add, sequence in zip(transaction.adds, self.numbers, strict=True):
            message, where = add.message, plan.live.of(add.destination)
            plan.entry(REMOVE_ENTRY, transaction.key, add.number, message.location)
            if where.destination.is_topic and not where.subscriptions:
                continue
            message.sequence = sequence
            plan.enter(where, message)
        for ack in transaction.acks:
            where = plan.live.of(ack.destination)
            messages = [where.messages[one] for one in ack.hides if one in where.messages]
            if ack.subscription is None:
                for message in messages:
                    plan.remove(where, message)
            else:
                plan.acknowledge(where, ack.subscription, messages, settles=True)


def _show(where: LiveDestination, ack: TransactedAck) -> None:
    for sequence in ack.hides:
        message = where.messages.get(sequence)
        if message is None:
            continue
        if ack.subscription is None:
            where.hidden.discard(sequence)
            where.numbers.add(message)
        elif ack.subscription.hidden.discard(sequence):
            ack.subscription.pending.add(message)


def _end_doubt(plan: Plan, transaction: LiveTransaction) -> None:
    live = plan.live
    for add in transaction.adds:
        base = plan.base(add.message.location)
        live.references[base] -= 1
        if not live.references[base]:
            del live.references[base]
    live.transactions.pop(transaction.xid, None)
