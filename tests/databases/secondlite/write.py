"""What is sent to read and write messages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import LeaseLost
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.writes import Batch

__all__ = ["SecondLiteStatements"]


class SecondLiteStatements(Dialect):
    """One statement for each row."""

    begin = "BEGIN IMMEDIATE"
    epoch_ms = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"

    def write(self, connection: DBAPIConnection, batch: Batch, fence: Fence | None = None) -> int:
        names, cursor = self.statements, self._begun(connection, fence)
        cursor.executemany(names.message_insert + "(?,?,?,?,?,?,?)", batch.adds)
        cursor.executemany(f"UPDATE {names.messages} SET MSG=? WHERE ID=?", [(blob, id) for id, blob in batch.updates])
        purge = f"DELETE FROM {names.messages} WHERE CONTAINER=? AND ID<=? AND XID IS NULL"
        cursor.executemany(purge, batch.purges)
        mark = (
            f"INSERT INTO {names.producers} (PRODUCER,LAST_SEQ,LAST_USED_MS) VALUES (?,?,{self.epoch_ms})"
            " ON CONFLICT (PRODUCER) DO UPDATE"
            " SET LAST_SEQ=MAX(LAST_SEQ,EXCLUDED.LAST_SEQ),LAST_USED_MS=EXCLUDED.LAST_USED_MS"
        )
        cursor.executemany(mark, list(batch.producers.items()))
        forget = f"DELETE FROM {names.producers} WHERE LAST_USED_MS<{self.epoch_ms}-? AND PRODUCER=?"
        cursor.executemany(forget, [(self.options.producer_memory_ms, producer) for producer in batch.forgets])
        for statement, values in batch.changes:
            cursor.execute(statement, values)
        removed = 0
        for id in batch.removes:
            removed += cursor.execute(f"DELETE FROM {names.messages} WHERE ID=?", (id,)).rowcount
        cursor.execute("COMMIT")
        return removed

    def prove(self, connection: DBAPIConnection, fence: Fence) -> None:
        names = self.statements
        proof = f"SELECT 1 FROM {names.lock} l, {names.term} t WHERE l.ID=1 AND t.ID=1 AND l.BROKER_NAME=? AND t.TERM=?"
        raw: Any = connection
        if raw.execute(proof, (fence.holder, fence.term)).fetchone() is None:
            raise LeaseLost("another broker is master of this store")

    def transact(self, connection: DBAPIConnection, statements: Sequence[str], fence: Fence | None) -> None:
        cursor = self._begun(connection, fence)
        for statement in statements:
            cursor.execute(statement)
        cursor.execute("COMMIT")

    def literal(self, value: str | int | bytes | None) -> bytes:
        match value:
            case None:
                return b"NULL"
            case bytes():
                return f"x'{value.hex()}'".encode()
            case str():
                return "'{}'".format(value.replace("'", "''")).encode()
        return b"%d" % value

    def _begun(self, connection: DBAPIConnection, fence: Fence | None) -> Any:
        """A cursor in a transaction: whoever has begun one that writes is alone with the file, so the proof holds."""
        cursor: Any = connection.cursor()
        cursor.execute(self.begin)
        if fence is not None:
            self.prove(connection, fence)
        return cursor
