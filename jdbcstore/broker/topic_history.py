"""What a topic keeps of what was published, for subscribers that come later and ask for it: ActiveMQ's subscription
recovery policies.

=============== ============================================================================
policy          what is kept
=============== ============================================================================
``none``        nothing
``last_image``  the last message
``fixed_count`` the last so many messages
``fixed_size``  the last messages that have so many bytes together, or none that has more
``timed``       the messages of the last so many milliseconds
=============== ============================================================================

What a durable subscription leaves unacknowledged, and no store has, is kept in the same way
(`jdbcstore.broker.durable`).

It is in memory, and gone with the process. However much a policy asks for, a topic keeps no more than
`topic_pending_bytes_max`, and all topics together a quarter of what memory there is for messages: beyond that the
topic that has the next message forgets its oldest ones, and keeps none that does not fit beside what others keep.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from operator import itemgetter
from typing import Final

from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.host import Host
from jdbcstore.broker.memory import DELIVERY_BYTES
from jdbcstore.message import Message

__all__ = ["TopicHistory", "history_for"]

#: What a subscriber that comes later gets while there is little memory.
_BYTES_SHORT: Final = 64 << 10
#: Above what any policy asks for.
_EVERYTHING: Final = 1 << 62


class TopicHistory:
    """The last messages of one topic.

    Args:
        host: gives the clock, limits, and the account of memory.
        messages_max, bytes_max, age_ms_max: how much is kept; without them as much as there is room for.
    """

    __slots__ = ("_age_ms_max", "_bytes", "_bytes_max", "_host", "_messages", "_messages_max")

    def __init__(
        self,
        host: Host,
        *,
        messages_max: int = _EVERYTHING,
        bytes_max: int = _EVERYTHING,
        age_ms_max: int = _EVERYTHING,
    ) -> None:
        self._host = host
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._age_ms_max = age_ms_max
        #: With the time at which each has come, its place, and whether it was stored.
        self._messages: deque[tuple[int, int, bool, Message]] = deque()
        self._bytes = 0

    def __bool__(self) -> bool:
        self._forget_old()
        return bool(self._messages)

    def add(self, message: Message, place: int = 0, *, is_stored: bool = False) -> None:
        """Keep a message.

        Args:
            message: what to keep.
            place: it stands before those of higher places, and behind all others.
            is_stored: whether durable subscriptions have it from their store.
        """
        self._messages.append((self._host.now_ms(), place, is_stored, message))
        self._count(message, 1)
        self._forget_old()
        kept_max = min(self._bytes_max, self._host.options.topic_pending_bytes_max)
        memory = self._host.memory
        while self._messages and (
            len(self._messages) > self._messages_max
            or self._bytes > kept_max
            or memory.history > memory.history_max
            or memory.is_short
        ):
            self._forget()

    def messages(self, *, unstored: bool = False) -> list[Message]:
        """What is kept, in its order, without what has expired; all of it, or only what was not stored."""
        self._forget_old()
        now_ms = self._host.now_ms()
        in_order = sorted(self._messages, key=itemgetter(1))
        return [
            message
            for *_, is_stored, message in in_order
            if not (unstored and is_stored) and not message.expired(now_ms)
        ]

    def recovered(self, *, unstored: bool = False) -> Sequence[Message]:
        """The same for a subscriber that comes later: the last of it is enough while there is little memory."""
        messages = self.messages(unstored=unstored)
        memory = self._host.memory
        if not memory.is_short and memory.uncommitted <= memory.uncommitted_max:
            return messages
        first, room = len(messages), _BYTES_SHORT
        while first and (room := room - messages[first - 1].size) > 0:
            first -= 1
        return messages[first:]

    def forget(self) -> None:
        """Nothing is kept any more."""
        while self._messages:
            self._forget()

    def _forget_old(self) -> None:
        oldest_ms = self._host.now_ms() - self._age_ms_max
        while self._messages and self._messages[0][0] < oldest_ms:
            self._forget()

    def _forget(self) -> None:
        self._count(self._messages.popleft()[-1], -1)

    def _count(self, message: Message, sign: int) -> None:
        memory, size = self._host.memory, message.size
        self._bytes += sign * size
        memory.used += sign * (size + DELIVERY_BYTES)
        memory.history += sign * (size + DELIVERY_BYTES)


def history_for(host: Host, policy: DestinationPolicy) -> TopicHistory | None:
    """What a topic with this policy keeps; None for nothing."""
    match policy.subscription_recovery:
        case "last_image":
            return TopicHistory(host, messages_max=1)
        case "fixed_count":
            return TopicHistory(host, messages_max=policy.recovery_messages_max)
        case "fixed_size":
            return TopicHistory(host, bytes_max=policy.recovery_bytes_max)
        case "timed":
            return TopicHistory(host, age_ms_max=policy.recovery_ms)
        case _:
            return None
