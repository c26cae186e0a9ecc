"""What can be read of a damaged AMQ store, LevelDB store, or several KahaDB stores, in a new one."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.errors import LockHeld
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.directories import directory_target
from jdbcstore.migration.journals import contents_of_amq_store, scheduler_in, scheduler_of
from jdbcstore.migration.leveldb import contents_of_leveldb_store
from jdbcstore.migration.migrated import Migrated
from jdbcstore.migration.migration import migrate_contents
from jdbcstore.migration.several import contents_of_several

__all__ = ["repair_amq_store", "repair_leveldb_store", "repair_several"]


def repair_amq_store(directory: Path, target: Path) -> Migrated:
    """Write everything that is live and can be read into a new AMQ store, and compare.

    Args:
        directory: of the store; it is only read.
        target: of the new one; it must not exist, or be empty.

    Returns:
        What was done; `Migrated.damages` is what is lost.

    Raises:
        LockHeld: a broker runs.
        ConfigurationError: it is no AMQ store, or the target is not empty.
        StoreError: it cannot be read or written.
    """
    with contents_of_amq_store(directory, scheduler_in(directory), skips_damage=True, salvages=True) as contents:
        return _repaired(contents, directory, f"amq:{target}")


def repair_leveldb_store(directory: Path, target: Path, log_directory: Path | None = None) -> Migrated:
    """The same of a LevelDB store.

    Args:
        directory: of the store; it is only read.
        target: of the new one; it must not exist, or be empty.
        log_directory: of its log, if that is elsewhere.

    Returns, raises:
        As `repair_amq_store`.
    """
    with contents_of_leveldb_store(directory, log_directory, skips_damage=True) as contents:
        return _repaired(contents, directory, f"leveldb:{target}")


def repair_several(directory: Path, target: Path) -> Migrated:
    """The same of several KahaDB stores, into one.

    Args:
        directory: the one with ``txStore`` in it; it is only read.
        target: of the new one; it must not exist, or be empty.

    Returns, raises:
        As `repair_amq_store`.
    """
    with contents_of_several(directory, scheduler_of(directory), skips_damage=True) as contents:
        return _repaired(contents, directory, f"kahadb:{target}")


def _repaired(contents: Contents, directory: Path, target: str) -> Migrated:
    if contents.is_live:
        raise LockHeld(f"a broker runs on {directory}: stop it first")
    empty = [one for one, messages in contents.destinations().items() if isinstance(one, Queue) and not messages]
    with directory_target(target, empty) as found:
        return migrate_contents(contents, found)
