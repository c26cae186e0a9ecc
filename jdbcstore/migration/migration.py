"""``migrate``: everything of a store into an empty one of any kind, in this process."""

from __future__ import annotations

import time
from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Final

from jdbcstore.config.inspection import check_url, is_journal
from jdbcstore.config.urls import is_journal_url, journal_options, kahadb_options
from jdbcstore.destination import Destination, Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration.contents import Contents
from jdbcstore.migration.contents_copier import ContentsCopier
from jdbcstore.migration.directories import check_directory, directory_target
from jdbcstore.migration.journals import contents_of_amq_store, contents_of_journals, scheduler_of
from jdbcstore.migration.leveldb import contents_of_leveldb_store
from jdbcstore.migration.locations import location_of
from jdbcstore.migration.migrated import Migrated
from jdbcstore.migration.plan import MigrationPlan
from jdbcstore.migration.progress import Showing
from jdbcstore.migration.several import contents_of_several
from jdbcstore.migration.table_target import check_table_target, table_target
from jdbcstore.migration.tables import contents_of_tables
from jdbcstore.migration.target import ContentsTarget
from jdbcstore.store.journal.amq.adapter import is_amq_store
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.directory_kind import refuse_a_mixture
from jdbcstore.store.journal.leveldb.directory_kind import is_leveldb
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.filters import TX_STORE

__all__ = ["check_target", "migrate", "migrate_contents"]

_KAHADB: Final = "kahadb:"
_AMQ: Final = "amq:"
_MKAHADB: Final = "mkahadb:"
_LEVELDB: Final = "leveldb:"


def migrate(
    source: str,
    target: str,
    *,
    is_dry: bool = False,
    skips_damage: bool = False,
    prioritized: Collection[Destination] = (),
    scheduler: Path | None = None,
    showing: Showing | None = None,
) -> Migrated:
    """Bring everything of a store into an empty one of any kind, and compare them.

    It may be run again after anything, and goes on where it stopped. Until it is complete no broker gets the target.

    Args:
        source: the URL of a SQL store, ``kahadb:DIRECTORY``, ``amq:DIRECTORY``, ``mkahadb:DIRECTORY`` or
            ``leveldb:DIRECTORY``. A broker may
            be at work on it: what is migrated is what is there when the migration begins.
        target: of an empty SQL store, or ``kahadb:DIRECTORY``; what is missing of it is made.
        is_dry: only say what would be done.
        skips_damage: leave out what cannot be read, and list it.
        prioritized: destinations whose messages are ordered by priority, beside those that show it; wildcards too.
        scheduler: of KahaDB: the directory of scheduled messages; None for ``scheduler`` in the directory or beside it.
        showing: how progress is shown; None for not at all.

    Raises:
        ConfigurationError: one of the stores cannot be used so; the text says why.
        LockHeld: a broker or another migration has the target.
        StoreError: they cannot be read or written, or are not alike afterwards.
    """
    began = time.monotonic()
    showing = showing or Showing(is_quiet=True)
    with _contents(source, scheduler, skips_damage=skips_damage) as contents:
        contents.prioritized |= _named(contents, prioritized)
        if contents.is_live:
            showing.say("a broker is at work on the source: what it does from now on is not migrated")
        name = check_target(target) if is_dry else _name(target)
        if name == contents.name:
            raise ConfigurationError("source and target are the same store: name another target")
        copier, hold = ContentsCopier(contents, showing), partial(_target, target, contents)
        plan = MigrationPlan(contents.name, name, copier, hold, contents.is_live)
        done = plan.survey() if is_dry else plan.carry_out()
    done.seconds = round(time.monotonic() - began, 3)
    return done


def migrate_contents(contents: Contents, target: ContentsTarget, showing: Showing | None = None) -> Migrated:
    """Copy everything into a store that is held, compare, and let brokers in.

    Args:
        contents: of the source.
        target: empty, or what an earlier run has left.
        showing: how progress is shown.

    Raises:
        As `migrate`.
    """
    copier = ContentsCopier(contents, showing or Showing(is_quiet=True))
    return MigrationPlan(contents.name, target.name, copier, lambda: nullcontext(target), contents.is_live).carry_out()


def _contents(source: str, scheduler: Path | None, *, skips_damage: bool) -> AbstractContextManager[Contents]:
    if is_journal(source):
        directory = journal_options(source)[0] if is_journal_url(source) else Path(source)
        if directory.is_dir() and not source.startswith(_KAHADB):  # which says more about it
            with reading(str(directory)):
                names = {path.name for path in directory.iterdir()}
            refuse_a_mixture(directory, names)
        if source.startswith(_AMQ) or (not is_journal_url(source) and is_amq_store(directory)):
            return contents_of_amq_store(directory, scheduler or scheduler_of(directory), skips_damage=skips_damage)
        if source.startswith(_MKAHADB) or (not is_journal_url(source) and (directory / TX_STORE).is_dir()):
            return contents_of_several(directory, scheduler or scheduler_of(directory), skips_damage=skips_damage)
        if source.startswith(_LEVELDB) or (not is_journal_url(source) and is_leveldb(directory)):
            logs = _log_directory(source) if is_journal_url(source) else None
            scheduler = scheduler or scheduler_of(directory)
            return contents_of_leveldb_store(directory, logs, scheduler, skips_damage=skips_damage)
        return contents_of_journals(directory, scheduler or scheduler_of(directory), skips_damage=skips_damage)
    check_url(source)
    return contents_of_tables(location_of(source), skips_damage=skips_damage)


def _log_directory(source: str) -> Path | None:
    _, options = journal_options(source)
    assert isinstance(options, LevelDBOptions)
    return Path(options.log_directory) if options.log_directory else None


def _named(contents: Contents, patterns: Collection[Destination]) -> frozenset[Destination]:
    found = contents.destinations() if patterns else {}
    return frozenset(one for one in found if any(pattern.matches(one) for pattern in patterns))


def _name(target: str) -> str:
    _refuse_target(target)
    return f"{_KAHADB}{kahadb_options(target)[0]}" if target.startswith(_KAHADB) else str(location_of(target))


def _refuse_target(target: str) -> None:
    if target.startswith(_MKAHADB):
        raise ConfigurationError(f"{target} is no target: migrate to kahadb:DIRECTORY or to a SQL store")
    if target.startswith((_AMQ, _LEVELDB)):
        kind = "an AMQ store" if target.startswith(_AMQ) else "LevelDB"
        raise ConfigurationError(
            f"{target} is no target: nobody should begin with {kind} any more. Migrate to kahadb:DIRECTORY or to a SQL"
            " store"
        )


def check_target(target: str) -> str:
    """Make sure that a migration to a store would begin, or go on; changes nothing. Returns the store's name.

    Raises:
        As `migrate`.
    """
    _refuse_target(target)
    return check_directory(target) if target.startswith(_KAHADB) else check_table_target(target)


def _target(target: str, contents: Contents) -> AbstractContextManager[ContentsTarget]:
    empty = [one for one, messages in contents.destinations().items() if isinstance(one, Queue) and not messages]
    if target.startswith(_KAHADB):
        return directory_target(target, empty)
    return table_target(target, contents.name, empty)
