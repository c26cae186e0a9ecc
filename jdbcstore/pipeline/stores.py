"""What a job may be pointed at: the URL of a SQL store, or a KahaDB directory; and looking into the former."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jdbcstore.config.urls import open_store, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["check_store", "is_journal", "looking_into"]


def is_journal(source: str) -> bool:
    """Whether a source names a KahaDB directory rather than a SQL store.

    Raises:
        ConfigurationError: it names neither.
    """
    if source.startswith("kahadb:"):
        return True
    if "://" not in source or source.startswith(("file:", "hdfs:", "s3:", "s3a:", "gs:")):
        path = Path(source.removeprefix("file:"))
        if "://" not in source.removeprefix("file:") and not path.is_dir():
            raise ConfigurationError(
                f"{source} is neither a directory with a KahaDB journal nor the URL of a store (sqlite:///FILE,"
                " postgresql://…, mysql://…, mariadb://…)"
            )
        return True
    check_store(source)
    return False


def check_store(url: str) -> None:
    """Refuse a URL of which nothing can be read.

    Raises:
        ConfigurationError: it is wrong, names a store in memory, or a SQLite file that is not there.
    """
    if url.startswith("memory:"):
        raise ConfigurationError("a store in memory can be read by its own process only")
    parsed = store_url(url)
    if parsed.get_backend_name() == "sqlite" and not Path(parsed.database or "").exists():
        raise ConfigurationError(
            f"there is no file {parsed.database}; a path from the root takes four slashes: sqlite:////"
        )


@contextmanager
def looking_into(url: str) -> Iterator[JdbcPersistenceAdapter]:
    """A started store that changes nothing, also beside its broker.

    Raises:
        ConfigurationError, StoreError: it cannot be opened.
    """
    options = JdbcOptions(
        create_tables_on_startup=False, pool_size=1, vacuum_rows=0, cleanup_period_ms=0, virtual_topic_consumers=""
    )
    store = open_store(url, options, locker="none")
    assert isinstance(store, JdbcPersistenceAdapter)
    with store:
        yield store
