"""From the bytes of many rows to Arrow columns, without a Python object for each value.

A driver's result is one buffer and, for a column, the place and length of every value in it. Numbers are gathered by
NumPy; bytes become Arrow's *views*, which are places in a buffer, and are copied together by Arrow itself. Source of
the layout: Arrow's columnar format, "Variable-size Binary View Layout".
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

__all__ = ["PADDING", "Bools", "Bytes", "Places", "gathered", "integers", "values"]

Bytes: TypeAlias = npt.NDArray[np.uint8]
#: Positions in a buffer, or lengths.
Places: TypeAlias = npt.NDArray[np.int64]
Bools: TypeAlias = npt.NDArray[np.bool_]

#: A value of up to so many bytes stands in the view itself.
_INLINE: Final = 12
#: How much a buffer needs behind its last byte, since short values are read as if they were longer.
PADDING: Final = 16
_VIEW: Final = np.dtype([("length", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")])


def gathered(buffer: Bytes, places: Places, type: str) -> Places:
    """The numbers of a NumPy type that stand at some places."""
    size = np.dtype(type).itemsize
    numbers: Places = buffer[places[:, None] + np.arange(size)].view(type)[:, 0].astype(np.int64)
    return numbers


def integers(numbers: Places, nulls: Bools | None) -> pa.Array:
    """Numbers as a column; what stands in the place of a null does not count."""
    return pa.Array.from_buffers(pa.int64(), len(numbers), [_validity(nulls), pa.py_buffer(numbers)])


def values(buffer: Bytes, places: Places, lengths: Places, nulls: Bools | None, type: pa.DataType) -> pa.Array:
    """Texts or bytes as a column; texts have to be UTF-8.

    Args:
        buffer: shorter than 2 GiB, with `PADDING` behind the last value.
        places, lengths: of the values; the length of a null is 0.
        nulls: which are; None if none is.
        type: `pyarrow.string()` or `pyarrow.binary()`.
    """
    views = np.zeros(len(places), _VIEW)
    views["length"], views["offset"] = lengths, places
    if (is_short := lengths <= _INLINE).any():
        short = lengths[is_short, None]
        content = buffer[places[is_short, None] + np.arange(_INLINE)]
        content[np.arange(_INLINE) >= short] = 0
        views.view(np.uint8).reshape(-1, _VIEW.itemsize)[is_short, -_INLINE:] = content
    buffers: list[Any] = [_validity(nulls), pa.py_buffer(views), pa.py_buffer(buffer)]
    column = pa.Array.from_buffers(pa.binary_view(), len(places), buffers).cast(pa.binary())
    return column if type == pa.binary() else column.cast(type)


def _validity(nulls: Bools | None) -> Any:
    return None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
