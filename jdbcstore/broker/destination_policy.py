"""Policies for destinations, as ActiveMQ's ``policyEntry`` and ``redeliveryPolicy`` state them, and which one counts.

A destination has one policy: that of the most specific pattern that covers it, whole; policies are not mixed. Patterns
are compared path element by path element, and a name goes before ``*``, which goes before ``>``.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from math import inf
from random import uniform
from typing import Final, Generic, TypeVar

from jdbcstore.broker.options import BrokerOptions, check_dead_letter_queue
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError

__all__ = [
    "EVICTIONS",
    "GROUP_MAPS",
    "PENDING_LIMITS",
    "RECOVERIES",
    "DeadLetterStrategy",
    "DestinationPolicy",
    "PolicyMap",
    "RedeliveryPolicy",
    "default_policy",
]

#: How groups are remembered, in ActiveMQ's words: all of them, so many buckets of them, so many of them.
GROUP_MAPS: Final = ("simple", "bucket", "cached")

#: What a topic keeps for subscribers that come later.
RECOVERIES: Final = ("none", "last_image", "fixed_count", "fixed_size", "timed")

#: Whether a subscriber of a topic may lose messages.
PENDING_LIMITS: Final = ("none", "constant", "prefetch_rate")

#: Which ones: the oldest; the oldest of the lowest priority; all but the last ones with each value of a property.
EVICTIONS: Final = ("oldest", "oldest_lowest_priority", "unique_property")

_STRATEGIES: Final = ("shared", "individual", "discarding")
#: A year: no delay is longer, whatever it is multiplied by.
_LONGEST_MS: Final = 365 * 24 * 3_600_000
_BACK_OFFS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class DeadLetterStrategy:
    """Where expired and refused messages of a destination go.

    Args:
        kind: ``shared``: all to `dead_letter_queue`; ``individual``: each to a queue or topic of its own, named
            prefix + name + suffix; ``discarding``: nowhere.
        dead_letter_queue: of ``shared``; empty is the broker's `dead_letter_queue`.
        queue_prefix, queue_suffix: of ``individual``, for messages of queues.
        topic_prefix, topic_suffix: of ``individual``, for messages of topics.
        use_queue_for_queue_messages, use_queue_for_topic_messages: of ``individual``: a queue, or else a topic.
        destination_per_durable_subscriber: of ``individual``: one for each durable subscription.
        process_expired: whether expired messages go there, or vanish.
        process_non_persistent: whether non-persistent messages go there, or vanish.
        expiration_ms: how long a dead letter lives, 0 is for ever.
    """

    kind: str = "shared"
    dead_letter_queue: str = ""
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

    def __post_init__(self) -> None:
        if self.kind not in _STRATEGIES:
            raise ConfigurationError(f"kind of dead letters must be one of {', '.join(_STRATEGIES)}, got {self.kind!r}")
        if self.dead_letter_queue:
            check_dead_letter_queue(self.dead_letter_queue)
        _check_numbers(self, least=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """How often and when a message is delivered again. Names are ActiveMQ's, with units.

    Args:
        pattern: as `DestinationPolicy`.
        maximum_redeliveries: after so many deliveries beside the first a message becomes a dead letter; -1 is never.
        initial_redelivery_delay_ms: how long a message waits before its first redelivery.
        redelivery_delay_ms: how long before each of the others.
        back_off_multiplier: how many times longer it waits each time; 1 is the same each time.
        maximum_redelivery_delay_ms: the longest it waits with that; -1 is no limit.
        collision_avoidance_percent: how much longer or shorter it waits, at random, so that messages that were given
            back together do not come again together; 0 is not.
        schedule_refused: whether a message of a queue that a client refuses is sent to it again, when its time has
            passed and as often as it may be; otherwise it becomes a dead letter at once (ActiveMQ:
            ``redeliveryPlugin``).
        send_to_dlq_if_max_retries_exceeded: whether what is not delivered again becomes a dead letter, or vanishes.
    """

    pattern: Destination | None = None
    maximum_redeliveries: int = -1
    initial_redelivery_delay_ms: int = 0
    redelivery_delay_ms: int = 0
    back_off_multiplier: float = 1.0
    maximum_redelivery_delay_ms: int = -1
    collision_avoidance_percent: int = 0
    schedule_refused: bool = False
    send_to_dlq_if_max_retries_exceeded: bool = True

    def __post_init__(self) -> None:
        _check_numbers(self, least=-1)
        if not self.back_off_multiplier >= 1:
            raise ConfigurationError(f"back_off_multiplier must be at least 1, got {self.back_off_multiplier}")

    def delay_ms(self, redeliveries: int) -> int:
        """How long a message waits before it is delivered for the time after `redeliveries` others, which is 1 before
        the first redelivery."""
        if redeliveries <= 1:
            return max(self.initial_redelivery_delay_ms, 0)
        longest_ms = _LONGEST_MS if self.maximum_redelivery_delay_ms < 0 else self.maximum_redelivery_delay_ms
        delay_ms = float(max(self.redelivery_delay_ms, 0))
        for _ in range(min(redeliveries - 2, _BACK_OFFS_MAX)):
            if delay_ms >= longest_ms:
                break
            delay_ms *= self.back_off_multiplier
        return self._varied(int(min(delay_ms, longest_ms)))

    def refused_delay_ms(self, redeliveries: int, previous_ms: int) -> int:
        """How long a refused message waits.

        Args:
            redeliveries: how often it was delivered again before.
            previous_ms: how long it has waited the last time; 0 if it was not refused before.
        """
        if not redeliveries:
            return max(self.initial_redelivery_delay_ms, 0)
        delay_ms = max(self.redelivery_delay_ms, 0)
        if previous_ms > 0 and self.back_off_multiplier > 1:
            longest_ms = _LONGEST_MS if self.maximum_redelivery_delay_ms < 0 else self.maximum_redelivery_delay_ms
            delay_ms = int(min(previous_ms * self.back_off_multiplier, max(longest_ms, delay_ms)))
        return self._varied(delay_ms)

    def _varied(self, delay_ms: int) -> int:
        if not self.collision_avoidance_percent:
            return delay_ms
        share = self.collision_avoidance_percent / 100
        return max(int(delay_ms * (1 + uniform(-share, share))), 0)


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
        max_page_size: messages in one read of the store; 0 is the broker's `page_messages_max`, more it never is.
        max_browse_page_size: messages that a browser sees at most; 0 is all.
        memory_limit_bytes: what a queue keeps ready in memory, and again of unacknowledged messages, or what may wait
            for a subscriber of a topic; 0 is no limit of its own. It only lowers the broker's limits. No sender is
            held back for it: the rest stays in the store.
        slow_consumer_timeout_ms: how long a subscriber of a topic may hold its publishers back before it is
            disconnected; 0 is the broker's `slow_consumer_timeout_s`.
        pending_limit: whether a subscriber of a topic may lose messages that it was not sent yet, so that it holds
            nobody back: ``none``, it may not; ``constant``, all but `pending_messages_max`; ``prefetch_rate``, all but
            `pending_prefetch_rate` times its prefetch.
        pending_messages_max, pending_prefetch_rate: as `pending_limit` says.
        message_eviction: which ones it loses, one of `EVICTIONS`.
        eviction_property: of ``unique_property``: the property.
        producer_flow_control: whether senders are held back.
        lazy_dispatch: read from the store only when a consumer wants something.
        use_consumer_priority: consumers of higher priority go first.
        strict_order_dispatch: fill one consumer before the next.
        message_group_map: how message groups and their consumers are remembered: ``simple``: all of them; ``bucket``:
            so many sets of groups; ``cached``: so many, those that were used last.
        message_groups_max: how many sets, or groups.
        all_consumers_exclusive_by_default: one consumer gets everything.
        consumers_before_dispatch_starts, time_before_dispatch_starts_ms: a queue without consumers delivers nothing to
            the next ones before there are so many, but waits no longer than that, or a second if it is 0. Without a
            number it waits so long in any case.
        advisory_for_delivery, advisory_for_consumed: whether it is told of each message that it has arrived, and that a
            consumer is done with it (`jdbcstore.broker.advisories`).
        advisory_for_slow_consumers: whether it is told that a subscriber of a topic does not keep up.
        advisory_for_discarding_messages: whether it is told that one has lost a message.
        send_advisory_if_no_consumers: whether messages that are not persistent and come while nobody is subscribed are
            shown to those who listen for them.
        include_body_for_advisory: whether advisories about messages have their bodies.
        always_retroactive: all new subscribers of a topic get what it has kept, whether they ask for it or not.
        subscription_recovery: what a topic keeps for them, one of `RECOVERIES` (`jdbcstore.broker.topic_history`).
        recovery_messages_max: of ``fixed_count``: how many messages.
        recovery_bytes_max: of ``fixed_size``: how many bytes.
        recovery_ms: of ``timed``: for how long.
        gc_inactive_destinations, inactive_timeout_before_gc_ms: remove destinations that are empty and unused for so
            long.
        send_duplicate_from_store_to_dlq: a duplicate in the store becomes a dead letter.
        use_prefetch_extension: what a consumer has acknowledged in a transaction, or a JMS client has given to its
            application, does not count for the prefetch.
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
    max_page_size: int = 0
    max_browse_page_size: int = 0
    memory_limit_bytes: int = 0
    slow_consumer_timeout_ms: int = 0
    pending_limit: str = "none"
    pending_messages_max: int = 0
    pending_prefetch_rate: float = 0.5
    message_eviction: str = "oldest"
    eviction_property: str = ""
    producer_flow_control: bool = True
    lazy_dispatch: bool = False
    use_consumer_priority: bool = True
    strict_order_dispatch: bool = False
    message_group_map: str = "cached"
    message_groups_max: int = 1024
    all_consumers_exclusive_by_default: bool = False
    consumers_before_dispatch_starts: int = 0
    time_before_dispatch_starts_ms: int = 0
    advisory_for_delivery: bool = False
    advisory_for_consumed: bool = False
    advisory_for_slow_consumers: bool = False
    advisory_for_discarding_messages: bool = False
    send_advisory_if_no_consumers: bool = False
    include_body_for_advisory: bool = False
    always_retroactive: bool = False
    subscription_recovery: str = "none"
    recovery_messages_max: int = 100
    recovery_bytes_max: int = 64 << 10
    recovery_ms: int = 60_000
    gc_inactive_destinations: bool = False
    inactive_timeout_before_gc_ms: int = 60_000
    send_duplicate_from_store_to_dlq: bool = False
    use_prefetch_extension: bool = True

    @property
    def advises_arrivals(self) -> bool:
        """Whether anything may be told of a message that arrives."""
        return self.advisory_for_delivery or self.send_advisory_if_no_consumers

    def __post_init__(self) -> None:
        _check_numbers(self, least=0)
        if self.message_group_map not in GROUP_MAPS:
            raise ConfigurationError(
                f"message_group_map must be one of {', '.join(GROUP_MAPS)}, got {self.message_group_map!r}"
            )
        for name, known in (("pending_limit", PENDING_LIMITS), ("message_eviction", EVICTIONS)):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        if not 0 <= self.pending_prefetch_rate < inf:
            raise ConfigurationError(f"pending_prefetch_rate must be at least 0, got {self.pending_prefetch_rate}")
        if self.message_eviction == "unique_property" and not self.eviction_property:
            raise ConfigurationError("message_eviction 'unique_property' needs eviction_property")
        if self.subscription_recovery not in RECOVERIES:
            raise ConfigurationError(
                f"subscription_recovery must be one of {', '.join(RECOVERIES)}, got {self.subscription_recovery!r}"
            )
        if self.message_groups_max < 1:
            raise ConfigurationError("message_groups_max must be at least 1, got 0")

    def pending_max(self, prefetch: int, asked: int = 0) -> int:
        """How many messages may wait for a subscriber of a topic before it loses some; -1 for no limit.

        Args:
            prefetch: how many it may hold.
            asked: how many it wants at most; 0 for no wish. It only counts beside a limit, as with ActiveMQ.
        """
        if self.pending_limit == "none":
            return -1
        is_constant = self.pending_limit == "constant"
        most = self.pending_messages_max if is_constant else int(prefetch * self.pending_prefetch_rate)
        return min(most, asked) if asked > 0 else most


def _check_numbers(policy: DeadLetterStrategy | DestinationPolicy | RedeliveryPolicy, *, least: int) -> None:
    for option in fields(policy):
        value = getattr(policy, option.name)
        if option.type == "int" and value < least:
            raise ConfigurationError(f"{option.name} must be a whole number of at least {least}, got {value!r}")


def default_policy(options: BrokerOptions) -> DestinationPolicy:
    """The policy of destinations without one: what the broker's options say, and ActiveMQ's defaults."""
    return DestinationPolicy(
        queue_prefetch=options.prefetch_queue,
        topic_prefetch=options.prefetch_topic,
        durable_topic_prefetch=options.prefetch_durable_topic,
        queue_browser_prefetch=options.prefetch_browser,
        persist_jms_redelivered=options.persist_jms_redelivered,
    )


Policy = TypeVar("Policy", DestinationPolicy, RedeliveryPolicy)

#: Clients choose the names that are asked for, so not all of them are remembered.
_REMEMBERED_MAX: Final = 4096


class PolicyMap(Generic[Policy]):
    """Finds the policy of a destination.

    Args:
        policies: in any order. Of two with the same pattern the later one counts. A pattern may be a composite: its
            elements have the policy each.
        default: for destinations that none covers, unless one has no pattern at all.
    """

    def __init__(self, policies: Iterable[Policy], default: Policy) -> None:
        self._patterns: list[tuple[Destination, Policy]] = []
        self._default: Policy = default
        for policy in policies:
            if policy.pattern is None:
                self._default = policy
            else:
                self._patterns += [(element, policy) for element in policy.pattern.elements()]
        self._patterns.reverse()
        self._patterns.sort(key=lambda entry: _specificity(entry[0]), reverse=True)
        self._found: dict[Destination, Policy] = {}

    def all(self) -> list[Policy]:
        """Every policy that some destination may have."""
        return [policy for _, policy in self._patterns] + [self._default]

    def find(self, destination: Destination) -> Policy:
        """The policy of this destination."""
        policy = self._found.get(destination)
        if policy is None:
            covering = (policy for pattern, policy in self._patterns if pattern.matches(destination))
            policy = next(covering, self._default)
            if len(self._found) >= _REMEMBERED_MAX:
                self._found.clear()
            self._found[destination] = policy
        return policy


def _specificity(pattern: Destination) -> list[int]:
    """Sorts patterns that cover the same name: the greater is the more specific one."""
    return [{">": 0, "*": 1}.get(part, 2) for part in pattern.physical_name.split(".")]
