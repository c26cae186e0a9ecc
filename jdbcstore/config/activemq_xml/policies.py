"""``<destinationPolicy>``: policies for destinations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final
from urllib.parse import parse_qsl

from jdbcstore.broker.destination_policy import GROUP_MAPS, DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.config.activemq_xml.beans import Bean, Setting, Text, Value
from jdbcstore.config.activemq_xml.findings import Place, PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Settings
from jdbcstore.config.activemq_xml.vocabulary.entry import integer
from jdbcstore.destination import Destination, Queue, Topic

__all__ = ["read_policies", "read_redeliveries"]

_STRATEGIES: Final = {
    "sharedDeadLetterStrategy": "shared",
    "individualDeadLetterStrategy": "individual",
    "discarding": "discarding",
}


_GROUP_MAPS: Final = {
    "cachedMessageGroupMapFactory": "cached",
    "messageGroupHashBucketFactory": "bucket",
    "simpleMessageGroupMapFactory": "simple",
}
_RECOVERIES: Final = {
    "fixedCountSubscriptionRecoveryPolicy": "fixed_count",
    "fixedSizedSubscriptionRecoveryPolicy": "fixed_size",
    "lastImageSubscriptionRecoveryPolicy": "last_image",
    "noSubscriptionRecoveryPolicy": "none",
    "timedSubscriptionRecoveryPolicy": "timed",
}
_PENDING_LIMITS: Final = ("constantPendingMessageLimitStrategy", "prefetchRatePendingMessageLimitStrategy")
_EVICTIONS: Final = {
    "oldestMessageEvictionStrategy": "oldest",
    "oldestMessageWithLowestPriorityEvictionStrategy": "oldest_lowest_priority",
    "uniquePropertyMessageEvictionStrategy": "unique_property",
}
#: Disconnects who acknowledges late.
_ABORT_SLOW_ACK: Final = (
    "abortSlowAckConsumerStrategy",
    "org.apache.activemq.broker.region.policy.AbortSlowAckConsumerStrategy",
)
#: Keeps what messages or queries say.
_OTHER_RECOVERIES: Final = (
    *(f"{name}SubscriptionRecoveryPolicy" for name in ("queryBased", "retainedMessage")),
    *(
        f"org.apache.activemq.broker.region.policy.{name}SubscriptionRecoveryPolicy"
        for name in ("QueryBased", "RetainedMessage")
    ),
)
_SIZES: Final = {"cached": "cacheSize", "bucket": "bucketCount"}


def _group_map(text: str, place: Place) -> dict[str, Any]:
    """The fields of a policy that ``cached?cacheSize=5000`` says."""
    kind, _, query = text.strip().partition("?")
    if kind not in GROUP_MAPS:
        raise PlacedError(place, f"messageGroupMapFactoryType is one of {', '.join(GROUP_MAPS)}, got {kind!r}")
    size = dict(parse_qsl(query)).get(_SIZES.get(kind, ""))
    fields: dict[str, Any] = {"message_group_map": kind}
    if size is not None:
        fields["message_groups_max"] = integer(size)
    return fields


def read_policies(settings: Settings, options: Options, setting: Setting) -> None:
    """Read the policies into `Options.policies`.

    Raises:
        PlacedError: something in it is no policy.
    """
    examined = settings.examine(settings.only_bean(setting), ("policyMap",))
    for name in ("policyEntries", "defaultEntry"):
        if name not in examined.open:
            continue
        for value in examined.open[name].values:
            with settings.findings.errors_at(value.place):
                entry = settings.examine(settings.bean(value), ("policyEntry",))
                options.policies.append(_Policy(settings, options, entry, is_default=name == "defaultEntry").read())


class _Policy:
    """One ``<policyEntry>``."""

    def __init__(self, settings: Settings, options: Options, examined: Examined, *, is_default: bool) -> None:
        self._settings = settings
        self._options = options
        self._examined = examined
        self._pattern = None if is_default else _pattern(settings, examined)

    def read(self) -> DestinationPolicy:
        """The policy."""
        fields: dict[str, Any] = {name: given.value for name, given in self._examined.of("policy").items()}
        strategy = self._examined.open.get("deadLetterStrategy")
        if strategy is not None:
            with self._settings.findings.errors_at(strategy.place):
                fields["dead_letter_strategy"] = self._strategy(self._settings.only_bean(strategy))
        fields |= self._groups()
        fields |= self._recovery()
        fields |= self._slow_consumers()
        fields |= self._pending_limit()
        fields |= self._eviction()
        policy = DestinationPolicy(pattern=self._pattern, **fields)
        shown = [str(self._pattern or "every other destination")]
        shown += [f"{name}={getattr(policy, name)}" for name in fields if name != "dead_letter_strategy"]
        if strategy is not None:
            shown.append(f"dead letters {policy.dead_letter_strategy.kind}")
        bean = self._examined.bean
        self._settings.findings.use("destination_policies", ", ".join(shown), bean.place, bean.label)
        return policy

    def _groups(self) -> dict[str, Any]:
        """How message groups are remembered."""
        fields: dict[str, Any] = {}
        written = self._examined.open.get("messageGroupMapFactoryType")
        if written is not None:
            with self._settings.findings.errors_at(written.place):
                fields = _group_map(self._settings.only_text(written), written.place)
        factory = self._examined.open.get("messageGroupMapFactory")
        if factory is not None:
            with self._settings.findings.errors_at(factory.place):
                examined = self._settings.examine(self._settings.only_bean(factory), _GROUP_MAPS)
                fields = {name: given.value for name, given in examined.of("policy").items()}
                fields["message_group_map"] = _GROUP_MAPS[examined.kind.name]
        return fields

    def _recovery(self) -> dict[str, Any]:
        """What a topic keeps for subscribers that come later."""
        policy = self._examined.open.get("subscriptionRecoveryPolicy")
        if policy is None:
            return {}
        with self._settings.findings.errors_at(policy.place):
            bean = self._settings.only_bean(policy)
            if bean.kind in _OTHER_RECOVERIES:
                self._settings.findings.warning(
                    bean.place, f"{bean.label} is ignored: a topic keeps nothing for subscribers that come later"
                )
                return {}
            examined = self._settings.examine(bean, _RECOVERIES)
            fields: dict[str, Any] = {name: given.value for name, given in examined.of("policy").items()}
            return {"subscription_recovery": _RECOVERIES[examined.kind.name], **fields}
        return {}

    def _slow_consumers(self) -> dict[str, Any]:
        """How long a subscriber of a topic may hold its publishers back."""
        strategy = self._examined.open.get("slowConsumerStrategy")
        if strategy is None:
            return {}
        bean = self._settings.only_bean(strategy)
        if bean.kind in _ABORT_SLOW_ACK:
            self._settings.findings.warning(
                bean.place, f"{bean.label} is ignored: nobody is disconnected for acknowledging late"
            )
            return {}
        with self._settings.findings.errors_at(strategy.place):
            examined = self._settings.examine(bean, ("abortSlowConsumerStrategy",))
            return {name: given.value for name, given in examined.of("policy").items()}
        return {}

    def _pending_limit(self) -> dict[str, Any]:
        """How much waits for a subscriber of a topic before it loses something."""
        strategy = self._examined.open.get("pendingMessageLimitStrategy")
        if strategy is None:
            return {}
        with self._settings.findings.errors_at(strategy.place):
            examined = self._settings.examine(self._settings.only_bean(strategy), _PENDING_LIMITS)
            if examined.kind.name == "prefetchRatePendingMessageLimitStrategy":
                fields: dict[str, Any] = {name: given.value for name, given in examined.of("policy").items()}
                return {"pending_limit": "prefetch_rate", **fields}
            limit = examined.open.get("limit")
            most = -1 if limit is None else integer(self._settings.only_text(limit))
            return {"pending_limit": "constant", "pending_messages_max": most} if most >= 0 else {}
        return {}

    def _eviction(self) -> dict[str, Any]:
        """What a subscriber of a topic loses."""
        strategy = self._examined.open.get("messageEvictionStrategy")
        if strategy is None:
            return {}
        with self._settings.findings.errors_at(strategy.place):
            examined = self._settings.examine(self._settings.only_bean(strategy), _EVICTIONS)
            fields: dict[str, Any] = {name: given.value for name, given in examined.of("policy").items()}
            eviction = _EVICTIONS[examined.kind.name]
            if eviction == "unique_property" and not fields.get("eviction_property"):
                return {}  # without a property the oldest goes, as with ActiveMQ
            return {"message_eviction": eviction, **fields}
        return {}

    # -- dead letters --------------------------------------------------------------------------------------------

    def _strategy(self, bean: Bean) -> DeadLetterStrategy:
        examined = self._settings.examine(bean, _STRATEGIES)
        kind = _STRATEGIES[examined.kind.name]
        fields: dict[str, Any] = {name: given.value for name, given in examined.of("dead_letter").items()}
        strategy = replace(DeadLetterStrategy(kind=kind), **fields)
        if kind == "shared" and "deadLetterQueue" in examined.open:
            strategy = replace(strategy, dead_letter_queue=self._queue(examined.open["deadLetterQueue"]))
        return strategy

    def _queue(self, setting: Setting) -> str:
        value = setting.values[0] if len(setting.values) == 1 else None
        if value is None:
            raise PlacedError(setting.place, f"{setting.name} takes one queue")
        return self._name(value)

    def _name(self, value: Value) -> str:
        """The name of a queue: ``"DLQ"``, ``"queue://DLQ"``, or ``<queue physicalName="DLQ"/>``."""
        if isinstance(value, Text) and not value.text.startswith("#"):
            return Queue(self._settings.text(value).removeprefix(Queue.prefix)).physical_name
        examined = self._settings.examine(self._settings.bean(value), ("queue",))
        if "physicalName" not in examined.open:
            raise PlacedError(value.place, f"{examined.bean.label} has no physicalName")
        return Queue(self._settings.only_text(examined.open["physicalName"])).physical_name


def read_redeliveries(settings: Settings, options: Options, bean: Bean) -> None:
    """Read a ``<redeliveryPlugin>`` into `Options.redelivery_policies`. Raises PlacedError."""
    plugin = settings.examine(bean, ("redeliveryPlugin",))
    if options.value("broker.scheduler_support") is False:
        raise PlacedError(bean.place, f"{bean.label} sends messages later: leave schedulerSupport out, or make it true")
    first = len(options.redelivery_policies)
    if "redeliveryPolicyMap" in plugin.open:
        is_kept = settings.flag(plugin.open.get("sendToDlqIfMaxRetriesExceeded"), default=True)
        _read_redelivery_policies(settings, options, plugin, is_kept=is_kept)
    has_default = any(policy.pattern is None for policy in options.redelivery_policies[first:])
    if not settings.flag(plugin.open.get("fallbackToDeadLetter"), default=True) and not has_default:
        options.redelivery_policies.append(RedeliveryPolicy(send_to_dlq_if_max_retries_exceeded=False))
        settings.findings.use(
            "redelivery_policies", "every other destination, what is refused vanishes", bean.place, bean.label
        )


def _read_redelivery_policies(settings: Settings, options: Options, plugin: Examined, *, is_kept: bool) -> None:
    examined = settings.examine(settings.only_bean(plugin.open["redeliveryPolicyMap"]), ("redeliveryPolicyMap",))
    for name in ("redeliveryPolicyEntries", "defaultEntry"):
        for value in examined.open[name].values if name in examined.open else ():
            with settings.findings.errors_at(value.place):
                entry = settings.examine(settings.bean(value), ("redeliveryPolicy",))
                policy = _redelivery_policy(settings, entry, is_default=name == "defaultEntry")
                policy = replace(policy, schedule_refused=True, send_to_dlq_if_max_retries_exceeded=is_kept)
                options.redelivery_policies.append(policy)
                shown = f"{policy.pattern or 'every other destination'}, {policy.maximum_redeliveries} redeliveries"
                settings.findings.use("redelivery_policies", shown, entry.bean.place, entry.bean.label)


def _redelivery_policy(settings: Settings, examined: Examined, *, is_default: bool) -> RedeliveryPolicy:
    fields: dict[str, Any] = {
        "maximum_redeliveries": 6,
        "initial_redelivery_delay_ms": 1000,
        "redelivery_delay_ms": 1000,
        "back_off_multiplier": 5.0,
        "collision_avoidance_percent": 15,
    }
    fields |= {name: given.value for name, given in examined.of("redelivery").items()}
    if not settings.flag(examined.open.get("useExponentialBackOff"), default=False):
        fields["back_off_multiplier"] = 1.0
    if not settings.flag(examined.open.get("useCollisionAvoidance"), default=False):
        fields["collision_avoidance_percent"] = 0
    return RedeliveryPolicy(pattern=None if is_default else _pattern(settings, examined), **fields)


def _pattern(settings: Settings, examined: Examined) -> Destination:
    kinds = {"queue": Queue, "topic": Topic}
    given = [name for name in kinds if name in examined.open]
    bean = examined.bean
    if len(given) != 1:
        raise PlacedError(bean.place, f'{bean.label} needs a pattern, queue="…" or topic="…", and not both')
    return kinds[given[0]](settings.only_text(examined.open[given[0]]))
