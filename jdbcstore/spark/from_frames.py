"""Columns out of frames, a batch at a time: see `jdbcstore.spark.frames`.

Properties, and the bodies of map and stream messages, are still decoded one after another.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final, TypeVar

import numpy as np
import pyarrow as pa

from jdbcstore.destination import Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError
from jdbcstore.message import BytesMessage, MapMessage, Message, StreamMessage, TextMessage
from jdbcstore.openwire.fields import COMMANDS
from jdbcstore.primitives import Value, decode_map, decode_values
from jdbcstore.spark.arrays import body_texts, empty_lists, headers, times_of, typed_lists, typed_maps
from jdbcstore.spark.frames import Frames, Span, rows_with
from jdbcstore.spark.from_messages import ATTRIBUTES, KINDS
from jdbcstore.store.jdbc.dialect.base.scan_columns import Bools, Bytes

__all__ = ["FrameColumns"]

_IDS: Final = {command.cls: command.type_id for command in COMMANDS}
_DESTINATIONS: Final = {_IDS[cls]: cls for cls in (Queue, Topic, TempQueue, TempTopic)}
#: Of a text in its body, in front of it.
_LENGTH_BYTES: Final = 4
#: The bytes that show that a text may be something else than plain UTF-8, if not all of it is ASCII.
_NEVER_IN_PLAIN_UTF8: Final = np.isin(np.arange(256), (0x00, 0xC0, 0xED, *range(0xF0, 0x100)))
_NAME_DISTANCE: Final = 4

_T = TypeVar("_T")


class FrameColumns:
    """What stands in frames, by columns.

    Args:
        blobs: column MSG.
        names: the columns that will be asked for.
        reads_properties: whether properties have to be decoded.
        reads_bodies: whether bodies have to be decoded.
    """

    def __init__(self, blobs: pa.Array, names: Collection[str], *, reads_properties: bool, reads_bodies: bool) -> None:
        wanted = {ATTRIBUTES[name] for name in names if name in ATTRIBUTES}
        self._frames = Frames(blobs, {*wanted, "compressed"})
        #: Which frames are here. Columns may be asked for only if all of them are.
        self.fits: Bools = self._frames.fits
        self._properties: Sequence[Mapping[str, Value] | None] | None = None
        if reads_properties:
            span = self._frames.spans["marshalled_properties"]
            self._properties = self._decoded(span, np.ones(len(blobs), bool), decode_map, {})
        if reads_bodies:
            self._read_bodies()

    def column(self, name: str, type: pa.DataType) -> pa.Array:
        """A column of this name."""
        if name in _COLUMNS:
            return _COLUMNS[name](self, type)
        attribute = ATTRIBUTES[name]
        if attribute in self._frames.spans:
            return self._frames.column(self._frames.spans[attribute], type)
        return pa.array(self._frames.numbers[attribute]).cast(type)

    def _is_of(self, kind: type[Message]) -> Bools:
        found: Bools = self._frames.types == _IDS[kind]
        return found

    def _decoded(self, span: Span, of: Bools, decode: Callable[[bytes], _T], absent: _T) -> Sequence[_T | None] | None:
        """What some fields hold. The frames where they hold something else do not fit.

        Args:
            span: of the field.
            of: which frames have it.
            decode: makes it of bytes.
            absent: what it is where the field is null.

        Returns:
            By frame, None for those that do not have the field; nothing if there is not a value to decode.
        """
        there = np.flatnonzero(of & ~span.nulls & self.fits)
        if not len(there):
            return None
        found: list[_T | None] = [absent if one else None for one in of.tolist()]
        blobs = self._frames.column(Span(span.places[there], span.lengths[there], span.nulls[there]), pa.binary())
        for row, blob in zip(there.tolist(), blobs.to_pylist(), strict=True):
            try:
                found[row] = decode(blob)
            except CodecError:
                self.fits[row] = False
        return found

    def _read_bodies(self) -> None:
        """Find the bodies; those that are not plain do not fit."""
        frames = self._frames
        content = frames.spans["content"]
        self.fits &= content.nulls | (frames.numbers["compressed"] == 0)
        is_text = self._is_of(TextMessage)
        if is_text.any():
            lengths = frames.numbers_at(content.places, ">i4")
            fits = (lengths == -1) | (lengths == content.lengths - _LENGTH_BYTES)
            fits &= content.lengths >= _LENGTH_BYTES
            self.fits &= fits | content.nulls | ~is_text
            nulls = content.nulls | (is_text & (lengths == -1)) | ~self.fits
            places = np.where(is_text, content.places + _LENGTH_BYTES, content.places)
            content = Span(places, np.where(nulls, 0, content.lengths - np.where(is_text, _LENGTH_BYTES, 0)), nulls)
        self._maps: Sequence[Mapping[str, Value] | None] | None
        self._maps = self._decoded(content, self._is_of(MapMessage), decode_map, {})
        self._streams: Sequence[Sequence[Value] | None] | None
        self._streams = self._decoded(content, self._is_of(StreamMessage), decode_values, [])
        self._content = content
        self._texts = frames.column(content.limited(is_text), pa.binary())
        self._values = self._texts if is_text.all() else frames.column(content, pa.binary())
        is_foreign = rows_with(self._texts, _beyond_ascii)
        self._is_ascii = not is_foreign.any()
        if not self._is_ascii:
            self.fits &= ~(is_foreign & rows_with(self._texts, _NEVER_IN_PLAIN_UTF8.__getitem__))

    def _times(self, attribute: str) -> pa.Array:
        return times_of(self._frames.numbers[attribute])

    def _names(self, attribute: str) -> pa.Array:
        """Qualified names of destinations: each of them is made once."""
        encoded = self._frames.column(self._frames.spans[attribute], pa.binary())
        if encoded.null_count == len(encoded):
            return encoded.cast(pa.string())
        different = encoded.dictionary_encode()
        names = [
            _DESTINATIONS[one[0]].decoded(one[_NAME_DISTANCE:].decode("ascii")).qualified_name
            for one in different.dictionary.to_pylist()
        ]
        return pa.array(names, pa.string()).take(different.indices)

    def _kinds(self, type: pa.DataType) -> pa.Array:
        types = self._frames.types
        known = {_IDS[cls]: name for cls, name in KINDS.items()}
        first = min(known)
        return pa.array([known[number] for number in sorted(known)], type).take(pa.array(types - first))

    def _text_bodies(self, type: pa.DataType) -> pa.Array:
        # What is ASCII is UTF-8 and need not be looked at again.
        return self._texts.view(type) if self._is_ascii else body_texts(self._texts, type)

    def _bytes(self, type: pa.DataType) -> pa.Array:
        is_bytes = self._is_of(BytesMessage)
        span = self._content.limited(is_bytes)
        return self._frames.column(span._replace(nulls=~is_bytes), type)  # without a body it is empty

    def _map_bodies(self, type: pa.DataType) -> pa.Array:
        return self._empty(MapMessage, type) if self._maps is None else typed_maps(self._maps, type)

    def _stream_bodies(self, type: pa.DataType) -> pa.Array:
        return self._empty(StreamMessage, type) if self._streams is None else typed_lists(self._streams, type)

    def _headers(self, type: pa.DataType) -> pa.Array:
        return self._empty(None, type) if self._properties is None else headers(self._properties, type)

    def _typed_properties(self, type: pa.DataType) -> pa.Array:
        return self._empty(None, type) if self._properties is None else typed_maps(self._properties, type)

    def _empty(self, kind: type[Message] | None, type: pa.DataType) -> pa.Array:
        """Lists or maps without anything in them for messages of a kind, null for others."""
        count = len(self.fits)
        nulls = np.zeros(count, bool) if kind is None else ~self._is_of(kind)
        if nulls.all():
            return pa.nulls(count, type)
        return empty_lists(nulls, type)


def _beyond_ascii(content: Bytes) -> Bools | None:
    if content.max() < 0x80:
        return None
    return content >= 0x80


_COLUMNS: Final[Mapping[str, Callable[[FrameColumns, pa.DataType], pa.Array]]] = {
    "value": lambda found, type: found._values,
    "text": FrameColumns._text_bodies,
    "bytes": FrameColumns._bytes,
    "map": FrameColumns._map_bodies,
    "stream": FrameColumns._stream_bodies,
    "headers": FrameColumns._headers,
    "properties": FrameColumns._typed_properties,
    "kind": FrameColumns._kinds,
    "timestamp": lambda found, type: found._times("timestamp"),
    "brokerInTime": lambda found, type: found._times("broker_in_time"),
    "expiration": lambda found, type: found._times("expiration"),
    "replyTo": lambda found, type: found._names("reply_to"),
    "originalDestination": lambda found, type: found._names("original_destination"),
}
