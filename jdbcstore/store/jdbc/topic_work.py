"""What a write may ask for that has to do with topics; `plan` says what it comes to.

Each is told when its write has failed, so that what callers see is put right.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from jdbcstore.errors import JdbcStoreError, OutcomeUnknown
from jdbcstore.store.jdbc.rows import MessageKey
from jdbcstore.store.jdbc.subscriptions import Subscription, TopicState

__all__ = [
    "Acknowledge",
    "Added",
    "Begin",
    "Clear",
    "Complete",
    "End",
    "Keep",
    "Purged",
    "Release",
    "Remove",
    "TopicWork",
]


class TopicWork:
    """Base of all of them."""

    __slots__ = ()

    #: Whether the write has to have a batch to itself.
    is_alone: ClassVar[bool] = False

    def fail(self, error: JdbcStoreError) -> None:
        """The write was not committed, or nobody knows."""


@dataclass(frozen=True, slots=True)
class Added(TopicWork):
    """The write adds a message to a topic."""

    topic: TopicState
    id: int
    level: int

    def fail(self, error: JdbcStoreError) -> None:
        if isinstance(error, OutcomeUnknown):
            self.topic.doubt(self.id)


@dataclass(frozen=True, slots=True)
class Begin(TopicWork):
    """Create a subscription with the marks that it has."""

    subscription: Subscription

    def fail(self, error: JdbcStoreError) -> None:
        topic, key = self.subscription.topic, self.subscription.info.key
        with topic.lock:
            if topic.by_key.get(key) is self.subscription:
                del topic.by_key[key]


@dataclass(frozen=True, slots=True)
class End(TopicWork):
    """Delete a subscription."""

    subscription: Subscription

    def fail(self, error: JdbcStoreError) -> None:
        topic = self.subscription.topic
        with topic.lock:
            topic.leaving -= 1
            topic.by_key.setdefault(self.subscription.info.key, self.subscription)


@dataclass(frozen=True, slots=True)
class Complete(TopicWork):
    """Give a subscription the rows that it lacks, since its topic is ordered by priority now."""

    subscription: Subscription
    rows: Sequence[int]


@dataclass(frozen=True, slots=True)
class Acknowledge(TopicWork):
    """A subscription is done with some messages, known by id or by producer."""

    subscription: Subscription
    ids: Sequence[int]
    keys: Sequence[MessageKey] = ()


@dataclass(frozen=True, slots=True)
class Remove(TopicWork):
    """Take messages away from everybody."""

    topic: TopicState
    ids: Sequence[int]
    keys: Sequence[MessageKey] = ()


@dataclass(frozen=True, slots=True)
class Purged(TopicWork):
    """The write removes all messages of a topic up to an id."""

    topic: TopicState
    id: int


@dataclass(slots=True)
class Clear(TopicWork):
    """Remove messages of one level that everybody has acknowledged, if that still is so."""

    topic: TopicState
    level: int | None
    ids: Sequence[int]
    #: How many of them it was so for.
    cleared: int = 0


@dataclass(frozen=True, slots=True)
class Keep(TopicWork):
    """Write down that a queue is there, though it may be empty."""

    queue: str


@dataclass(frozen=True, slots=True)
class Release(TopicWork):
    """Strike that out."""

    queue: str
