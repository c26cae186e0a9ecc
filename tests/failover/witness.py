"""What the database itself sees of a run: triggers note every row that is written or removed, and every takeover.

A trigger's row is committed, or rolled back, with the row that it is about. Two things are sound about it on every
database, whatever the order in which sessions commit:

* A written row tells which term was the last to have begun, and whose session wrote it.
* A takeover tells which rows were committed when it had got its locks: how many there are behind the last one that the
  takeover before it has seen (`Takeover.low`), and the number of the last (`Takeover.high`). Who commits a row later
  than that, with a number not above `high`, makes the rows more than were `seen`. A row with a number above `high` that
  tells of an older term was written before the takeover's commit and committed after its locks.

A written row also tells which history of a cluster it belongs to: the timeline of PostgreSQL, the primary of a group.

The triggers take no lock that a takeover or a write could wait for: then they would protect what they only watch.

Sessions say whose they are (`tests.failover.observed`): a setting on PostgreSQL, a variable on MySQL and MariaDB, a
function on SQLite.
"""

from __future__ import annotations

import time
from typing import Final

from sqlalchemy import Engine, text

from tests.failover.history import History, Takeover, Write

__all__ = ["MARKER_LENGTH", "install", "mark_of", "message_of", "witnessed"]

#: Every body begins with this, then follow the message's name and a bar.
_BEGIN: Final = "chaos|"
#: Producer, bar, seven digits.
_NAME_LENGTH: Final = 3 + 1 + 7
MARKER_LENGTH: Final = len(_BEGIN) + _NAME_LENGTH + 1

_TABLES: Final = (
    "CREATE TABLE chaos_writes (number {number}, op CHAR(1), row_id BIGINT, term BIGINT, holder VARCHAR(250),"
    " writer VARCHAR(60), session VARCHAR(64), marker VARCHAR(20), container VARCHAR(250), clock_ms BIGINT,"
    " history VARCHAR(64))",
    "CREATE TABLE chaos_takeovers"
    " (term BIGINT, holder VARCHAR(250), low BIGINT, high BIGINT, seen BIGINT, clock_ms BIGINT,"
    " PRIMARY KEY (term, holder))",
)
_COLUMNS: Final = "op, row_id, term, holder, writer, session, marker, container, clock_ms, history"

_POSTGRESQL: Final = (
    """
    CREATE FUNCTION chaos_write() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      r activemq_msgs%ROWTYPE; t BIGINT; h VARCHAR; place INTEGER;
    BEGIN
      IF TG_OP = 'DELETE' THEN r := OLD; ELSE r := NEW; END IF;
      place := position('chaos|'::bytea IN r.msg);
      SELECT term, holder INTO t, h FROM jdbcstore_term WHERE id = 1;
      INSERT INTO chaos_writes (op, row_id, term, holder, writer, session, marker, container, clock_ms, history)
        VALUES (
        CASE TG_OP WHEN 'INSERT' THEN '+' WHEN 'DELETE' THEN '-' ELSE '~' END, r.id, t, h,
        current_setting('chaos.broker', true), current_setting('application_name'),
        CASE WHEN place > 0 THEN convert_from(substring(r.msg FROM place FOR {length}), 'SQL_ASCII') ELSE '' END,
        r.container, EXTRACT(EPOCH FROM clock_timestamp()) * 1000,
        substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8));
      RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER chaos_write AFTER INSERT OR UPDATE OR DELETE ON activemq_msgs"
    " FOR EACH ROW EXECUTE FUNCTION chaos_write()",
    """
    CREATE FUNCTION chaos_takeover() RETURNS trigger LANGUAGE plpgsql AS $$
    DECLARE
      lowest BIGINT; highest BIGINT; count_ BIGINT;
    BEGIN
      SELECT COALESCE(MAX(high), 0) INTO lowest FROM chaos_takeovers;
      SELECT COUNT(*), COALESCE(MAX(number), lowest) INTO count_, highest FROM chaos_writes WHERE number > lowest;
      INSERT INTO chaos_takeovers VALUES (
        NEW.term, NEW.holder, lowest, highest, count_, EXTRACT(EPOCH FROM clock_timestamp()) * 1000);
      RETURN NULL;
    END $$
    """,
    "CREATE TRIGGER chaos_takeover AFTER UPDATE ON jdbcstore_term FOR EACH ROW EXECUTE FUNCTION chaos_takeover()",
)

# What is selected into a variable is read without a lock; in any other statement of a trigger InnoDB would lock it.
_MYSQL_CLOCK: Final = "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(3)) DIV 1000"
_MYSQL_WRITE: Final = """
    CREATE TRIGGER chaos_write_{event} AFTER {event} ON ACTIVEMQ_MSGS FOR EACH ROW
    BEGIN
      DECLARE t BIGINT; DECLARE h VARCHAR(250); DECLARE s VARCHAR(64); DECLARE place INT;
      SELECT TERM, HOLDER, CONCAT('jdbcstore ', LEFT(SHA2(HOLDER, 256), 32)) INTO t, h, s
        FROM JDBCSTORE_TERM WHERE ID = 1;
      SET place = LOCATE('chaos|', {row}.MSG);
      INSERT INTO chaos_writes (op, row_id, term, holder, writer, session, marker, container, clock_ms, history)
        VALUES (
        '{op}', {row}.ID, t, h, @chaos_broker, IF(IS_USED_LOCK(s) = CONNECTION_ID(), s, ''),
        IF(place > 0, CONVERT(SUBSTRING({row}.MSG, place, {length}) USING utf8mb4), ''), {row}.CONTAINER, {clock},
        {server});
    END
    """
_MYSQL: Final = (
    _MYSQL_WRITE.replace("{event}", "INSERT").replace("{row}", "NEW").replace("{op}", "+"),
    _MYSQL_WRITE.replace("{event}", "UPDATE").replace("{row}", "NEW").replace("{op}", "~"),
    _MYSQL_WRITE.replace("{event}", "DELETE").replace("{row}", "OLD").replace("{op}", "-"),
    """
    CREATE TRIGGER chaos_takeover AFTER UPDATE ON JDBCSTORE_TERM FOR EACH ROW
    BEGIN
      DECLARE lowest BIGINT; DECLARE highest BIGINT; DECLARE count_ BIGINT;
      SELECT COALESCE(MAX(high), 0) INTO lowest FROM chaos_takeovers;
      SELECT COUNT(*), COALESCE(MAX(number), lowest) INTO count_, highest FROM chaos_writes WHERE number > lowest;
      INSERT INTO chaos_takeovers VALUES (NEW.TERM, NEW.HOLDER, lowest, highest, count_, {clock});
    END
    """,
)

_SQLITE_CLOCK: Final = "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)"
_SQLITE_WRITE: Final = """
    CREATE TRIGGER chaos_write_{event} AFTER {event} ON ACTIVEMQ_MSGS FOR EACH ROW
    BEGIN
      INSERT INTO chaos_writes (op, row_id, term, holder, writer, session, marker, container, clock_ms, history)
      SELECT '{op}', {row}.ID, TERM, HOLDER, chaos_broker(), '',
        CASE WHEN instr({row}.MSG, x'6368616f737c') > 0
          THEN CAST(substr({row}.MSG, instr({row}.MSG, x'6368616f737c'), {length}) AS TEXT) ELSE '' END,
        {row}.CONTAINER, {clock}, '' FROM JDBCSTORE_TERM WHERE ID = 1;
    END
    """
_SQLITE: Final = (
    _SQLITE_WRITE.replace("{event}", "INSERT").replace("{row}", "NEW").replace("{op}", "+"),
    _SQLITE_WRITE.replace("{event}", "UPDATE").replace("{row}", "NEW").replace("{op}", "~"),
    _SQLITE_WRITE.replace("{event}", "DELETE").replace("{row}", "OLD").replace("{op}", "-"),
    """
    CREATE TRIGGER chaos_takeover AFTER UPDATE ON JDBCSTORE_TERM FOR EACH ROW
    BEGIN
      INSERT INTO chaos_takeovers
      SELECT NEW.TERM, NEW.HOLDER, lowest, COALESCE(MAX(number), lowest), COUNT(number), {clock}
      FROM (SELECT COALESCE(MAX(high), 0) AS lowest FROM chaos_takeovers) LEFT JOIN chaos_writes ON number > lowest;
    END
    """,
)

_NUMBER: Final = {
    "postgresql": "BIGSERIAL PRIMARY KEY",
    "mysql": "BIGINT AUTO_INCREMENT PRIMARY KEY",
    "sqlite": "INTEGER PRIMARY KEY AUTOINCREMENT",
}
_STATEMENTS: Final = {"postgresql": _POSTGRESQL, "mysql": _MYSQL, "sqlite": _SQLITE}
_CLOCKS: Final = {"postgresql": "", "mysql": _MYSQL_CLOCK, "sqlite": _SQLITE_CLOCK}


def mark_of(message: str) -> str:
    """What the body of a message begins with."""
    if len(message) != _NAME_LENGTH:
        raise ValueError(f"{message!r} must have {_NAME_LENGTH} characters")
    return f"{_BEGIN}{message}|"


def message_of(body: str) -> str:
    """Which message a body is that of; empty if it is none of ours."""
    return body[len(_BEGIN) : len(_BEGIN) + _NAME_LENGTH] if body.startswith(_BEGIN) else ""


def install(engine: Engine) -> None:
    """Create side tables and triggers beside the store's tables, which are there already."""
    kind = "mysql" if engine.dialect.name == "mariadb" else engine.dialect.name
    # Which server took the write; the nodes of Galera have one history.
    server = "@@server_uuid" if engine.dialect.name == "mysql" else "''"
    fill = {
        "{number}": _NUMBER[kind],
        "{length}": str(MARKER_LENGTH),
        "{clock}": _CLOCKS[kind],
        "{server}": server,
    }
    with engine.begin() as connection:
        for statement in (*_TABLES, *_STATEMENTS[kind]):
            for name, value in fill.items():
                statement = statement.replace(name, value)
            connection.exec_driver_sql(statement.replace("%", "%%") if kind == "postgresql" else statement)


def witnessed(engine: Engine, history: History) -> None:
    """Take over into a history what was written down."""
    offset_s = time.time() - time.monotonic()
    with engine.connect() as connection:
        rows = connection.execute(text(f"SELECT number, {_COLUMNS} FROM chaos_writes ORDER BY number"))
        for number, op, row, term, holder, writer, session, marker, container, clock_ms, branch in rows:
            at = clock_ms / 1000 - offset_s
            queue = "/queue/" + container.removeprefix("queue://")
            message = message_of(marker)
            whose = (term, holder or "", writer or "", session or "")
            history.writes.append(Write(number, op, row, *whose, message, queue, at, branch or ""))
        for term, holder, low, high, seen, clock_ms in connection.execute(
            text("SELECT term, holder, low, high, seen, clock_ms FROM chaos_takeovers ORDER BY term")
        ):
            history.takeovers.append(Takeover(term, holder, low, high, seen, clock_ms / 1000 - offset_s))
