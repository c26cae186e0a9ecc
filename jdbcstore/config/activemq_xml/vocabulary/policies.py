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
    refused,
    size,
    text,
    used,
)

__all__ = ["POLICY_KINDS"]

_ADVISORIES: Final = "no advisory messages are sent"
_DUPLICATES: Final = "what producers sent again is recognised by store.producer_memory_s"
_CURSOR: Final = (
    "a queue keeps a window of its messages in memory, broker.window_messages_max, and reads the rest in pages"
)
_NO_DURABLE: Final = "durable subscriptions are not served yet"
_SLOW: Final = "a topic subscriber that does not keep up holds its publishers back, see broker.slow_consumer_timeout_s"
_DISPATCH: Final = "messages go to consumers in turn, in their order"
_AS_ELSEWHERE: Final = "read into `DestinationPolicy`"


def _policy(name: str, default: str, read: Reader, same: str = "") -> Entry:
    """A field of `DestinationPolicy` that the broker does not look at yet."""
    return kept(default, read, f"policy.{name}", same=tuple(same.split()))


def _prefetch(name: str, default: str, option: str) -> Entry:
    """A field of `DestinationPolicy` that the broker has for all destinations of a kind."""
    return used(f"for the pattern `>` `{option}`; for others not yet", default, option=f"policy.{name}", read=integer)


_POLICY: Final = {
    "queue": used("which queues", "none"),
    "topic": used("which topics", "none"),
    "tempQueue": ignored("temporary destinations have no policy", "false", "false"),
    "tempTopic": ignored("temporary destinations have no policy", "false", "false"),
    "destination": refused("write queue or topic"),
    "deadLetterStrategy": used("see below", "sharedDeadLetterStrategy"),
    "queuePrefetch": _prefetch("queue_prefetch", "1000", "broker.prefetch_queue"),
    "topicPrefetch": _prefetch("topic_prefetch", "32767", "broker.prefetch_topic"),
    "queueBrowserPrefetch": _prefetch("queue_browser_prefetch", "500", "broker.prefetch_browser"),
    "durableTopicPrefetch": _policy("durable_topic_prefetch", "100", integer),
    "prioritizedMessages": _policy("prioritized_messages", "false", boolean, "false"),
    "persistJMSRedelivered": used(
        "for the pattern `>` `broker.persist_jms_redelivered`; for others not yet",
        "false",
        option="policy.persist_jms_redelivered",
        read=boolean,
    ),
    "expireMessagesPeriod": _policy("expire_messages_period_ms", "30000", integer),
    "maxExpirePageSize": _policy("max_expire_page_size", "400", integer),
    "maxPageSize": _policy("max_page_size", "200", integer),
    "maxBrowsePageSize": _policy("max_browse_page_size", "400", integer),
    "memoryLimit": _policy("memory_limit_bytes", "0, none", size),
    "producerFlowControl": _policy("producer_flow_control", "true", boolean, "true"),
    "lazyDispatch": _policy("lazy_dispatch", "false", boolean, "false"),
    "useConsumerPriority": _policy("use_consumer_priority", "true", boolean),
    "strictOrderDispatch": _policy("strict_order_dispatch", "false", boolean, "false"),
    "allConsumersExclusiveByDefault": _policy("all_consumers_exclusive_by_default", "false", boolean, "false"),
    "consumersBeforeDispatchStarts": _policy("consumers_before_dispatch_starts", "0", integer, "0"),
    "timeBeforeDispatchStarts": _policy("time_before_dispatch_starts_ms", "0", integer, "0"),
    "alwaysRetroactive": _policy("always_retroactive", "false", boolean, "false"),
    "gcInactiveDestinations": _policy("gc_inactive_destinations", "false", boolean),
    "inactiveTimeoutBeforeGC": _policy("inactive_timeout_before_gc_ms", "60000", integer),
    "inactiveTimoutBeforeGC": _policy("inactive_timeout_before_gc_ms", "60000, its old name", integer),
    "sendDuplicateFromStoreToDLQ": _policy("send_duplicate_from_store_to_dlq", "false", boolean, "false"),
    "usePrefetchExtension": _policy("use_prefetch_extension", "true", boolean),
    "sendFailIfNoSpace": ignored("senders are held back, by not reading from them", "false", "false"),
    "sendFailIfNoSpaceAfterTimeout": ignored("senders are held back, by not reading from them", "-1", "-1"),
    **ignored_all(
        "advisoryForConsumed advisoryForDelivery advisoryForDiscardingMessages advisoryForFastProducers "
        "advisoryForSlowConsumers advisoryWhenFull includeBodyForAdvisory sendAdvisoryIfNoConsumers",
        _ADVISORIES,
    ),
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
        "pendingSubscriberPolicy pendingMessageLimitStrategy messageEvictionStrategy slowConsumerStrategy "
        "useTopicSubscriptionInflightStats=true",
        _SLOW,
    ),
    "subscriptionRecoveryPolicy": ignored("a topic keeps nothing for subscribers that come later"),
    "dispatchPolicy": ignored(_DISPATCH),
    "messageGroupMapFactory": ignored("there are no message groups"),
    "messageGroupMapFactoryType": ignored("there are no message groups", "cached"),
    "networkBridgeFilterFactory": ignored("no network of brokers"),
    "gcWithNetworkConsumers": ignored("no network of brokers", "false", "false"),
    "maxDestinations": ignored("the number of destinations has no limit", "-1", "-1"),
    "blockedProducerWarningInterval": ignored("a sender that is held back is not logged", "30000"),
    "storeUsageHighWaterMark": ignored("the database watches its disk", "100"),
}

_DEAD_LETTERS: Final = {
    "processExpired": kept("true", boolean, "dead_letter.process_expired", same=("true",)),
    "processNonPersistent": kept("false", boolean, "dead_letter.process_non_persistent", same=("false",)),
    "expiration": kept("0, never", integer, "dead_letter.expiration_ms", same=("0",)),
    "enableAudit": ignored("a dead letter is moved in one transaction, never twice", "true", "true"),
    "maxAuditDepth": ignored("a dead letter is moved in one transaction, never twice", "2048"),
    "maxProducersToAudit": ignored("a dead letter is moved in one transaction, never twice", "64"),
}


def _individual(name: str, default: str, read: Reader, same: str = "") -> Entry:
    return kept(default, read, f"dead_letter.{name}", same=tuple(same.split()))


_STRATEGIES: Final = "org.apache.activemq.broker.region.policy."

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
        "A policy for the queues or topics of a pattern. What is marked *not yet* is read into"
        " `Configuration.destination_policies`; the broker does not look there yet.",
        _POLICY,
        (_STRATEGIES + "PolicyEntry",),
        where="policies",
    ),
    Kind(
        "sharedDeadLetterStrategy",
        "One queue for all dead letters.",
        {
            "deadLetterQueue": used(
                "for the pattern `>` `broker.dead_letter_queue`; for others not yet", "ActiveMQ.DLQ"
            ),
            **_DEAD_LETTERS,
        },
        (_STRATEGIES + "SharedDeadLetterStrategy",),
        where="policies",
    ),
    Kind(
        "individualDeadLetterStrategy",
        "A queue of dead letters for each destination.",
        {
            "queuePrefix": _individual("queue_prefix", "ActiveMQ.DLQ.Queue.", text),
            "queueSuffix": _individual("queue_suffix", "empty", text),
            "topicPrefix": _individual("topic_prefix", "ActiveMQ.DLQ.Topic.", text),
            "topicSuffix": _individual("topic_suffix", "empty", text),
            "useQueueForQueueMessages": _individual("use_queue_for_queue_messages", "true", boolean),
            "useQueueForTopicMessages": _individual("use_queue_for_topic_messages", "true", boolean),
            "destinationPerDurableSubscriber": _individual(
                "destination_per_durable_subscriber", "false", boolean, "false"
            ),
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
)
