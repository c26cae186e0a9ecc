"""Listening to what SQLAlchemy sends."""

from __future__ import annotations

import threading
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
    """Collect every statement that any engine of this process sends during the block.

    But for those that come when their time has come, whatever is done meanwhile: renewals of a lock.
    """
    sent: list[Sent] = []

    def listen(
        connection: Connection, cursor: object, statement: str, parameters: Any, context: object, many: bool
    ) -> None:
        if threading.current_thread().name != "jdbcstore-lock-keeper":
            sent.append(Sent(statement, parameters))

    event.listen(Engine, "before_cursor_execute", listen)
    try:
        yield sent
    finally:
        event.remove(Engine, "before_cursor_execute", listen)
