"""Walks beans along the vocabulary: what is used is handed over, everything else is told, with its line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.config.activemq_xml.beans import Bean, Reference, Setting, Table, Text, Value
from jdbcstore.config.activemq_xml.findings import Findings, Place, PlacedError
from jdbcstore.config.activemq_xml.placeholders import Placeholders
from jdbcstore.config.activemq_xml.vocabulary import kind_named
from jdbcstore.config.activemq_xml.vocabulary.entry import Entry, Fate, Kind, boolean
from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean

__all__ = ["Examined", "Given", "Settings"]

_SHOWN_CHARS_MAX: Final = 60


@dataclass(frozen=True, slots=True)
class Given:
    """The value of one of our options, and who gave it.

    Args:
        value: of the option's type.
        place: the line.
        source: the attribute, as messages show it.
    """

    value: object
    place: Place
    source: str


@dataclass(slots=True)
class Examined:
    """A bean after its settings were looked up.

    Args:
        bean: the bean.
        kind: what the vocabulary says about it.
        given: by our option: what the table could convert.
        open: by the attribute: what is used and needs more than a conversion.
        unknown: what the table does not have, if the caller wanted to see that.
    """

    bean: Bean
    kind: Kind
    given: dict[str, Given] = field(default_factory=dict)
    open: dict[str, Setting] = field(default_factory=dict)
    unknown: dict[str, Setting] = field(default_factory=dict)

    def of(self, table: str) -> dict[str, Given]:
        """The options of one table, without its name: of ``broker`` for example ``bind``."""
        prefix = f"{table}."
        return {option.removeprefix(prefix): given for option, given in self.given.items() if option.startswith(prefix)}


@dataclass(slots=True)
class Settings:
    """The beans of a configuration.

    Args:
        findings: takes what is to be told.
        placeholders: resolves values.
        beans: by their ids.
    """

    findings: Findings
    placeholders: Placeholders
    beans: Mapping[str, Bean]
    #: Beans that something referred to.
    reached: set[Bean] = field(default_factory=set, init=False)

    # -- values --------------------------------------------------------------------------------------------------

    def text(self, value: Value) -> str:
        """The text of a value, placeholders resolved. Raises PlacedError."""
        if not isinstance(value, Text):
            raise PlacedError(value.place, f"a text is expected here, not {_described(value)}")
        try:
            return self.placeholders.resolve(value.text)
        except ConfigurationError as error:
            raise PlacedError(value.place, str(error)) from error

    def only_text(self, setting: Setting) -> str:
        """The text of a setting with one value; empty without any. Raises PlacedError."""
        if not setting.values:
            return ""
        return self.text(self._only(setting))

    def flag(self, setting: Setting | None, *, default: bool) -> bool:
        """Whether a setting says true; what holds without it. Raises PlacedError, ConfigurationError."""
        return default if setting is None else boolean(self.only_text(setting))

    def only_bean(self, setting: Setting) -> Bean:
        """The bean of a setting, or the one that it refers to. Raises PlacedError."""
        return self.bean(self._only(setting))

    def bean(self, value: Value) -> Bean:
        """The bean that a value is, or refers to: ``<ref bean="ID"/>``, ``ref="ID"``, ``"#ID"``. Raises PlacedError."""
        if isinstance(value, Bean):
            return value
        if isinstance(value, Table):
            raise PlacedError(value.place, f"a bean is expected here, not {_described(value)}")
        name = value.id if isinstance(value, Reference) else self.text(value)
        identity = name.removeprefix("#")
        if identity not in self.beans:
            if isinstance(value, Text) and not name.startswith("#"):
                kind = kind_named(name)
                if kind is not None:  # adapter="postgresql-jdbc-adapter"
                    return Bean(kind.name, f"<{kind.name}>", value.place, value.place)
            raise PlacedError(value.place, f"there is no bean {identity}{did_you_mean(identity, self.beans)}")
        bean = self.beans[identity]
        self.reached.add(bean)
        return bean

    def _only(self, setting: Setting) -> Value:
        if len(setting.values) != 1:
            raise PlacedError(setting.place, f"{setting.name} takes one value, not {len(setting.values)}")
        return setting.values[0]

    # -- beans ---------------------------------------------------------------------------------------------------

    def examine(
        self, bean: Bean, kinds: Iterable[str] = (), *, may_have_more: bool = False, may_be_refused: bool = False
    ) -> Examined:
        """Look up all settings of a bean and tell what is not used.

        Args:
            bean: the bean.
            kinds: names of those that may stand here; any if empty.
            may_have_more: hand over what the table does not have, instead of telling that it is unknown.
            may_be_refused: only warn of a kind that is not supported.

        Raises:
            PlacedError: nothing can be done with such a bean.
        """
        kind = kind_named(bean.kind)
        names = tuple(kinds)
        if kind is None or (names and kind.name not in names):
            known = f"; there are {', '.join(names)}" if names else ""
            raise PlacedError(bean.place, f"{bean.label} is not known here{did_you_mean(bean.kind, names)}{known}")
        if kind.refused:
            tell = self.findings.warning if may_be_refused else self.findings.error
            tell(bean.place, f"{bean.label} is not supported: {kind.refused}")
        examined = Examined(bean, kind)
        for setting in bean.settings.values():
            entry = kind.entries.get(setting.name)
            if entry is not None:
                with self.findings.errors_at(setting.place):
                    self._look_up(examined, setting, entry)
            elif may_have_more:
                examined.unknown[setting.name] = setting
            elif not kind.refused or kind.entries:
                self.findings.error(
                    setting.place, f"{bean.label} has no {setting.name}{did_you_mean(setting.name, kind.entries)}"
                )
        return examined

    def parameter(self, entry: Entry, value: str, place: Place, what: str) -> Given | None:
        """Look up a parameter of a URL: its value if it is used, else what there is to tell is told.

        Raises:
            ConfigurationError: it is used, and has no such value.
        """
        if entry.read is not None:
            return Given(entry.read(value), place, what)
        if not entry.asks_for_nothing(value):
            if entry.fate is Fate.REFUSED:
                self.findings.error(place, f"{what} is not supported: {entry.says}")
            elif entry.fate is Fate.IGNORED:
                self.findings.warning(place, f"{what} is not used: {entry.says}")
        return None

    def _look_up(self, examined: Examined, setting: Setting, entry: Entry) -> None:
        if entry.fate is Fate.USED and entry.read is None:
            examined.open[setting.name] = setting
            return
        if entry.read is None:
            if not self._asks_for_nothing(setting, entry) and not examined.kind.refused:
                self._tell(examined, setting, entry)
            return
        value = self.only_text(setting)
        given = Given(entry.read(value), setting.place, f"{examined.bean.label} {setting.name}")
        examined.given[entry.option] = given
        if entry.fate is Fate.KEPT and not examined.kind.refused and not entry.asks_for_nothing(value):
            self._tell(examined, setting, entry)

    def _asks_for_nothing(self, setting: Setting, entry: Entry) -> bool:
        for bean in _references(setting.values):
            self.reached |= {self.beans[bean]} if bean in self.beans else set()
        if not entry.same or len(setting.values) != 1 or not isinstance(setting.values[0], Text):
            return False
        return entry.asks_for_nothing(self.text(setting.values[0]))

    def _tell(self, examined: Examined, setting: Setting, entry: Entry) -> None:
        value = setting.values[0] if len(setting.values) == 1 else None
        name = f"<{setting.name}>" if setting.is_element else f"{examined.bean.label} {setting.name}"
        if not setting.is_element and isinstance(value, Text) and len(value.text) <= _SHOWN_CHARS_MAX:
            name += f'="{value.text}"'
        if entry.fate is Fate.REFUSED:
            self.findings.error(setting.place, f"{name} is not supported: {entry.says}")
        elif entry.fate is Fate.KEPT:
            self.findings.warning(setting.place, f"{name} is read, but {entry.says}")
        else:
            what = "supported" if setting.is_element else "used"
            self.findings.warning(setting.place, f"{name} is not {what}: {entry.says}")


def _described(value: Value) -> str:
    if isinstance(value, Bean):
        return value.label
    return "the name of a bean" if isinstance(value, Reference) else "a map" if isinstance(value, Table) else "a text"


def _references(values: Iterable[Value]) -> Iterator[str]:
    """The ids that values refer to, those in beans of theirs included."""
    for value in values:
        if isinstance(value, Reference):
            yield value.id
        elif isinstance(value, Text) and value.text.startswith("#"):
            yield value.text[1:]
        elif isinstance(value, Bean):
            for setting in value.settings.values():
                yield from _references(setting.values)
            yield from _references(value.arguments)
        elif isinstance(value, Table):
            yield from _references(entry for _, entry in value.entries)
