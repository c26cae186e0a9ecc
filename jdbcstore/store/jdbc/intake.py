"""The waiting room of bulk loads as rows of JDBCSTORE_STAGED.

Taking in is a write like any other: the rows that it adds, and what becomes of those that wait. Before that stands a
statement that fails unless the load is as far as it was when the page was read, so of two commits that take in the same
messages one is rolled back with everything that it would have added.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import text

from jdbcstore.errors import CodecError
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.intake import IntakePage, IntakeStore, Staged, StagedPlace, TakenIn, WaitingLoad
from jdbcstore.store.jdbc.rows import Change, Trace
from jdbcstore.store.jdbc.store_host import StoreHost

__all__ = ["JdbcIntakeStore"]


class JdbcIntakeStore(IntakeStore):
    """The waiting room of one adapter, whose tables are there.

    Args:
        adapter: started.
    """

    def __init__(self, adapter: StoreHost) -> None:
        self._adapter = adapter

    def waiting_load(self) -> WaitingLoad | None:
        with self._adapter.reading() as connection:
            row = connection.execute(text(self._adapter.statements.load_ready)).first()
        return None if row is None else WaitingLoad(row[0], int(row[1]), int(row[2]), int(row[3]))

    def staged(self, job: str, after: StagedPlace, messages_max: int, bytes_max: int) -> IntakePage:
        part, number = after
        asked = {"job": job, "part": part, "number": number, "rows": messages_max}
        page: list[Staged] = []
        room = bytes_max
        with self._adapter.reading() as connection:
            for of_part, of_number, blob in connection.execute(text(self._adapter.statements.staged_page), asked):
                if room <= 0:
                    break
                page.append(Staged((int(of_part), int(of_number)), _message_of(blob)))
                room -= len(blob or b"")
        return page

    def changes_of(self, taken: TakenIn) -> tuple[list[Change], list[Trace]]:
        """The statements that take messages out, and what tells whether they are committed."""
        statements, load, after = self._adapter.statements, taken.load, taken.after
        done = load.taken + load.refused
        changes: list[Change] = [(statements.load_prove, (load.job, done))]
        for part, first, last in _ranges(taken.places):
            changes.append((statements.staged_delete, (load.job, part, first, last)))
        for part, number in taken.refused:
            changes.append((statements.staged_refuse, (-1 - part, load.job, part, number)))
        state = "committed" if taken.is_end else "ready"
        changes.append((statements.load_advance, (after.taken, after.refused, state, state, load.job)))
        trace = {"job": load.job, "done": after.taken + after.refused}
        return changes, [Trace(statements.load_trace, trace, is_there=True)]


def _message_of(blob: Any) -> Message | CodecError:
    if blob is None:
        return CodecError("column MSG is NULL")
    try:
        return unmarshal_message(bytes(blob))
    except CodecError as error:
        return error


def _ranges(places: Sequence[StagedPlace]) -> list[tuple[int, int, int]]:
    """Places in their order as part, first and last number of those that follow each other."""
    ranges: list[tuple[int, int, int]] = []
    for part, number in places:
        if ranges and ranges[-1][0] == part and ranges[-1][2] == number - 1:
            ranges[-1] = (part, ranges[-1][1], number)
        else:
            ranges.append((part, number, number))
    return ranges
