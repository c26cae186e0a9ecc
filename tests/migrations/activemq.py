"""What ActiveMQ does to a schema: a starting Java broker's statements, older versions' tables, dumps of real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from sqlalchemy import Connection, Engine, text
from sqlalchemy.exc import DBAPIError

VECTORS: Final = Path(__file__).parents[1] / "vectors"

#: Adapter: binary type, and how the key of ACTIVEMQ_ACKS is dropped.
ADAPTERS: Final = {
    "default": ("BLOB", "DROP PRIMARY KEY"),
    "mysql": ("LONGBLOB", "DROP PRIMARY KEY"),
    "postgresql": ("BYTEA", 'DROP CONSTRAINT "activemq_acks_pkey"'),
}


def start_java_broker(engine: Engine, prefix: str = "", adapter: str | None = None) -> list[str]:
    """What a Java broker does to the schema when it starts, each failure swallowed. Returns what failed.

    Args:
        engine: of the database.
        prefix: ActiveMQ's tablePrefix.
        adapter: one of `ADAPTERS`; by default that of the engine's database.
    """
    chosen = adapter or {"postgresql": "postgresql", "sqlite": "default"}.get(engine.dialect.name, "mysql")
    binary, drop_key = ADAPTERS[chosen]
    msgs, acks, lock = (prefix + name for name in ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK"))
    return try_all(
        engine,
        f"CREATE TABLE {msgs}(ID BIGINT NOT NULL, CONTAINER VARCHAR(250) NOT NULL, MSGID_PROD VARCHAR(250),"
        f" MSGID_SEQ BIGINT, EXPIRATION BIGINT, MSG {binary}, PRIMARY KEY ( ID ) )",
        f"CREATE INDEX {msgs}_MIDX ON {msgs} (MSGID_PROD,MSGID_SEQ)",
        f"CREATE INDEX {msgs}_CIDX ON {msgs} (CONTAINER)",
        f"CREATE INDEX {msgs}_EIDX ON {msgs} (EXPIRATION)",
        f"CREATE TABLE {acks}(CONTAINER VARCHAR(250) NOT NULL, SUB_DEST VARCHAR(250), CLIENT_ID VARCHAR(250) NOT NULL,"
        " SUB_NAME VARCHAR(250) NOT NULL, SELECTOR VARCHAR(250), LAST_ACKED_ID BIGINT,"
        " CONSTRAINT PK_ACTIVEMQ_ACKS PRIMARY KEY ( CONTAINER, CLIENT_ID, SUB_NAME))",
        f"ALTER TABLE {msgs} ADD PRIORITY BIGINT",
        f"CREATE INDEX {msgs}_PIDX ON {msgs} (PRIORITY)",
        f"ALTER TABLE {msgs} ADD XID VARCHAR(250)",
        f"ALTER TABLE {acks} ADD PRIORITY BIGINT DEFAULT 5 NOT NULL",
        f"ALTER TABLE {acks} ADD XID VARCHAR(250)",
        f"ALTER TABLE {acks} {drop_key}",
        f"ALTER TABLE {acks} ADD PRIMARY KEY (CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY)",
        f"CREATE INDEX {msgs}_XIDX ON {msgs} (XID)",
        f"CREATE INDEX {acks}_XIDX ON {acks} (XID)",
        f"CREATE INDEX {msgs}_IIDX ON {msgs} (ID ASC, XID, CONTAINER)",
        f"CREATE TABLE {lock}( ID BIGINT NOT NULL, TIME BIGINT, BROKER_NAME VARCHAR(250), PRIMARY KEY (ID) )",
        f"INSERT INTO {lock}(ID) VALUES (1)",
    )


def delete_all_messages(engine: Engine, prefix: str = "") -> None:
    """What deleteAllMessagesOnStartup does: drop the tables and make them anew."""
    run(engine, *(f"DROP TABLE {prefix}ACTIVEMQ_{name}" for name in ("ACKS", "MSGS", "LOCK")))
    start_java_broker(engine, prefix)


def create_tables_of_5_3(engine: Engine) -> None:
    """The tables as ActiveMQ 5.3 made them and older ones nearly so: no PRIORITY, no XID; SUB_DEST is missing too."""
    binary = {"postgresql": "BYTEA", "sqlite": "BLOB"}.get(engine.dialect.name, "LONGBLOB")
    run(
        engine,
        "CREATE TABLE ACTIVEMQ_MSGS(ID BIGINT NOT NULL, CONTAINER VARCHAR(250), MSGID_PROD VARCHAR(250),"
        f" MSGID_SEQ BIGINT, EXPIRATION BIGINT, MSG {binary}, PRIMARY KEY ( ID ) )",
        "CREATE INDEX ACTIVEMQ_MSGS_MIDX ON ACTIVEMQ_MSGS (MSGID_PROD,MSGID_SEQ)",
        "CREATE INDEX ACTIVEMQ_MSGS_CIDX ON ACTIVEMQ_MSGS (CONTAINER)",
        "CREATE INDEX ACTIVEMQ_MSGS_EIDX ON ACTIVEMQ_MSGS (EXPIRATION)",
        "CREATE TABLE ACTIVEMQ_ACKS(CONTAINER VARCHAR(250) NOT NULL, CLIENT_ID VARCHAR(250) NOT NULL,"
        " SUB_NAME VARCHAR(250) NOT NULL, SELECTOR VARCHAR(250), LAST_ACKED_ID BIGINT,"
        " PRIMARY KEY ( CONTAINER, CLIENT_ID, SUB_NAME))",
        "CREATE TABLE ACTIVEMQ_LOCK( ID BIGINT NOT NULL, TIME BIGINT, BROKER_NAME VARCHAR(250), PRIMARY KEY (ID) )",
        "INSERT INTO ACTIVEMQ_LOCK(ID) VALUES (1)",
    )


def store_some(engine: Engine, prefix: str = "", *, priority: int | None = 0, count: int = 7) -> None:
    """Messages with every byte value in them, and a durable subscription."""
    with engine.begin() as connection:
        has_priority = priority is not None
        for number in range(1, count + 1):
            row = {"id": number, "name": f"queue://test.{number % 3}", "seq": number, "msg": bytes(range(256)) * number}
            names = "ID, CONTAINER, MSGID_PROD, MSGID_SEQ, EXPIRATION, MSG" + ", PRIORITY" * has_priority
            values = ":id, :name, 'ID:host-1-2:1:1:1', :seq, 0, :msg" + f", {priority}" * has_priority
            connection.execute(text(f"INSERT INTO {prefix}ACTIVEMQ_MSGS ({names}) VALUES ({values})"), row)
        names = "CONTAINER, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID" + ", PRIORITY" * has_priority
        values = "'topic://test', 'client', 'sub', 'n > 3', 4" + ", 0" * has_priority
        connection.execute(text(f"INSERT INTO {prefix}ACTIVEMQ_ACKS ({names}) VALUES ({values})"))


def load_dump(engine: Engine, name: str) -> None:
    """Load a dump that pg_dump or mariadb-dump wrote of a real ActiveMQ's database."""
    raw = engine.raw_connection()
    try:
        cursor = raw.cursor()
        for statement in dump_statements(VECTORS / f"activemq-5.17.2-{name}.sql"):
            cursor.execute(statement)
        raw.commit()
        cursor.close()
        raw.invalidate()  # the dump changed settings of the session
    finally:
        raw.close()


def dump_statements(path: Path) -> list[str]:
    """The statements of a dump; each ends with a semicolon at the end of a line, and no value has a line break."""
    lines = [line for line in path.read_text().splitlines() if not line.startswith(("\\", "--"))]
    statements = "\n".join(lines).split(";\n")
    return [statement.strip().removesuffix(";") for statement in statements if statement.strip()]


def rows(engine: Engine, table: str, columns: str = "*") -> list[tuple[Any, ...]]:
    """Every row of a table, sorted."""
    with engine.connect() as connection:
        found = [tuple(row) for row in connection.execute(text(f"SELECT {columns} FROM {table}"))]
    return sorted(found, key=repr)


def run(engine: Engine, *statements: str) -> None:
    """Run statements, each committed by itself."""
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            connection.exec_driver_sql(statement)


def try_all(engine: Engine, *statements: str) -> list[str]:
    """As `run`, but go on after a failure. Returns the statements that failed."""
    failed = []
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in statements:
            try:
                connection.exec_driver_sql(statement)
            except DBAPIError:
                failed.append(statement)
    return failed


def columns(connection: Connection, table: str) -> list[tuple[Any, ...]]:
    """Name, type, nullability and default of each column in order, in the words of the database's catalogue."""
    if connection.dialect.name == "sqlite":
        return [tuple(row)[1:5] for row in connection.execute(text(f"PRAGMA table_info({table})"))]
    if connection.dialect.name == "postgresql":
        query = (
            "SELECT column_name, data_type, character_maximum_length, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = 'public' AND table_name = lower(:table)"
            " ORDER BY ordinal_position"
        )
    else:
        query = (
            "SELECT COLUMN_NAME, COLUMN_TYPE, IS_NULLABLE, COLUMN_DEFAULT FROM information_schema.COLUMNS"
            " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = :table ORDER BY ORDINAL_POSITION"
        )
    return [tuple(row) for row in connection.execute(text(query), {"table": table})]


def shape(engine: Engine, prefix: str = "") -> dict[str, list[tuple[Any, ...]]]:
    """The columns of the three tables."""
    names = ("ACTIVEMQ_MSGS", "ACTIVEMQ_ACKS", "ACTIVEMQ_LOCK")
    with engine.connect() as connection:
        return {name: columns(connection, prefix + name) for name in names}
