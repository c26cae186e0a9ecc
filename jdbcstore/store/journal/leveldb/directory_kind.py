"""What a directory is that is no LevelDB store, by the names in it: another store of ActiveMQ must not look empty."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.directory_kind import names_in, refuse_a_folder_of_stores
from jdbcstore.store.journal.leveldb.log import file_number
from jdbcstore.store.journal.leveldb.recovery import STASH, VERSION_FILE, stashed

__all__ = ["is_leveldb", "refuse_what_is_no_leveldb_store"]

_INDEX: Final = re.compile(r"([0-9a-fA-F]{16}|dirty|plist|temp)\.index")
_KAHADB: Final = re.compile(r"db-\d+\.log")
_AMQ: Final = re.compile(r"data-(\d+|control)")


def is_leveldb(directory: Path) -> bool:
    """Whether a directory holds a LevelDB store, by the names in it. Raises `StoreError` when it cannot be read."""
    if not directory.is_dir():
        return False
    with reading(str(directory)):
        names = {path.name for path in directory.iterdir()}
    return VERSION_FILE in names or any(file_number(name) is not None or _INDEX.fullmatch(name) for name in names)


def refuse_what_is_no_leveldb_store(directory: Path) -> None:
    """Make sure that a directory is a LevelDB store that may be written, or may become one; nothing is changed.

    Args:
        directory: need not be there.

    Raises:
        ConfigurationError: it is another store's, or a slave was copying into it; the text says what to do.
        StoreError: it cannot be read.
    """
    names = names_in(directory, VERSION_FILE)
    if names is None:
        return
    if any(_KAHADB.fullmatch(name) for name in names):
        if is_leveldb(directory):
            raise ConfigurationError(
                f"{directory} holds a KahaDB journal (db-1.log, ...) beside a LevelDB store: move one of them elsewhere"
            )
        raise ConfigurationError(f"{directory} holds a KahaDB journal (db-1.log, ...): use kahadb:{directory}")
    if "kr-store" in names or "journal" in names or any(_AMQ.fullmatch(name) for name in names):
        raise ConfigurationError(f"{directory} looks like an AMQ store (ActiveMQ 5.0 to 5.8), not like a LevelDB store")
    if stashed(directory) is not None:
        raise ConfigurationError(
            f"{directory} was being copied from a master when its broker ended; what it had before is in {STASH}. Use"
            f" the directory of the master, or leveldb:{directory / STASH}"
        )
    if not is_leveldb(directory):
        refuse_a_folder_of_stores(directory, names)
