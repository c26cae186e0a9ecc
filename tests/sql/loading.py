"""Filling the message table the database's own way: one INSERT … SELECT, a hundred thousand rows in about a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from sqlalchemy import BigInteger, ColumnElement, Connection, column, insert, literal, select, text

from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER

__all__ = ["load"]

#: Column values of the n-th row, n counting from 0.
_DEFAULTS: Final[dict[str, Any]] = {
    "ID": lambda n: n + 1,
    "CONTAINER": "queue://TEST",
    "MSGID_PROD": str(PRODUCER),
    "MSGID_SEQ": lambda n: n + 1,
    "EXPIRATION": 0,
    "MSG": marshal(text_message(1)),
    "PRIORITY": 0,
}


def load(
    connection: Connection,
    tables: Tables,
    count: int,
    **columns: str | int | bytes | None | Callable[[ColumnElement[int]], ColumnElement[Any]],
) -> None:
    """Insert `count` messages in the order of their ids.

    Args:
        connection: in autocommit mode.
        tables: whose message table.
        count: how many, a million at most.
        columns: what differs from the defaults (queue TEST, ids from 1 on); a function is given the row's number,
            which counts from 0.
    """
    values = _DEFAULTS | columns
    n = column("n", BigInteger())
    digits = " UNION ALL ".join(f"SELECT {digit}{' AS d' if digit == 0 else ''}" for digit in range(10))
    places = range(len(str(count - 1)))
    total = " + ".join(f"t{place}.d * {10**place}" for place in places)
    crossed = " CROSS JOIN ".join(f"({digits}) t{place}" for place in places)
    numbers = text(f"SELECT {total} AS n FROM {crossed}").columns(n).subquery("numbers")
    into = [tables.messages.c[name] for name in values]
    chosen = [
        value(numbers.c.n) if callable(value) else literal(value, into_.type)
        for value, into_ in zip(values.values(), into, strict=True)
    ]
    rows = select(*chosen).where(numbers.c.n < count).order_by(numbers.c.n)
    connection.execute(insert(tables.messages).from_select(into, rows))
