"""What can be read of a damaged AMQ store, in a new one."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.errors import LockHeld
from jdbcstore.migration.directories import directory_target
from jdbcstore.migration.journals import contents_of_amq_store, scheduler_in
from jdbcstore.migration.migrated import Migrated
from jdbcstore.migration.migration import migrate_contents

__all__ = ["repair_amq_store"]


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
        if contents.is_live:
            raise LockHeld(f"a broker runs on {directory}: stop it first")
        empty = [one for one, messages in contents.destinations().items() if isinstance(one, Queue) and not messages]
        with directory_target(f"amq:{target}", empty) as found:
            return migrate_contents(contents, found)
