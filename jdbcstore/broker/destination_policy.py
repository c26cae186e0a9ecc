"""Policies for destinations, as ActiveMQ's ``policyEntry`` states them. The broker does not look at them yet."""

from __future__ import annotations

from dataclasses import dataclass, field

from jdbcstore.destination import Destination

__all__ = ["DeadLetterStrategy", "DestinationPolicy"]


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStrategy:
    """Where expired and refused messages of a destination go.

    Args:
        kind: ``shared``: all to `dead_letter_queue`; ``individual``: each to a queue or topic of its own, named
            prefix + name + suffix; ``discarding``: nowhere.
        dead_letter_queue: of ``shared``.
        queue_prefix, queue_suffix: of ``individual``, for messages of queues.
        topic_prefix, topic_suffix: of ``individual``, for messages of topics.
        use_queue_for_queue_messages, use_queue_for_topic_messages: of ``individual``: a queue, or else a topic.
        destination_per_durable_subscriber: of ``individual``: one for each durable subscription.
        process_expired: whether expired messages go there, or vanish.
        process_non_persistent: whether non-persistent messages go there, or vanish.
        expiration_ms: how long a dead letter lives, 0 is for ever.
    """

    kind: str = "shared"
    dead_letter_queue: str = "ActiveMQ.DLQ"
    queue_prefix: str = "ActiveMQ.DLQ.Queue."
    queue_suffix: str = ""
    topic_prefix: str = "ActiveMQ.DLQ.Topic."
    topic_suffix: str = ""
    use_queue_for_queue_messages: bool = True
    use_queue_for_topic_messages: bool = True
    destination_per_durable_subscriber: bool = False
    process_expired: bool = True
    process_non_persistent: bool = False
    expiration_ms: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class DestinationPolicy:
    """How the broker treats the destinations of a pattern. Names and defaults are ActiveMQ's, with units.

    Args:
        pattern: a queue or topic, wildcards allowed; None for every destination without a policy of its own.
        queue_prefetch, topic_prefetch, durable_topic_prefetch, queue_browser_prefetch: messages a subscription may
            hold unacknowledged unless it asks for another number.
        prioritized_messages: whether higher priorities go first.
        dead_letter_strategy: where expired and refused messages go.
        persist_jms_redelivered: whether it is stored that a message was delivered before.
        expire_messages_period_ms: how often expired messages are looked for, 0 is never.
        max_expire_page_size: how many messages that looks at.
        max_page_size: messages in one read of the store.
        max_browse_page_size: messages a browser sees.
        memory_limit_bytes: what a destination keeps in memory, 0 is no limit of its own.
        producer_flow_control: whether senders are held back.
        lazy_dispatch: read from the store only when a consumer wants something.
        use_consumer_priority: consumers of higher priority go first.
        strict_order_dispatch: fill one consumer before the next.
        all_consumers_exclusive_by_default: one consumer gets everything.
        consumers_before_dispatch_starts, time_before_dispatch_starts_ms: wait for so many consumers, at most so long.
        always_retroactive: new subscribers of a topic get what it has kept.
        gc_inactive_destinations, inactive_timeout_before_gc_ms: remove destinations that are empty and unused for so
            long.
        send_duplicate_from_store_to_dlq: a duplicate in the store becomes a dead letter.
        use_prefetch_extension: what waits in a transaction does not count for the prefetch.
    """

    pattern: Destination | None = None
    queue_prefetch: int = 1000
    topic_prefetch: int = 32_767
    durable_topic_prefetch: int = 100
    queue_browser_prefetch: int = 500
    prioritized_messages: bool = False
    dead_letter_strategy: DeadLetterStrategy = field(default_factory=DeadLetterStrategy)
    persist_jms_redelivered: bool = False
    expire_messages_period_ms: int = 30_000
    max_expire_page_size: int = 400
    max_page_size: int = 200
    max_browse_page_size: int = 400
    memory_limit_bytes: int = 0
    producer_flow_control: bool = True
    lazy_dispatch: bool = False
    use_consumer_priority: bool = True
    strict_order_dispatch: bool = False
    all_consumers_exclusive_by_default: bool = False
    consumers_before_dispatch_starts: int = 0
    time_before_dispatch_starts_ms: int = 0
    always_retroactive: bool = False
    gc_inactive_destinations: bool = False
    inactive_timeout_before_gc_ms: int = 60_000
    send_duplicate_from_store_to_dlq: bool = False
    use_prefetch_extension: bool = True
