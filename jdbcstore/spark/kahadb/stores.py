"""The stores that a job reads: each directory that was given, and of several KahaDB in one (mKahaDB) each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jdbcstore.spark.kahadb.files import JournalDirectory, stores_within
from jdbcstore.spark.kahadb.leveldb_log import LevelDBDirectory, is_leveldb_directory
from jdbcstore.spark.kahadb.options import KahaDBOptions

__all__ = ["Directory", "ReadStore", "stores_of"]

Directory: TypeAlias = JournalDirectory | LevelDBDirectory


@dataclass(frozen=True, slots=True)
class ReadStore:
    """One of them.

    Args:
        partition: its number.
        uri: of its directory.
        archive, log_directory: as in `KahaDBOptions`.
        tx_store: of one store of several the directory ``txStore``.
    """

    partition: int
    uri: str
    archive: str | None
    tx_store: str | None
    log_directory: str | None

    def directory(self) -> Directory:
        """Its files. Raises `ConfigurationError`, `StoreError`."""
        if is_leveldb_directory(self.uri):
            return LevelDBDirectory(self.uri, self.log_directory)
        return JournalDirectory(self.uri, self.archive)


def stores_of(options: KahaDBOptions) -> list[ReadStore]:
    """All that there is to read, in its order.

    Raises:
        ConfigurationError: there is no such file system.
        StoreError: a directory cannot be listed.
    """
    found: list[tuple[str, str | None]] = []
    for path in options.paths:
        within, tx_store = stores_within(path)
        found += [(uri, options.tx_store or tx_store) for uri in within]
        if not within:
            found.append((path, options.tx_store))
    return [
        ReadStore(partition, uri, options.archive, tx_store, options.log_directory)
        for partition, (uri, tx_store) in enumerate(found)
    ]
