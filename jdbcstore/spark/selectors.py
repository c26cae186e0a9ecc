"""JMS selectors as filters of a DataFrame.

::

    orders.where(selector_filter("colour = 'red' AND weight > 2500", orders.columns))

A selector becomes an expression of Spark over the columns of the schema, so that Spark can optimise it and, where
columns of the table are concerned, the database can answer it. It means what it means in ActiveMQ
(`jdbcstore.selector`): three-valued, and with Java's types, so that a property that is a string equals no number and a
byte right of ``>`` is not comparable. Three values come for nothing, since Spark's null behaves as JMS's unknown.

What has no counterpart (arithmetic, two properties compared, strings converted to numbers, some headers) is evaluated
by the selector itself, on column ``message``. Texts with half a surrogate pair are the one thing that a column cannot
hold: there the question mark that stands for it is compared.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from math import copysign
from typing import TYPE_CHECKING, Final, TypeAlias

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.pandas.functions import arrow_udf

from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.java_text import java_text
from jdbcstore.openwire import unmarshal_message
from jdbcstore.selector import (
    And,
    Between,
    Comparison,
    Constant,
    Expression,
    Flag,
    In,
    IsNull,
    Like,
    Negative,
    Not,
    Or,
    Property,
    Selector,
)
from jdbcstore.selector.evaluation import like_pattern
from jdbcstore.selector.headers import HEADERS
from jdbcstore.spark.columns import MESSAGE

if TYPE_CHECKING:
    from pyspark.sql import Column

__all__ = ["columns_for", "selector_filter"]


def _milliseconds(column: str) -> Column:
    return F.coalesce(F.unix_millis(column), F.lit(0))


#: JMS's headers that stand in a column: the column, the type of Java that they have, and the value.
_HEADERS: Final[dict[str, tuple[str, str, Callable[[], Column]]]] = {
    "JMSActiveMQBrokerInTime": ("brokerInTime", "long", lambda: _milliseconds("brokerInTime")),
    "JMSCorrelationID": ("correlationId", "string", lambda: F.col("correlationId")),
    "JMSDeliveryMode": (
        "persistent",
        "string",
        lambda: F.when(F.col("persistent"), "PERSISTENT").when(~F.col("persistent"), "NON_PERSISTENT"),
    ),
    "JMSExpiration": ("expiration", "long", lambda: _milliseconds("expiration")),
    "JMSMessageID": ("messageId", "string", lambda: F.col("messageId")),
    "JMSPriority": ("priority", "int", lambda: F.col("priority")),
    "JMSRedelivered": ("redeliveryCounter", "boolean", lambda: F.col("redeliveryCounter") > 0),
    "JMSReplyTo": ("replyTo", "string", lambda: F.col("replyTo")),
    "JMSTimestamp": ("timestamp", "long", lambda: _milliseconds("timestamp")),
    "JMSType": ("type", "string", lambda: F.col("type")),
    "JMSXDeliveryCount": ("redeliveryCounter", "int", lambda: F.col("redeliveryCounter") + 1),
    "JMSXGroupID": ("key", "string", lambda: F.col("key").cast("string")),
    "JMSXGroupSeq": ("groupSequence", "int", lambda: F.col("groupSequence")),
}
#: A row has null here exactly if its message could not be decoded, which no selector matches.
_DECODED: Final = "kind"
_PROPERTIES: Final = "properties"
_INTEGERS: Final = ("byte", "short", "int", "long")
#: Types that an int, a long or a double may be compared with that stands left of them.
_RIGHT: Final = ("int", "long", "float", "double")
_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_Number: TypeAlias = int | float


class _Untranslatable(Exception):
    """There is no expression for this part of a selector."""


def selector_filter(selector: Selector | str, columns: Collection[str]) -> Column:
    """The condition that is true for the rows whose messages the selector matches, and false or null for others.

    Args:
        selector: or its text.
        columns: of the DataFrame that is to be filtered: those of `columns_for`, or ``message``.

    Raises:
        SelectorError: the text cannot be read.
        ConfigurationError: columns are missing; the text says which.
    """
    if isinstance(selector, str):
        selector = Selector.parse(selector)
    needed = columns_for(selector)
    if set(needed) <= set(columns):
        if needed != [MESSAGE]:
            return F.when(F.col(_DECODED).isNotNull(), _condition(selector.expression))
        return _evaluated(selector)
    if MESSAGE in columns:
        return _evaluated(selector)
    missing = ", ".join(sorted(set(needed) - set(columns)))
    raise ConfigurationError(f"to filter by {selector.text!r} the DataFrame needs the columns {missing}, or {MESSAGE}")


def columns_for(selector: Selector | str) -> list[str]:
    """The columns that `selector_filter` needs: those that the selector asks about, or ``message`` alone."""
    if isinstance(selector, str):
        selector = Selector.parse(selector)
    try:
        _translated(selector)
    except _Untranslatable:
        return [MESSAGE]
    found = {_HEADERS[name][0] for name in selector.headers}
    return sorted({_DECODED, *found, *({_PROPERTIES} if selector.properties else ())})


def _translated(selector: Selector) -> None:
    """Raise `_Untranslatable` unless there is an expression for all of it. Needs no session."""
    if selector.converts_strings:
        raise _Untranslatable
    _check(selector.expression)


def _check(expression: Expression) -> None:
    """Whether `_condition` knows it."""
    match expression:
        case Constant(value=bool() | None):
            return
        case And(terms=terms) | Or(terms=terms):
            for term in terms:
                _check(term)
        case Not(operand=operand):
            _check(operand)
        case Flag(operand=found) | IsNull(operand=Property() as found) | In(operand=found):
            _check_property(found)
        case Like(operand=Property() as found):
            _check_property(found)
        case Between(operand=Property() as found, low=low, high=high):
            _check_property(found)
            _number(low)
            _number(high)
        case Comparison(operator=operator, left=left, right=right):
            one, other = (left, right) if isinstance(left, Property) else (right, left)
            if not isinstance(one, Property):
                raise _Untranslatable
            _check_property(one)
            if operator in ("=", "<>") and isinstance(other, Constant) and isinstance(other.value, str | bool):
                return
            _number(other)
        case _:
            raise _Untranslatable


def _check_property(found: Property) -> None:
    # Other headers are not in a column, or not as the message has them.
    if found.name in HEADERS and found.name not in _HEADERS:
        raise _Untranslatable


def _number(expression: Expression) -> _Number:
    """A constant number, also with a minus sign."""
    if isinstance(expression, Negative):
        return -_number(expression.operand)
    value = expression.value if isinstance(expression, Constant) else None
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value
    raise _Untranslatable


# -- expressions -------------------------------------------------------------------------------------------------------


def _condition(expression: Expression) -> Column:
    match expression:
        case Constant(value=value):
            return F.lit(value).cast("boolean")
        case And(terms=terms):
            return _joined(terms, "and")
        case Or(terms=terms):
            return _joined(terms, "or")
        case Not(operand=operand):
            return ~_condition(operand)
        case Flag(operand=found):
            kind, text = _typed(found)
            return F.when(text.isNotNull(), (kind == "boolean") & (text == "true"))
        case IsNull(operand=Property() as found, negated=negated):
            _, text = _typed(found)
            return text.isNotNull() if negated else text.isNull()
        case In(operand=found, values=values, negated=negated):
            kind, text = _typed(found)
            is_in = text.isin(list(values))
            return F.when(kind == "string", ~is_in if negated else is_in)
        case Like(operand=Property() as found, pattern=pattern, escape=escape, negated=negated):
            kind, text = _typed(found)
            fits = text.rlike(rf"\A(?s:{like_pattern(pattern, escape).pattern})\z")
            like = F.when(text.isNotNull(), (kind == "string") & F.when(kind == "string", fits).otherwise(F.lit(False)))
            return ~like if negated else like
        case Between(operand=Property() as found, low=low, high=high, negated=negated):
            lower, upper = ("<", ">") if negated else (">=", "<=")
            one, other = _compared(found, lower, _number(low)), _compared(found, upper, _number(high))
            return one | other if negated else one & other
        case Comparison(operator=operator, left=Property() as found, right=right):
            return _comparison(found, operator, right, is_left=True)
        case Comparison(operator=operator, left=left, right=Property() as found):
            return _comparison(found, _TURNED[operator], left, is_left=False)
    raise _Untranslatable


def _joined(terms: tuple[Expression, ...], word: str) -> Column:
    """As a balanced tree: a selector may have thousands of terms, and Spark walks them by recursion."""
    columns = [_condition(term) for term in terms]
    while len(columns) > 1:
        pairs = zip(columns[::2], columns[1::2], strict=False)
        odd = columns[-1:] if len(columns) % 2 else []
        columns = [one & other if word == "and" else one | other for one, other in pairs] + odd
    return columns[0]


def _typed(found: Property) -> tuple[Column, Column]:
    """The name of the type of a property, or of a header, and its value as a text; null if there is none."""
    if found.name in _HEADERS:
        _, kind, value = _HEADERS[found.name]
        return F.lit(kind), value().cast("string")
    pair = F.element_at(F.col(_PROPERTIES), found.name)
    return pair["type"], pair["value"]


def _comparison(found: Property, operator: str, other: Expression, *, is_left: bool) -> Column:
    if isinstance(other, Constant) and isinstance(other.value, str | bool):
        kind, text = _typed(found)
        is_text = isinstance(other.value, str)
        same = (kind == ("string" if is_text else "boolean")) & (
            text == (other.value if is_text else java_text(other.value))
        )
        # Nothing left of something is unknown, right of it false.
        equal = F.when(text.isNotNull(), same) if is_left else F.when(text.isNotNull(), same).otherwise(F.lit(False))
        return ~equal if operator == "<>" else equal
    number = _number(other)
    if operator in ("=", "<>"):
        equal = _compared(found, "=", number, is_left=is_left)
        if not is_left:
            equal = F.coalesce(equal, F.lit(False))
        return ~equal if operator == "<>" else equal
    return _compared(found, operator, number, is_left=is_left)


def _compared(found: Property, operator: str, number: _Number, *, is_left: bool = True) -> Column:
    """A property compared with a number by the rules of `jdbcstore.selector.values`; false for what is none."""
    kind, text = _typed(found)
    integers = _INTEGERS if is_left else tuple(one for one in _INTEGERS if one in _RIGHT)
    exactly = _floats(text, "double", "double", operator, number)
    if isinstance(number, float):
        integer = _floats(text, "bigint", "double", operator, number)
        single = _floats(text, "float", "double", operator, number)
    else:
        integer = _order(text.try_cast("bigint"), F.lit(int(number)).cast("bigint"), operator)
        single = _floats(text, "float", "float", operator, number)
    return F.when(
        text.isNotNull(),
        F.when(kind.isin(list(integers)), integer)
        .when(kind == "float", single)
        .when(kind == "double", exactly)
        .otherwise(F.lit(False)),
    )


def _floats(text: Column, read_as: str, compared_as: str, operator: str, number: _Number) -> Column:
    """Compared as floating point numbers: NaN behind all others as in Spark, and -0.0 before 0.0 as in Java."""
    value = text.try_cast(read_as).cast(compared_as)
    constant = F.lit(float(number)).cast(compared_as) if isinstance(number, float) else _of_integer(number, compared_as)
    ordered = _order(value, constant, operator)
    if number != 0:
        return ordered
    # Zeros differ by their signs, which only texts show: of an integer it is always plus.
    place = F.when(text.startswith("-"), -1).otherwise(1)
    own = -1 if isinstance(number, float) and copysign(1, number) < 0 else 1
    return F.when(value == 0, _order(place, F.lit(own), operator)).otherwise(ordered)


def _of_integer(number: int, compared_as: str) -> Column:
    """Rounded once: a float is made of a long directly, as in Java."""
    return F.lit(int(number)).cast("bigint").cast(compared_as)


def _order(left: Column, right: Column, operator: str) -> Column:
    return {
        "=": left == right,
        "<": left < right,
        "<=": left <= right,
        ">": left > right,
        ">=": left >= right,
    }[operator]


# -- what Spark cannot say ---------------------------------------------------------------------------------------------


def _evaluated(selector: Selector) -> Column:
    """The selector itself, asked for each message."""

    @arrow_udf("boolean")  # type: ignore[untyped-decorator,call-overload]  # Spark annotates it for pandas only
    def matches(messages: pa.Array) -> pa.Array:
        return pa.array([_value(selector, blob) for blob in messages.to_pylist()], pa.bool_())

    column: Column = matches(F.col(MESSAGE))
    return column


def _value(selector: Selector, blob: bytes | None) -> bool | None:
    """Unknown for what is no message."""
    if blob is None:
        return None
    try:
        return selector.evaluate(unmarshal_message(blob))
    except CodecError:
        return None
