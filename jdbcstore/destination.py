"""Destinations: queues, topics, their temporary kinds, composites and wildcards.

A destination is a value: a kind and a physical name. The *qualified* name (``queue://ORDERS``) is what stands in the
CONTAINER column and on the command line; only the physical name travels in OpenWire. Anything from ``?`` on is options
of a client and never part of the name. A comma makes a destination composite, ``*`` and ``>`` make it a wildcard. The
qualified name of a composite is its physical name, since its elements may be of several kinds.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import ClassVar, Final, NoReturn, Self

from jdbcstore.errors import ConfigurationError

__all__ = [
    "ADVISORY_PREFIX",
    "PATTERNS",
    "QUALIFIED_NAME_MAX",
    "Destination",
    "Queue",
    "TempQueue",
    "TempTopic",
    "Topic",
    "has_control_characters",
    "parse_destination",
]

#: CONTAINER is VARCHAR(250): the qualified name has to fit, counted in characters.
QUALIFIED_NAME_MAX: Final = 250

#: How the names of topics begin on which a broker tells what happens in it.
ADVISORY_PREFIX: Final = "ActiveMQ.Advisory."

#: They would break lines of logs and lists; a half of a character that takes two is none.
_CONTROL: Final = re.compile("[\0-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")

#: Path elements that stand for others.
PATTERNS: Final = frozenset({"*", ">"})


class Destination:
    """Base of the four kinds. Compare and hash by kind and physical name.

    Args:
        physical_name: the name without prefix. Blanks around it and everything from ``?`` on are dropped.

    Raises:
        ConfigurationError: the name is empty.
    """

    __slots__ = ("_hash", "encoded", "is_composite", "is_storable", "is_wildcard", "physical_name", "qualified_name")

    prefix: ClassVar[str] = ""
    is_queue: ClassVar[bool] = False
    is_temporary: ClassVar[bool] = False

    _hash: int
    physical_name: str
    qualified_name: str
    #: Whether the name lists several destinations, separated by commas.
    is_composite: bool
    #: Whether a path element of the name is ``*`` or ``>``.
    is_wildcard: bool
    #: Whether every store can keep messages under this name, and clients may give it to a queue: it is one
    #: destination's, it fits, and has no control characters.
    is_storable: bool
    #: Room for the codec: the destination as it stands in a frame, once it was written or read.
    encoded: bytes | None

    def __init__(self, physical_name: str) -> None:
        name = physical_name.partition("?")[0].strip()
        if not name:
            raise ConfigurationError(f"a destination needs a name, got {physical_name!r}")
        self._assign(name)

    @classmethod
    def decoded(cls, physical_name: str) -> Self:
        """The destination with exactly this name, as bytes of a store hold it: nothing is trimmed or refused."""
        destination = cls.__new__(cls)
        destination._assign(physical_name)
        return destination

    def _assign(self, name: str) -> None:
        set_once = object.__setattr__
        set_once(self, "physical_name", name)
        is_composite = "," in name
        set_once(self, "is_composite", is_composite)
        is_wildcard = ("*" in name or ">" in name) and not PATTERNS.isdisjoint(name.split("."))
        set_once(self, "is_wildcard", is_wildcard)
        set_once(self, "qualified_name", name if is_composite else self.prefix + name)
        is_short = len(self.prefix) + len(name) <= QUALIFIED_NAME_MAX
        is_plain = is_short and not (is_composite or is_wildcard or has_control_characters(name))
        set_once(self, "is_storable", is_plain)
        set_once(self, "encoded", None)
        set_once(self, "_hash", hash((self.prefix, name)))

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise AttributeError(f"a destination cannot be changed, and {name!r} is part of it")

    def __reduce__(self) -> tuple[object, ...]:
        return type(self).decoded, (self.physical_name,)

    @property
    def is_topic(self) -> bool:
        """Whether every subscriber gets a copy."""
        return not self.is_queue

    @property
    def is_advisory(self) -> bool:
        """Whether a broker tells on it what happens in it (`ADVISORY_PREFIX`)."""
        return not self.is_queue and self.physical_name.startswith(ADVISORY_PREFIX)

    def elements(self) -> tuple[Destination, ...]:
        """The destinations of a composite in their order, each once; a plain destination is its only element.

        An element may carry a prefix of its own (``A,topic://B``); without one it is of the composite's kind.
        """
        if not self.is_composite:
            return (self,)
        parts = (part.strip() for part in self.physical_name.split(","))
        return tuple(dict.fromkeys(parse_destination(part, default=type(self)) for part in parts if part))

    def matches(self, other: Destination) -> bool:
        """Whether this name, read as a wildcard, covers `other`: ``*`` is one path element, ``>`` is all the rest."""
        if self.is_queue != other.is_queue or self.is_temporary != other.is_temporary:
            return False
        if not self.is_wildcard:
            return self == other
        names = other.physical_name.split(".")
        pattern = self.physical_name.split(".")
        for position, part in enumerate(pattern):
            if part == ">":
                return True
            if position >= len(names) or part not in ("*", names[position]):
                return False
        return len(pattern) == len(names)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Destination):
            return NotImplemented
        return self.physical_name == other.physical_name and type(self) is type(other)

    def __hash__(self) -> int:
        return self._hash

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.physical_name!r})"

    def __str__(self) -> str:
        return self.qualified_name


class Queue(Destination):
    """A queue: each message goes to one consumer."""

    __slots__ = ()
    prefix = "queue://"
    is_queue = True


class Topic(Destination):
    """A topic: each message goes to every subscriber."""

    __slots__ = ()
    prefix = "topic://"


class TempQueue(Destination):
    """A queue that lives as long as the connection that made it; its physical name is ``<connection id>:<n>``."""

    __slots__ = ()
    prefix = "temp-queue://"
    is_queue = True
    is_temporary = True


class TempTopic(Destination):
    """A topic that lives as long as the connection that made it."""

    __slots__ = ()
    prefix = "temp-topic://"
    is_temporary = True


def has_control_characters(name: str) -> bool:
    """Whether a name has what no new destination may have: control characters, ends of lines, halves of characters."""
    return not name.isprintable() and _CONTROL.search(name) is not None


#: Longer names are parsed anew each time: clients choose them, and remembering must not cost memory.
_REMEMBERED_CHARS_MAX: Final = 512

_KINDS: Final[dict[str, type[Destination]]] = {kind.prefix: kind for kind in (Queue, Topic, TempQueue, TempTopic)}


def parse_destination(text: str, default: type[Destination] = Queue) -> Destination:
    """Read a qualified name such as ``queue://A`` or ``topic://prices.>``.

    Args:
        text: the name; without one of the four prefixes it is of kind `default`.
        default: the kind of a name without prefix (ActiveMQ reads CONTAINER as a queue then).

    Raises:
        ConfigurationError: no name is left after prefix, blanks and options.
    """
    if len(text) > _REMEMBERED_CHARS_MAX:
        return _parse.__wrapped__(text, default.prefix)
    return _parse(text, default.prefix)


@lru_cache(maxsize=4096)
def _parse(text: str, default_prefix: str) -> Destination:
    text = text.strip()
    for prefix, kind in _KINDS.items():
        if text.startswith(prefix):
            return kind(text[len(prefix) :])
    return _KINDS[default_prefix](text)
