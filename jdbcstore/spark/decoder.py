"""Rows of the message table → batches of the schema.

What stands in the table is passed on as Arrow gave it, or computed by Arrow. Messages are decoded only if a column
needs that, and of a message only what the columns need: properties and bodies stay bytes until somebody asks for them.
Frames of the usual kind are decoded a batch at a time, the others one after another.

A message that cannot be decoded is never dropped: its row has what the table says and null in all that is decoded, and
column ``_corrupt`` has the reason and the bytes; without that column the reading stops.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import compress
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql.types import StructType

from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.selector import Selector
from jdbcstore.spark.arrays import times
from jdbcstore.spark.columns import COLUMNS, CORRUPT, SIZE, arrow_schema, check_schema
from jdbcstore.spark.filters import NUMBERS
from jdbcstore.spark.from_frames import FrameColumns
from jdbcstore.spark.from_messages import UNREADABLE, MessageColumns, body_of
from jdbcstore.spark.options import OnCorrupt
from jdbcstore.store.jdbc.dialect.base.scan_columns import Bools

__all__ = ["Decoder"]


class Decoder:
    """Makes batches of a schema.

    Args:
        schema: columns of `COLUMNS`, as Spark wants them.
        on_corrupt: ``fail`` stops at a message that cannot be decoded also if there is a column for it.
        selector: leaves out messages that do not match; those that cannot be decoded stay.
        lacks: columns of the table that the store does not have: EXPIRATION or none. It is read from the message then.

    Raises:
        ConfigurationError: the schema has a column that there is not, or one of another type.
    """

    def __init__(
        self,
        schema: StructType,
        *,
        on_corrupt: OnCorrupt = "column",
        selector: Selector | None = None,
        lacks: frozenset[str] = frozenset(),
    ) -> None:
        self._names = check_schema(schema)
        self._columns = [COLUMNS[name] for name in self._names]
        self._selector = selector
        self._takes_corrupt = CORRUPT in self._names and on_corrupt == "column"
        self._decoded = {column.name for column in self._columns if column.is_decoded or lacks & set(column.needs)}
        self._decodes = selector is not None or bool(self._decoded)
        wanted = dict.fromkeys(needed for column in self._columns for needed in column.needs if needed not in lacks)
        if self._decodes:
            wanted |= dict.fromkeys(("MSG", "ID"))
        if "MSG" in wanted:
            wanted.pop(SIZE, None)
        #: What a scan has to read, columns of the table by name or `SIZE`; never empty, since rows have to be counted.
        #: Numbers come first: where one begins is the same in all rows then, which makes some drivers faster.
        self.table_columns: Final = tuple(sorted(wanted, key=lambda name: name not in {*NUMBERS, SIZE})) or ("ID",)
        #: Of the batches.
        self.schema: Final = arrow_schema(schema)
        names = set(self._names)
        self._reads_properties = bool(names & {"properties", "headers", CORRUPT})
        self._reads_bodies = bool(names & {"value", "text", "bytes", "map", "stream", CORRUPT})

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError("a Decoder is made where it is used")

    def decode(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of the schema from one with `table_columns`.

        Raises:
            CodecError: a message cannot be decoded and there is no column for it, or `on_corrupt` is ``fail``.
        """
        if not self._decodes:
            return self._batch(raw, None, {})
        if self._selector is not None or not raw.num_rows:
            return self._one_by_one(raw)
        found = FrameColumns(
            raw.column("MSG"),
            self._decoded,
            reads_properties=self._reads_properties,
            reads_bodies=self._reads_bodies,
        )
        if found.fits.all():
            return self._batch(raw, found, {})
        if not found.fits.any():
            return self._one_by_one(raw)
        return self._in_two_parts(raw, found.fits)

    def _in_two_parts(self, raw: pa.RecordBatch, fits: Bools) -> pa.RecordBatch:
        """A batch some of whose frames can be decoded together."""
        together = self.decode(raw.filter(pa.array(fits)))
        others = self._one_by_one(raw.filter(pa.array(~fits)))
        places = np.argsort(np.concatenate((np.flatnonzero(fits), np.flatnonzero(~fits))))
        arrays = [
            pa.concat_arrays(parts).take(pa.array(places))
            for parts in zip(together.columns, others.columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _one_by_one(self, raw: pa.RecordBatch) -> pa.RecordBatch:
        """A batch of messages each of which becomes an object."""
        messages, bodies, errors = self._messages(raw)
        if self._selector is not None:
            chosen = [one is UNREADABLE or self._selector.matches(one) for one in messages]
            raw = raw.filter(pa.array(chosen, pa.bool_()))
            errors = _moved(errors, chosen)
            messages, bodies = list(compress(messages, chosen)), list(compress(bodies, chosen))
        return self._batch(raw, MessageColumns(messages, bodies), errors)

    def _batch(
        self, raw: pa.RecordBatch, found: FrameColumns | MessageColumns | None, errors: Mapping[int, str]
    ) -> pa.RecordBatch:
        arrays = []
        for field in self.schema:
            if field.name == CORRUPT:
                arrays.append(_corrupt(raw, errors, field.type))
            elif found is not None and field.name in self._decoded:
                arrays.append(found.column(field.name, field.type))
            else:
                arrays.append(_FROM_TABLE[field.name](raw))
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _messages(self, raw: pa.RecordBatch) -> tuple[list[Message], list[bytes | None], dict[int, str]]:
        """The messages, their bodies, and by their places why some cannot be decoded."""
        messages: list[Message] = []
        bodies: list[bytes | None] = []
        errors: dict[int, str] = {}
        reads_properties, reads_bodies = self._reads_properties, self._reads_bodies
        for place, blob in enumerate(raw.column("MSG").to_pylist()):
            try:
                message = unmarshal_message(blob)
                if reads_properties and message.marshalled_properties is not None:
                    message.properties  # noqa: B018  # decodes, and remembers
                body = body_of(message) if reads_bodies else None
            except (CodecError, TypeError) as error:
                why = "column MSG is NULL" if blob is None else str(error)
                if not self._takes_corrupt:
                    id = raw.column("ID")[place].as_py()
                    raise CodecError(
                        f"the message with ID {id} cannot be decoded: {why}. To get such messages in a column of their"
                        f" own ask for {CORRUPT}, with onCorrupt=column"
                    ) from error
                errors[place] = why
                message, body = UNREADABLE, None
            messages.append(message)
            bodies.append(body)
        return messages, bodies, errors


# -- columns of the table ----------------------------------------------------------------------------------------------


def _message_ids(raw: pa.RecordBatch) -> pa.Array:
    """Both parts; only the first where there is no number, as in the ids of foreign clients."""
    producers, sequences = raw.column("MSGID_PROD"), raw.column("MSGID_SEQ").cast(pa.string())
    return pc.coalesce(pc.binary_join_element_wise(producers, sequences, ":"), producers)


def _expirations(raw: pa.RecordBatch) -> pa.Array:
    found = raw.column("EXPIRATION")
    return times(pc.if_else(pc.greater(found, 0), found, None))


def _sizes(raw: pa.RecordBatch) -> pa.Array:
    if SIZE in raw.schema.names:
        return raw.column(SIZE)
    return pc.binary_length(raw.column("MSG")).cast(pa.int64())


_FROM_TABLE: Final[Mapping[str, Callable[[pa.RecordBatch], pa.Array]]] = {
    "topic": lambda raw: raw.column("CONTAINER"),
    "partition": lambda raw: pa.repeat(pa.scalar(0, pa.int32()), raw.num_rows),
    "offset": lambda raw: raw.column("ID"),
    "messageId": _message_ids,
    "rowPriority": lambda raw: raw.column("PRIORITY").cast(pa.int32()),
    "expiration": _expirations,
    "producerId": lambda raw: raw.column("MSGID_PROD"),
    "size": _sizes,
    "xid": lambda raw: raw.column("XID"),
    "message": lambda raw: raw.column("MSG"),
}


# -- messages that cannot be decoded -----------------------------------------------------------------------------------


def _corrupt(raw: pa.RecordBatch, errors: Mapping[int, str], type: pa.DataType) -> pa.Array:
    if not errors:
        return pa.nulls(raw.num_rows, type)
    found: list[dict[str, object] | None] = [None] * raw.num_rows
    for place, why in errors.items():
        found[place] = {"error": why, "message": raw.column("MSG")[place].as_py()}
    return pa.array(found, type)


def _moved(errors: Mapping[int, str], chosen: Sequence[bool]) -> dict[int, str]:
    """The errors at the places that are left."""
    places = {}
    count = 0
    for place, is_chosen in enumerate(chosen):
        places[place] = count
        count += is_chosen
    return {places[place]: why for place, why in errors.items()}
