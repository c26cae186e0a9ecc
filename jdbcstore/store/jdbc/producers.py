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
        adapter, statements = self._adapter, self._adapter.statements
        before: Completion[None] = Completion()
        adapter.writer.submit(Write(before))
        before.result()  # also after an outcome that nobody knew: the writer has a new connection then
        with adapter.reading() as connection:
            found = [connection.execute(text(statements.producer_sequence_stored), {"producer": producer}).scalar()]
            if self.has_table:
                remembered = text(statements.producer_sequence_remembered)
                found.append(connection.execute(remembered, {"producer": producer}).scalar())
                self._sweep(connection)
        return max((int(sequence) for sequence in found if sequence is not None), default=-1)

    def _sweep(self, connection: Connection) -> None:
        adapter = self._adapter
        page = text(adapter.statements.producers_page)
        rows = connection.execute(page, {"after": self._swept, "rows": _ROWS_SWEPT}).all()
        self._swept = rows[-1][0] if len(rows) == _ROWS_SWEPT else ""
        old = [name for name, unused_ms in rows if unused_ms > adapter.options.producer_memory_ms]
        if old:
            adapter.writer.submit(Write(Completion(), forgets=old))
