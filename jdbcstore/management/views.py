"""What operators see: frozen values, made when somebody asks or by `jdbcstore.management.observation`.

Times are epoch milliseconds or seconds, as the names say; None stands for what is not known.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from jdbcstore.identifiers import xid_text
from jdbcstore.message import Message
from jdbcstore.store.contract import PreparedTransaction
from jdbcstore.store.jobs import HELD_MS, JobPage

__all__ = [
    "AuditEntry",
    "BrokerView",
    "ConnectionView",
    "DestinationView",
    "DiagnosisView",
    "HolderView",
    "LoadView",
    "LogLine",
    "MasterView",
    "MemoryView",
    "MessagePage",
    "MessageView",
    "OperationView",
    "PreparedView",
    "ProducerView",
    "Sample",
    "ScheduledView",
    "StoreView",
    "SubscriptionView",
    "TermView",
]


@dataclass(frozen=True, slots=True)
class DestinationView:
    """A queue or a topic.

    Args:
        name: the qualified name.
        kind: ``queue`` or ``topic``.
        depth: messages that nobody has acknowledged; of a topic 0, its subscriptions have them.
        in_flight: those of them that are with consumers.
        oldest_ms: when the first one came, epoch milliseconds.
        consumers: who gets messages now.
        producers: who has said that it sends there, as JMS clients do; STOMP clients say it with each message.
        subscriptions: durable subscriptions of a topic, used or not.
        enqueued, dequeued, expired, dead_lettered: messages since the broker knows the destination.
        rate_in, rate_out: messages per second, lately.
        memory_bytes: what its messages take in memory at the moment.
        is_dead_letter_queue, is_temporary: what it is for.
        is_paused: whether consumers get nothing, by an operator.
        is_closed: whether it takes nothing, by an operator.
    """

    name: str
    kind: str
    depth: int = 0
    in_flight: int = 0
    oldest_ms: int | None = None
    consumers: int = 0
    producers: int = 0
    subscriptions: int = 0
    enqueued: int = 0
    dequeued: int = 0
    expired: int = 0
    dead_lettered: int = 0
    rate_in: float = 0.0
    rate_out: float = 0.0
    memory_bytes: int = 0
    is_dead_letter_queue: bool = False
    is_temporary: bool = False
    is_paused: bool = False
    is_closed: bool = False


@dataclass(frozen=True, slots=True)
class BrokerView:
    """The broker as a whole; sums are over what the last look at all destinations has found."""

    name: str
    version: str
    state: str
    since: str
    reason: str
    term: int | None
    holder: str | None
    addresses: Sequence[str]
    started_ms: int
    queues: int
    topics: int
    producers: int
    connections: int
    subscriptions: int
    depth: int
    in_flight: int
    dead_letters: int
    oldest_ms: int | None
    rate_in: float
    rate_out: float
    loop_lag_ms: float
    is_draining: bool
    looked_ms: int


@dataclass(frozen=True, slots=True)
class MasterView:
    """Where the broker is in its life; shown to everybody, also by a standby."""

    name: str
    state: str
    since: str
    reason: str
    term: int | None
    holder: str | None


@dataclass(frozen=True, slots=True)
class TermView:
    """A state that the broker was in, newest first in lists."""

    state: str
    since: str
    reason: str
    term: int | None
    holder: str | None


@dataclass(frozen=True, slots=True)
class ConnectionView:
    """A client.

    Args:
        connection_id: the broker's name for it.
        client_id: what it calls itself.
        peer, protocol, user: where it comes from, what it speaks, who it is.
        subscriptions: how many it has.
        unacknowledged: messages that it holds.
        sent: messages that it has sent without numbering them.
        kept_bytes: what it makes the broker keep in transactions and subscriptions.
        is_waiting: whether the broker makes it wait (flow control).
        is_not_reading: whether it does not read what it was sent.
    """

    connection_id: str
    client_id: str | None
    peer: str
    protocol: str
    user: str | None
    subscriptions: int
    unacknowledged: int
    sent: int
    kept_bytes: int
    is_waiting: bool
    is_not_reading: bool


@dataclass(frozen=True, slots=True)
class ProducerView:
    """A client that has sent something."""

    connection_id: str
    client_id: str | None
    peer: str
    user: str | None
    sent: int


@dataclass(frozen=True, slots=True)
class SubscriptionView:
    """A subscription.

    Args:
        kind: ``queue``, ``topic``, ``durable`` or ``browser``.
        destination: what was subscribed to, perhaps a wildcard.
        connection_id, peer: who uses it; None for a durable one that nobody uses.
        client_id, name: of a durable one.
        selector: which messages; None for all.
        prefetch, unacknowledged: how many it may hold, and holds.
        lag: messages that wait for it; None where that is the queue's depth.
        is_slow: whether it holds all that it may, or does not read.
        mode: how it acknowledges.
    """

    kind: str
    destination: str
    connection_id: str | None
    peer: str | None
    client_id: str | None
    name: str | None
    selector: str | None
    prefetch: int
    unacknowledged: int
    lag: int | None
    is_slow: bool
    mode: str | None


@dataclass(frozen=True, slots=True)
class StoreView:
    """The store.

    Args:
        kind: ``postgresql``, ``sqlite``, ``kahadb``, ``memory`` …
        location: where it is, without a password.
        commits, writes, failures: since it was opened.
        commit_ms: half of the commits were not longer, and 95 of 100.
        batch: writes in a commit, the mean.
        waiting: writes that no commit has taken up yet.
        size_bytes: of its files or tables; None if that is not known.
        lease_left_s: for how long the broker may trust its lease; None without one.
        lock_holder, lock_term, lock_expires_ms: what the store says about mastership.
        standbys: how many brokers wait to become master; None where the store cannot tell.
    """

    kind: str
    location: str
    commits: int
    writes: int
    failures: int
    commit_ms: tuple[float | None, float | None]
    batch: float
    waiting: int
    size_bytes: int | None
    lease_left_s: float | None
    lock_holder: str | None
    lock_term: int | None
    lock_expires_ms: int | None
    standbys: int | None


@dataclass(frozen=True, slots=True)
class MemoryView:
    """The account of memory, in bytes; `jdbcstore.broker.memory` says what the parts are."""

    bytes_max: int
    messages: int
    messages_max: int
    kept: int
    kept_max: int
    uncommitted: int
    uncommitted_max: int
    waiting_frames: int
    waiting_senders: int
    parked_consumers: int


@dataclass(frozen=True, slots=True)
class ScheduledView:
    """A message that is to be sent later.

    Args:
        job_id: by which it is removed.
        destination: where to; empty if it cannot be read.
        due_ms: when next, epoch milliseconds; None for one that is held for somebody to look after it.
        delay_ms, period_ms, repeat, cron: as it was sent (`jdbcstore.store.jobs.ScheduledJob`).
        bytes: of its body.
        error: why it cannot be read.
    """

    job_id: str
    destination: str
    due_ms: int | None
    delay_ms: int = 0
    period_ms: int = 0
    repeat: int = 0
    cron: str = ""
    bytes: int = 0
    error: str | None = None

    @classmethod
    def of_page(cls, page: JobPage) -> list[ScheduledView]:
        """The jobs of a page, and behind them what of it cannot be read."""
        views = [
            cls(
                job.job_id,
                str(job.message.destination),
                None if job.due_ms == HELD_MS else job.due_ms,
                job.delay_ms,
                job.period_ms,
                job.repeat,
                job.cron,
                len(job.message.content or b""),
            )
            for job in page.jobs
        ]
        return views + [
            cls(job_id, "", None if due_ms == HELD_MS else due_ms, error=str(error))
            for (due_ms, job_id), error in page.unreadable
        ]


@dataclass(frozen=True, slots=True)
class PreparedView:
    """A transaction in doubt.

    Args:
        xid: by which it is decided; `jdbcstore.identifiers.xid_text` writes it.
        transaction_id: as ActiveMQ prints it.
        added, removed, acknowledged: how many messages.
        destinations: all that it touches.
        adds, removes: how many messages of each destination.
        acknowledges: how many of each subscription: destination, client id and name.
    """

    xid: str
    transaction_id: str
    added: int
    removed: int
    acknowledged: int
    destinations: Sequence[str]
    adds: Mapping[str, int]
    removes: Mapping[str, int]
    acknowledges: Mapping[str, int]

    @classmethod
    def of(cls, found: PreparedTransaction) -> PreparedView:
        """What a store has of it, for people."""
        adds = Counter(str(message.destination) for message in found.added)
        removes = Counter(str(destination) for destination, _ in found.removed)
        acknowledges = Counter(
            f"{destination} of {key.client_id}/{key.subscription_name}" for destination, key, _ in found.acknowledged
        )
        names = dict.fromkeys([*adds, *removes, *(str(destination) for destination, _, _ in found.acknowledged)])
        return cls(
            xid_text(found.transaction_id),
            str(found.transaction_id),
            len(found.added),
            len(found.removed),
            len(found.acknowledged),
            tuple(names),
            dict(adds),
            dict(removes),
            dict(acknowledges),
        )


@dataclass(frozen=True, slots=True)
class LoadView:
    """A bulk load that the broker is taking in."""

    job: str
    messages: int
    taken: int
    refused: int


@dataclass(frozen=True, slots=True)
class MessageView:
    """A message, as far as a list shows it; `message` has the rest.

    Args:
        number: its number in the store; 0 for what is only in memory.
        message: not to be changed.
    """

    number: int
    message: Message


@dataclass(frozen=True, slots=True)
class MessagePage:
    """Some messages of a destination, and where to go on; None at the end.

    Args:
        looked: how many were looked at to find these.
        unreadable: numbers and errors of those that nobody can read.
    """

    messages: Sequence[MessageView]
    after: str | None
    looked: int
    unreadable: Sequence[tuple[int, str]] = ()


@dataclass(frozen=True, slots=True)
class OperationView:
    """Work on many messages.

    Args:
        operation_id: by which it is asked about, or cancelled.
        action: ``move``, ``delete`` …
        who: who has asked for it.
        destination, target: from where, and to where.
        filter: which messages, in words.
        is_dry_run: whether it only counts.
        state: ``running``, ``done``, ``cancelled`` or ``failed``.
        looked, matched, bytes: messages looked at, those that match, and what they take.
        done: those that it has worked on, committed.
        skipped: those that match and stay: a consumer has them, or there is no place to put them.
        error: why it failed.
        began_ms, ended_ms: epoch milliseconds.
        groups: with a dry run: origin and cause (as `Filter` has them) with how many match, most first.
    """

    operation_id: str
    action: str
    who: str
    destination: str
    target: str | None
    filter: str
    is_dry_run: bool
    state: str
    looked: int
    matched: int
    bytes: int
    done: int
    skipped: int
    error: str | None
    began_ms: int
    ended_ms: int | None
    groups: Sequence[tuple[str, str, int]] = ()


@dataclass(frozen=True, slots=True)
class HolderView:
    """Who keeps files of a journal.

    Args:
        holder: a destination, or a transaction.
        messages, bytes, files: what it has, and in how many files.
        oldest_s: how old its first message is.
        frees_files, frees_bytes: what goes when all of that is gone.
    """

    holder: str
    messages: int
    bytes: int
    files: int
    oldest_s: int | None
    frees_files: int
    frees_bytes: int


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """What keeps the files of a KahaDB journal.

    Args:
        made_ms: when, epoch milliseconds.
        directory: where they are.
        files, bytes, live_bytes: how many, how large, and how much of that are live messages.
        removable: files that go with the next cleanup.
        holders: who keeps files, those that free most first.
        svg: a picture, a bar for each file.
    """

    made_ms: int
    directory: str
    files: int
    bytes: int
    live_bytes: int
    removable: int
    holders: Sequence[HolderView]
    svg: str


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """Something that an operator has done, or was refused."""

    at_ms: int
    who: str
    action: str
    subject: str
    outcome: str


@dataclass(frozen=True, slots=True)
class LogLine:
    """A line of the log."""

    at_ms: int
    level: str
    logger: str
    text: str


@dataclass(frozen=True, slots=True)
class Sample:
    """The broker at one time, for plots."""

    at_ms: int
    rate_in: float
    rate_out: float
    depth: int
    in_flight: int
    oldest_age_s: float
    commit_ms: float | None
    connections: int
    memory_bytes: int
    loop_lag_ms: float
