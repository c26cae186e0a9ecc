"""A connection that writes down what a dialect would send."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, cast

from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.store.jdbc.dialect import Dialect
from jdbcstore.store.jdbc.writes import Batch
from tests.sql.captured import Sent

__all__ = ["batch_statements"]


def batch_statements(dialect: Dialect, batch: Batch) -> list[Sent]:
    """The statements of a batch in the order in which they go to the database, without the transaction around them."""
    recorder = _Recorder()
    dialect.write(cast(DBAPIConnection, recorder), batch)
    return [sent for sent in recorder.sent if not sent.statement.startswith(("BEGIN", "COMMIT"))]


class _Recorder:
    """As much of the three drivers' connections and cursors as the dialects use."""

    rowcount = 0
    has_prepared_add = False

    def __init__(self) -> None:
        self.sent: list[Sent] = []
        self.notices: list[str] = []  # psycopg2 keeps warnings of the server there

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: str | bytes, parameters: Sequence[Any] = ()) -> None:
        """sqlite3's with parameters, psycopg2's with several statements in one text."""
        if isinstance(statement, str):
            self.sent.append(Sent(statement, tuple(parameters)))
        else:
            self.sent += [Sent(word.decode(errors="surrogateescape"), ()) for word in statement.split(b";")]

    def copy_expert(self, statement: bytes, data: object, size: int) -> None:
        """psycopg2's, with what follows the COPY in the same text."""
        copy, *rest = statement.split(b";")
        self.sent.append(Sent(copy.decode(), data))
        for word in rest:
            self.execute(word)

    def query(self, statement: bytes) -> int:
        """PyMySQL's, with several statements in one packet."""
        self.execute(statement)
        return 0

    def next_result(self) -> int:
        """PyMySQL's."""
        return 0
