"""The tables of a report: the same in the page and in Parquet."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

__all__ = ["SCHEMAS", "Figures", "Row"]

#: A row of a table: the values by column.
Row: TypeAlias = Mapping[str, Any]

_COUNT: Final = pa.int64()
_TEXT: Final = pa.string()
_SECONDS: Final = pa.float64()


def _schema(**columns: pa.DataType) -> pa.Schema:
    return pa.schema(list(columns.items()))


#: By the name of the table. Bytes are those of messages as stored, ages are in seconds since a message was sent.
SCHEMAS: Final[Mapping[str, pa.Schema]] = {
    "destinations": _schema(
        destination=_TEXT, depth=_COUNT, bytes=_COUNT, expired=_COUNT, prepared=_COUNT,
        bytes_p50=_COUNT, bytes_p90=_COUNT, bytes_p99=_COUNT, bytes_max=_COUNT,
        age_s_p50=_SECONDS, age_s_p90=_SECONDS, age_s_p99=_SECONDS, age_s_max=_SECONDS, unreadable=_COUNT,
    ),
    "ages": _schema(destination=_TEXT, age=_TEXT, place=_COUNT, messages=_COUNT),
    "sizes": _schema(destination=_TEXT, bytes_from=_COUNT, messages=_COUNT),
    "priorities": _schema(destination=_TEXT, priority=_COUNT, messages=_COUNT),
    "redeliveries": _schema(destination=_TEXT, redeliveries=_COUNT, messages=_COUNT),
    "producers": _schema(client=_TEXT, producers=_COUNT, messages=_COUNT, bytes=_COUNT),
    "dead_letters": _schema(
        destination=_TEXT, original_destination=_TEXT, cause=_TEXT, messages=_COUNT, oldest_s=_SECONDS
    ),
    "subscriptions": _schema(
        topic=_TEXT, client_id=_TEXT, subscription=_TEXT, selector=_TEXT, pending=_COUNT, oldest_s=_SECONDS
    ),
    "files": _schema(
        file=_COUNT, bytes=_COUNT, used_bytes=_COUNT, destination=_TEXT, messages=_COUNT, pinned_bytes=_COUNT,
        oldest_message=_TEXT, keeps=_TEXT,
    ),
}  # fmt: skip


@dataclass
class Figures:
    """All that a report says.

    Args:
        source: the store, without a password.
        taken_at: when, as people write it, in UTC.
        tables: rows by the names of `SCHEMAS`; a table that does not apply is left out.
        notes: what has to be known about the figures.
    """

    source: str
    taken_at: str
    tables: dict[str, list[Row]] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def rows(self, table: str) -> Sequence[Row]:
        """The rows of a table, none if it does not apply."""
        return self.tables.get(table, ())

    def total(self, table: str, column: str) -> int:
        """The sum of a column."""
        return sum(row[column] or 0 for row in self.rows(table))

    def write(self, folder: Path) -> None:
        """Write each table as a Parquet file; one that is there is replaced in one step."""
        folder.mkdir(parents=True, exist_ok=True)
        for name, rows in self.tables.items():
            schema = SCHEMAS[name].with_metadata({"source": self.source, "taken_at": self.taken_at})
            unfinished = folder / f".{name}.parquet.tmp"
            pq.write_table(pa.Table.from_pylist(list(rows), schema), unfinished)
            os.replace(unfinished, folder / f"{name}.parquet")
