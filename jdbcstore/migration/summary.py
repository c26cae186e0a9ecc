"""What the contents of a store come to, so that two stores can be compared without having both in memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, field

from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.migration.contents import Contents, PreparedContents, StoredHere
from jdbcstore.migration.rows import Digest
from jdbcstore.openwire import marshal
from jdbcstore.store.contract import ScheduledJob
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["Summarizing", "Summary", "transaction_name"]


@dataclass
class Summary:
    """What is in a store, as counts and hashes. Two stores with equal summaries are alike for every broker.

    Args:
        destinations: by qualified name; where a message stands in its destination counts.
        subscriptions: by topic, client and name: what each waits for.
        prepared: by transaction.
        jobs: by id.
        order: of all messages over all destinations.
    """

    destinations: dict[str, Digest] = field(default_factory=dict)
    subscriptions: dict[str, Digest] = field(default_factory=dict)
    prepared: dict[str, str] = field(default_factory=dict)
    jobs: dict[str, str] = field(default_factory=dict)
    order: str = ""
    messages: int = 0

    def differences(self, other: Summary) -> list[str]:
        """What is not the same in another, in words; empty if they are alike."""
        found = []
        for what in ("destinations", "subscriptions", "prepared", "jobs"):
            here, there = getattr(self, what), getattr(other, what)
            names = sorted(name for name in {*here, *there} if here.get(name) != there.get(name))
            found += [_words(what, name, here.get(name), there.get(name)) for name in names]
        if not found and self.order != other.order:
            found.append("the order of messages of different destinations")
        return found


def _words(what: str, name: str, here: object, there: object) -> str:
    kind = {"destinations": "", "subscriptions": "subscription ", "prepared": "transaction ", "jobs": "job "}[what]
    if isinstance(here, Digest) and isinstance(there, Digest) and here.messages != there.messages:
        return f"{kind}{name}: {here.messages} messages there, {there.messages} here"
    if here is None or there is None:
        return f"{kind}{name}: only {'here' if here is None else 'there'}"
    return f"{kind}{name}"


class Summarizing:
    """A summary that is made while messages pass.

    Args:
        subscriptions: all that there are.
    """

    def __init__(self, subscriptions: Sequence[SubscriptionInfo]) -> None:
        self._summary = Summary()
        self._order = hashlib.blake2b(digest_size=16)
        self._words = {(info.destination, info.key): _subscription(info) for info in subscriptions}
        for words in self._words.values():
            self._summary.subscriptions[words] = Digest()

    def message(self, stored: StoredHere) -> None:
        """The next message."""
        name = stored.destination.qualified_name
        digest = self._summary.destinations.get(name)
        if digest is None:
            digest = self._summary.destinations[name] = Digest()
        data = canonical(stored.message)
        digest.add(1, len(data), _hash(digest.messages, data))
        identity = f"{name} {stored.message.message_id}\n".encode("utf-8", "surrogatepass")
        self._order.update(identity)
        self._summary.messages += 1
        for key in stored.waiting:
            waiting = self._summary.subscriptions[self._words[stored.destination, key]]
            waiting.add(1, len(data), _hash(waiting.messages, identity))

    def finish(self, contents: Contents) -> Summary:
        """The summary, when all messages have passed."""
        summary = self._summary
        for transaction in contents.prepared():
            if not transaction.is_empty:
                summary.prepared[transaction_name(transaction.transaction_id)] = _transaction(transaction)
        for job in contents.jobs():
            summary.jobs[job.job_id] = _job(job)
        summary.order = self._order.hexdigest()
        return summary


def canonical(message: Message) -> bytes:
    """The bytes of a message but for its place in a store, which each store gives anew. Changes that place."""
    if message.message_id is not None:
        message.message_id.broker_sequence_id = 0
    return marshal(message)


def transaction_name(xid: XATransactionId) -> str:
    """As ``jdbcstore transactions`` names it."""
    return f"{xid.format_id}:{(xid.global_transaction_id or b'').hex()}:{(xid.branch_qualifier or b'').hex()}"


def _hash(place: int, data: bytes) -> int:
    hashed = hashlib.sha256(place.to_bytes(8))
    hashed.update(data)
    return int.from_bytes(hashed.digest()[:8])


def _subscription(info: SubscriptionInfo) -> str:
    """All that says whose it is and what it asks for; `no_local` not every store keeps."""
    words = f"{info.destination} {_key(info.key)}"
    if info.subscribed_destination != info.destination:
        words += f" subscribed to {info.subscribed_destination}"
    return words + (f" where {info.selector}" if info.selector else "")


def _key(key: SubscriptionKey) -> str:
    return f"{key.client_id}/{key.subscription_name}"


def _transaction(transaction: PreparedContents) -> str:
    hashed = hashlib.sha256()
    for destination, message in transaction.added:
        message.transaction_id = transaction.transaction_id
        hashed.update(f"+{destination}".encode())
        hashed.update(hashlib.sha256(canonical(message)).digest())
    lines = [f"-{destination} {_id(one)}" for destination, one in transaction.removed]
    lines += [f"={topic} {_key(key)} {_id(one)}" for topic, key, one in transaction.acknowledged]
    for line in sorted(lines):
        hashed.update(line.encode("utf-8", "surrogatepass"))
    counts = f"{len(transaction.added)}+{len(transaction.removed)}+{len(transaction.acknowledged)}"
    return f"{counts} {hashed.hexdigest()[:16]}"


def _id(message_id: MessageId) -> str:
    return f"{message_id.producer_id}:{message_id.producer_sequence_id}"


def _job(job: ScheduledJob) -> str:
    hashed = hashlib.sha256(canonical(job.message))
    hashed.update(f"{job.due_ms} {job.delay_ms} {job.period_ms} {job.repeat} {job.cron}".encode())
    return hashed.hexdigest()[:16]
