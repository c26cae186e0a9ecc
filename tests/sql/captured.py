"""Listening to what SQLAlchemy sends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from sqlalchemy import Connection, Engine, event

__all__ = ["Sent", "captured"]


class Sent(NamedTuple):
    """One statement and its parameters, in the driver's own form."""

    statement: str
    parameters: Any


@contextmanager
def captured() -> Iterator[list[Sent]]:
    """Collect every statement that any engine of this process sends during the block."""
    sent: list[Sent] = []

    def listen(
        connection: Connection, cursor: object, statement: str, parameters: Any, context: object, many: bool
    ) -> None:
        sent.append(Sent(statement, parameters))

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
