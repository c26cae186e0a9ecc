"""Opening a store to look into it: nothing is created, nothing is changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jdbcstore.config.urls import is_journal_url, journal_options, open_store, store_file, store_location, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.adapter import refuse_what_is_no_amq_store
from jdbcstore.store.journal.amq.directory_view import AMQView
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.directory_kind import refuse_another_store, refuse_what_holds_no_journal
from jdbcstore.store.journal.kahadb.directory_view import KahaDBView
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.directory_kind import refuse_what_is_no_leveldb_store
from jdbcstore.store.journal.leveldb.directory_view import LevelDBView
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.directory_view import MKahaDBView, refuse_what_is_not_several
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions

__all__ = ["check_url", "existing_store", "is_journal", "looking_into", "view_of"]


def check_url(url: str, writer: str = "") -> None:
    """Refuse what cannot be looked into.

    Args:
        url: of the store.
        writer: who will write to it, as a message says it; empty if nobody does.

    Raises:
        ConfigurationError: the URL is wrong, names a store in memory, or a SQLite file or a directory that is not
            there, or a standby for who writes.
    """
    if is_journal_url(url):
        directory, options = journal_options(url)
        if not directory.is_dir():
            raise ConfigurationError(f"there is no directory {directory}")
        if isinstance(options, AMQOptions):
            refuse_what_is_no_amq_store(directory)
        elif isinstance(options, MKahaDBOptions):
            refuse_what_is_not_several(directory)
        elif isinstance(options, LevelDBOptions):
            refuse_what_is_no_leveldb_store(directory)
        else:
            refuse_another_store(directory, ignores_missing=True)
            refuse_what_holds_no_journal(directory)
        return
    if url.startswith("memory:"):
        raise ConfigurationError("a store in memory can be looked into by its own process only")
    parsed = store_url(url)
    if (file := store_file(parsed)) is not None and not file.exists():
        beside = "" if file.parent.is_dir() else f", and no directory {file.parent}"
        raise ConfigurationError(
            f"there is no file {file}{beside}; a path from the root takes four slashes: {parsed.get_backend_name()}:////"
        )
    if file is not None and file.is_dir():
        scheme = parsed.get_backend_name()
        raise ConfigurationError(f"{file} is a directory, and {scheme}: names a file; kahadb:{file} names a journal")
    if writer:
        store_location(url).options.require_primary(writer)


def existing_store(url: str, options: JdbcOptions | None = None) -> PersistenceAdapter:
    """A store that is there, to be worked on while nobody else is its master; not started yet.

    A database that has no tables of a store is refused when it is started.

    Args:
        url: of the store.
        options: of a SQL store.

    Raises:
        ConfigurationError: as `check_url`.
    """
    check_url(url)
    return open_store(url, options, must_exist=True)


def is_journal(source: str) -> bool:
    """Whether a source names a directory with a journal rather than a SQL store.

    Raises:
        ConfigurationError: it names neither.
    """
    if is_journal_url(source):
        return True
    if "://" not in source or source.startswith(("file:", "hdfs:", "s3:", "s3a:", "gs:")):
        path = Path(source.removeprefix("file:"))
        if "://" not in source.removeprefix("file:") and not path.is_dir():
            raise ConfigurationError(
                f"{source} is neither a directory with a journal nor the URL of a store (sqlite:///FILE,"
                " postgresql://…, mysql://…, mariadb://…)"
            )
        return True
    check_url(source)
    return False


def _view(directory: Path, options: KahaDBOptions) -> PersistenceAdapter:
    if isinstance(options, AMQOptions):
        return AMQView(directory)
    if isinstance(options, MKahaDBOptions):
        return MKahaDBView(directory)
    return LevelDBView(directory, options) if isinstance(options, LevelDBOptions) else KahaDBView(directory)


def view_of(url: str) -> PersistenceAdapter:
    """A store to be looked into, not started yet: it takes no lock, creates nothing, and does nothing by itself.

    Raises:
        ConfigurationError: as `check_url`.
        StoreUnavailable: a SQLite file that cannot be read without being written.
    """
    check_url(url)
    if is_journal_url(url):
        return _view(*journal_options(url))
    options = JdbcOptions(
        create_tables_on_startup=False,
        pool_size=1,
        vacuum_rows=0,
        cleanup_period_ms=0,
        virtual_topic_consumers="",
    )
    return open_store(url, options, locker="none", reads_only=True)


@contextmanager
def looking_into(url: str) -> Iterator[PersistenceAdapter]:
    """A started store, for reading.

    Raises:
        ConfigurationError: as `check_url`.
        StoreError: it cannot be opened.
    """
    view = view_of(url)
    if not is_journal_url(url) and (location := store_location(url)).options.read_from != "primary":
        from jdbcstore.store.jdbc.connection import opened, tell_of_standby

        with opened(location) as looked:
            tell_of_standby(looked.connection, looked.dialect)
    with view:
        yield view
