"""One history for one mastership: connections that lead to other data are refused.

Several servers may stand behind one URL. After a failover, or while a primary that was cut off does not know it yet,
two of them have data that were the same once. A lost commit that is looked up on the other one tells nothing about the
session that was lost, and what is in memory belongs to the data from which it was read.
"""

from __future__ import annotations

from sqlalchemy import Connection, Engine, event

from jdbcstore.store.jdbc.dialect import ConnectionLost, Dialect, OtherHistory
from jdbcstore.store.jdbc.line_watch import line_of

__all__ = ["bind"]

_RECOGNISED = "jdbcstore history"


def bind(engine: Engine, dialect: Dialect, history: str) -> None:
    """Let an engine's connections lead to one history only: each is asked once.

    Others raise `OtherHistory`; one that leads to a standby raises `ConnectionLost`, for the next one may not.
    """

    def recognise(connection: Connection) -> None:
        if connection.info.get(_RECOGNISED) == history:
            return
        try:
            found = dialect.history(connection)
            connection.rollback()  # asks nothing in autocommit mode; the isolation level may be changed again
        except BaseException:  # nobody else gives it back to the pool
            connection.invalidate()
            connection.close()
            raise
        line_of(connection).answered()
        if found != history:
            connection.invalidate()
            connection.close()
            if not found:
                raise ConnectionLost(f"the server is a standby, and we are master of history {history}")
            raise OtherHistory(f"the server has history {found}, and we are master of {history}")
        connection.info[_RECOGNISED] = history

    event.listen(engine, "engine_connect", recognise)
