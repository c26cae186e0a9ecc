"""Which destination is in which store, and what the store's directory is called.

A directory has the name of its filter, with what file systems may not like as ``#`` and hexadecimal digits; of long
ones the last 64 characters. The store for everything is called as ActiveMQ calls a destination for all others.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from operator import itemgetter
from pathlib import Path
from typing import Final

from jdbcstore.destination import PATTERNS, Destination, Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.index import FILE_NAME

__all__ = [
    "EVERYTHING",
    "NO_STORES",
    "TX_STORE",
    "chosen",
    "directory_name",
    "filter_of",
    "filters_of",
    "is_store",
    "stores_of",
]

#: ActiveMQ's names of the store for everything: since 5.9 or so, and before.
EVERYTHING: Final = ("#210", "#20")
TX_STORE: Final = "txStore"
#: Directories with a journal that are no stores: outcomes, and scheduled messages.
NO_STORES: Final = (TX_STORE, "scheduler")
#: Of brokers, and ours.
_INDEXES: Final = ("db.data", FILE_NAME)
_NAME_CHARACTERS: Final = 64
_KEPT: Final = re.compile(r"[0-9A-Za-z_.#-]")
_BETWEEN_FILTERS: Final = re.compile(r",(?=\s*(?:(?:queue|topic)://|,|$))")
_PREFIX: Final = re.compile(r"(queue|topic)#3a#2f#2f(.*)")
#: What stands in the names of filters and is not kept in those of directories.
_SPECIAL: Final = {"#3e": ">", "#2a": "*", "#2c": ","}


def directory_name(filter_name: str) -> str:
    """The directory of a filter or a destination, by its qualified name."""
    units = filter_name.encode("utf-16-be", "surrogatepass")
    codes = [int.from_bytes(units[o : o + 2], "big") for o in range(0, len(units), 2)]
    safe = "".join(chr(one) if one < 128 and _KEPT.match(chr(one)) else f"#{one:x}" for one in codes)
    return safe[-_NAME_CHARACTERS:]


def filter_of(name: str) -> Destination | None:
    """The filter of a directory by its name, as far as that can be read back; None for everything, or if it cannot.

    The name of a composite does not tell whether it is of queues; it is taken for one.
    """
    found = _PREFIX.fullmatch(name)
    if found is None and ("#2c" not in name or len(name) == _NAME_CHARACTERS):
        return None
    kind, rest = ("queue", name) if found is None else found.groups()
    rest = re.sub("|".join(_SPECIAL), lambda one: _SPECIAL[one[0]], rest)
    if "#" in rest:
        rest = re.sub(r"#([0-9a-f]{1,4})", lambda one: chr(int(one[1], 16)), rest)
    try:
        pattern = Queue(rest) if kind == "queue" else Topic(rest)
        pattern.elements()
    except ConfigurationError:
        return None
    return pattern


def filters_of(text: str) -> dict[Destination, dict[str, str]]:
    """Filters as an option tells them: ``queue://A.>;name=value,topic://T``; and the options that each has of its own.

    A filter may be a composite: ``queue://*.A,*.B,topic://T`` are two.

    Raises:
        ConfigurationError: one is none, or is there twice.
    """
    found: dict[Destination, dict[str, str]] = {}
    for one in filter(None, map(str.strip, _BETWEEN_FILTERS.split(text))):
        name, *options = map(str.strip, one.split(";"))
        pattern = parse_destination(name)
        if pattern in found:
            raise ConfigurationError(f"the filter {pattern} is there twice")
        found[pattern] = {}
        for option in options:
            key, equals, value = option.partition("=")
            if not equals or key in found[pattern]:
                raise ConfigurationError(f"the filter {pattern}: {option!r} is not NAME=VALUE, or there twice")
            found[pattern][key] = value
    return found


def chosen(destination: Destination, filters: Iterable[Destination]) -> Destination | None:
    """The filter that takes a destination: the one that says most about it. A composite takes what its parts take."""
    found = [
        (_said(part), one)
        for one in filters
        for part in one.elements()
        if type(part) is type(destination) and part.matches(destination)
    ]
    return max(found, key=itemgetter(0))[1] if found else None


def _said(pattern: Destination) -> tuple[int, int, int]:
    parts = pattern.physical_name.split(".")
    return (not pattern.is_wildcard, sum(part not in PATTERNS for part in parts), ">" not in parts)


def is_store(directory: Path) -> bool:
    """Whether there are journals in it, or an index that has lost its journal, which must not be passed over."""
    return directory.is_dir() and (
        any(directory.glob("db-*.log")) or any((directory / name).exists() for name in _INDEXES)
    )


def stores_of(directory: Path) -> list[Path]:
    """The directories of the stores in one: first those that have the name of a filter, then others, each in the order
    of their names. Of a destination that is in two of them the first counts, so that a copy beside does not.

    Raises:
        StoreError: it cannot be read.
    """
    with reading(str(directory)):
        found = [path for path in directory.iterdir() if path.name not in NO_STORES and is_store(path)]
    return sorted(found, key=lambda path: (path.name not in EVERYTHING and filter_of(path.name) is None, path.name))
