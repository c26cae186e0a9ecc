"""Dead letters: where messages go that expired, were refused, or were delivered too often, and what they look like.

ActiveMQ's strategies: one queue for all, one for each destination, or nowhere. What is in a dead-letter queue already
becomes no dead letter again, it is dropped: otherwise it would go round in circles. Where a queue for a destination
cannot be, because prefix and name together are too long say, the queue for all takes its place.
"""

from __future__ import annotations

from collections.abc import Iterable

from jdbcstore.broker.destination_policy import DeadLetterStrategy
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.primitives import Long
from jdbcstore.subscription import SubscriptionKey

__all__ = ["DeadLetters", "dead_letter", "expiry_cause"]


class DeadLetters:
    """Finds the place for a dead letter.

    Args:
        default: the queue of strategies that name none.
        strategies: all that there are, to know dead-letter queues by.
    """

    def __init__(self, default: Queue, strategies: Iterable[DeadLetterStrategy]) -> None:
        self._default = default
        self._shared = {default}
        self._individual: list[tuple[type[Destination], str, str]] = []
        for strategy in strategies:
            if strategy.kind == "shared":
                self._shared.add(self.shared_queue(strategy))
            elif strategy.kind == "individual":
                for_queues, for_topics = _kinds(strategy)
                self._individual += [
                    (for_queues, strategy.queue_prefix, strategy.queue_suffix),
                    (for_topics, strategy.topic_prefix, strategy.topic_suffix),
                ]

    def target(
        self,
        strategy: DeadLetterStrategy,
        message: Message,
        source: Destination,
        now_ms: int,
        subscription: SubscriptionKey | None = None,
    ) -> Destination | None:
        """Where a message goes; None if it is dropped.

        Args:
            strategy: of the policy of `source`.
            message: the message.
            source: where it is.
            now_ms: epoch milliseconds.
            subscription: the durable subscription that is done with it, if it is one.
        """
        if not message.persistent and not strategy.process_non_persistent:
            return None
        if message.expired(now_ms) and not strategy.process_expired:
            return None
        if strategy.kind == "discarding" or source.is_temporary or self.holds(source):
            return None
        if strategy.kind == "shared":
            return self.shared_queue(strategy)
        for_queues, for_topics = _kinds(strategy)
        if source.is_queue:
            kind, prefix, suffix = for_queues, strategy.queue_prefix, strategy.queue_suffix
        else:
            kind, prefix, suffix = for_topics, strategy.topic_prefix, strategy.topic_suffix
        name = prefix + source.physical_name
        if subscription is not None and strategy.destination_per_durable_subscriber:
            name += f".{subscription.client_id}:{subscription.subscription_name}"
        name = (name + suffix).strip()
        individual = kind.decoded(name)
        return individual if individual.is_storable and "?" not in name else self.shared_queue(strategy)

    def holds(self, destination: Destination) -> bool:
        """Whether this is a place for dead letters."""
        return destination in self._shared or any(
            isinstance(destination, kind)
            and (prefix or suffix)
            and destination.physical_name.startswith(prefix)
            and destination.physical_name.endswith(suffix)
            for kind, prefix, suffix in self._individual
        )

    def shared_queue(self, strategy: DeadLetterStrategy) -> Queue:
        """Where everything goes that has no dead-letter queue of its own."""
        return Queue(strategy.dead_letter_queue) if strategy.dead_letter_queue else self._default


def _kinds(strategy: DeadLetterStrategy) -> tuple[type[Destination], type[Destination]]:
    return (
        Queue if strategy.use_queue_for_queue_messages else Topic,
        Queue if strategy.use_queue_for_topic_messages else Topic,
    )


def expiry_cause(message: Message) -> str:
    """Why an expired message is a dead letter, in ActiveMQ's words."""
    return f"java.lang.Throwable: Message Expired. Expiration:{message.expiration}"


def dead_letter(
    message: Message, target: Destination, *, cause: str | None = None, expiration: int = 0, is_told: bool = True
) -> Message:
    """A copy of `message` for a dead-letter queue.

    It keeps its id and body, names where it was, and counts no deliveries. One that was a dead letter before and was
    sent again says still when it expired, or was to, the first time. Source: rows of a real broker.

    Args:
        message: the refused or expired message; not changed.
        target: the dead-letter queue.
        cause: why it is there; a refused message has none.
        expiration: when the dead letter expires, epoch milliseconds; 0 is never.
        is_told: whether its properties say more than those of the message do.
    """
    dead = message.copy()
    dead.original_destination = message.destination
    dead.destination = target
    if message.transaction_id is not None:
        dead.original_transaction_id = message.transaction_id
        dead.transaction_id = None
    dead.redelivery_counter = 0
    dead.expiration = expiration
    dead.persistent = True
    if not is_told:
        return dead
    try:
        properties = {"originalExpiration": Long(message.expiration), **message.properties}
        if cause is not None:
            properties["dlqDeliveryFailureCause"] = cause
        if not message.persistent:
            properties["originalDeliveryMode"] = "NON_PERSISTENT"
        dead.properties = properties
    except CodecError:
        pass  # properties that nobody can read, or write again, are kept as they are
    return dead
