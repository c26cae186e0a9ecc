"""``<destinationPolicy>``: policies for destinations."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy
from jdbcstore.config.activemq_xml.beans import Bean, Setting, Text, Value
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.destination import Destination, Queue, Topic

__all__ = ["read_policies"]

_STRATEGIES: Final = {
    "sharedDeadLetterStrategy": "shared",
    "individualDeadLetterStrategy": "individual",
    "discarding": "discarding",
}
#: Fields of a policy that the broker has for all queues, or all topics: field → option, whether for queues.
_FOR_ALL: Final = {
    "queue_prefetch": ("broker.prefetch_queue", True),
    "queue_browser_prefetch": ("broker.prefetch_browser", True),
    "topic_prefetch": ("broker.prefetch_topic", False),
    "persist_jms_redelivered": ("broker.persist_jms_redelivered", True),
}
_NOT_YET: Final = "the broker has one value for all destinations yet, give it with the pattern >"


def read_policies(settings: Settings, options: Options, setting: Setting) -> None:
    """Read the policies into `Options.policies`; those for every destination become options of the broker, too.

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
        self._pattern = None if is_default else self._read_pattern()

    def read(self) -> DestinationPolicy:
        """The policy."""
        fields: dict[str, Any] = {name: given.value for name, given in self._examined.of("policy").items()}
        strategy = self._examined.open.get("deadLetterStrategy")
        if strategy is not None:
            with self._settings.findings.errors_at(strategy.place):
                fields["dead_letter_strategy"] = self._strategy(self._settings.only_bean(strategy))
        for name, given in self._examined.of("policy").items():
            self._for_all(name, given)
        policy = DestinationPolicy(pattern=self._pattern, **fields)
        shown = [str(self._pattern or "every other destination")]
        shown += [f"{name}={getattr(policy, name)}" for name in fields if name != "dead_letter_strategy"]
        if strategy is not None:
            shown.append(f"dead letters {policy.dead_letter_strategy.kind}")
        bean = self._examined.bean
        self._settings.findings.use("destination_policies", ", ".join(shown), bean.place, bean.label)
        return policy

    def _read_pattern(self) -> Destination:
        kinds = {"queue": Queue, "topic": Topic}
        given = [name for name in kinds if name in self._examined.open]
        bean = self._examined.bean
        if len(given) != 1:
            raise PlacedError(bean.place, f'{bean.label} needs a pattern, queue="…" or topic="…", and not both')
        return kinds[given[0]](self._settings.only_text(self._examined.open[given[0]]))

    def _for_all(self, name: str, given: Given) -> None:
        if name not in _FOR_ALL:
            return
        option, is_for_queues = _FOR_ALL[name]
        kind = Queue if is_for_queues else Topic
        if self._pattern in (None, kind(">")):
            if given.value == 0 and given.value is not False:
                self._settings.findings.warning(
                    given.place, f"{given.source}=0 is 1: a subscription gets messages unasked"
                )
                given = Given(1, given.place, given.source)
            self._options.take(option, given)
        elif self._pattern.is_queue == is_for_queues:
            self._settings.findings.warning(given.place, f"{given.source} is read, but {_NOT_YET}")

    # -- dead letters --------------------------------------------------------------------------------------------

    def _strategy(self, bean: Bean) -> DeadLetterStrategy:
        examined = self._settings.examine(bean, _STRATEGIES)
        kind = _STRATEGIES[examined.kind.name]
        fields: dict[str, Any] = {name: given.value for name, given in examined.of("dead_letter").items()}
        strategy = replace(DeadLetterStrategy(kind=kind), **fields)
        if kind != "shared":
            what = "one for each destination" if kind == "individual" else "discarding"
            self._settings.findings.warning(
                bean.place,
                f"{bean.label} is read, but the broker has one queue of dead letters for all yet, not {what}",
            )
        elif "deadLetterQueue" in examined.open:
            strategy = replace(strategy, dead_letter_queue=self._queue(examined.open["deadLetterQueue"]))
        return strategy

    def _queue(self, setting: Setting) -> str:
        value = setting.values[0] if len(setting.values) == 1 else None
        if value is None:
            raise PlacedError(setting.place, f"{setting.name} takes one queue")
        name = self._name(value)
        given = Given(name, setting.place, f"{self._examined.bean.label} {setting.name}")
        if self._pattern in (None, Queue(">"), Topic(">")):
            known = self._options.value("broker.dead_letter_queue")
            if known not in (None, name):
                self._settings.findings.warning(
                    setting.place,
                    f"{given.source} is read, but the broker has one queue of dead letters for all, {known}",
                )
            else:
                self._options.take("broker.dead_letter_queue", given)
        else:
            self._settings.findings.warning(setting.place, f"{given.source} is read, but {_NOT_YET}")
        return name

    def _name(self, value: Value) -> str:
        """The name of a queue: ``"DLQ"``, ``"queue://DLQ"``, or ``<queue physicalName="DLQ"/>``."""
        if isinstance(value, Text) and not value.text.startswith("#"):
            return Queue(self._settings.text(value).removeprefix(Queue.prefix)).physical_name
        examined = self._settings.examine(self._settings.bean(value), ("queue",))
        if "physicalName" not in examined.open:
            raise PlacedError(value.place, f"{examined.bean.label} has no physicalName")
        return Queue(self._settings.only_text(examined.open["physicalName"])).physical_name
