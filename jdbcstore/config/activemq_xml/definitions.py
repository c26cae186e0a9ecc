"""What stands at the top of a configuration: beans, property files, other files that it imports, and the rest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jdbcstore.config.activemq_xml.beans import (
    ACTIVEMQ,
    CONTEXT,
    SPRING,
    UTIL,
    Bean,
    Setting,
    Text,
    Value,
    properties_of,
    read_bean,
)
from jdbcstore.config.activemq_xml.document import FILE_BYTES_MAX, Element, parse_document
from jdbcstore.config.activemq_xml.findings import Findings, Place, PlacedError
from jdbcstore.config.activemq_xml.placeholders import Placeholders, locate, read_properties
from jdbcstore.config.activemq_xml.vocabulary.entry import boolean
from jdbcstore.errors import ConfigurationError

__all__ = ["Definitions"]

#: Classes that fill in placeholders → whether properties go before or after the system's, unless they say themselves.
_CONFIGURERS: Final = {
    "org.springframework.beans.factory.config.PropertyPlaceholderConfigurer": "fallback",
    "org.springframework.context.support.PropertySourcesPlaceholderConfigurer": "override",
    "org.jasypt.spring.properties.EncryptablePropertyPlaceholderConfigurer": "fallback",
    "org.jasypt.spring2.properties.EncryptablePropertyPlaceholderConfigurer": "fallback",
    "org.jasypt.spring3.properties.EncryptablePropertyPlaceholderConfigurer": "fallback",
    "org.jasypt.spring31.properties.EncryptablePropertyPlaceholderConfigurer": "fallback",
    "org.jasypt.spring4.properties.EncryptablePropertyPlaceholderConfigurer": "fallback",
}
_MODES: Final = {
    "SYSTEM_PROPERTIES_MODE_FALLBACK": "fallback",
    "SYSTEM_PROPERTIES_MODE_OVERRIDE": "override",
    "SYSTEM_PROPERTIES_MODE_NEVER": "never",
    "0": "never",
    "1": "fallback",
    "2": "override",
    "FALLBACK": "fallback",
    "OVERRIDE": "override",
    "NEVER": "never",
}
_CONFIGURER_SETTINGS: Final = frozenset(
    {
        "location",
        "locations",
        "fileEncoding",
        "ignoreResourceNotFound",
        "ignoreUnresolvablePlaceholders",
        # Of no meaning: the environment is always searched, and one order is enough.
        "order",
        "searchSystemEnvironment",
        "trimValues",
    }
)
#: Files that the distribution imports, which have nothing for a broker in them.
_NOT_OURS: Final = {"jetty": "web_bind (--web-bind) serves our console", "camel": "no Camel routes"}
_FILES_MAX: Final = 50


@dataclass(slots=True)
class Definitions:
    """Reads the top of a file and of those it imports.

    Args:
        conf: the folder that ActiveMQ has on its class path.
        placeholders: learn the properties.
        findings: takes what is to be told.
    """

    conf: Path
    placeholders: Placeholders
    findings: Findings
    brokers: list[Bean] = field(default_factory=list, init=False)
    named: dict[str, Bean] = field(default_factory=dict, init=False)
    others: list[Bean] = field(default_factory=list, init=False)
    _files: list[Path] = field(default_factory=list, init=False)
    _aliases: list[Element] = field(default_factory=list, init=False)

    def read(self, path: Path) -> Element:
        """Read a file; returns its root.

        Raises:
            PlacedError: it is not XML that is read here.
            OSError: it cannot be read.
        """
        with path.open("rb") as file:
            data = file.read(FILE_BYTES_MAX + 1)
        self._files.append(path.resolve())
        root = parse_document(data, path.name)
        if root.name == "broker":
            self._bean(root)
        elif root.namespace in SPRING and root.name == "beans":
            for child in root.children:
                with self.findings.errors_at(child.place):
                    self._top(child)
        else:
            raise PlacedError(root.place, f"<{root.name}> is neither <beans> nor <broker>, this is no activemq.xml")
        return root

    def _top(self, element: Element) -> None:
        name = element.name
        if element.namespace in ACTIVEMQ or (element.namespace in SPRING and name == "bean"):
            self._bean(element)
        elif element.namespace in SPRING and name == "broker":
            raise PlacedError(element.place, f'<broker> needs its namespace: <broker xmlns="{ACTIVEMQ[0]}" …>')
        elif element.namespace in SPRING and name == "import":
            self._import(element)
        elif element.namespace == CONTEXT and name == "property-placeholder":
            self._property_placeholder(element)
        elif element.namespace in SPRING and name == "alias":
            self._aliases.append(element)
        elif element.namespace in SPRING and name == "beans":
            raise PlacedError(
                element.place, "<beans> in <beans>, for profiles, is not read: choose one and write it alone"
            )
        elif element.namespace not in SPRING or name != "description":
            what = {CONTEXT: "context:", UTIL: "util:"}.get(element.namespace, "")
            self.findings.warning(element.place, f"<{what}{name}> is not supported: {_why_not(element)}")

    def _bean(self, element: Element) -> None:
        bean = read_bean(element)
        if bean.kind in _CONFIGURERS:
            self._configurer(bean)
            return
        if bean.kind.endswith((".PropertyOverrideConfigurer", ".PropertiesFactoryBean")):
            raise PlacedError(bean.place, f"{bean.label} is not supported: write the values where they are used")
        if bean.kind == "broker" or bean.kind.endswith((".BrokerService", ".XBeanBrokerService")):
            self.brokers.append(bean)
        else:
            self.others.append(bean)
        for name in bean.names:
            self._name(name, bean, bean.place)

    def _name(self, name: str, bean: Bean, place: Place) -> None:
        if name in self.named:
            raise PlacedError(place, f"two beans are called {name}, the other is in {self.named[name].place}")
        self.named[name] = bean

    def link_aliases(self) -> None:
        """Give beans their further names; they may stand before the beans."""
        for element in self._aliases:
            name, alias = (element.attribute(attribute) for attribute in ("name", "alias"))
            with self.findings.errors_at(element.place):
                if name is None or alias is None or name.value not in self.named:
                    raise PlacedError(element.place, "<alias> needs the name of a bean, and another one for it")
                self._name(alias.value, self.named[name.value], element.place)

    # -- other files ---------------------------------------------------------------------------------------------

    def _import(self, element: Element) -> None:
        resource = element.attribute("resource")
        if resource is None:
            raise PlacedError(element.place, "<import> has no resource")
        location = self.placeholders.resolve(resource.value)
        base = location.rpartition("/")[2].rpartition(":")[2]
        for stem, why in _NOT_OURS.items():
            if base.startswith(stem):
                self.findings.warning(element.place, f'<import resource="{location}"/> is not read: {why}')
                return
        path = locate(location, self.conf)
        if path.resolve() in self._files:
            return
        if len(self._files) >= _FILES_MAX:
            raise PlacedError(element.place, f"more than {_FILES_MAX} files are imported")
        try:
            self.read(path)
        except OSError as error:
            raise PlacedError(element.place, f"cannot import {path}: {error.strerror}") from error

    # -- placeholders --------------------------------------------------------------------------------------------

    def _configurer(self, bean: Bean) -> None:
        """``PropertyPlaceholderConfigurer`` and its relatives."""
        given = bean.settings
        texts = {name: self._texts(setting) for name, setting in given.items() if name != "properties"}
        mode = _CONFIGURERS[bean.kind]
        for name, values in texts.items():
            if name in ("systemPropertiesMode", "systemPropertiesModeName"):
                mode = _mode(given[name].place, values)
            elif name == "localOverride":
                mode = "fallback" if _is_true(values) else mode
            elif name not in _CONFIGURER_SETTINGS:
                raise PlacedError(given[name].place, f"{bean.label}: {name} is not supported")
        self._add(
            locations=[(given[name].place, text) for name in ("location", "locations") for text in texts.get(name, ())],
            own=self._own_properties(given.get("properties")),
            mode=mode,
            leave_unknown=_is_true(texts.get("ignoreUnresolvablePlaceholders", ())),
            may_miss=_is_true(texts.get("ignoreResourceNotFound", ())),
            encoding=(texts.get("fileEncoding") or ["iso-8859-1"])[0],
        )

    def _property_placeholder(self, element: Element) -> None:
        """``<context:property-placeholder>``."""
        given = {attribute.name: attribute for attribute in element.attributes}
        known = {
            "location": "",
            "ignore-unresolvable": "false",
            "ignore-resource-not-found": "false",
            "file-encoding": "iso-8859-1",
            "local-override": "false",
            "system-properties-mode": "ENVIRONMENT",
            "order": "",
            "trim-values": "false",
        }
        for name, attribute in given.items():
            if name not in known:
                raise PlacedError(attribute.place, f"<context:property-placeholder> {name} is not supported")
            known[name] = self.placeholders.resolve(attribute.value)
        mode = known["system-properties-mode"]
        order = "override" if mode == "ENVIRONMENT" else _mode(element.place, [mode])
        self._add(
            locations=[(element.place, location) for location in known["location"].split(",") if location.strip()],
            own={},
            mode="fallback" if boolean(known["local-override"]) else order,
            leave_unknown=boolean(known["ignore-unresolvable"]),
            may_miss=boolean(known["ignore-resource-not-found"]),
            encoding=known["file-encoding"],
        )

    def _add(
        self,
        *,
        locations: list[tuple[Place, str]],
        own: Mapping[str, str],
        mode: str,
        leave_unknown: bool,
        may_miss: bool,
        encoding: str,
    ) -> None:
        properties = dict(own)
        for place, location in locations:
            path = locate(location.strip(), self.conf)
            try:
                properties |= read_properties(path, encoding)
            except FileNotFoundError:
                if not may_miss:
                    self.findings.error(place, f"there is no file {path}")
            except ConfigurationError as error:
                self.findings.error(place, str(error))
        self.placeholders.add(properties, system=mode, leave_unknown=leave_unknown)

    def _texts(self, setting: Setting) -> list[str]:
        return [self._text(value) for value in setting.values]

    def _text(self, value: Value) -> str:
        if not isinstance(value, Text):
            raise PlacedError(value.place, "only texts are read here")
        try:
            return self.placeholders.resolve(value.text)
        except ConfigurationError as error:
            raise PlacedError(value.place, str(error)) from error

    def _own_properties(self, setting: Setting | None) -> dict[str, str]:
        properties: dict[str, str] = {}
        for name, value in ({} if setting is None else properties_of(setting)).items():
            if not isinstance(value, Text):
                raise PlacedError(value.place, "only texts are read here")
            properties[name] = value.text
        return properties


def _mode(place: Place, values: list[str]) -> str:
    name = values[0] if values else ""
    if name not in _MODES:
        raise PlacedError(place, f"{name!r} is no mode of system properties, there are {', '.join(_MODES)}")
    return _MODES[name]


def _is_true(values: list[str] | tuple[str, ...]) -> bool:
    return bool(values) and boolean(values[0])


def _why_not(element: Element) -> str:
    if element.name == "camelContext":
        return "no Camel routes"
    if element.namespace == UTIL:
        return "write the values where they are used"
    return f"nothing of {element.namespace or 'it'} is read"
