"""Blocks of rows in PostgreSQL's binary COPY format, a column at a time."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock
from jdbcstore.store.jdbc.dialect.base.packed_columns import packed
from jdbcstore.store.jdbc.dialect.postgresql.copy_format import FIXED_FIELDS, text_field

__all__ = ["packed_block"]

#: `FIXED_FIELDS` for NumPy.
_FIXED: Final = np.dtype(
    [
        ("fields", ">i2"),
        ("id_length", ">i4"),
        ("id", ">i8"),
        ("sequence_length", ">i4"),
        ("sequence", ">i8"),
        ("expiration_length", ">i4"),
        ("expiration", ">i8"),
        ("priority_length", ">i4"),
        ("priority", ">i8"),
    ]
)
assert _FIXED.itemsize == FIXED_FIELDS.size


def packed_block(block: LoadBlock, number: int, fields: int, tail: bytes) -> bytes:
    """The rows of a block.

    Args:
        block: the rows.
        number: ID, or NUMBER, of the first one.
        fields: how many a row has.
        tail: what each row ends with.
    """
    count = len(block)
    fixed = np.empty(count, _FIXED)
    fixed["fields"] = fields
    fixed["id_length"] = fixed["sequence_length"] = fixed["expiration_length"] = fixed["priority_length"] = 8
    fixed["id"] = np.arange(number, number + count)
    fixed["sequence"] = np.arange(block.sequence, block.sequence + count)
    fixed["expiration"] = 0
    fixed["priority"] = block.priorities
    names = list(map(text_field, block.containers))
    containers = names[0] if len(names) == 1 else pa.array(names, pa.binary()).take(pa.array(block.container_at))
    lengths = packed(block.lengths.astype(">i4"))
    fields_of_rows = packed(fixed), containers, text_field(block.producer), lengths, *block.pieces, tail
    _, ends, data = pc.binary_join_element_wise(*fields_of_rows, b"").buffers()
    return bytes(data[: int(np.frombuffer(ends, np.int32)[count])])
