"""What is known of a database before anything is connected: where the parts of its folder are."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from sqlalchemy import URL, Connection

from jdbcstore.store.jdbc.dialect.base.schema import Schema

if TYPE_CHECKING:
    from jdbcstore.store.jdbc.dialect.base.bulk import BulkSession
    from jdbcstore.store.jdbc.dialect.base.scan import TableScanner
    from jdbcstore.store.jdbc.dialect.base.session import Dialect

__all__ = ["Database"]


class Database(ABC):
    """A database, as the registry has it. Importing it must need no driver: the methods import what they return."""

    #: SQLAlchemy's name of it, with which URLs begin.
    name: ClassVar[str]
    #: What else URLs may begin with.
    aliases: ClassVar[tuple[str, ...]] = ()
    #: SQLAlchemy's name of database and driver: ``oracle+oracledb``.
    driver: ClassVar[str]
    #: How a URL of it looks, for messages.
    example: ClassVar[str]
    #: Whether the database in a URL is a file, which is made when it is missing, and not one on a server.
    is_file: ClassVar[bool] = False
    #: How many sessions may write at a time; None for any number.
    writers_max: ClassVar[int | None] = None
    #: The packages of drivers whose connections an application may enlist, with their placeholders (``?``, ``%s``).
    application_drivers: ClassVar[Mapping[str, str]] = {}
    #: How it keeps tables.
    schema: ClassVar[Schema]

    @abstractmethod
    def dialect(self) -> type[Dialect]:
        """What the store asks while it works."""

    @abstractmethod
    def bulk_session(self) -> type[BulkSession]:
        """How very many rows are brought."""

    def scanner(self) -> TableScanner:
        """How Spark reads its message table."""
        from jdbcstore.store.jdbc.dialect.base.scan import TableScanner

        return TableScanner()

    def at(self, connection: Connection) -> Database:
        """The database that is really there, where one driver leads to several."""
        return self

    def file(self, url: URL) -> Path | None:
        """The file that a URL of it names; None if there is a server."""
        name = self.dialect().file_of(url)
        return Path(name) if name else None
