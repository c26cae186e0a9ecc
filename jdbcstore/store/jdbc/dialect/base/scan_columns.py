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


def gathered(buffer: Bytes, places: Places, type: str) -> Places:
    """The numbers of a NumPy type that stand at some places."""
    # There is a number at each byte, so they overlap; only those at the places are looked at.
    numbers: Places = np.ndarray((len(buffer) - np.dtype(type).itemsize + 1,), type, buffer, strides=(1,))
    return numbers[places].astype(np.int64, copy=False)


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
    views = np.zeros((len(places), 2), np.int64)
    # The length, and the first four bytes, which Arrow does not look at to copy; the buffer's number, 0, and the place.
    views[:, 0] = lengths
    np.left_shift(places, 32, out=views[:, 1])
    if len(lengths) and lengths.min() <= _INLINE:
        is_short = lengths <= _INLINE
        short, quarters = places[is_short], views.view(np.uint32)
        for at in range(3):  # with what stands behind the value, which is not looked at either
            quarters[is_short, 1 + at] = gathered(buffer, short + 4 * at, "<u4")
    buffers: list[Any] = [_validity(nulls), pa.py_buffer(views), pa.py_buffer(buffer)]
    column = pa.Array.from_buffers(pa.binary_view(), len(places), buffers).cast(pa.binary())
    return column if type == pa.binary() else column.cast(type)


def _validity(nulls: Bools | None) -> Any:
    return None if nulls is None or not nulls.any() else pa.py_buffer(np.packbits(~nulls, bitorder="little"))
