"""A selector: parsed once, then asked for every message."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from types import MappingProxyType
from typing import Final

from jdbcstore.errors import CodecError, SelectorError
from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.selector.evaluation import Evaluation, compiled
from jdbcstore.selector.expression import Expression, Property
from jdbcstore.selector.headers import HEADERS
from jdbcstore.selector.parser import parse_expression

__all__ = ["CONVERT_STRINGS", "DEPTH_MAX", "DURABLE_LENGTH_MAX", "LENGTH_MAX", "TERMS_MAX", "Selector"]

#: What a selector begins with if strings are to be converted in comparisons. STOMP's properties are all strings, so
#: ActiveMQ puts it before every selector of a STOMP client, also in column SELECTOR.
CONVERT_STRINGS: Final = "convert_string_expressions:"

LENGTH_MAX: Final = 10_240
#: Column SELECTOR of the store holds so many characters, the prefix included.
DURABLE_LENGTH_MAX: Final = 250
#: Also the highest that may be asked for: reading and evaluating use the interpreter's stack.
DEPTH_MAX: Final = 100
TERMS_MAX: Final = 1000

#: Longer texts are parsed anew each time: clients choose them, and remembering must not cost memory.
_REMEMBERED_CHARS_MAX: Final = 512
_NO_PROPERTIES: Final[Mapping[str, Value]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Selector:
    """A JMS selector, as ActiveMQ understands it: `Selector.parse` makes one. It never changes; equal is the same text.

    Attributes:
        text: as it was given, prefix included.
        expression: what it says.
        converts_strings: whether it began with `CONVERT_STRINGS`.
        headers: names of the JMS headers that it looks at.
        properties: names of the application's properties that it looks at.
    """

    text: str
    expression: Expression = field(compare=False, repr=False)
    converts_strings: bool = field(compare=False, repr=False)
    headers: frozenset[str] = field(compare=False, repr=False)
    properties: frozenset[str] = field(compare=False, repr=False)
    _evaluation: Evaluation = field(compare=False, repr=False)

    @classmethod
    def parse(
        cls,
        text: str,
        *,
        length_max: int = LENGTH_MAX,
        depth_max: int = DEPTH_MAX,
        terms_max: int = TERMS_MAX,
    ) -> Selector:
        """Read a selector. Those asked for lately are remembered.

        Args:
            text: a condition such as ``colour = 'red' AND weight > 2500``, perhaps behind `CONVERT_STRINGS`.
            length_max: characters of `text`. A durable subscription's must fit `DURABLE_LENGTH_MAX`.
            depth_max: levels of `expression`, at most `DEPTH_MAX`; parentheses may nest twice as deep.
            terms_max: constants and properties; the strings of IN do not count.

        Raises:
            SelectorError: it is none, or larger than allowed; the error knows the position.
            ValueError: `depth_max` is more than `DEPTH_MAX`.
        """
        if depth_max > DEPTH_MAX:
            raise ValueError(f"depth_max is {depth_max}, {DEPTH_MAX} is the highest")
        if len(text) > length_max:
            raise _too_long(text, length_max)
        if len(text) > _REMEMBERED_CHARS_MAX:
            return _parsed(text, depth_max, terms_max)
        return _remembered(text, depth_max, terms_max)

    def matches(self, message: Message) -> bool:
        """Whether the condition is true for a message; false if it is unknown, or the properties cannot be decoded."""
        return self.evaluate(message) is True

    def evaluate(self, message: Message) -> bool | None:
        """The condition's value for a message; None if it is unknown, or the properties cannot be decoded."""
        try:
            value: bool | None = self._evaluation(message, message.properties if self.properties else _NO_PROPERTIES)
        except CodecError:  # a damaged message matches nothing, not even ``a IS NULL``
            return None
        return value

    def __str__(self) -> str:
        return self.text

    def __reduce__(self) -> tuple[object, ...]:
        return _parsed, (self.text, DEPTH_MAX, len(self.text))


def _parsed(text: str, depth_max: int, terms_max: int) -> Selector:
    converts = text.startswith(CONVERT_STRINGS)
    expression = parse_expression(text.removeprefix(CONVERT_STRINGS), depth_max, terms_max)
    names = {found.name for found in expression.walk() if isinstance(found, Property)}
    evaluation = compiled(expression, converts)
    return Selector(
        text, expression, converts, frozenset(names & HEADERS.keys()), frozenset(names - HEADERS.keys()), evaluation
    )


_remembered = lru_cache(maxsize=1024)(_parsed)


def _too_long(text: str, length_max: int) -> SelectorError:
    prefix = CONVERT_STRINGS if text.startswith(CONVERT_STRINGS) else ""
    expected = f"at most {length_max} characters"
    if prefix:
        expected += f", the {len(prefix)} of {prefix} included"
    if length_max == DURABLE_LENGTH_MAX:
        expected += " (the store keeps so many of a durable subscription)"
    return SelectorError(expected, f"{len(text)}", max(length_max - len(prefix), 0) + 1)
