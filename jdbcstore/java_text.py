"""How Java prints values: STOMP headers are the texts of typed properties."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from decimal import Decimal
from math import inf, isinf, isnan

from jdbcstore.primitives import Float, Value

__all__ = ["java_text"]


def java_text(value: Value) -> str:
    """`value` as Java's ``String.valueOf`` prints it: ``true``, ``null``, ``2.5``, ``1.0E10``, ``{a=1}``."""
    if isinstance(value, str):
        return str(value)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return _decimal(value)
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={java_text(item)}" for key, item in value.items()) + "}"
    return "[" + ", ".join(java_text(item) for item in value) + "]"


def _decimal(value: float) -> str:
    if isnan(value):
        return "NaN"
    if isinf(value):
        return "Infinity" if value == inf else "-Infinity"
    shortest = _shortest_single(value) if isinstance(value, Float) else repr(float(value))
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        plain = format(Decimal(shortest), "f")
        return plain if "." in plain else plain + ".0"
    sign, digits, exponent = Decimal(shortest).normalize().as_tuple()
    if len(digits) == 1:
        sign, digits, exponent = _two_digits(value).normalize().as_tuple()
    first, rest = digits[0], "".join(map(str, digits[1:])) or "0"
    return f"{'-' if sign else ''}{first}.{rest}E{int(exponent) + len(digits) - 1}"


def _two_digits(value: float) -> Decimal:
    """The decimal of two digits next to a number for which one digit would do: the smallest are that far apart."""
    return Decimal(f"{float(value):.1e}")


def _shortest_single(value: Float) -> str:
    """The shortest decimal that reads as this float of 32 bits."""
    for precision in range(1, 10):
        text = f"{float(value):.{precision}g}"
        with suppress(ValueError):  # rounded up it may be beyond the largest one
            if Float(float(text)) == value:
                return text
    return repr(float(value))
