"""What a directory is that is no mKahaDB store, by the names in it: another store of ActiveMQ must not look empty."""

from __future__ import annotations

from pathlib import Path

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.kahadb.directory_kind import foreign_store, names_in, refuse_a_folder_of_stores
from jdbcstore.store.journal.kahadb.journal import file_number
from jdbcstore.store.journal.mkahadb.filters import TX_STORE, stores_of

__all__ = ["refuse_what_is_no_mkahadb_store"]


def refuse_what_is_no_mkahadb_store(directory: Path) -> None:
    """Make sure that a directory holds KahaDB stores, or may become one that does; nothing is changed.

    Args:
        directory: need not be there.

    Raises:
        ConfigurationError: it is another store's; the text says what it is and what to do.
        StoreError: it cannot be read.
    """
    names = names_in(directory, "'txStore'")
    if names is None:
        return
    found = foreign_store(names)
    if found is not None:
        raise ConfigurationError(f"{directory} {found}")
    if any(file_number(name) is not None for name in names):
        raise ConfigurationError(
            f"{directory} holds a KahaDB journal (db-1.log, ...) itself, whose messages would not be served: use"
            f" kahadb:{directory}, or move its files into a directory of their own and migrate them (jdbcstore migrate)"
        )
    # Theirs have the names of filters, with such a sign for the colon.
    if TX_STORE not in names and not any("#" in store.name for store in stores_of(directory)):
        refuse_a_folder_of_stores(directory, names)
