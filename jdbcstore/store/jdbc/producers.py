"""How far the producers came that number their messages themselves: the table JDBCSTORE_PRODUCERS.

The writer keeps it, with the messages, in the same transaction. It is read here when a producer appears, and with each
producer that appears a few rows, one after the other through the whole table, are looked at, whether they may be
forgotten. So the table is never walked through at once, needs no index by time, and grows no faster than it is swept.
"""

from __future__ import annotations

from typing import Final

from sqlalchemy import Connection, text

from jdbcstore.errors import SchemaMismatch
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.writes import Write

__all__ = ["Producers"]

#: Rows looked at with each producer that appears.
_ROWS_SWEPT: Final = 20


class Producers:
    """What is remembered of producers.

    Args:
        adapter: started.
        has_table: whether our table is there; without it only stored messages tell.
    """

    def __init__(self, adapter: StoreHost, *, has_table: bool) -> None:
        self.has_table = has_table
        self._adapter = adapter
        self._swept = ""

    def require_table(self) -> None:
        """Raise `SchemaMismatch` unless our table is there."""
        if not self.has_table:
            raise SchemaMismatch(
                f"the store has no table {self._adapter.statements.producers}, so no producer may number its messages"
                " itself. Run: jdbcstore schema upgrade URL, then start the broker again"
            )

    def last_sequence(self, producer: str) -> int:
        """The highest sequence that is stored or remembered of a producer, -1 if none is.

        What was submitted before counts: the answer comes after it.
        """
        self._wait()
        with self._adapter.reading() as connection:
            stored = text(self._adapter.statements.producer_sequence_stored)
            found = [connection.execute(stored, {"producer": producer}).scalar()]
            if self.has_table:
                found.append(self._remembered(connection, producer))
                self._sweep(connection)
        return max((int(sequence) for sequence in found if sequence is not None), default=-1)

    def remembered(self, producer: str) -> int:
        """The highest sequence that is remembered of a producer, -1 if none is. What was submitted before counts."""
        if not self.has_table:
            return -1
        self._wait()
        with self._adapter.reading() as connection:
            found = self._remembered(connection, producer)
        return -1 if found is None else found

    def _wait(self) -> None:
        """Return when everything is answered that was submitted before."""
        before: Completion[None] = Completion()
        self._adapter.writer.submit(Write(before))
        before.result()  # also after an outcome that nobody knew: the writer has a new connection then

    def _remembered(self, connection: Connection, producer: str) -> int | None:
        remembered = text(self._adapter.statements.producer_sequence_remembered)
        found: int | None = connection.execute(remembered, {"producer": producer}).scalar()
        return found

    def _sweep(self, connection: Connection) -> None:
        adapter = self._adapter
        page = text(adapter.statements.producers_page)
        rows = connection.execute(page, {"after": self._swept, "rows": _ROWS_SWEPT}).all()
        self._swept = rows[-1][0] if len(rows) == _ROWS_SWEPT else ""
        old = [name for name, unused_ms in rows if unused_ms > adapter.options.producer_memory_ms]
        if old:
            adapter.writer.submit(Write(Completion(), forgets=old))
