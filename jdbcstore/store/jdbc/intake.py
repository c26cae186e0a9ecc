"""The waiting room of bulk loads as rows of JDBCSTORE_STAGED.

Taking in is a write like any other: the rows that it adds, and what becomes of those that wait. Before that stands a
statement that fails unless the load is as far as it was when the page was read, so of two commits that take in the same
messages one is rolled back with everything that it would have added.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Final

from sqlalchemy import text

from jdbcstore.errors import CodecError, StoreError
from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal_message
from jdbcstore.store.completion import Completion
from jdbcstore.store.intake import IntakePage, IntakeStore, OutboxBell, Staged, StagedPlace, TakenIn, WaitingLoad
from jdbcstore.store.jdbc.mapped_errors import mapped
from jdbcstore.store.jdbc.outbox import outbox_channel
from jdbcstore.store.jdbc.own_tables import OUTBOX_JOB
from jdbcstore.store.jdbc.rows import Change, Trace
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.writes import Write

__all__ = ["JdbcIntakeStore"]

#: How often to look although the database tells: what it tells may be lost with a connection.
_LOOK_ANYWAY_MS: Final = 1000


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

    def outbox(self) -> WaitingLoad:
        statements, asked = self._adapter.statements, {"job": OUTBOX_JOB}
        for _ in range(2):
            with self._adapter.reading() as connection:
                row = connection.execute(text(statements.outbox_progress), asked).first()
            if row is not None:
                return WaitingLoad(OUTBOX_JOB, 0, int(row[0]), int(row[1]), is_outbox=True)
            seeded: Completion[None] = Completion()
            seed = (statements.outbox_seed, (OUTBOX_JOB, OUTBOX_JOB))
            self._adapter.writer.submit(Write(seeded, changes=[seed]))
            seeded.result(self._adapter.options.query_timeout_s)
        raise StoreError(f"table {statements.loads} has no row {OUTBOX_JOB} that is the outbox")

    def outbox_bell(self) -> OutboxBell:
        return _Bell(self._adapter)

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
        if load.is_outbox:
            changes += self._removes_of(load.job, taken.places)
        else:
            for part, first, last in _ranges(taken.places):
                changes.append((statements.staged_delete, (load.job, part, first, last)))
        for part, number in taken.refused:
            changes.append((statements.staged_refuse, (-1 - part, load.job, part, number)))
        state = "outbox" if load.is_outbox else "committed" if taken.is_end else "ready"
        changes.append((statements.load_advance, (after.taken, after.refused, state, state, load.job)))
        trace = {"job": load.job, "done": after.taken + after.refused}
        return changes, [Trace(statements.load_trace, trace, is_there=True)]

    def _removes_of(self, job: str, places: Sequence[StagedPlace]) -> list[Change]:
        statements = self._adapter.statements
        if len(places) > 1 and self._adapter.dialect.gains_by_deleting_together:
            keys = [value for place in places for value in place]
            return [(statements.staged_delete_some(len(places)), (job, *keys))]
        return [(statements.staged_delete_one, (job, part, number)) for part, number in places]


class _Bell(OutboxBell):
    """A connection that listens, where the database tells who listens; none elsewhere."""

    def __init__(self, adapter: StoreHost) -> None:
        self._adapter = adapter
        self._closing = ExitStack()
        self.poll_ms = adapter.options.outbox_poll_ms
        with ExitStack() as opening:
            connection = opening.enter_context(adapter.reading())
            self.descriptor = adapter.dialect.listen(connection, outbox_channel(adapter.statements))
            if self.descriptor is not None:
                opening.callback(connection.invalidate)  # it is closed in the end: in the pool it would go on listening
                self._connection, self._closing, self.poll_ms = connection, opening.pop_all(), _LOOK_ANYWAY_MS

    def clear(self) -> None:
        with mapped(self._adapter.dialect):
            self._adapter.dialect.clear_notifications(self._connection)

    def close(self) -> None:
        self._closing.close()


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
