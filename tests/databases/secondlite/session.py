"""Connecting, and what else the store asks while it works."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection, text
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.errors import StoreError
from jdbcstore.store.jdbc.options import JdbcOptions

from .errors import KINDS, code_of
from .write import SecondLiteStatements

__all__ = ["SecondLiteDialect"]


class SecondLiteDialect(SecondLiteStatements):
    """One file, no server."""

    has_server = False
    locked_codes = frozenset({"BUSY", "LOCKED"})

    @classmethod
    def engine_arguments(cls, options: JdbcOptions, given: Mapping[str, Any]) -> dict[str, Any]:
        return {"connect_args": {"timeout": options.query_timeout_s, "check_same_thread": False}}

    def connected(self, connection: Connection) -> None:
        connection.exec_driver_sql("PRAGMA journal_mode=WAL")
        connection.exec_driver_sql("PRAGMA synchronous=FULL")

    def take_over(self, connection: Connection, parameters: Mapping[str, object]) -> bool:
        names = self.statements
        take = (
            f"UPDATE {names.lock} SET BROKER_NAME = :holder, TIME = {names.lease_end}"
            f" WHERE ID = 1 AND {names.lease_is_free} AND (SELECT TERM FROM {names.term} WHERE ID = 1) = :seen"
        )
        connection.exec_driver_sql(self.begin)
        is_ours = connection.execute(text(take), parameters).rowcount == 1
        if is_ours:
            connection.execute(text(names.term_next), {"holder": parameters["holder"]})
        connection.exec_driver_sql("COMMIT")
        return is_ours

    def rollback(self, connection: DBAPIConnection) -> None:
        raw: Any = connection
        raw.rollback()

    def error_code(self, error: BaseException) -> str:
        return code_of(error)

    def error_kinds(self) -> Mapping[str, type[StoreError]]:
        return KINDS
