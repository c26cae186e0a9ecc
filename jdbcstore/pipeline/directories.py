"""Directories of ActiveMQ's stores as jobs are given them: a path or a URI, or the URL of a broker's store."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from jdbcstore.store.journal.amq.adapter import is_amq_store
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.directory_kind import refuse_a_mixture
from jdbcstore.store.journal.leveldb.directory_kind import is_leveldb
from jdbcstore.store.journal.mkahadb.filters import TX_STORE

__all__ = ["has_journal", "path_of", "scheme_of"]

_SCHEMES: Final = ("kahadb:", "mkahadb:", "amq:", "leveldb:")


def path_of(source: str) -> str:
    """The path or the URI of a directory, without the scheme of a store."""
    return source.removeprefix(_told(source))


def scheme_of(source: str) -> str:
    """The scheme of the store in a directory, as it is told or, of a local directory, by the names in it; KahaDB's if
    nothing else is known. Raises `jdbcstore.errors.ConfigurationError` if it holds files of two formats."""
    folder = Path(source.removeprefix("file:"))
    return _told(source) or _found(folder) or _SCHEMES[0]


def has_journal(source: str) -> bool:
    """Whether a source is the directory of a store, told or found."""
    return bool(_told(source) or _found(Path(source.removeprefix("file:"))))


def _told(source: str) -> str:
    return next((scheme for scheme in _SCHEMES if source.startswith(scheme)), "")


def _found(folder: Path) -> str:
    if not folder.is_dir():
        return ""
    with reading(str(folder)):
        names = {path.name for path in folder.iterdir()}
    refuse_a_mixture(folder, names)
    if is_amq_store(folder):
        return "amq:"
    if is_leveldb(folder):
        return "leveldb:"
    if (folder / TX_STORE).is_dir():
        return "mkahadb:"
    return "kahadb:" if any(folder.glob("db-*.log")) else ""
