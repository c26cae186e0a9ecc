"""Reading the same fields of many frames at once: a batch of messages without a Python object for each.

The frames of a batch are walked along the field table together. Where the next field begins is an array with a place
for each frame, so a field takes a few array operations however many frames there are. Only frames as nearly all are get
read: messages in the wire version of stores, with nothing in them that hardly any message has, whose texts are ASCII.
The others *do not fit* and are left to `jdbcstore.openwire.unmarshal_message`. Of a frame that fits, that would have
read the same.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from functools import cache
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from jdbcstore.openwire.codec import STORE_VERSION
from jdbcstore.openwire.fields import COMMANDS, DESTINATION, MESSAGE, Field, Kind
from jdbcstore.store.jdbc.dialect.base.scan_columns import PADDING, Bools, Bytes, Places, gathered, values

__all__ = ["Frames", "Span", "content_of", "rows_with"]

#: The fields that all messages have, and the type ids of the messages that have no others.
_FIELDS: Final = tuple(field for field in MESSAGE if field.since <= STORE_VERSION <= field.until)
_MESSAGES: Final = tuple(command.type_id for command in COMMANDS if command.fields == MESSAGE)
#: In front of a frame are its size and its type id, of a destination's name its type id, a flag and the name's length.
_SIZE_BYTES: Final = 4
_HEAD_BYTES: Final = 5
_NAME_DISTANCE: Final = 4
_NUMBERS: Final = {Kind.I8: "i1", Kind.I32: ">i4", Kind.I64: ">i8"}


class Span(NamedTuple):
    """Where a field of variable length stands in each frame.

    Args:
        places: of the first byte.
        lengths: in bytes, 0 for a null.
        nulls: where there is none.
    """

    places: Places
    lengths: Places
    nulls: Bools

    def limited(self, rows: Bools) -> Span:
        """The same, null in all other rows."""
        return Span(self.places, np.where(rows, self.lengths, 0), self.nulls | ~rows)


class Frames:
    """The fields of a batch of messages.

    Args:
        blobs: column MSG.
        wanted: numbers and flags that are asked for, by the attributes of `Message`.
    """

    def __init__(self, blobs: pa.Array, wanted: Collection[str]) -> None:
        content, offsets = content_of(blobs)
        self._buffer = content if len(content) >= PADDING else np.zeros(PADDING, np.uint8)
        begins, ends = offsets[:-1], offsets[1:]
        #: Type ids.
        self.types: Final = self._bytes_at(begins + _SIZE_BYTES)
        sizes = self.numbers_at(begins, ">i4")
        #: Which frames were read. What else is said of the others means nothing.
        self.fits: Bools = _is_one_of(_MESSAGES)[self.types] & (sizes == ends - begins - _SIZE_BYTES)
        if blobs.null_count:
            self.fits &= blobs.is_valid().to_numpy(zero_copy_only=False)
        #: Those that are wanted.
        self.numbers: Final[dict[str, Places]] = {}
        #: Texts and bytes; destinations from their type ids on.
        self.spans: Final[dict[str, Span]] = {}
        self._wanted = frozenset(wanted)
        self._texts: list[tuple[Places, Places, Places]] = []
        rows = np.arange(len(blobs))
        self.fits &= self._read(_FIELDS, begins + _HEAD_BYTES, ends, rows, is_kept=True) == ends
        if self._texts:
            places, lengths, of = (np.concatenate(each) for each in zip(*self._texts, strict=True))
            texts = self._values(places, lengths, None, pa.binary())
            self._require(~rows_with(texts, _is_foreign_to_ascii), of)

    def column(self, span: Span, type: pa.DataType) -> pa.Array:
        """What stands in a span, as texts or bytes."""
        if span.nulls.all():
            return pa.nulls(len(span.nulls), type)
        return self._values(span.places, span.lengths, span.nulls, type)

    def numbers_at(self, places: Places, type: str) -> Places:
        """The numbers of a NumPy type at some places; whatever number behind the end of all frames."""
        return gathered(self._buffer, np.minimum(places, len(self._buffer) - np.dtype(type).itemsize), type)

    def _values(self, places: Places, lengths: Places, nulls: Bools | None, type: pa.DataType) -> pa.Array:
        # Behind the last text or bytes of a frame that fits are numbers, which take more than `PADDING`.
        return values(self._buffer, np.minimum(places, len(self._buffer) - PADDING), lengths, nulls, type)

    def _bytes_at(self, places: Places) -> Bytes:
        """The bytes at some places; whatever byte behind the end of all frames."""
        found: Bytes = self._buffer.take(places, mode="clip")
        return found

    def _read(
        self, fields: Sequence[Field], places: Places, ends: Places, rows: Places, *, is_kept: bool = False
    ) -> Places:
        """Walk along the fields of a type; returns where they end.

        Args:
            fields: in the order of the wire.
            places: where they begin.
            ends: of the frames.
            rows: the frames.
            is_kept: whether these are the fields of the messages themselves.
        """
        for field in fields:
            if not field.kind.is_fixed:
                places, span = self._nullable(field, places, ends, rows)
                if is_kept:
                    self.spans[field.name] = span
                continue
            if field.kind is Kind.FLAG:
                flags = self._bytes_at(places)
                self._require(flags <= 1, rows)
                if is_kept and field.name in self._wanted:
                    self.numbers[field.name] = flags.astype(np.int64)
            elif is_kept and field.name in self._wanted:
                self.numbers[field.name] = self.numbers_at(places, _NUMBERS[field.kind])
            places = places + field.kind.width
        return places

    def _nullable(self, field: Field, places: Places, ends: Places, rows: Places) -> tuple[Places, Span]:
        """Where a field ends that may be null, and what is in it."""
        flags = self._bytes_at(places)
        behind = begins = places + 1
        if not flags.any():
            return behind, Span(begins, np.zeros_like(places), np.ones(len(places), bool))
        self._require(flags <= 1, rows)
        nulls = flags != 1
        if nulls.any():
            there = np.flatnonzero(~nulls)
            begins, behind = begins.copy(), begins.copy()
            begins[there], behind[there] = self._present(field, places[there] + 1, ends[there], rows[there])
        else:
            begins, behind = self._present(field, begins, ends, rows)
        return behind, Span(begins, behind - begins, nulls)

    def _present(self, field: Field, places: Places, ends: Places, rows: Places) -> tuple[Places, Places]:
        """Where the bytes of a field begin and end that is not null."""
        if field.kind is Kind.TEXT:
            begins, behind = self._counted(places + 2, self.numbers_at(places, ">u2"), ends, rows)
            self._texts.append((begins, behind - begins, rows))
            return begins, behind
        if field.kind is Kind.BYTES:
            return self._counted(places + 4, self.numbers_at(places, ">i4"), ends, rows)
        types, fields = _read_as(field)
        self._require(_is_one_of(types)[self._bytes_at(places)], rows)
        behind = self._read(fields, places + 1, ends, rows)
        if field.of == DESTINATION:
            self._require(behind > places + _NAME_DISTANCE, rows)  # neither null nor empty
        return places, behind

    def _counted(self, begins: Places, lengths: Places, ends: Places, rows: Places) -> tuple[Places, Places]:
        """Where so many bytes begin and end; they have to end in the frame."""
        behind = begins + lengths
        fits = (lengths >= 0) & (behind <= ends)
        if not fits.all():
            self._require(fits, rows)
            behind = np.clip(behind, begins, np.maximum(begins, ends))
        return begins, behind

    def _require(self, fits: Bools, rows: Places) -> None:
        """Leave out those of the rows that do not fit."""
        if not fits.all():
            self.fits[rows[~fits]] = False


def content_of(blobs: pa.Array) -> tuple[Bytes, Places]:
    """The bytes of a column of bytes or texts one after another, and where in them each value begins and the last one
    ends."""
    _, offsets, content = blobs.buffers()
    places = np.frombuffer(offsets, np.int32)[blobs.offset : blobs.offset + len(blobs) + 1].astype(np.int64)
    found = np.zeros(0, np.uint8) if content is None else np.frombuffer(content, np.uint8)
    return found[places[0] : places[-1]], places - places[0]


def rows_with(blobs: pa.Array, sought: Callable[[Bytes], Bools | None]) -> Bools:
    """In which values of a column there are bytes that are sought.

    Args:
        blobs: bytes or texts.
        sought: says of each byte whether it is; None for none.
    """
    content, offsets = content_of(blobs)
    rows = np.zeros(len(blobs), bool)
    found = sought(content) if len(content) else None
    if found is not None:
        rows[np.searchsorted(offsets, np.flatnonzero(found), "right") - 1] = True
    return rows


def _is_foreign_to_ascii(content: Bytes) -> Bools | None:
    """Bytes that do not stand for themselves in all of Java's encodings; NUL is one of them."""
    if content.max() < 0x80 and content.min() > 0:
        return None
    return (content - 1) >= 0x7F  # 0 becomes 255


@cache
def _is_one_of(types: tuple[int, ...]) -> Bools:
    """By type id whether it is one of these."""
    found = np.zeros(256, bool)
    found[list(types)] = True
    return found


@cache
def _read_as(field: Field) -> tuple[tuple[int, ...], tuple[Field, ...]]:
    """The type ids that an object may have, and their fields; none where objects do not fit."""
    known = [command for cls in field.of for command in COMMANDS if command.cls is cls and field.kind is Kind.OBJECT]
    if not known:
        return (), ()
    alike = tuple(command.type_id for command in known if command.fields == known[0].fields)
    return alike, known[0].fields_at(STORE_VERSION)
