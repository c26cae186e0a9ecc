"""Tables as a database's catalogues describe them, as far as a store wants to know."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from sqlalchemy import Connection, inspect
from sqlalchemy.engine.interfaces import ReflectedColumn, ReflectedIndex, TableKey

__all__ = ["FoundColumn", "FoundTable", "reflected_tables"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundColumn:
    """A column.

    Args:
        type: its type in the database's words, lower case.
        keeps_bytes: whether that is a binary type.
        is_nullable: whether it may be NULL.
        length: the most characters or bytes it takes, where the type says so.
    """

    type: str
    keeps_bytes: bool
    is_nullable: bool
    length: int | None = None


@dataclass(frozen=True, slots=True)
class FoundTable:
    """A table; the names of its columns are in upper case.

    Args:
        columns: all of them, by name.
        key: the columns of the primary key in their order; none if there is no key.
        indexes: the columns of each index but that of the key, by the index's name as the database keeps it.
    """

    columns: Mapping[str, FoundColumn]
    key: tuple[str, ...]
    indexes: Mapping[str, tuple[str, ...]]


def reflected_tables(connection: Connection, names: Sequence[str]) -> dict[str, FoundTable]:
    """What SQLAlchemy finds of some tables, on any database; see `Schema.found_tables`."""
    catalogue = inspect(connection)
    listed = frozenset(catalogue.get_table_names())
    # Asked for all of them at once where the database can: each question takes its time.
    usual = [name for name in names if name in listed]
    keys = _by_name(catalogue.get_multi_pk_constraint(filter_names=usual)) if usual else {}
    columns = _by_name(catalogue.get_multi_columns(filter_names=usual)) if usual else {}
    indexes = _by_name(catalogue.get_multi_indexes(filter_names=usual)) if usual else {}
    # What the list does not have under this very name may be there all the same: in another schema of the search path,
    # in other letters, as a view.
    others = [name for name in names if name not in listed and catalogue.has_table(name)]
    return {
        name: FoundTable(
            _columns(columns.get(name) or catalogue.get_columns(name)),
            _upper((keys.get(name) or catalogue.get_pk_constraint(name))["constrained_columns"]),
            _indexes(catalogue.get_indexes(name) if (of := indexes.get(name)) is None else of),
        )
        for name in (*usual, *others)
    }


def _by_name(found: Mapping[TableKey, T]) -> dict[str, T]:
    return {name: of for (_, name), of in found.items()}


def _columns(found: Sequence[ReflectedColumn]) -> dict[str, FoundColumn]:
    return {
        column["name"].upper(): FoundColumn(
            type(column["type"]).__name__.lower(),
            _keeps_bytes(column),
            column["nullable"],
            getattr(column["type"], "length", None),
        )
        for column in found
    }


def _keeps_bytes(column: ReflectedColumn) -> bool:
    try:
        return column["type"].python_type is bytes
    except NotImplementedError:
        return False


def _indexes(found: Sequence[ReflectedIndex]) -> dict[str, tuple[str, ...]]:
    return {str(index["name"]): _upper(map(str, index["column_names"])) for index in found}


def _upper(names: Iterable[str]) -> tuple[str, ...]:
    return tuple(name.upper() for name in names)
