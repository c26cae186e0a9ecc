"""Java's values compared and computed with, as ActiveMQ's selectors do it.

A value is what `jdbcstore.primitives` decodes, so its class is its Java type: int is a Java int of 32 bits, `Long` a
long, float a double, `Float` a float. Nothing here raises, whatever the values are: what makes no sense is None.

Which types can be compared is ActiveMQ's table, gaps included: a byte is widened when it stands left (``aByte < 5``),
and is not comparable, which is false and not unknown, when it stands right (``5 > aByte``). Where ActiveMQ fails with
an exception (double with float, boolean with a converted string, arithmetic with what is no number) there is no example
to follow, and the obvious happens.
"""

from __future__ import annotations

import operator
import re
import struct
from collections.abc import Callable
from math import copysign, fmod, inf, isinf, isnan, nan
from typing import Any, Final

from jdbcstore.java_text import java_text
from jdbcstore.primitives import Byte, Char, Float, Long, Short

__all__ = [
    "add",
    "converted",
    "divide",
    "equal",
    "equal_converted",
    "multiply",
    "negate",
    "order",
    "remainder",
    "subtract",
]

#: A joined text may have so many characters; longer ones are None, so that a short selector cannot fill the memory.
JOINED_CHARS_MAX: Final = 1 << 16

_BITS: Final = {Byte: 8, Short: 16, int: 32, Long: 64}
_NUMBERS: Final = frozenset((*_BITS, Float, float))

# --- order ------------------------------------------------------------------------------------------------------------


def order(left: Any, right: Any) -> int | None:
    """Negative, 0 or positive as `left` comes before, beside or behind `right`; None if they cannot be compared.

    Strings are ordered by UTF-16 units, false comes before true, -0.0 before 0.0, and NaN behind everything.
    """
    kind = left.__class__
    if kind is right.__class__:
        ordered = _ORDERED.get(kind)
        return None if ordered is None else ordered(left, right)
    widen = _WIDENED.get((kind, right.__class__))
    if widen is None:
        return None
    return _order_floats(widen(left), widen(right)) if widen is not int else int(left) - int(right)


def equal(left: Any, right: Any) -> bool | None:
    """``left = right``: nothing equals nothing, is unknown left of something, and false right of it."""
    if left is None:
        return True if right is None else None
    if right is None:
        return False
    kind = left.__class__
    if kind is right.__class__:
        if kind is float or kind is Float:
            return _order_floats(left, right) == 0
        return left is right if kind is bytes else bool(left == right)
    return order(left, right) == 0


def equal_converted(left: Any, right: Any) -> bool | None:
    """`equal`, a string beside a number or boolean converted first."""
    if left is None or right is None:
        return equal(left, right)
    left, right = converted(left, right)
    return left is not None and right is not None and equal(left, right)


def _order_integers(left: int, right: int) -> int:
    return left - right


def _order_floats(left: float, right: float) -> int:
    if left < right:
        return -1
    if left > right:
        return 1
    if left == right != 0:
        return 0
    return _place(left) - _place(right)


def _place(value: float) -> int:
    """Of zeros and NaN among each other, and of NaN among numbers."""
    return 2 if isnan(value) else 1 if copysign(1, value) > 0 else 0


def _order_texts(left: str, right: str) -> int:
    if left == right:
        return 0
    one, other = (text.encode("utf-16-be", "surrogatepass") for text in (left, right))
    return 1 if one > other else -1


_ORDERED: Final[dict[type, Callable[[Any, Any], int]]] = {
    **dict.fromkeys((bool, *_BITS), _order_integers),
    **dict.fromkeys((Float, float), _order_floats),
    **dict.fromkeys((str, Char), _order_texts),
}


def _single(value: float) -> float:
    """`value` rounded to a float of 32 bits."""
    if isinstance(value, int) and value.bit_length() > 53:
        # Rounded once, not first to 53 bits and then to 24: what is cut off leaves a mark in the last bit.
        shift = value.bit_length() - 53
        value = (value >> shift | ((value & (1 << shift) - 1) != 0)) << shift
    try:
        return float(struct.unpack(">f", struct.pack(">f", value))[0])
    except OverflowError:
        return copysign(inf, value)


#: Types that differ and still compare → what both become: int exactly, float, or a float of 32 bits.
_WIDENED: Final[dict[tuple[type, type], Callable[[Any], float]]] = {
    **{(left, right): int for left in _BITS for right in _BITS if _BITS[left] < _BITS[right]},
    (Long, int): int,
    **{(kind, Float): _single for kind in _BITS},
    **{(kind, float): float for kind in (*_BITS, Float)},
    **{(Float, kind): _single for kind in (int, Long)},
    **{(float, kind): float for kind in (int, Long, Float)},
}

# --- strings beside numbers and booleans ------------------------------------------------------------------------------

_INTEGER: Final = re.compile(r"([+-]?)0*(\d{1,19})")
_DECIMAL: Final = re.compile(r"[+-]?(?:NaN|Infinity|(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fFdD]?)")
_HEXADECIMAL: Final = re.compile(
    r"[+-]?0[xX](?:[0-9a-fA-F]+\.?[0-9a-fA-F]*|\.[0-9a-fA-F]+)[pP][+-]?[0-9]+(?P<suffix>[fFdD]?)"
)
#: What Java trims around a decimal: every control character and the blank.
_TRIMMED: Final = "".join(map(chr, range(0x21)))
#: Longer texts are no numbers, whatever they say: reading digits costs time.
_NUMBER_CHARS_MAX: Final = 1024


def converted(left: Any, right: Any) -> tuple[Any, Any]:
    """Both values; if one of them is a string and the other is none, the string read as the other's type.

    A string that does not read so becomes None.
    """
    if left.__class__ is str:
        return (left, right) if right.__class__ is str else (_read(left, right.__class__), right)
    if right.__class__ is str:
        return left, _read(right, left.__class__)
    return left, right


def _read(text: str, kind: type) -> Any:
    if kind is bool:
        return text.lower() == "true" if len(text) == 4 else False
    if kind not in _NUMBERS or len(text) > _NUMBER_CHARS_MAX:
        return None
    return _read_integer(text, kind) if kind in _BITS else _read_float(text, kind)


def _read_integer(text: str, kind: type) -> Any:
    found = _INTEGER.fullmatch(text)
    if found is None or max(text) > "\uffff":  # Java looks at UTF-16 units, of which none is such a digit
        return None
    value = int(found[1] + found[2])
    half = 1 << _BITS[kind] - 1
    return kind(value) if -half <= value < half else None


def _read_float(text: str, kind: type) -> Any:
    text = text.strip(_TRIMMED)
    if _DECIMAL.fullmatch(text) is not None:
        value = float(text.rstrip("fFdD"))
    elif (found := _HEXADECIMAL.fullmatch(text)) is not None:
        try:
            value = float.fromhex(text.removesuffix(found["suffix"]))
        except OverflowError:
            value = copysign(inf, -1 if text[0] == "-" else 1)
    else:
        return None
    return Float(_single(value)) if kind is Float else value


# --- arithmetic -------------------------------------------------------------------------------------------------------


def add(left: Any, right: Any) -> Any:
    """``left + right``; a string on the left is joined with the text of whatever stands right."""
    if left.__class__ is str:
        text = java_text(right)
        return left + text if len(left) + len(text) <= JOINED_CHARS_MAX else None
    return _computed(left, right, operator.add)


def subtract(left: Any, right: Any) -> Any:
    """``left - right``."""
    return _computed(left, right, operator.sub)


def multiply(left: Any, right: Any) -> Any:
    """``left * right``."""
    return _computed(left, right, operator.mul)


def divide(left: Any, right: Any) -> Any:
    """``left / right``, always of doubles."""
    if not (_is_number(left) and _is_number(right)):
        return None
    dividend, divisor = float(left), float(right)
    if divisor:
        return dividend / divisor
    return nan if not dividend or isnan(dividend) else copysign(inf, dividend) * copysign(1, divisor)


def remainder(left: Any, right: Any) -> Any:
    """``left % right``, always of doubles, with the sign of `left`."""
    if not (_is_number(left) and _is_number(right)):
        return None
    dividend, divisor = float(left), float(right)
    return nan if isinf(dividend) or not divisor else fmod(dividend, divisor)


def negate(value: Any) -> Any:
    """``-value``."""
    kind = value.__class__
    if kind is float:
        return -value
    if kind is Float:
        return Float(-value)
    return _computed(kind(0), value, operator.sub) if kind in _BITS else None


def _computed(left: Any, right: Any, operation: Callable[[Any, Any], Any]) -> Any:
    """Doubles if one is a double or float, else a long if one is a long, else an int; integers wrap around."""
    if not (_is_number(left) and _is_number(right)):
        return None
    one, other = left.__class__, right.__class__
    if one not in _BITS or other not in _BITS:
        return float(operation(float(left), float(right)))
    value = operation(int(left), int(right))
    if one is Long or other is Long:
        return Long(_wrapped(value, 64))
    return _wrapped(value, 32)


def _is_number(value: object) -> bool:
    return value.__class__ in _NUMBERS


def _wrapped(value: int, bits: int) -> int:
    half = 1 << bits - 1
    return value if -half <= value < half else (value + half & (1 << bits) - 1) - half
