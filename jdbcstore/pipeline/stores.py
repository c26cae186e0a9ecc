"""What a job may be pointed at: the URL of a SQL store, or a KahaDB directory; and looking into the former."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from jdbcstore.config.looking import check_url, looking_into
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter

__all__ = ["is_journal", "looking_into_sql"]


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
    check_url(source)
    return False


@contextmanager
def looking_into_sql(url: str) -> Iterator[JdbcPersistenceAdapter]:
    """`looking_into` a SQL store, to ask what only those know.

    Raises:
        ConfigurationError, StoreError: it cannot be opened.
    """
    with looking_into(url) as store:
        assert isinstance(store, JdbcPersistenceAdapter)
        yield store
