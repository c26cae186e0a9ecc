"""Blocks of messages that differ in kind, destination, number and body only, made a column at a time."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.modified_utf8 import encode_modified_utf8
from jdbcstore.openwire import MessageTemplate
from jdbcstore.store.jdbc.dialect.base.packed_columns import packed

__all__ = ["Indexes", "frames", "java_texts", "lengths_of", "parts", "stored_texts"]

#: For each row the place of its value in a list of the different ones; or lengths.
Indexes: TypeAlias = npt.NDArray[np.int64]

#: How many bytes of messages a block has, about: few enough for a processor's caches.
_BLOCK_BYTES: Final = 2 << 20
_ASCII_MAX: Final = 0x7F
#: The first byte of what UTF-8 and modified UTF-8 write differently, besides 0.
_SUPPLEMENTARY: Final = 0xF0
#: That there is a body, its length, and that of the text in it; a byte 0 says that there is none.
_BODY: Final = np.dtype([("is_there", "u1"), ("length", ">i4")])
_TEXT_BODY: Final = np.dtype([("is_there", "u1"), ("length", ">i4"), ("text_length", ">i4")])
_NO_BODY: Final = bytes(1)


def java_texts(texts: pa.Array) -> pa.Array:
    """Texts in modified UTF-8.

    Raises:
        pyarrow.ArrowInvalid: one is no UTF-8.
    """
    least, most = _extremes(texts)
    if most > _ASCII_MAX:
        texts.validate(full=True)
    if least > 0 and most < _SUPPLEMENTARY:
        return texts.view(pa.binary())
    encoded = [None if text is None else encode_modified_utf8(text) for text in texts.to_pylist()]
    return pa.array(encoded, pa.binary())


def _extremes(texts: pa.Array) -> tuple[int, int]:
    """The smallest and the largest byte in texts; what is plain ASCII if there is none."""
    _, ends, data = texts.buffers()
    first, last = np.frombuffer(ends, np.int32)[[texts.offset, texts.offset + len(texts)]]
    if first == last:
        return _ASCII_MAX, _ASCII_MAX
    found = np.frombuffer(data, np.uint8)[first:last]
    return int(found.min()), int(found.max())


def lengths_of(data: pa.Array) -> Indexes:
    """How many bytes each value has, a null 0."""
    lengths: Indexes = pc.fill_null(pc.binary_length(data), 0).to_numpy().astype(np.int64)
    return lengths


def stored_texts(texts: pa.Array) -> pa.Array:
    """The bodies of text messages, as they are stored, of texts in modified UTF-8."""
    return pc.binary_join_element_wise(packed(lengths_of(texts).astype(">i4")), texts, b"")


def parts(data: pa.Array) -> Iterator[slice]:
    """Cuts rows into blocks of about the same number of bytes."""
    count = len(data)
    rows_max = max(1, _BLOCK_BYTES * count // max(data.nbytes, 1))
    for first in range(0, count, rows_max):
        yield slice(first, first + rows_max)


def frames(
    templates: Sequence[MessageTemplate], at: Indexes, sequence: int, contents: pa.Array, *, are_texts: bool
) -> tuple[Indexes, list[Any]]:
    """Messages as they are stored: their lengths, and the pieces of which they are made (see `LoadBlock`).

    Args:
        templates: what messages have in common.
        at: which template each one has.
        sequence: the producer's number of the first one.
        contents: the bodies as they are stored; null where there is none.
        are_texts: whether bodies are texts in modified UTF-8 instead.
    """
    count, lengths = len(contents), lengths_of(contents)
    announced = np.ones(count, _TEXT_BODY if are_texts else _BODY)
    announced["length"] = lengths + (4 if are_texts else 0)
    if are_texts:
        announced["text_length"] = lengths
    bodies: list[Any] = [packed(announced), contents]
    lengths = lengths + announced.itemsize
    if contents.null_count:
        bodies = [pc.fill_null(pc.binary_join_element_wise(*bodies, b""), _NO_BODY)]
        lengths = lengths_of(bodies[0])
    numbers = np.arange(sequence, sequence + count).astype(">i8")
    around = np.array([len(one.head) + numbers.itemsize + len(one.between) + len(one.tail) for one in templates])
    sizes = around[at] + lengths
    head, between, tail = (
        _taken([getattr(one, piece) for one in templates], at) for piece in ("head", "between", "tail")
    )
    size = packed(sizes.astype(">i4"))
    return sizes + 4, [size, head, packed(numbers), between, *bodies, tail]


def _taken(pieces: list[bytes], at: Indexes) -> Any:
    return pieces[0] if len(pieces) == 1 else pa.array(pieces, pa.binary()).take(pa.array(at))
