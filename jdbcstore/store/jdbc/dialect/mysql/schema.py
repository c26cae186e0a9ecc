"""Tables on MySQL and MariaDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Final

from sqlalchemy import Connection, LargeBinary, bindparam, text
from sqlalchemy.dialects.mysql import LONGBLOB

from jdbcstore.store.jdbc.dialect.base.catalogue import FoundColumn, FoundTable, reflected_tables
from jdbcstore.store.jdbc.dialect.base.schema import LockedNames, Schema
from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["MySQLSchema", "is_mariadb"]

#: What the types hold.
_BLOB_BYTES: Final = {
    "tinyblob": (1 << 8) - 1,
    "blob": (1 << 16) - 1,
    "mediumblob": (1 << 24) - 1,
    "longblob": (1 << 32) - 1,
}
#: InnoDB's limit for one column of a key in the row formats COMPACT and REDUNDANT, the default of old servers.
_SHORT_KEY_BYTES: Final = 767
_COLUMNS: Final = text(
    "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, IS_NULLABLE, CHARACTER_OCTET_LENGTH FROM information_schema.COLUMNS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN :names"
).bindparams(bindparam("names", expanding=True))
_INDEXES: Final = text(
    "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
    " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN :names ORDER BY TABLE_NAME, INDEX_NAME, SEQ_IN_INDEX"
).bindparams(bindparam("names", expanding=True))


class MySQLSchema(Schema):
    """MySQL and MariaDB keep names as they are written, compare texts by a collation, and commit at every ALTER.

    Args:
        collation: one that compares bytes and does not ignore trailing spaces (the plain ``utf8mb4_bin`` does ignore
            them).
    """

    message_type = "longblob"
    message_bytes_max = _BLOB_BYTES["longblob"]
    commits_each_change = True
    snapshot = ("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ", "START TRANSACTION READ ONLY")
    widening = "MODIFY MSG LONGBLOB"
    xid_as_text = "MODIFY XID VARCHAR(250)"

    def __init__(self, collation: str) -> None:
        self.collation = collation

    def blob_type(self) -> LargeBinary:
        return LargeBinary().with_variant(LONGBLOB(), "mysql", "mariadb")

    def table_options(self) -> dict[str, Any]:
        options = {"engine": "InnoDB", "charset": "utf8mb4", "collate": self.collation}
        # SQLAlchemy reads those named as the URL is.
        return {f"{url}_{name}": value for url in ("mysql", "mariadb") for name, value in options.items()}

    def found_tables(self, connection: Connection, names: Sequence[str]) -> dict[str, FoundTable]:
        wanted = {"names": list(names)}
        columns: dict[str, dict[str, FoundColumn]] = {}
        for table, column, type_, is_nullable, length in connection.execute(_COLUMNS, wanted):
            is_binary = type_ in _BLOB_BYTES or type_.endswith("binary")
            columns.setdefault(table, {})[column.upper()] = FoundColumn(type_, is_binary, is_nullable == "YES", length)
        indexes: dict[str, dict[str, tuple[str, ...]]] = {table: {} for table in columns}
        for table, index, column in connection.execute(_INDEXES, wanted):
            if table not in columns:
                continue  # somebody has created it since
            before = indexes[table].get(index, ())
            indexes[table][index] = (*before, (column or "").upper())  # an expression has no name
        found = {
            table: FoundTable(of, indexes[table].pop("PRIMARY", ()), indexes[table]) for table, of in columns.items()
        }
        # A server that keeps names in other letters than they are written in knows them by itself.
        others = [name for name in names if name not in found]
        return {**found, **(reflected_tables(connection, others) if others else {})}

    def message_bytes(self, column: FoundColumn) -> int:
        return _BLOB_BYTES.get(column.type) or column.length or self.message_bytes_max

    def container_collation(self, connection: Connection, table: str) -> tuple[str | None, bool]:
        query = text(
            "SELECT COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = DATABASE()"
            " AND TABLE_NAME = :table AND COLUMN_NAME = 'CONTAINER'"
        )
        name: str | None = connection.execute(query, {"table": table}).scalar()
        return name, name is None or name == "binary" or name.endswith(("_0900_bin", "_nopad_bin"))

    def without_transactions(self, connection: Connection, tables: Sequence[str]) -> list[tuple[str, str]]:
        query = text(
            "SELECT t.TABLE_NAME, t.ENGINE FROM information_schema.TABLES t JOIN information_schema.ENGINES e"
            " ON e.ENGINE = t.ENGINE WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME IN :tables"
            " AND e.TRANSACTIONS <> 'YES' ORDER BY t.TABLE_NAME DESC"
        ).bindparams(bindparam("tables", expanding=True))
        return [(table, engine) for table, engine in connection.execute(query, {"tables": list(tables)})]

    def repair(self, connection: Connection, table: str, *, has_transactions: bool) -> str | None:
        # Old defaults: MyISAM, which commits nothing, and row formats whose keys are too short.
        query = text(
            "SELECT t.ROW_FORMAT IN ('Compact', 'Redundant') AND MAX(c.CHARACTER_OCTET_LENGTH) > :limit"
            " FROM information_schema.TABLES t JOIN information_schema.COLUMNS c USING (TABLE_SCHEMA, TABLE_NAME)"
            " WHERE t.TABLE_SCHEMA = DATABASE() AND t.TABLE_NAME = :table AND c.DATA_TYPE = 'varchar'"
            " GROUP BY t.ROW_FORMAT"
        )
        is_narrow = connection.execute(query, {"limit": _SHORT_KEY_BYTES, "table": table}).scalar()
        return "ENGINE=InnoDB ROW_FORMAT=DYNAMIC" if is_narrow or not has_transactions else None

    @contextmanager
    def lock(self, connection: Connection, dialect: Dialect, names: LockedNames, wait_s: float) -> Iterator[Connection]:
        name = "CONCAT('jdbcstore.', LEFT(SHA2(CONCAT(DATABASE(), '.', :name), 256), 40))"
        parameters = {"name": names.lock, "wait_s": wait_s}
        with self.connect(connection) as guard:
            if guard.execute(text(f"SELECT GET_LOCK({name}, :wait_s)"), parameters).scalar() != 1:
                raise names.busy(wait_s)
            # Past its own timeout the client would be gone, and the server would go on waiting and alter the table.
            before_s = connection.execute(text("SELECT @@SESSION.lock_wait_timeout")).scalar_one()
            connection.execute(text(f"SET SESSION lock_wait_timeout = {max(1, int(wait_s))}"))
            try:
                yield guard
            finally:  # the sessions go back to a pool; whoever waits for the lock wants the row next
                connection.rollback()
                connection.execute(text(f"SET SESSION lock_wait_timeout = {int(before_s)}"))
                guard.rollback()
                guard.execute(text(f"SELECT RELEASE_LOCK({name})"), parameters)


def is_mariadb(connection: Connection) -> bool:
    """Whether the server is MariaDB."""
    return bool(getattr(connection.dialect, "is_mariadb", False))
