"""What the codes of MySQL and MariaDB mean, and those of PyMySQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

import pymysql

from jdbcstore.errors import (
    DuplicateMessage,
    MessageTooLarge,
    SchemaMismatch,
    StoreError,
    StoreFull,
    StoreReadOnly,
    TransientStoreError,
)
from jdbcstore.store.jdbc.dialect.base.errors import AccessDenied, ConnectionLost, Deadlock

__all__ = ["KINDS", "code_of"]

#: Which error of ours a code stands for.
KINDS: Final[Mapping[str, type[StoreError]]] = {
    "1062": DuplicateMessage,
    "1021": StoreFull,
    "1114": StoreFull,
    "1030": StoreFull,
    "1290": StoreReadOnly,
    "1792": StoreReadOnly,
    "1836": StoreReadOnly,
    "1153": MessageTooLarge,
    "1406": MessageTooLarge,
    "1050": TransientStoreError,  # a table that another member of a cluster has made just now
    "1146": SchemaMismatch,
    "1054": SchemaMismatch,
    "1205": TransientStoreError,
    "1213": Deadlock,  # on Galera also the loser of a certification
    "1020": Deadlock,  # MariaDB with snapshot isolation: the row has changed since the transaction began
    "3024": TransientStoreError,
    "1969": TransientStoreError,
    "1040": ConnectionLost,  # too many connections, as are the next two
    "1203": ConnectionLost,
    "1226": ConnectionLost,
    "1044": AccessDenied,
    "1045": AccessDenied,
    "1049": AccessDenied,  # no such database
    "1130": AccessDenied,
    "1698": AccessDenied,
    "1047": ConnectionLost,  # a node of Galera that is cut off from the others; also in the middle of a commit
    "1180": ConnectionLost,  # so is this one, at COMMIT: the others may have what it has sent
    "3100": ConnectionLost,  # a member of Group Replication that has left the group, and likewise
    "3101": ConnectionLost,
    "1053": ConnectionLost,
    "1927": ConnectionLost,
    "1317": TransientStoreError,
    "2003": ConnectionLost,
    "2006": ConnectionLost,
    "2013": ConnectionLost,
    "2014": ConnectionLost,
    "4031": ConnectionLost,
    "0": ConnectionLost,
}


def code_of(error: BaseException) -> str:
    """The server's or the driver's number of an error, empty if it is no driver's error."""
    if isinstance(error, pymysql.Error) and error.args and isinstance(error.args[0], int):
        return str(error.args[0])
    # An internal error without a number: what came is no answer, because the server gave up on us in the middle of one.
    if isinstance(error, pymysql.InterfaceError | pymysql.InternalError | ConnectionError | TimeoutError):
        return "2013"
    return ""
