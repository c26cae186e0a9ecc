"""Staged messages are brought into ACTIVEMQ_MSGS by a load that is master itself (`jdbcstore.store.jdbc.bulk_load`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from sqlalchemy import text

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect import Dialect, raw_connection
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.loads import Loads
from jdbcstore.store.jdbc.rows import Change

__all__ = ["moves"]

_MOVE_ROWS: Final = 5000


def moves(loads: Loads, job: str, first_id: int, fence: Fence) -> Iterator[int]:
    """Move what is staged into ACTIVEMQ_MSGS, in the order of parts; yields how many rows each time."""
    statements, dialect, raw = loads.statements, loads.dialect, raw_connection(loads.connection)
    ledger = (
        f"SELECT PART, MIN(NUMBER), MAX(NUMBER) FROM {statements.staged} WHERE JOB = :job GROUP BY PART ORDER BY PART"
    )
    columns = "MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG"
    for part, first, last in loads.connection.execute(text(ledger), {"job": job}).all():
        for start in range(int(first), int(last) + 1, _MOVE_ROWS):
            end = min(start + _MOVE_ROWS, int(last) + 1)
            some = f"JOB=? AND PART={int(part)} AND NUMBER>={start} AND NUMBER<{end}"
            changes: list[Change] = [
                (
                    f"INSERT INTO {statements.messages} (ID,{columns})"
                    f" SELECT {first_id - int(first)}+NUMBER,{columns} FROM {statements.staged} WHERE {some}",
                    (job,),
                ),
                (
                    f"UPDATE {statements.loads} SET ROWS_TAKEN=ROWS_TAKEN+(SELECT COUNT(*) FROM {statements.staged}"
                    f" WHERE {some}) WHERE JOB=? AND STATE='ready'",
                    (job, job),
                ),
                (f"DELETE FROM {statements.staged} WHERE {some}", (job,)),
            ]
            _transact(dialect, raw, changes, fence)
            yield end - start
        first_id += int(last) - int(first) + 1
    now = dialect.epoch_ms
    done = (
        f"UPDATE {statements.loads} SET STATE='committed',LAST_ID={first_id - 1},CHANGED_MS={now}"
        " WHERE JOB=? AND STATE='ready'"
    )
    _transact(dialect, raw, [(done, (job,))], fence)


def _transact(dialect: Dialect, raw: object, changes: list[Change], fence: Fence) -> None:
    try:
        dialect.transact(raw, [dialect.filled(change).decode() for change in changes], fence)  # type: ignore[arg-type]  # any driver's
    except Exception as error:
        dialect.rollback(raw)  # type: ignore[arg-type]  # likewise
        if dialect.is_fence(error):
            raise LeaseLost("somebody else has become master") from error
        raise dialect.map_error(error) from error
