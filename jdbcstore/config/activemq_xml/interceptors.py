"""``<destinationInterceptors>``, ``useVirtualTopics``, ``useMirroredQueues``: what goes to other destinations, too."""

from __future__ import annotations

from typing import Any, Final

from jdbcstore.broker.virtual_destinations import (
    CompositeDestination,
    ForwardTo,
    MirroredQueue,
    VirtualDestinations,
    VirtualTopic,
)
from jdbcstore.config.activemq_xml.beans import Setting, Text, Value
from jdbcstore.config.activemq_xml.findings import PlacedError
from jdbcstore.config.activemq_xml.options import Options
from jdbcstore.config.activemq_xml.settings import Examined, Given, Settings
from jdbcstore.config.virtual_destinations import forward_to
from jdbcstore.destination import Destination, Queue, Topic, parse_destination

__all__ = ["read_interceptors"]

_COMPOSITES: Final[dict[str, type[Destination]]] = {"compositeQueue": Queue, "compositeTopic": Topic}
_KINDS: Final[dict[str, type[Destination]]] = {"queue": Queue, "topic": Topic}


def read_interceptors(settings: Settings, options: Options, broker: Examined) -> None:
    """Read what a broker says of them into `Options.virtual_destinations`. Raises PlacedError."""
    has_temporary = settings.flag(broker.open.get("useTempMirroredQueues"), default=True)
    if "destinationInterceptors" in broker.open:
        _Interceptors(settings, options, has_temporary).read(broker.open["destinationInterceptors"])
    elif "useMirroredQueues" in broker.open:
        setting = broker.open["useMirroredQueues"]
        if settings.flag(setting, default=False):
            mirrored = MirroredQueue(use_temp_mirrored_queues=has_temporary)
            options.virtual_destinations = VirtualDestinations(mirrored_queue=mirrored)
            settings.findings.use(
                "mirrored_queue", f"topics {mirrored.prefix}*", setting.place, "<broker> useMirroredQueues"
            )


class _Interceptors:
    def __init__(self, settings: Settings, options: Options, has_temporary: bool) -> None:
        self._settings = settings
        self._options = options
        self._has_temporary = has_temporary
        self._virtual_topics: list[VirtualTopic] = []
        self._composites: list[CompositeDestination] = []
        self._mirrored: MirroredQueue | None = None

    def read(self, setting: Setting) -> None:
        """Read all of them."""
        findings = self._settings.findings
        # They take the place of those that a broker has without them.
        self._options.take("broker.use_virtual_topics", Given(False, setting.place, "<destinationInterceptors>"))
        for value in setting.values:
            with findings.errors_at(value.place):
                self._interceptor(value)
        with findings.errors_at(setting.place):
            self._options.virtual_destinations = VirtualDestinations(
                virtual_topics=tuple(self._virtual_topics),
                composites=tuple(self._composites),
                mirrored_queue=self._mirrored,
            )

    def _interceptor(self, value: Value) -> None:
        examined = self._settings.examine(
            self._settings.bean(value), ("virtualDestinationInterceptor", "mirroredQueue")
        )
        bean = examined.bean
        if examined.kind.name == "mirroredQueue":
            if self._mirrored is not None:
                raise PlacedError(bean.place, f"{bean.label}: queues are mirrored already; leave one out")
            self._mirrored = MirroredQueue(
                **_values(examined, "mirrored_queue"), use_temp_mirrored_queues=self._has_temporary
            )
            shown = f"topics {self._mirrored.prefix}*{self._mirrored.postfix}"
            self._settings.findings.use("mirrored_queue", shown, bean.place, bean.label)
            return
        if self._mirrored is not None:
            raise PlacedError(bean.place, f"{bean.label}: write it before <mirroredQueue>, it is what is mirrored")
        for one in examined.open["virtualDestinations"].values if "virtualDestinations" in examined.open else ():
            with self._settings.findings.errors_at(one.place):
                self._declared(one)

    def _declared(self, value: Value) -> None:
        examined = self._settings.examine(self._settings.bean(value), ("virtualTopic", *_COMPOSITES))
        place, label = examined.bean.place, examined.bean.label
        if examined.kind.name == "virtualTopic":
            name = self._text(examined, "name") or ">"
            virtual = VirtualTopic(name=Topic(name), **_values(examined, "virtual_topic"))
            self._virtual_topics.append(virtual)
            self._settings.findings.use("virtual_topics", f"{virtual.name}, {virtual.queues}", place, label)
            return
        name = self._text(examined, "name")
        if not name:
            raise PlacedError(place, f"{label} has no name")
        targets = examined.open.get("forwardTo")
        forwards: list[ForwardTo] = []
        for target in () if targets is None else targets.values:
            with self._settings.findings.errors_at(target.place):
                forwards.append(self._target(target))
        composite = CompositeDestination(
            name=_COMPOSITES[examined.kind.name](name), forward_to=tuple(forwards), **_values(examined, "composite")
        )
        self._composites.append(composite)
        shown = ", ".join(str(to.destination) for to in forwards) or "nowhere"
        self._settings.findings.use("composites", f"{composite.name} to {shown}", place, label)

    def _target(self, value: Value) -> ForwardTo:
        examined = self._settings.examine(self._settings.bean(value), (*_KINDS, "filteredDestination"))
        if examined.kind.name in _KINDS:
            return forward_to(self._named(examined), None)
        place, label = examined.bean.place, examined.bean.label
        given = [name for name in (*_KINDS, "destination") if name in examined.open]
        selector = self._text(examined, "selector")
        if len(given) != 1 or not selector:
            raise PlacedError(place, f'{label} needs a selector, and queue="…" or topic="…", not both')
        return forward_to(self._destination(examined, given[0]), selector)

    def _destination(self, examined: Examined, name: str) -> Destination:
        setting = examined.open[name]
        if name in _KINDS:
            return parse_destination(self._settings.only_text(setting), default=_KINDS[name])
        value = setting.values[0] if len(setting.values) == 1 else None
        if isinstance(value, Text) and not value.text.startswith("#"):
            return parse_destination(self._settings.text(value))
        return self._named(self._settings.examine(self._settings.only_bean(setting), tuple(_KINDS)))

    def _named(self, examined: Examined) -> Destination:
        name = self._text(examined, "physicalName")
        if not name:
            raise PlacedError(examined.bean.place, f"{examined.bean.label} has no physicalName")
        return _KINDS[examined.kind.name](name)

    def _text(self, examined: Examined, name: str) -> str:
        return self._settings.only_text(examined.open[name]) if name in examined.open else ""


def _values(examined: Examined, table: str) -> dict[str, Any]:
    return {name: given.value for name, given in examined.of(table).items()}
