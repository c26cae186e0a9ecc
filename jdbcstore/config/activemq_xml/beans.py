"""Elements → beans. ActiveMQ's own elements and Spring's ``<bean>`` become the same thing, whatever way it was written.

A bean has a kind, ActiveMQ's name of its element, and settings. A setting may be written as an attribute, as an element
with text or with other beans in it, as ``<property>`` with ``value``, ``ref`` or content, or as an attribute of
Spring's ``p`` namespace. What is said here is only what the file says; placeholders and references are followed by
`jdbcstore.config.activemq_xml.settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from jdbcstore.config.activemq_xml.document import Element
from jdbcstore.config.activemq_xml.findings import Place, PlacedError

__all__ = [
    "ACTIVEMQ",
    "CONTEXT",
    "SPRING",
    "UTIL",
    "Bean",
    "Reference",
    "Setting",
    "Table",
    "Text",
    "Value",
    "properties_of",
    "read_bean",
    "values_of",
]

#: Today's namespace and that of versions before 5.2.
ACTIVEMQ: Final = ("http://activemq.apache.org/schema/core", "http://activemq.org/config/1.0")
SPRING: Final = ("http://www.springframework.org/schema/beans", "")
CONTEXT: Final = "http://www.springframework.org/schema/context"
UTIL: Final = "http://www.springframework.org/schema/util"
_P: Final = "http://www.springframework.org/schema/p"
_XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
_XML: Final = "http://www.w3.org/XML/1998/namespace"

#: Attributes of <bean> that say how and when a Java object is made, which is of no meaning here.
_OF_JAVA: Final = frozenset(
    [
        "abstract",
        "autowire",
        "autowire-candidate",
        "depends-on",
        "destroy-method",
        "init-method",
        "lazy-init",
        "primary",
        "role",
        "scope",
    ]
)
_NOT_READ: Final = {
    "parent": "inheritance of beans is not read: give this bean all its properties",
    "factory-bean": "factories of beans are not read: write the data source as a bean of its class",
    "factory-method": "factories of beans are not read: write the data source as a bean of its class",
}


@dataclass(frozen=True, slots=True)
class Text:
    """A value as it was written."""

    text: str
    place: Place


@dataclass(frozen=True, slots=True)
class Reference:
    """The id of another bean."""

    id: str
    place: Place


@dataclass(frozen=True, slots=True)
class Table:
    """A map or properties."""

    entries: tuple[tuple[Text, Value], ...]
    place: Place


@dataclass(frozen=True, slots=True)
class Setting:
    """What a bean says about one property.

    Args:
        name: of the property.
        place: where it is said.
        values: several for a list, none for an empty element.
        is_element: whether it was written as an element of ActiveMQ.
    """

    name: str
    place: Place
    values: tuple[Value, ...]
    is_element: bool = False


@dataclass(slots=True, eq=False)
class Bean:
    """A bean.

    Args:
        kind: ActiveMQ's name of the element, or the class of a ``<bean>``.
        label: the bean as messages show it.
        place: its beginning.
        end: its end tag.
        names: its ids.
        settings: by the property's name.
        arguments: of its constructor.
    """

    kind: str
    label: str
    place: Place
    end: Place
    names: tuple[str, ...] = ()
    settings: dict[str, Setting] = field(default_factory=dict)
    arguments: tuple[Value, ...] = ()

    def add(self, setting: Setting) -> None:
        """Take a setting. Raises PlacedError when the property has one already."""
        if setting.name in self.settings:
            first = self.settings[setting.name].place
            raise PlacedError(
                setting.place, f"{self.label} has {setting.name} twice, the first time in line {first.line}"
            )
        self.settings[setting.name] = setting


Value: TypeAlias = Text | Reference | Table | Bean


def read_bean(element: Element) -> Bean:
    """The bean that an element is.

    Raises:
        PlacedError: it is none, or it says something twice or in a way that is not read.
    """
    if element.namespace in ACTIVEMQ:
        return _activemq_bean(element)
    if element.namespace in SPRING and element.name == "bean":
        return _spring_bean(element)
    raise PlacedError(element.place, f"<{element.name}> is not a bean")


def _activemq_bean(element: Element) -> Bean:
    bean = Bean(element.name, f"<{element.name}>", element.place, element.end)
    for attribute in element.attributes:
        if attribute.namespace in ("", *ACTIVEMQ):
            if attribute.name == "id":
                bean.names = (attribute.value,)
            elif attribute.name not in _OF_JAVA:
                value = Text(attribute.value, attribute.place)
                bean.add(Setting(attribute.name, attribute.place, (value,)))
        elif attribute.namespace not in (_XSI, _XML, *SPRING):
            raise PlacedError(attribute.place, f"attribute {attribute.name} of {attribute.namespace} is not read")
    for child in element.children:
        if child.namespace in ACTIVEMQ:
            bean.add(Setting(child.name, child.place, values_of(child), is_element=True))
        elif child.namespace in SPRING and child.name == "property":
            bean.add(_property(child))
        elif child.namespace not in SPRING or child.name not in ("description", "meta"):
            raise PlacedError(child.place, f"<{child.name}> is not read in {bean.label}")
    return bean


def _spring_bean(element: Element) -> Bean:
    class_name, identity, names = (element.attribute(name) for name in ("class", "id", "name"))
    for name, why in _NOT_READ.items():
        if (attribute := element.attribute(name)) is not None:
            raise PlacedError(attribute.place, why)
    if class_name is None:
        raise PlacedError(element.place, "<bean> has no class")
    known = [identity.value] if identity else []
    known += names.value.replace(",", " ").replace(";", " ").split() if names else []
    kind = class_name.value.strip()
    label = f"bean {known[0]}" if known else f"bean of {kind.rpartition('.')[2]}"
    bean = Bean(kind, label, element.place, element.end, tuple(known))
    for attribute in element.attributes:
        if attribute.namespace == _P:
            name = attribute.name.removesuffix("-ref")
            kind_of = Text if name == attribute.name else Reference
            bean.add(Setting(name, attribute.place, (kind_of(attribute.value, attribute.place),)))
        elif not attribute.namespace and attribute.name not in (*_OF_JAVA, "class", "id", "name"):
            raise PlacedError(attribute.place, f"<bean> has no attribute {attribute.name}")
    for child in element.children:
        if child.namespace in SPRING and child.name == "property":
            bean.add(_property(child))
        elif child.namespace in SPRING and child.name == "constructor-arg":
            bean.arguments += _given(child)
        elif child.namespace not in SPRING or child.name not in ("description", "meta", "qualifier"):
            raise PlacedError(child.place, f"<{child.name}> is not read in {bean.label}")
    return bean


def _property(element: Element) -> Setting:
    name = element.attribute("name")
    if name is None:
        raise PlacedError(element.place, "<property> has no name")
    return Setting(name.value, element.place, _given(element))


def _given(element: Element) -> tuple[Value, ...]:
    """What a <property>, an <entry> or the like holds: its attribute ``value`` or ``ref``, or its content."""
    for name, kind in (("value", Text), ("ref", Reference), ("value-ref", Reference)):
        if (attribute := element.attribute(name)) is not None:
            return (kind(attribute.value, attribute.place),)
    return values_of(element)


def values_of(element: Element) -> tuple[Value, ...]:
    """What stands in an element: beans, references, lists (as several values), tables, or its text."""
    if not element.children:
        text = element.text.strip()
        return (Text(text, element.place),) if text else ()
    values: list[Value] = []
    for child in element.children:
        values += _content(child)
    return tuple(values)


def _content(element: Element) -> tuple[Value, ...]:
    if element.namespace in ACTIVEMQ or element.name == "bean":
        return (read_bean(element),)
    if element.namespace not in (*SPRING, UTIL):
        raise PlacedError(element.place, f"<{element.name}> is not read here")
    name = element.name
    if name in ("value", "idref"):
        return (Text(element.text.strip(), element.place),)
    if name == "ref":
        for attribute in element.attributes:
            if attribute.name in ("bean", "local", "parent"):
                return (Reference(attribute.value, attribute.place),)
        raise PlacedError(element.place, '<ref> names no bean, write <ref bean="ID"/>')
    if name in ("list", "set", "array"):
        return values_of(element) if element.children else ()
    if name in ("map", "props", "properties"):
        return (_table(element),)
    if name in ("null", "description"):
        return ()
    raise PlacedError(element.place, f"<{name}> is not read here")


def _table(element: Element) -> Table:
    entries: list[tuple[Text, Value]] = []
    for child in element.children:
        key = child.attribute("key")
        if key is None or child.name not in ("entry", "prop"):
            raise PlacedError(child.place, f"<{child.name}> in a <{element.name}> needs a key")
        given = _given(child)
        entries.append((Text(key.value, key.place), given[0] if given else Text("", child.place)))
    return Table(tuple(entries), element.place)


def properties_of(setting: Setting) -> dict[str, Value]:
    """The properties that a setting holds, as a table or as lines of a property file.

    Raises:
        PlacedError: it holds something else.
    """
    properties: dict[str, Value] = {}
    for value in setting.values:
        if isinstance(value, Table):
            properties |= {key.text: entry for key, entry in value.entries}
        elif isinstance(value, Text):
            for line in filter(None, map(str.strip, value.text.splitlines())):
                name, _, text = line.partition("=")
                properties[name.strip()] = Text(text.strip(), value.place)
        else:
            raise PlacedError(value.place, "properties are written as <props><prop key=…>…</prop></props>")
    return properties
