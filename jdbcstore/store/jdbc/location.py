"""Where a SQL store is, for those who look into its tables without being its broker."""

from __future__ import annotations

from dataclasses import dataclass, field

from sqlalchemy import URL

from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["StoreLocation"]


@dataclass(frozen=True, slots=True)
class StoreLocation:
    """Where a SQL store is. May be pickled; shows no password.

    Args:
        url: SQLAlchemy's, with the password.
        options: of the store, table names among them.
        driver: the name of the Python driver to read with; None for the fastest that is installed.
    """

    url: URL = field(repr=False)
    options: JdbcOptions = field(repr=False, default_factory=JdbcOptions)
    driver: str | None = None

    def __str__(self) -> str:
        return self.url.render_as_string(hide_password=True)
