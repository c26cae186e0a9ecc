"""Filling the message table the database's own way: one INSERT … SELECT, a hundred thousand rows in about a second."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from sqlalchemy import BigInteger, ColumnElement, Connection, column, insert, literal, literal_column, select, text

from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER

__all__ = ["ByNumber", "load"]

#: What a column is given in the row with this number, counted from 0.
ByNumber: TypeAlias = Callable[[ColumnElement[int]], ColumnElement[Any]]


def load(
    connection: Connection,
    tables: Tables,
    count: int,
    first: int = 1,
    **columns: str | int | bytes | ByNumber | None,
) -> None:
    """Insert `count` messages in the order of their ids.

    Args:
        connection: in autocommit mode.
        tables: whose message table.
        count: how many, a million at most.
        first: the first id and sequence of the producer; both count up from there.
        columns: what differs from a message without properties in queue TEST.
    """
    values: dict[str, Any] = {
        "ID": lambda n: n + literal_column(str(first)),
        "CONTAINER": "queue://TEST",
        "MSGID_PROD": str(PRODUCER),
        "MSGID_SEQ": lambda n: n + literal_column(str(first)),
        "EXPIRATION": 0,
        "MSG": marshal(text_message(1)),
        "PRIORITY": 0,
        **columns,
    }
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
