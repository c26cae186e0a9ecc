"""Reading columns of the message table as fast as each database allows.

A `Scan` says what to read; `Scan.batches` opens a connection of its own and gives Arrow batches of the columns as they
stand in the table, sized by bytes. The folder of each database knows how.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Final

import pyarrow as pa
from sqlalchemy import URL, Connection, NullPool

from jdbcstore.errors import SchemaMismatch, StoreError, TransientStoreError
from jdbcstore.spark.filters import NUMBERS, Term
from jdbcstore.spark.scan.statement import Wording, conditions, select
from jdbcstore.store.jdbc.dialect import AccessDenied, ConnectionLost, Dialect, database_for, dialect_for
from jdbcstore.store.jdbc.line_watch import watched_engine
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.statements import Statements

__all__ = ["BATCH_BYTES", "Scan", "dialect_of", "driver_for", "reading_errors", "schema_of_table"]

#: How large a batch gets, unless told otherwise; one row always fits.
BATCH_BYTES: Final = 4 << 20


@dataclass(frozen=True, slots=True)
class Scan:
    """Some rows and columns of one message table. May be pickled; shows no password.

    Args:
        url: SQLAlchemy's, with the password.
        columns: of ACTIVEMQ_MSGS in upper case, or ``SIZE``, the bytes of MSG; in the order of the batches.
        options: of the store: names of its tables, timeouts.
        first, last: the ids, both included; None for no limit.
        terms: what all rows have to meet.
        batch_bytes: how large a batch gets; one row always fits.
        is_bytewise: whether the table's collation tells all texts apart; see `SchemaReport.collation_is_binary`.
        is_ordered: whether rows come in the order of their ids.
        driver: one of the database's `TableScanner.readers`; None for the fastest that is installed.
    """

    url: URL = field(repr=False)
    columns: tuple[str, ...]
    options: JdbcOptions = field(repr=False, default_factory=JdbcOptions)
    first: int | None = None
    last: int | None = None
    terms: tuple[Term, ...] = ()
    batch_bytes: int = BATCH_BYTES
    is_bytewise: bool = True
    is_ordered: bool = False
    driver: str | None = None

    @property
    def schema(self) -> pa.Schema:
        """Of the batches."""
        return schema_of_table(self.columns)

    @property
    def where(self) -> str:
        """WHERE and all conditions, or nothing."""
        return conditions(self._wording, self.terms, self.first, self.last)

    @property
    def is_narrow(self) -> bool:
        """Whether a term lets an index leave rows out."""
        return any(term.column in ("CONTAINER", "MSGID_PROD") and term.operator != "is not null" for term in self.terms)

    @property
    def table(self) -> str:
        """The table's name."""
        return self.options.table_names.full("ACTIVEMQ_MSGS")

    @property
    def statement(self) -> str:
        """The SELECT, without parameters, with numbers as 64-bit integers."""
        return select(self._wording, self.columns, self.table, self.where, ordered=self.is_ordered)

    @property
    def bare_statement(self) -> str:
        """The same with numbers as the types of their columns say."""
        bare = replace(self._wording, number="{}")
        return select(bare, self.columns, self.table, self.where, ordered=self.is_ordered)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Read. The connection is closed when the iterator is exhausted, closed or collected.

        Raises:
            ConfigurationError: the driver is not installed or of another database.
            StoreError: the database cannot be reached, does not let us in, has no such table, or went away.
        """
        driver, scanner = driver_for(self.url, self.driver), database_for(self.url.get_backend_name()).scanner()
        with reading_errors(self.url, self.options):
            yield from scanner.batches(self, driver)

    @contextmanager
    def connection(self) -> Iterator[Connection]:
        """SQLAlchemy's, of its own, in autocommit mode, for drivers that are read through it."""
        engine, _ = watched_engine(self.url, self.options, poolclass=NullPool)
        with engine.connect() as connection:
            yield connection

    @property
    def _wording(self) -> Wording:
        database = self.url.get_backend_name()
        dialect, scanner = dialect_of(database), database_for(database).scanner()
        return Wording(
            literal=lambda text: dialect.literal(text).decode(),
            bytewise="" if self.is_bytewise else scanner.bytewise(dialect),
            number=scanner.number,
            length=dialect.blob_length,
        )


def schema_of_table(columns: tuple[str, ...]) -> pa.Schema:
    """Arrow's schema of some columns of the table."""
    kinds = {"MSG": pa.binary(), "SIZE": pa.int64()}
    return pa.schema([(name, kinds.get(name) or (pa.int64() if name in NUMBERS else pa.string())) for name in columns])


def driver_for(url: URL, wanted: str | None = None) -> str:
    """The driver to read with.

    Raises:
        ConfigurationError: the one that is wanted is of another database, or not installed.
    """
    database = url.get_backend_name()
    return database_for(database).scanner().driver_for(database, wanted)


@lru_cache
def dialect_of(database: str) -> Dialect:
    """What the store knows about a database, for its literals and errors."""
    return dialect_for(database)(JdbcOptions(), Statements(""), has_page_index=False)


@contextmanager
def reading_errors(url: URL, options: JdbcOptions) -> Iterator[None]:
    """Drivers' errors that are met inside become ours: one line that says what to do, without the password."""
    dialect = dialect_of(url.get_backend_name())
    try:
        yield
    except Exception as error:
        if not isinstance(error, StoreError) and not dialect.error_code(getattr(error, "orig", None) or error):
            raise  # an error of ours, or a defect that keeps its trace
        told = dialect.map_error(error)
        advice = ""
        if told is not error:
            advice = next((text for kind, text in _advice(options) if isinstance(told, kind)), "")
        said = str(told).replace(str(url.password), "***") if url.password else str(told)
        raise type(told)(" ".join(f"cannot read {url.render_as_string()}: {said}{advice}".split())) from None


def _advice(options: JdbcOptions) -> list[tuple[type[StoreError], str]]:
    table = options.table_names.full("ACTIVEMQ_MSGS")
    return [
        (AccessDenied, "; check user, password and the name of the database"),
        (SchemaMismatch, f"; the table is taken to be {table}: check the database and tablePrefix"),
        (ConnectionLost, "; check that the server runs and can be reached from here"),
        (TransientStoreError, "; try again"),
    ]
