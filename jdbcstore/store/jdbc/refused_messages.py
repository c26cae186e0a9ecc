"""Messages of the outbox that the broker could not take in: they stay in JDBCSTORE_STAGED until somebody decides.

Their PART is ``-1 - PART``, so the broker does not see them, and nobody else writes to such rows: neither a lease nor
the broker is asked. One that is released has its old place again; the broker looks there within a second.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import text

from jdbcstore.errors import CodecError, SchemaMismatch
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.jdbc.connection import Opened
from jdbcstore.store.jdbc.outbox import sent_ms
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.store.jdbc.schema_inspection import inspect_schema

__all__ = ["RefusedMessage", "RefusedMessages"]

_PAGE_ROWS: Final = 500


@dataclass(frozen=True, slots=True)
class RefusedMessage:
    """One of them.

    Args:
        message_id: as `jdbcstore.enlist` has returned it.
        destination: its qualified name.
        sent_ms: epoch milliseconds, by the clock of the application's machine.
        size_bytes: of what is stored.
        damage: why nobody can read it; empty if it can be read, and the broker's log says why it was refused.
    """

    message_id: str
    destination: str
    sent_ms: int
    size_bytes: int
    damage: str


@dataclass(frozen=True, slots=True)
class _Row:
    part: int
    number: int
    container: str
    message_id: str

    @property
    def key(self) -> dict[str, object]:
        return {"job": OUTBOX_JOB, "part": self.part, "number": self.number}


class RefusedMessages:
    """Those of one store.

    Args:
        store: opened, in autocommit mode.

    Raises:
        SchemaMismatch: it has no table for them; the text says what to run.
    """

    def __init__(self, store: Opened) -> None:
        self._connection, self._statements = store.connection, store.statements
        report = inspect_schema(store.connection, store.location.options.table_names)
        if not report.has_loads:
            raise SchemaMismatch(
                f"the store has no table {self._statements.staged}, so it has no outbox. Run: {report.upgrade_command}"
            )

    def __iter__(self) -> Iterator[RefusedMessage]:
        """Each, the oldest first. One at a time is in memory."""
        for row in self._rows():
            found = self._connection.execute(text(self._statements.refused_message), row.key).first()
            if found is not None:  # nobody has decided on it meanwhile
                blob = found[0]
                size_bytes = len(blob or b"")
                yield RefusedMessage(
                    row.message_id,
                    row.container,
                    sent_ms(-1 - row.part),
                    size_bytes,
                    _damage(None if blob is None else bytes(blob)),
                )

    def _rows(self) -> Iterator[_Row]:
        part, number = -1, -1
        while True:
            asked = {"job": OUTBOX_JOB, "part": part, "number": number, "rows": _PAGE_ROWS}
            page = self._connection.execute(text(self._statements.refused_keys), asked).all()
            for of_part, of_number, container, producer, sequence in page:
                part, number = int(of_part), int(of_number)
                yield _Row(part, number, str(container), f"{producer}:{sequence}")
            if len(page) < _PAGE_ROWS:
                return

    def release(self, message_ids: Collection[str] | None) -> list[str]:
        """Let the broker try again.

        Args:
            message_ids: of which; None for all.

        Returns:
            The ids of those that were released.
        """
        return self._changed(self._statements.refused_release, message_ids)

    def delete(self, message_ids: Collection[str] | None) -> list[str]:
        """Remove messages for good; as `release`."""
        return self._changed(self._statements.refused_delete, message_ids)

    def _changed(self, statement: str, message_ids: Collection[str] | None) -> list[str]:
        changed = []
        for row in self._rows():
            if message_ids is not None and row.message_id not in message_ids:
                continue
            if self._connection.execute(text(statement), row.key).rowcount:
                changed.append(row.message_id)
        return changed


def _damage(blob: bytes | None) -> str:
    if blob is None:
        return "column MSG is NULL"
    try:
        unmarshal_message(blob)
    except CodecError as error:
        return str(error)
    return ""
