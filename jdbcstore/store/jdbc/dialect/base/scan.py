"""Reading columns of the message table for Spark, and cutting it into ranges of ids.

What is here and in the ``scan.py`` of a database needs neither Spark nor Arrow; the modules that read with a driver
need Arrow, and are loaded when somebody reads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from importlib import import_module
from importlib.util import find_spec
from typing import Any, ClassVar, Final, NamedTuple, Protocol

from sqlalchemy import URL, Connection

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect.base.session import Dialect
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = [
    "SAMPLE_ROWS",
    "SAMPLE_ROWS_MIN",
    "ScanDriver",
    "TableScan",
    "TableScanner",
    "enough",
    "of_ids",
]

#: So many rows are looked at for a sample, and so many have to be left for each range.
SAMPLE_ROWS: Final = 2_000
SAMPLE_ROWS_MIN: Final = 20


class TableScan(Protocol):
    """What is to be read; see `jdbcstore.spark.scan.Scan`."""

    @property
    def url(self) -> URL:
        """Of the store, with the password."""

    @property
    def options(self) -> JdbcOptions:
        """Of the store."""

    @property
    def statement(self) -> str:
        """The SELECT, without parameters, with numbers as 64-bit integers."""

    @property
    def bare_statement(self) -> str:
        """The same with numbers as the types of their columns say."""

    @property
    def schema(self) -> Any:
        """Arrow's, of the batches."""

    @property
    def batch_bytes(self) -> int:
        """How large a batch gets; one row always fits."""

    @property
    def table(self) -> str:
        """The table's name."""

    @property
    def where(self) -> str:
        """WHERE and all conditions, or nothing."""

    @property
    def is_narrow(self) -> bool:
        """Whether a condition lets an index leave rows out."""

    def connection(self) -> AbstractContextManager[Connection]:
        """SQLAlchemy's, of its own, in autocommit mode."""


class ScanDriver(NamedTuple):
    """A driver to read with.

    Args:
        requires: the Python module that has to be installed for it.
        module: whose function ``batches`` takes a `TableScan` and yields Arrow batches from a connection of its own,
            which is closed when the iterator is exhausted, closed or collected.
    """

    requires: str
    module: str


class TableScanner:
    """How a database is read, and how its rows are sampled. The defaults read by SQLAlchemy and sample nothing."""

    #: The drivers by name, the fastest first.
    readers: ClassVar[Mapping[str, ScanDriver]] = {
        "sqlalchemy": ScanDriver("sqlalchemy", "jdbcstore.store.jdbc.dialect.base.scan_rows")
    }
    #: Tables of fewer rows are counted.
    few_rows = 20_000
    #: A column of numbers, ``{}``, as a 64-bit integer.
    number = "CAST({} AS BIGINT)"
    #: Whether the driver takes a percent sign in a statement without parameters for one.
    reads_percent_signs = True

    def bytewise(self, dialect: Dialect) -> str:
        """A column of texts, ``{}``, such that it is compared bytewise where its collation does not."""
        return dialect.container_expression(collation_is_binary=False).replace("CONTAINER", "{}")

    def batches(self, scan: TableScan, driver: str) -> Iterator[Any]:
        """Read with a driver that `driver_for` returned; raises what the driver raises."""
        found: Iterator[Any] = import_module(self.readers[driver].module).batches(scan)
        return found

    def driver_for(self, database: str, wanted: str | None = None) -> str:
        """The driver to read with.

        Args:
            database: its name, for messages.
            wanted: by name; None for the fastest that is installed.

        Raises:
            ConfigurationError: the one that is wanted is of another database, or not installed.
        """
        if wanted is not None and wanted not in self.readers:
            raise ConfigurationError(f"driver {wanted!r} does not read {database}: use {' or '.join(self.readers)}")
        for driver in self.readers if wanted is None else (wanted,):
            if find_spec(self.readers[driver].requires) is not None:
                return driver
        raise ConfigurationError(
            f"the driver {wanted or list(self.readers)[-1]} is not installed: pip install 'jdbcstore[spark,{database}]'"
        )

    def sample(self, connection: Connection, scan: TableScan, first: int, last: int, count: int) -> list[int] | None:
        """Ids of rows that are wanted, in their order, that lie as all of them do, or about so.

        Args:
            connection: to the store.
            scan: what is wanted.
            first, last: the ids of the table's first and last row within the scan's range.
            count: how many ranges are to be cut.

        Returns:
            At least `SAMPLE_ROWS_MIN` for each range; None if it is better to count.
        """
        return None

    def escaped(self, statement: str) -> str:
        """A statement without parameters as the driver wants it."""
        return statement.replace("%", "%%") if self.reads_percent_signs else statement


def enough(sample: list[int], count: int) -> list[int] | None:
    """A sample in order, None if it is too small for so many ranges."""
    return sorted(sample) if len(sample) >= count * SAMPLE_ROWS_MIN else None


def of_ids(first: int | None, last: int | None) -> str:
    """WHERE and the conditions that ids lie between two, both included; nothing if there is no limit."""
    found = [f"ID {sign} {id}" for sign, id in ((">=", first), ("<=", last)) if id is not None]
    return f" WHERE {' AND '.join(found)}" if found else ""
