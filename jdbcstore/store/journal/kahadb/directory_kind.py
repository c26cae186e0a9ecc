"""What a directory is that is no KahaDB store, by the names in it: another store of ActiveMQ must not look empty.

Nothing in it is opened. Whoever is given such a directory as a store says what it is and what to do, and changes
nothing: a journal of ours beside the files of another store would hide both.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.index import FILE_NAME as INDEX_NAME
from jdbcstore.store.journal.kahadb.blank_index import NAMES, is_brokers_index
from jdbcstore.store.journal.kahadb.journal import file_number

__all__ = [
    "INDEX_ALONE",
    "foreign_store",
    "has_lost_its_journal",
    "is_index_alone",
    "names_in",
    "refuse_a_folder_of_stores",
    "refuse_a_mixture",
    "refuse_an_index_alone",
    "refuse_another_store",
    "refuse_what_holds_no_journal",
    "scheme_of",
    "stores_in",
    "what_it_is",
]

_AMQ_FILE: Final = re.compile(r"data-(\d+|control)")
_LEVELDB_FILE: Final = re.compile(r"[0-9a-fA-F]{16}\.(log|index)|(dirty|plist)\.index")
_SHOWN: Final = 20
#: What is to be said of a directory with an index and no journal.
INDEX_ALONE: Final = (
    "holds an index, but no journal (db-1.log, db-2.log, ...): without its journal an index is worth nothing"
)
#: Directories of a store that hold journals and are no stores.
_PARTS: Final = ("scheduler", "data-archive")


def foreign_store(names: Collection[str], stores: Collection[str] = ()) -> str | None:
    """What a directory is, and what to do, if it is another store's.

    Args:
        names: of the files and directories in it.
        stores: those of the directories that hold stores, as `stores_in` tells them.

    Returns:
        None if it is a KahaDB directory, or nothing that is known.
    """
    has_journal = any(file_number(name) is not None for name in names)
    if "kr-store" in names or any(_AMQ_FILE.fullmatch(name) for name in names):
        return (
            "looks like an AMQ store (ActiveMQ 5.0 to 5.8), not like a KahaDB store. Serve it as it is with"
            " amq:DIRECTORY, or migrate it (jdbcstore migrate amq:DIRECTORY URL); give the directory with 'journal' and"
            " 'kr-store' in it"
        )
    if "store-version.txt" in names or any(_LEVELDB_FILE.fullmatch(name) for name in names):
        beside = " There is a KahaDB journal beside it: move the files db-*.log elsewhere." if has_journal else ""
        return (
            "looks like a LevelDB store (ActiveMQ 5.7 to 5.16), not like a KahaDB store. Serve it as it is with"
            f" leveldb:DIRECTORY, or migrate it (jdbcstore migrate leveldb:DIRECTORY URL).{beside}"
        )
    if "tmpDB.data" in names:
        return "holds the non-persistent messages of a broker, which ends with it, not a store"
    if stores and not has_journal:
        shown = ", ".join(sorted(stores)[:_SHOWN])
        shown += f" and {len(stores) - _SHOWN} more" if len(stores) > _SHOWN else ""
        if "txStore" in stores or any("#" in name for name in stores):
            return f"holds several stores (mKahaDB): use mkahadb:DIRECTORY, or give one of them: {shown}"
        return f"is no store; give one that it holds: {shown}"
    return None


def refuse_a_mixture(directory: object, names: Collection[str]) -> None:
    """Make sure that a directory whose format nobody has named holds the files of one format.

    Args:
        directory: as a message shows it.
        names: of the files and directories in it.

    Raises:
        ConfigurationError: nobody can tell which store is meant; the text says what to do.
    """
    found = {
        "KahaDB (db-1.log, ...)": any(file_number(name) is not None for name in names),
        "an AMQ store (data-1, kr-store, ...)": "kr-store" in names or any(map(_AMQ_FILE.fullmatch, names)),
        "LevelDB (store-version.txt, 0000000000000000.log, ...)": "store-version.txt" in names
        or any(map(_LEVELDB_FILE.fullmatch, names)),
    }
    kinds = [kind for kind, is_there in found.items() if is_there]
    if len(kinds) > 1:
        raise ConfigurationError(
            f"{directory} holds files of {' and of '.join(kinds)}: nobody can tell which store is meant. Move the files"
            " of one of them into a directory of their own"
        )


def refuse_a_folder_of_stores(directory: Path, names: Collection[str]) -> None:
    """Make sure that no store is begun in a directory that is none itself and holds stores: one of them was meant.

    Args:
        directory: where a store would be begun.
        names: of the files and directories in it.

    Raises:
        ConfigurationError: it holds some; the text says which.
        StoreError: it cannot be read.
    """
    with reading(str(directory)):
        stores = [name for name in stores_in(directory) if name not in _PARTS]
    found = foreign_store(names, stores)
    if found is not None:
        raise ConfigurationError(f"{directory} {found}")


def stores_in(directory: Path) -> list[str]:
    """The directories in a directory that hold stores: names of those of KahaDB, and of others with the scheme that
    serves them, ``old (amq:)``. Raises OSError."""
    schemes = {path.name: scheme_of(path) for path in directory.iterdir() if path.is_dir()}
    return sorted(name if scheme == "kahadb:" else f"{name} ({scheme})" for name, scheme in schemes.items() if scheme)


def scheme_of(directory: Path) -> str | None:
    """By which URLs a directory is served, by the names in it: ``kahadb:``, ``mkahadb:``, ``amq:`` or ``leveldb:``.

    Returns:
        None if it holds no store, or cannot be read.
    """
    try:
        names = {path.name for path in directory.iterdir()}
        journal = directory / "journal"
        has_amq_journal = journal.is_dir() and any(_AMQ_FILE.fullmatch(path.name) for path in journal.iterdir())
    except OSError:
        return None
    if any(file_number(name) is not None for name in names):
        return "kahadb:"
    if has_amq_journal or "kr-store" in names:
        return "amq:"
    if "store-version.txt" in names or any(map(_LEVELDB_FILE.fullmatch, names)):
        return "leveldb:"
    return "mkahadb:" if "txStore" in names else None


def what_it_is(directory: Path) -> str:
    """What a directory without a record of a journal is.

    Raises:
        OSError: it cannot be read.
    """
    names = sorted(path.name for path in directory.iterdir())
    if not names:
        return "is empty: there is no KahaDB journal (db-1.log, db-2.log, ...)"
    found = foreign_store(names, stores_in(directory))
    if found is not None:
        return found
    if is_index_alone(names):
        return INDEX_ALONE
    if any(file_number(name) is not None for name in names):
        return "holds only empty journal files"
    return "is no KahaDB store: it holds no journal (db-1.log, db-2.log, ...)"


def refuse_what_holds_no_journal(directory: Path) -> None:
    """Make sure that a directory to be looked into is a KahaDB store, for another one looks like an empty store.

    Raises:
        ConfigurationError: there is no journal in it.
        StoreError: it cannot be read.
    """
    with reading(str(directory)):
        has_journal = any(file_number(path.name) is not None for path in directory.iterdir())
        found = "" if has_journal else what_it_is(directory)
    if not has_journal:
        raise ConfigurationError(f"{directory} {found}")


def is_index_alone(names: Collection[str]) -> bool:
    """Whether there is the index of a store, a broker's or ours, and no journal.

    Args:
        names: of the files in its directory.
    """
    has_index = not {"scheduleDB.data", NAMES[0], INDEX_NAME}.isdisjoint(names)
    return has_index and all(file_number(name) is None for name in names)


def has_lost_its_journal(directory: Path) -> bool:
    """The same of a directory. Raises `StoreError` when it cannot be read."""
    with reading(str(directory)):
        return is_index_alone({path.name for path in directory.iterdir()})


def refuse_an_index_alone(directory: Path) -> None:
    """Make sure that a store that has lost its journal does not look empty.

    Raises:
        ConfigurationError: it has.
        StoreError: it cannot be read.
    """
    if has_lost_its_journal(directory):
        raise ConfigurationError(f"{directory} {INDEX_ALONE}. Restore the journal from a backup")


def names_in(directory: Path, what: str) -> set[str] | None:
    """What lies in a directory; None if it is not there.

    Raises:
        ConfigurationError: it is no directory; the text says what the wanted one holds.
        StoreError: it cannot be read.
    """
    if not directory.exists():
        return None
    if not directory.is_dir():
        raise ConfigurationError(f"{directory} is no directory: give the one that holds {what}")
    with reading(str(directory)):
        return {path.name for path in directory.iterdir()}


def refuse_another_store(directory: Path, *, ignores_missing: bool = False) -> None:
    """Make sure that a directory is a KahaDB store or may become one; nothing is changed.

    Args:
        directory: need not be there.
        ignores_missing: whether the journal may be missing (``ignoreMissingJournalfiles``).

    Raises:
        ConfigurationError: it is another store's; the text says what it is and what to do.
        StoreError: it cannot be read.
    """
    try:
        names = names_in(directory, "the broker's db-1.log")
        if names is None:
            return
        with reading(str(directory)):
            stores = [name for name in stores_in(directory) if name not in _PARTS]
    except StoreError as error:
        raise ConfigurationError(str(error)) from error
    found = foreign_store(names, stores)
    if found is not None:
        raise ConfigurationError(f"{directory} {found}")
    if "scheduleDB.data" in names:
        raise ConfigurationError(
            f"{directory} holds a scheduler's messages, which are sent later, not a store: give the directory of the"
            " store, and keep this one as 'scheduler' in it"
        )
    has_journal = any(file_number(name) is not None for name in names)
    if not has_journal and not ignores_missing and is_brokers_index(directory):
        raise ConfigurationError(
            f"{directory} {what_it_is(directory)}. Restore the journal, or delete {', '.join(NAMES)} to begin anew"
        )
