"""JMS's typed values as pairs of texts: how properties, maps and streams stand in a DataFrame.

A column has one type, a property has any of Java's. So a value is a struct of the name of its type and of its text,
both strings: ``properties['weight'].value``. Types are ``boolean``, ``byte``, ``short``, ``int``, ``long``, ``float``,
``double``, ``char``, ``string`` with the text that Java prints, ``bytes`` in Base64, ``null`` without a text, and
``map`` and ``list`` as JSON of such pairs. Nothing but the bits of a NaN is lost: `value_of` gives back
what `typed` was given.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from jdbcstore.errors import CodecError
from jdbcstore.java_text import java_text
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value

__all__ = ["Typed", "typed", "value_of"]

#: Name of the type, text.
Typed: TypeAlias = tuple[str, str | None]

_INT_MAX: Final = (1 << 31) - 1
_SIMPLE: Final[dict[type, str]] = {
    bool: "boolean",
    Byte: "byte",
    Short: "short",
    Long: "long",
    float: "double",
    Float: "float",
    Char: "char",
}


def typed(value: Value) -> Typed:
    """The pair that stands for a value."""
    kind = value.__class__
    if kind is str:
        return "string", value  # type: ignore[return-value]  # as just asked
    if kind is int:
        return ("int" if -_INT_MAX - 1 <= value <= _INT_MAX else "long"), int.__repr__(value)  # type: ignore[operator]  # as just asked
    if (name := _SIMPLE.get(kind)) is not None:
        return name, java_text(value)
    if value is None:
        return "null", None
    if isinstance(value, bytes):
        return "bytes", b64encode(value).decode()
    if isinstance(value, Mapping):
        return "map", _json({key: typed(item) for key, item in value.items()})
    return "list", _json([typed(item) for item in value])  # type: ignore[union-attr]  # nothing else is left


def value_of(kind: str | None, text: str | None) -> Value:
    """The value that a pair stands for.

    Args:
        kind: the type's name; None stands for ``string``.
        text: as `typed` writes it; None is the null value.

    Raises:
        CodecError: there is no such type, or the text is none of its values.
    """
    if kind is None or kind == "string":
        return text
    read = _READ.get(kind)
    if read is None:
        raise CodecError(f"there is no type {kind!r}: {', '.join(sorted((*_READ, 'string')))}")
    if text is None:
        return None
    try:
        return read(text)
    except (ValueError, TypeError, KeyError) as error:
        raise CodecError(f"{text[:60]!r} is no {kind}") from error


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _boolean(text: str) -> bool:
    return {"true": True, "false": False}[text.lower()]


def _int(text: str) -> int:
    value = int(text)
    if not -_INT_MAX - 1 <= value <= _INT_MAX:
        raise ValueError(text)
    return value


def _map(text: str) -> Value:
    return {str(key): value_of(*pair) for key, pair in json.loads(text).items()}


def _list(text: str) -> Value:
    return [value_of(*pair) for pair in json.loads(text)]


def _null(text: str) -> None:
    return None


_READ: Final[Mapping[str, Callable[[str], Value]]] = {
    "boolean": _boolean,
    "byte": lambda text: Byte(int(text)),
    "short": lambda text: Short(int(text)),
    "int": _int,
    "long": lambda text: Long(int(text)),
    "float": lambda text: Float(float(text)),
    "double": float,
    "char": Char,
    "bytes": lambda text: b64decode(text, validate=True),
    "map": _map,
    "list": _list,
    "null": _null,
}
