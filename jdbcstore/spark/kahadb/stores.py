"""The stores that a job reads: each directory that was given, and of several KahaDB in one (mKahaDB) each of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.kahadb.files import JournalDirectory, archives_of, beside, local_path, stores_within
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
        archive: where it has archived files, absolute or relative to it; None if they are not to be read.
        tx_store: of one store of several the directory ``txStore``.
        log_directory: of a LevelDB store the path of its log, if that is elsewhere.
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
        ConfigurationError: there is no such file system, or a log is not in a local one, or
            none of several stores has an archive.
        StoreError: a directory cannot be listed.
    """
    found: list[tuple[str, str | None, str | None]] = []
    for path in options.paths:
        within, tx_store = stores_within(path)
        archives = archives_of(within, options.archive) if within and options.archive else [None] * len(within)
        found += [(uri, options.tx_store or tx_store, archive) for uri, archive in zip(within, archives, strict=True)]
        if not within:
            found.append((path, options.tx_store, options.archive))
    return [
        ReadStore(partition, uri, archive, tx_store, _log_directory(uri, options.log_directory))
        for partition, (uri, tx_store, archive) in enumerate(found)
    ]


def _log_directory(uri: str, given: str | None) -> str | None:
    if given is None:
        return None
    found = local_path(beside(uri, given))
    if found is None:
        raise ConfigurationError("logDirectory of a LevelDB store has to be a local path, as the store has to")
    return str(found)
