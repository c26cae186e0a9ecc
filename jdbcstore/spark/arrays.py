"""Arrow arrays of what stands in messages: texts, times, properties and bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.java_text import java_text
from jdbcstore.primitives import Value
from jdbcstore.spark.values import typed
from jdbcstore.store.jdbc.dialect.base.scan_columns import Bools, Places

__all__ = [
    "Maps",
    "body_texts",
    "empty_lists",
    "headers",
    "strings",
    "times",
    "times_if_set",
    "times_of",
    "typed_lists",
    "typed_maps",
]

#: Properties or bodies of messages; None where there are none to be had.
Maps: TypeAlias = Sequence[Mapping[str, Value] | None]

#: The largest time in milliseconds that a timestamp of microseconds takes.
_TIME_MS_MAX: Final = ((1 << 63) - 1) // 1000
_TIME: Final = pa.timestamp("us", tz="UTC")


def times(milliseconds: pa.Array) -> pa.Array:
    """Milliseconds as timestamps; those that no timestamp takes (JMS clients send such) as the last that one takes."""
    clamped = pc.max_element_wise(
        pc.min_element_wise(milliseconds, _TIME_MS_MAX, skip_nulls=False), -_TIME_MS_MAX, skip_nulls=False
    )
    return pc.multiply(clamped, 1000).cast(_TIME)


def times_if_set(milliseconds: pa.Array) -> pa.Array:
    """The same, null for 0, which says that none was set."""
    return times(pc.if_else(pc.equal(milliseconds, 0), None, milliseconds))


def times_of(milliseconds: Places) -> pa.Array:
    """The same of an array of NumPy's, which takes a few operations less."""
    clamped = np.clip(milliseconds, -_TIME_MS_MAX, _TIME_MS_MAX) * 1000
    return pa.array(clamped, pa.int64(), mask=milliseconds == 0).view(_TIME)


def strings(texts: Sequence[str | None]) -> pa.Array:
    """Texts. Half of a surrogate pair, which Java may send and Arrow not take, becomes a question mark."""
    try:
        return pa.array(texts, pa.string())
    except UnicodeEncodeError:
        cleaned = [None if text is None else text.encode("utf-8", "replace").decode() for text in texts]
        return pa.array(cleaned, pa.string())


def body_texts(bodies: pa.Array, type: pa.DataType) -> pa.Array:
    """Bytes as texts; null for bytes that are none, which STOMP clients may send."""
    try:
        return bodies.cast(type)
    except pa.ArrowInvalid:
        return pa.array([None if body is None else _text(body) for body in bodies.to_pylist()], type)


def _text(body: bytes) -> str | None:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return None


def headers(maps: Maps, type: pa.DataType) -> pa.Array:
    """Properties as Kafka's headers."""
    keys, values, offsets = _flat(
        None if one is None else ((name, java_text(value)) for name, value in one.items()) for one in maps
    )
    entries = pa.StructArray.from_arrays([strings(keys), strings(values).cast(pa.binary())], fields=[*type.value_type])
    return pa.ListArray.from_arrays(offsets, entries, type=type)


def typed_maps(maps: Maps, type: pa.DataType) -> pa.Array:
    """Properties, or the bodies of map messages."""
    names, values, offsets = _flat(None if one is None else one.items() for one in maps)
    return pa.MapArray.from_arrays(offsets, strings(names), _typed_array(values, type.item_type), type=type)


def typed_lists(lists: Iterable[Sequence[Value] | None], type: pa.DataType) -> pa.Array:
    """The bodies of stream messages."""
    _, values, offsets = _flat(None if one is None else (("", value) for value in one) for one in lists)
    return pa.ListArray.from_arrays(offsets, _typed_array(values, type.value_type), type=type)


def empty_lists(nulls: Bools, type: pa.DataType) -> pa.Array:
    """Lists, or maps, without anything in them, and nulls."""
    offsets = pa.array(np.zeros(len(nulls) + 1, np.int32), mask=np.append(nulls, False))
    if isinstance(type, pa.MapType):
        return pa.MapArray.from_arrays(offsets, pa.nulls(0, type.key_type), pa.nulls(0, type.item_type), type=type)
    return pa.ListArray.from_arrays(offsets, pa.nulls(0, type.value_type), type=type)


def _typed_array(values: Iterable[Value], type: pa.DataType) -> pa.Array:
    pairs = [typed(value) for value in values]
    kinds = pa.array([kind for kind, _ in pairs], pa.string())
    return pa.StructArray.from_arrays([kinds, strings([text for _, text in pairs])], fields=[*type])


def _flat(lists: Iterable[Iterable[tuple[str, Any]] | None]) -> tuple[list[str], list[Any], pa.Array]:
    """Lists of pairs end to end: first parts, second parts, and where each list begins; null where there is none."""
    firsts: list[str] = []
    seconds: list[Any] = []
    offsets: list[int | None] = []
    for pairs in lists:
        offsets.append(None if pairs is None else len(firsts))
        for first, second in pairs or ():
            firsts.append(first)
            seconds.append(second)
    offsets.append(len(firsts))
    return firsts, seconds, pa.array(offsets, pa.int32())
