"""Conditions on the message table, and which of Spark's filters become such.

A filter that becomes terms exactly is the database's affair alone. One of which the terms let too many rows through is
given back to Spark, which looks again. No term ever leaves out a row that the filter would let through.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from typing import Final, Literal, TypeAlias

from pyspark.sql.datasource import (
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    StringStartsWith,
)

from jdbcstore.spark.columns import COLUMNS

__all__ = ["NUMBERS", "TEXTS", "Operator", "Term", "Value", "may_be_stored", "pushed"]

Operator: TypeAlias = Literal["=", "<", "<=", ">", ">=", "in", "is null", "is not null", "starts with"]
Value: TypeAlias = int | str | tuple[int, ...] | tuple[str, ...] | None

#: Columns of ACTIVEMQ_MSGS.
NUMBERS: Final = frozenset({"ID", "MSGID_SEQ", "EXPIRATION", "PRIORITY"})
TEXTS: Final = frozenset({"CONTAINER", "MSGID_PROD", "XID"})
_ORDERED: Final = frozenset({"<", "<=", ">", ">="})
_IN_MAX: Final = 1000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=timezone.utc)  # noqa: UP017  # Spark compares it with its own


@dataclass(frozen=True, slots=True)
class Term:
    """One condition. A comparison with a value that is null does not hold.

    Args:
        column: of ACTIVEMQ_MSGS, in upper case. EXPIRATION counts as null when it is 0, which is never, or less, and
            XID when it is empty.
        operator: texts are compared for equality only, byte by byte.
        value: a number or a text as the column's type is, a tuple of such for ``in``, nothing for the two of null.
        or_unset: whether it also holds where a column of numbers is 0 or null.

    Raises:
        TypeError: operator, column and value do not go together.
    """

    column: str
    operator: Operator
    value: Value = None
    or_unset: bool = False

    def __post_init__(self) -> None:
        kind = int if self.column in NUMBERS else str if self.column in TEXTS else None
        values: tuple[object, ...] = (self.value,)
        if self.operator == "in":
            values = self.value if isinstance(self.value, tuple) else (None,)
        elif self.operator in ("is null", "is not null"):
            values = () if self.value is None else (None,)
        is_right = kind is not None and all(isinstance(value, kind) for value in values)
        if not is_right or (kind is str and self.operator in _ORDERED) or (kind is int and self.operator[0] == "s"):
            raise TypeError(f"no condition: {self.column} {self.operator} {self.value!r}")


def may_be_stored(value: object) -> bool:
    """Whether a value can stand in the table at all."""
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    if not isinstance(value, str) or "\0" in value:
        return False
    try:
        value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        return False
    return True


def pushed(filters: Iterable[Filter]) -> tuple[list[Term], list[Filter]]:
    """Read Spark's filters, all of which have to hold.

    Args:
        filters: on columns of `COLUMNS`.

    Returns:
        Terms, all of which have to hold, and the filters that Spark has to look at again.
    """
    terms: list[Term] = []
    again: list[Filter] = []
    for each in filters:
        path: tuple[str, ...] = getattr(each, "attribute", ())
        read = _READ.get(path[0]) if len(path) == 1 else None
        found, is_exact = (None, False) if read is None else read(each)
        terms += found or ()
        if found is None or not is_exact:
            again.append(each)
    return terms, again


#: The terms of a filter, None for none that would help, and whether they say the same.
_Read: TypeAlias = tuple[Sequence[Term] | None, bool]

_NEVER: Final = Term("ID", "in", ())
_SIGNS: Final[dict[type[Filter], Operator]] = {
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
    LessThan: "<",
    LessThanOrEqual: "<=",
}


def _plain(column: str, type_: type[int] | type[str]) -> Callable[[Filter], _Read]:
    """Filters of a column that is shown as it stands in the table."""

    def read(given: Filter) -> _Read:
        if isinstance(given, IsNull | IsNotNull):
            return [Term(column, "is null" if isinstance(given, IsNull) else "is not null")], True
        operator = _SIGNS.get(type(given))
        if isinstance(given, EqualNullSafe) and given.value is None:
            return [Term(column, "is null")], True
        if isinstance(given, In):
            values = tuple(value for value in given.value if value is not None)  # with null nothing is equal
            is_right = len(values) <= _IN_MAX and all(type(value) is type_ and may_be_stored(value) for value in values)
            return ([Term(column, "in", values)], True) if is_right else (None, False)
        if isinstance(given, EqualTo | EqualNullSafe):
            operator = "="
        elif isinstance(given, StringStartsWith) and type_ is str:
            operator = "starts with"
        value = getattr(given, "value", None)
        if operator is None or type(value) is not type_ or not may_be_stored(value):
            return None, False
        if type_ is str and operator in _ORDERED:  # databases order texts as people do
            return None, False
        return [Term(column, operator, value)], True

    return read


def _priority(given: Filter) -> _Read:
    """What a store tells of the priority: it is in column PRIORITY only where the destination is prioritised."""
    terms, _ = _plain("PRIORITY", int)(given)
    if terms is None or isinstance(given, IsNull | IsNotNull) or getattr(given, "value", None) is None:
        return None, False
    return [replace(term, or_unset=True) for term in terms], False


def _expiration(given: Filter) -> _Read:
    if isinstance(given, IsNull) or (isinstance(given, EqualNullSafe) and given.value is None):
        return [Term("EXPIRATION", "is null")], True
    if isinstance(given, IsNotNull):
        return [Term("EXPIRATION", "is not null")], True
    value = getattr(given, "value", None)
    if not isinstance(value, datetime) or value.tzinfo is None:
        return None, False
    microseconds = (value - _EPOCH) // timedelta(microseconds=1)
    milliseconds, rest = divmod(microseconds, 1000)
    if isinstance(given, EqualTo | EqualNullSafe):
        return [Term("EXPIRATION", "=", milliseconds) if rest == 0 else _NEVER], True
    operator = _SIGNS.get(type(given))
    if operator is None:
        return None, False
    if rest:  # between two milliseconds
        operator = ">" if operator[0] == ">" else "<="
    return [Term("EXPIRATION", operator, milliseconds)], True


def _message_id(given: Filter) -> _Read:
    """The producer and its number, which the id is put together of."""
    if isinstance(given, IsNotNull):
        return [Term("MSGID_PROD", "is not null"), Term("MSGID_SEQ", "is not null")], True
    if isinstance(given, In):
        found = [_id_parts(value) for value in given.value if isinstance(value, str)]
        producers = {parts[0] for parts in found if parts is not None}
        return ([Term("MSGID_PROD", "in", tuple(sorted(producers)))], False) if len(found) <= _IN_MAX else (None, False)
    if isinstance(given, EqualTo | EqualNullSafe) and isinstance(given.value, str):
        parts = _id_parts(given.value)
        if parts is None:
            return [_NEVER], True
        return [Term("MSGID_PROD", "=", parts[0]), Term("MSGID_SEQ", "=", parts[1])], True
    return None, False


def _id_parts(text: str) -> tuple[str, int] | None:
    producer, colon, number = text.rpartition(":")
    digits = number.removeprefix("-")
    if not (colon and digits.isascii() and digits.isdigit() and may_be_stored(producer)):
        return None
    sequence = int(digits[:20]) * (-1 if digits != number else 1)
    return (producer, sequence) if str(sequence) == number and may_be_stored(sequence) else None


#: By column.
_READ: Final[dict[str, Callable[[Filter], _Read]]] = {
    name: read
    for name, column, read in (
        ("topic", "CONTAINER", _plain("CONTAINER", str)),
        ("offset", "ID", _plain("ID", int)),
        ("priority", "MSG", _priority),
        ("rowPriority", "PRIORITY", _plain("PRIORITY", int)),
        ("producerId", "MSGID_PROD", _plain("MSGID_PROD", str)),
        ("expiration", "EXPIRATION", _expiration),
        ("messageId", "MSGID_PROD", _message_id),
    )
    if column in COLUMNS[name].needs
}
