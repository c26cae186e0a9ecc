"""Options of ``format("kahadb")``; those that ``format("activemq")`` has too mean the same."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, cast

from jdbcstore.errors import ConfigurationError
from jdbcstore.selector import Selector
from jdbcstore.spark.options import BATCH_BYTES, Given, OnCorrupt

__all__ = ["KahaDBOptions", "View"]

#: What to see of a directory.
View: TypeAlias = Literal["messages", "records", "subscriptions", "files"]

_VIEWS: Final = ("messages", "records", "subscriptions", "files")
_NAMES: Final = (
    "path",
    "paths",
    "view",
    "columns",
    "subscribe",
    "subscribePattern",
    "selector",
    "includeHeaders",
    "includePrepared",
    "onCorrupt",
    "payload",
    "splitBytes",
    "batchBytes",
    "directoryArchive",
    "txStore",
    "logDirectory",
)
#: Options that say nothing but about some views.
_ONLY: Final[Mapping[str, tuple[View, ...]]] = {
    "columns": ("messages", "records"),
    "subscribe": ("messages", "subscriptions"),
    "subscribePattern": ("messages", "subscriptions"),
    "selector": ("messages",),
    "includeHeaders": ("messages",),
    "includePrepared": ("messages",),
    "payload": ("messages", "records"),
    "txStore": ("messages", "subscriptions", "files"),
}

_SPLIT_BYTES: Final = 128 << 20
_SPLIT_BYTES_MAX: Final = 1 << 40


@dataclass(frozen=True, slots=True)
class KahaDBOptions:
    """How to read.

    Args:
        paths: the directories, each a store of its own. (URIs may hold a password.)
        view: what to see of them.
        columns: names, in the order of the schema; empty for those that are shown by themselves.
        subscribe: names of destinations, such as ``queue://A``; empty for all.
        subscribe_pattern: a regular expression that the whole name has to match; None for all.
        selector: messages that do not match it are left out.
        include_headers: Kafka's option of this name.
        include_prepared: whether messages that prepared XA transactions sent or acknowledged are read too.
        on_corrupt: whether damage is a row or an error.
        payload: whether the bytes of messages are a column by themselves.
        split_bytes: larger files are read in parts of about this size.
        batch_bytes: how large Arrow batches get.
        archive: the broker's ``directoryArchive``, also relative to the directory: its files belong to the journal.
        tx_store: of one store of several (mKahaDB) the directory ``txStore``; of all of them it is found.
        log_directory: of a LevelDB store, where its log is, if that is elsewhere, also relative to the directory.
    """

    paths: tuple[str, ...]
    view: View = "messages"
    columns: tuple[str, ...] = ()
    subscribe: tuple[str, ...] = ()
    subscribe_pattern: str | None = None
    selector: Selector | None = None
    include_headers: bool = False
    include_prepared: bool = False
    on_corrupt: OnCorrupt = "column"
    payload: bool = False
    split_bytes: int = _SPLIT_BYTES
    batch_bytes: int = BATCH_BYTES
    archive: str | None = None
    tx_store: str | None = None
    log_directory: str | None = None

    @classmethod
    def of(cls, given: Mapping[str, str]) -> KahaDBOptions:
        """Read options as Spark gives them.

        Raises:
            ConfigurationError: one is unknown or wrong; the text says which and what would be right.
            SelectorError: the selector cannot be read.
        """
        options = Given(given, _NAMES)
        view = cast(View, options.choice("view", _VIEWS, "messages"))
        for name, views in _ONLY.items():
            if options.text(name) and view not in views:
                raise ConfigurationError(f"option {name} means nothing to view={view}, only to {', '.join(views)}")
        return cls(
            paths=_paths(options),
            view=view,
            columns=tuple(options.names("columns")),
            include_headers=options.flag("includeHeaders"),
            payload=options.flag("payload"),
            split_bytes=options.number("splitBytes", _SPLIT_BYTES, 1, _SPLIT_BYTES_MAX) or _SPLIT_BYTES,
            archive=options.text("directoryArchive"),
            tx_store=options.text("txStore"),
            log_directory=options.text("logDirectory"),
            **options.chosen(),
        )

    def chooses(self) -> Callable[[str], bool]:
        """Whether the destination of a name is to be read."""
        if self.subscribe:
            return frozenset(self.subscribe).__contains__
        if self.subscribe_pattern is not None:
            fullmatch = re.compile(self.subscribe_pattern).fullmatch
            return lambda name: fullmatch(name) is not None
        return lambda name: True


def _paths(options: Given) -> tuple[str, ...]:
    path, paths = options.text("path"), options.text("paths")
    found = ([path] if path else []) + (json.loads(paths) if paths else [])
    if not found:
        raise ConfigurationError(
            'no directory is given: .load("/var/lib/activemq/kahadb"), the one with the files db-1.log, db-2.log, …'
        )
    return tuple(found)
