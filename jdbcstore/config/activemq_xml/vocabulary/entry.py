"""What can be said about an attribute of ActiveMQ: used, not used yet, not used, refused; and how its value is read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from jdbcstore.option_values import as_boolean as boolean
from jdbcstore.option_values import as_integer as integer
from jdbcstore.option_values import as_number as number
from jdbcstore.option_values import as_size as size

__all__ = [
    "Entry",
    "Fate",
    "Kind",
    "Reader",
    "boolean",
    "ignored",
    "ignored_all",
    "integer",
    "kept",
    "number",
    "positive",
    "refused",
    "seconds",
    "size",
    "text",
    "used",
]

Reader: TypeAlias = Callable[[str], object]
"""Makes a value of an attribute's text; raises `ConfigurationError`."""


class Fate(Enum):
    """What becomes of an attribute."""

    #: It becomes an option of ours.
    USED = "used"
    #: It is read and kept for a part of the broker that does not use it yet: a warning.
    KEPT = "not yet"
    #: It has no meaning here, and nothing is lost: a warning.
    IGNORED = "not used"
    #: Going on without it would lose messages, let strangers in, or do something else than the file says: an error.
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Entry:
    """An attribute or an element of one name inside another element.

    Args:
        fate: what becomes of it.
        says: for people: what it becomes, or why not and what to do instead. Begins in lower case.
        default: ActiveMQ's.
        same: values that ask for what happens here anyway: nothing is said about them.
        option: our option, with its table; empty if the attribute needs more than a conversion.
        read: makes the option's value of the text.
    """

    fate: Fate
    says: str
    default: str = ""
    same: tuple[str, ...] = ()
    option: str = ""
    read: Reader | None = None

    def asks_for_nothing(self, value: str) -> bool:
        """Whether this value asks for what happens here anyway."""
        return value.strip().lower() in self.same


@dataclass(frozen=True, slots=True)
class Kind:
    """An element of ActiveMQ, or a Java class.

    Args:
        name: of the element.
        about: one sentence for the documentation.
        entries: its attributes and the elements in it.
        classes: names under which Spring's ``<bean>`` knows it.
        refused: why a configuration with it does not start; empty if it may.
        where: which part of the documentation shows it.
    """

    name: str
    about: str
    entries: Mapping[str, Entry] = field(default_factory=dict)
    classes: tuple[str, ...] = ()
    refused: str = ""
    where: str = ""

    @property
    def is_data_source(self) -> bool:
        """Whether it is a Java class that connects to a database."""
        return "." in self.name


def used(says: str, default: str = "", *, option: str = "", read: Reader | None = None) -> Entry:
    """An attribute that becomes an option of ours."""
    return Entry(Fate.USED, says, default, option=option, read=read)


def kept(default: str, read: Reader, option: str, *, same: tuple[str, ...] = (), says: str = "") -> Entry:
    """An attribute that is read for later."""
    return Entry(Fate.KEPT, says or "the broker does not use it yet", default, same, option, read)


def ignored(why: str, default: str = "", same: str = "") -> Entry:
    """An attribute without meaning here; `same` are values, separated by blanks, that need no warning."""
    return Entry(Fate.IGNORED, why, default, tuple(same.split()))


def refused(why: str, default: str = "", same: str = "") -> Entry:
    """An attribute that we must not go on without; `same` are values, separated by blanks, that are no matter."""
    return Entry(Fate.REFUSED, why, default, tuple(same.split()))


def ignored_all(names: str, why: str) -> dict[str, Entry]:
    """Attributes, separated by blanks, that are ignored for one reason. ``name=value`` tells ActiveMQ's default."""
    pairs = (name.partition("=") for name in names.split())
    return {name: ignored(why, default) for name, _, default in pairs}


def text(value: str) -> str:
    """The text itself."""
    return value


def seconds(value: str) -> float:
    """Milliseconds as seconds; 0 and less, by which ActiveMQ means never, are 0."""
    return max(integer(value), 0) / 1000


def positive(value: str) -> int | None:
    """A whole number; None for 0 and less, by which ActiveMQ means that there is no limit."""
    whole = integer(value)
    return whole if whole > 0 else None
