"""``<destinationPolicy>``: policies for destinations and their dead letters."""

from __future__ import annotations

from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import (
    Entry,
    Kind,
    Reader,
    boolean,
    ignored,
    ignored_all,
    integer,
    kept,
    number,
    refused,
    size,
    text,
    used,
)

__all__ = ["POLICY_KINDS"]

_HELD_BACK: Final = "senders are held back, by not reading from them, and nobody is told"
_DUPLICATES: Final = "what producers sent again is recognised by store.producer_memory_s"
_CURSOR: Final = (
    "a queue keeps a window of its messages in memory, broker.window_messages_max, and reads the rest in pages"
)
_NO_DURABLE: Final = "a durable subscription keeps a window of its messages in memory, as a queue does"
_SLOW: Final = "a topic subscriber that does not keep up holds its publishers back, see broker.slow_consumer_timeout_s"
_UNUSED: Final = "unused ones leave memory after broker.idle_queue_timeout_s"
_DISPATCH: Final = "messages go to consumers in turn, in their order"


def _timeout_ms(value: str) -> int:
    """Milliseconds; 0 and less, by which ActiveMQ means never, are 0."""
    return max(integer(value), 0)


def _policy(name: str, default: str, read: Reader) -> Entry:
    """A field of `DestinationPolicy`."""
    return used(f"`{name}` of the policy", default, option=f"policy.{name}", read=read)


def _without(name: str, default: str, read: Reader, why: str, same: str = "") -> Entry:
    """A field of `DestinationPolicy` that the broker has no use for."""
    return kept(default, read, f"policy.{name}", same=tuple(same.split()), says=why)


_POLICY: Final = {
    "queue": used("which queues", "none"),
    "topic": used("which topics", "none"),
    "tempQueue": ignored("temporary destinations have no policy", "false", "false"),
    "tempTopic": ignored("temporary destinations have no policy", "false", "false"),
    "destination": refused("write queue or topic"),
    "deadLetterStrategy": used("see below", "sharedDeadLetterStrategy"),
    "queuePrefetch": _policy("queue_prefetch", "1000", integer),
    "topicPrefetch": _policy("topic_prefetch", "32767", integer),
    "queueBrowserPrefetch": _policy("queue_browser_prefetch", "500", integer),
    "durableTopicPrefetch": _policy("durable_topic_prefetch", "100", integer),
    "prioritizedMessages": _policy("prioritized_messages", "false", boolean),
    "persistJMSRedelivered": _policy("persist_jms_redelivered", "false", boolean),
    "expireMessagesPeriod": _policy("expire_messages_period_ms", "30000", integer),
    "maxExpirePageSize": _policy("max_expire_page_size", "400", integer),
    "maxPageSize": _policy("max_page_size", "200", integer),
    "maxBrowsePageSize": used(
        "`max_browse_page_size` of the policy. **Differs**: without it a browser shows all that there is",
        "400",
        option="policy.max_browse_page_size",
        read=integer,
    ),
    "memoryLimit": _policy("memory_limit_bytes", "0, none", size),
    "producerFlowControl": _without(
        "producer_flow_control", "true", boolean, "a sender waits until the store has taken what it sent", "true"
    ),
    "lazyDispatch": _without("lazy_dispatch", "false", boolean, "pages are read when consumers are there", "false"),
    "useConsumerPriority": _policy("use_consumer_priority", "true", boolean),
    "strictOrderDispatch": _policy("strict_order_dispatch", "false", boolean),
    "allConsumersExclusiveByDefault": _policy("all_consumers_exclusive_by_default", "false", boolean),
    "consumersBeforeDispatchStarts": _policy("consumers_before_dispatch_starts", "0", integer),
    "timeBeforeDispatchStarts": _policy("time_before_dispatch_starts_ms", "0", integer),
    "alwaysRetroactive": _policy("always_retroactive", "false", boolean),
    "gcInactiveDestinations": _without("gc_inactive_destinations", "false", boolean, _UNUSED),
    "inactiveTimeoutBeforeGC": _without(
        "inactive_timeout_before_gc_ms",
        "60000",
        integer,
        _UNUSED,
        "60000",
    ),
    "inactiveTimoutBeforeGC": _without(
        "inactive_timeout_before_gc_ms",
        "60000, its old name",
        integer,
        _UNUSED,
        "60000",
    ),
    "sendDuplicateFromStoreToDLQ": _without(
        "send_duplicate_from_store_to_dlq", "false", boolean, "a page never has a message twice", "false"
    ),
    "usePrefetchExtension": _policy("use_prefetch_extension", "true", boolean),
    "sendFailIfNoSpace": ignored("senders are held back, by not reading from them", "false", "false"),
    "sendFailIfNoSpaceAfterTimeout": ignored("senders are held back, by not reading from them", "-1", "-1"),
    "advisoryForConsumed": _policy("advisory_for_consumed", "false", boolean),
    "advisoryForDelivery": _policy("advisory_for_delivery", "false", boolean),
    "advisoryForSlowConsumers": _policy("advisory_for_slow_consumers", "false", boolean),
    "includeBodyForAdvisory": _policy("include_body_for_advisory", "false", boolean),
    "sendAdvisoryIfNoConsumers": _policy("send_advisory_if_no_consumers", "false", boolean),
    "advisoryForDiscardingMessages": _policy("advisory_for_discarding_messages", "false", boolean),
    **ignored_all("advisoryForFastProducers=false advisoryWhenFull=false", _HELD_BACK),
    **ignored_all("enableAudit=true maxAuditDepth=10000 maxProducersToAudit=64 maxQueueAuditDepth=10000", _DUPLICATES),
    **ignored_all(
        "cursorMemoryHighWaterMark=70 pendingQueuePolicy useCache=true reduceMemoryFootprint=false "
        "optimizedDispatch=false minimumMessageSize=1024",
        _CURSOR,
    ),
    **ignored_all(
        "pendingDurableSubscriberPolicy doOptimzeMessageStorage=true optimizeMessageStoreInFlightLimit=10", _NO_DURABLE
    ),
    **ignored_all(
        "pendingSubscriberPolicy useTopicSubscriptionInflightStats=true",
        _SLOW,
    ),
    "pendingMessageLimitStrategy": used(
        "`pending_limit` of the policy, see below: what a topic subscriber that does not keep up may lose", "none"
    ),
    "messageEvictionStrategy": used("`message_eviction` of the policy, see below: what it loses then", "oldest"),
    "slowConsumerStrategy": used("abortSlowConsumerStrategy, see below; without it the broker's timeout", "none"),
    "subscriptionRecoveryPolicy": used(
        "`subscription_recovery` of the policy, see below: what a topic keeps for subscribers that come later", "none"
    ),
    "dispatchPolicy": ignored(_DISPATCH),
    "messageGroupMapFactory": used("`message_group_map` and `message_groups_max` of the policy, see below"),
    "messageGroupMapFactoryType": used(
        "the same as a text: `simple`, `bucket?bucketCount=…`, `cached?cacheSize=…`", "cached"
    ),
    "networkBridgeFilterFactory": ignored("no network of brokers"),
    "gcWithNetworkConsumers": ignored("no network of brokers", "false", "false"),
    "maxDestinations": ignored("the number of destinations has no limit", "-1", "-1"),
    "blockedProducerWarningInterval": ignored("a sender that is held back is not logged", "30000"),
    "storeUsageHighWaterMark": ignored(
        "the store may take the whole disk; when that is full, senders get an ERROR", "100"
    ),
}


def _strategy(name: str, default: str, read: Reader) -> Entry:
    """A field of `DeadLetterStrategy`."""
    return used(f"`{name}` of the strategy", default, option=f"dead_letter.{name}", read=read)


def _redelivery(name: str, default: str, read: Reader) -> Entry:
    """A field of `RedeliveryPolicy`."""
    return used(f"`{name}` of the policy", default, option=f"redelivery.{name}", read=read)


_DEAD_LETTERS: Final = {
    "processExpired": _strategy("process_expired", "true", boolean),
    "processNonPersistent": _strategy("process_non_persistent", "false", boolean),
    "expiration": _strategy("expiration_ms", "0, never", integer),
    "enableAudit": ignored("a dead letter is moved in one transaction, never twice", "true", "true"),
    "maxAuditDepth": ignored("a dead letter is moved in one transaction, never twice", "2048"),
    "maxProducersToAudit": ignored("a dead letter is moved in one transaction, never twice", "64"),
}


_STRATEGIES: Final = "org.apache.activemq.broker.region.policy."
_EXPIRED_FIRST: Final = {"evictExpiredMessagesHighWatermark": ignored("expired messages always go first", "1000")}

POLICY_KINDS: Final = (
    Kind(
        "policyMap",
        "The policies.",
        {
            "policyEntries": used("a list of policyEntry"),
            "defaultEntry": used("the policyEntry for destinations without one"),
        },
        (_STRATEGIES + "PolicyMap",),
        where="policies",
    ),
    Kind(
        "policyEntry",
        "A policy for the queues or topics of a pattern, see [destinations](destinations.md).",
        _POLICY,
        (_STRATEGIES + "PolicyEntry",),
        where="policies",
    ),
    Kind(
        "sharedDeadLetterStrategy",
        "One queue for all dead letters.",
        {
            "deadLetterQueue": used("`dead_letter_queue` of the strategy", "ActiveMQ.DLQ"),
            **_DEAD_LETTERS,
        },
        (_STRATEGIES + "SharedDeadLetterStrategy",),
        where="policies",
    ),
    Kind(
        "individualDeadLetterStrategy",
        "A queue of dead letters for each destination.",
        {
            "queuePrefix": _strategy("queue_prefix", "ActiveMQ.DLQ.Queue.", text),
            "queueSuffix": _strategy("queue_suffix", "empty", text),
            "topicPrefix": _strategy("topic_prefix", "ActiveMQ.DLQ.Topic.", text),
            "topicSuffix": _strategy("topic_suffix", "empty", text),
            "useQueueForQueueMessages": _strategy("use_queue_for_queue_messages", "true", boolean),
            "useQueueForTopicMessages": _strategy("use_queue_for_topic_messages", "true", boolean),
            "destinationPerDurableSubscriber": _strategy("destination_per_durable_subscriber", "false", boolean),
            **_DEAD_LETTERS,
        },
        (_STRATEGIES + "IndividualDeadLetterStrategy",),
        where="policies",
    ),
    Kind(
        "discarding",
        "Dead letters are thrown away.",
        {
            "deadLetterQueue": ignored("dead letters are thrown away"),
            **_DEAD_LETTERS,
        },
        (_STRATEGIES + "DiscardingDeadLetterStrategy",),
        where="policies",
    ),
    Kind(
        "abortSlowConsumerStrategy",
        "Who does not keep up is disconnected: a subscriber of a topic whose publishers have waited for it so long. "
        "On queues nobody waits for a slow consumer.",
        {
            "maxSlowDuration": used(
                "`slow_consumer_timeout_ms` of the policy. **Differs**: without it, and with 0 and less, the broker's",
                "30000",
                option="policy.slow_consumer_timeout_ms",
                read=_timeout_ms,
            ),
            "maxSlowCount": ignored("the time alone counts", "-1", "-1"),
            "checkPeriod": ignored("it is not looked for, a timer runs", "30000", "30000"),
            "abortConnection": ignored("the client is disconnected", "false", "true"),
            "ignoreNetworkConsumers": ignored("no network of brokers", "true", "true"),
            "name": ignored("strategies have no names"),
        },
        ("org.apache.activemq.broker.region.policy.AbortSlowConsumerStrategy",),
        where="policies",
    ),
    Kind(
        "constantPendingMessageLimitStrategy",
        "So many messages wait for a subscriber of a topic.",
        {"limit": used("`pending_messages_max` of the policy; less than 0 is no limit", "-1")},
        (_STRATEGIES + "ConstantPendingMessageLimitStrategy",),
        where="policies",
    ),
    Kind(
        "prefetchRatePendingMessageLimitStrategy",
        "So many times its prefetch wait for a subscriber of a topic.",
        {
            "multiplier": used(
                "`pending_prefetch_rate` of the policy", "0.5", option="policy.pending_prefetch_rate", read=number
            )
        },
        (_STRATEGIES + "PrefetchRatePendingMessageLimitStrategy",),
        where="policies",
    ),
    Kind(
        "oldestMessageEvictionStrategy",
        "It loses the oldest.",
        _EXPIRED_FIRST,
        (_STRATEGIES + "OldestMessageEvictionStrategy",),
        where="policies",
    ),
    Kind(
        "oldestMessageWithLowestPriorityEvictionStrategy",
        "It loses the oldest of the lowest priority.",
        _EXPIRED_FIRST,
        (_STRATEGIES + "OldestMessageWithLowestPriorityEvictionStrategy",),
        where="policies",
    ),
    Kind(
        "uniquePropertyMessageEvictionStrategy",
        "It loses all but the last message with each value of a property.",
        {
            "propertyName": used(
                "`eviction_property` of the policy", "empty", option="policy.eviction_property", read=text
            ),
            **_EXPIRED_FIRST,
        },
        (_STRATEGIES + "UniquePropertyMessageEvictionStrategy",),
        where="policies",
    ),
    Kind(
        "cachedMessageGroupMapFactory",
        "Message groups: those used last are remembered. Here one with messages under way is never forgotten.",
        {
            "cacheSize": used(
                "`message_groups_max` of the policy", "1024", option="policy.message_groups_max", read=integer
            )
        },
        ("org.apache.activemq.broker.region.group.CachedMessageGroupMapFactory",),
        where="policies",
    ),
    Kind(
        "messageGroupHashBucketFactory",
        "Message groups: so many buckets of them, each with one consumer.",
        {
            "bucketCount": used(
                "`message_groups_max` of the policy", "1024", option="policy.message_groups_max", read=integer
            ),
            "cacheSize": ignored("a bucket is one number here", "64"),
        },
        ("org.apache.activemq.broker.region.group.MessageGroupHashBucketFactory",),
        where="policies",
    ),
    Kind(
        "simpleMessageGroupMapFactory",
        "Message groups: all of them are remembered, without a limit.",
        {},
        ("org.apache.activemq.broker.region.group.SimpleMessageGroupMapFactory",),
        where="policies",
    ),
    Kind(
        "fixedCountSubscriptionRecoveryPolicy",
        "A topic keeps its last messages.",
        {
            "maximumSize": used(
                "`recovery_messages_max` of the policy", "100", option="policy.recovery_messages_max", read=integer
            )
        },
        (_STRATEGIES + "FixedCountSubscriptionRecoveryPolicy",),
        where="policies",
    ),
    Kind(
        "fixedSizedSubscriptionRecoveryPolicy",
        "A topic keeps its last messages, up to a number of bytes.",
        {
            "maximumSize": used(
                "`recovery_bytes_max` of the policy", "65536", option="policy.recovery_bytes_max", read=integer
            ),
            "useSharedBuffer": ignored("each topic keeps its own messages", "true", "false"),
        },
        (_STRATEGIES + "FixedSizedSubscriptionRecoveryPolicy",),
        where="policies",
    ),
    Kind(
        "timedSubscriptionRecoveryPolicy",
        "A topic keeps the messages of the last while.",
        {"recoverDuration": used("`recovery_ms` of the policy", "60000", option="policy.recovery_ms", read=integer)},
        (_STRATEGIES + "TimedSubscriptionRecoveryPolicy",),
        where="policies",
    ),
    Kind(
        "lastImageSubscriptionRecoveryPolicy",
        "A topic keeps its last message.",
        {},
        (_STRATEGIES + "LastImageSubscriptionRecoveryPolicy",),
        where="policies",
    ),
    Kind(
        "noSubscriptionRecoveryPolicy",
        "A topic keeps nothing.",
        {},
        (_STRATEGIES + "NoSubscriptionRecoveryPolicy",),
        where="policies",
    ),
    *(
        Kind(
            name,
            f"A {name}, where a destination is asked for.",
            {
                "physicalName": used("its name"),
                **ignored_all("compositeDestinations dLQ options properties", "only the name is read"),
            },
            (f"org.apache.activemq.command.ActiveMQ{name.title()}",),
            where="policies",
        )
        for name in ("queue", "topic")
    ),
    Kind(
        "redeliveryPlugin",
        "How often messages are delivered again, also those that clients refuse.",
        {
            "redeliveryPolicyMap": used("see below"),
            "fallbackToDeadLetter": used(
                "false: without a policy, what is refused vanishes, `send_to_dlq_if_max_retries_exceeded`", "true"
            ),
            "sendToDlqIfMaxRetriesExceeded": used(
                "`send_to_dlq_if_max_retries_exceeded` of all policies: false: what is not delivered again vanishes",
                "true",
            ),
        },
        ("org.apache.activemq.broker.util.RedeliveryPlugin",),
        where="policies",
    ),
    Kind(
        "redeliveryPolicyMap",
        "The redelivery policies.",
        {
            "redeliveryPolicyEntries": used("a list of redeliveryPolicy"),
            "defaultEntry": used("the redeliveryPolicy for destinations without one"),
        },
        ("org.apache.activemq.broker.region.policy.RedeliveryPolicyMap",),
        where="policies",
    ),
    Kind(
        "redeliveryPolicy",
        "How often and when messages of a pattern are delivered again; `schedule_refused` is true for all of them.",
        {
            "queue": used("which queues", "none"),
            "topic": used("which topics", "none"),
            "tempQueue": ignored("temporary destinations have no policy", "false", "false"),
            "tempTopic": ignored("temporary destinations have no policy", "false", "false"),
            "destination": refused("write queue or topic"),
            "maximumRedeliveries": _redelivery("maximum_redeliveries", "6", integer),
            "initialRedeliveryDelay": _redelivery("initial_redelivery_delay_ms", "1000", integer),
            "redeliveryDelay": _redelivery("redelivery_delay_ms", "1000", integer),
            "useExponentialBackOff": used("whether backOffMultiplier counts", "false"),
            "backOffMultiplier": _redelivery("back_off_multiplier", "5", number),
            "maximumRedeliveryDelay": _redelivery("maximum_redelivery_delay_ms", "-1, no limit", integer),
            "useCollisionAvoidance": used("whether collisionAvoidancePercent counts", "false"),
            "collisionAvoidancePercent": _redelivery("collision_avoidance_percent", "15", integer),
            "preDispatchCheck": ignored("the broker counts", "true", "true"),
        },
        ("org.apache.activemq.RedeliveryPolicy",),
        where="policies",
    ),
)
