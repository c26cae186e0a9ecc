"""Which messages of a store are to be archived."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, get_args

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from sqlalchemy import text

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.pipeline.destinations import DEAD_LETTER_QUEUES, chooser
from jdbcstore.pipeline.directories import has_journal, path_of
from jdbcstore.pipeline.stores import looking_into_sql
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import CORRUPT
from jdbcstore.store.jdbc.statements import text_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["KINDS", "Kind", "Selection"]

#: ``expired``: past their expiration. ``dead``: in a dead-letter queue. ``acknowledged``: of topics, all durable
#: subscriptions are done with them, and nobody has removed them yet. ``all``: every message.
Kind: TypeAlias = Literal["all", "expired", "dead", "acknowledged"]
KINDS: Final[tuple[str, ...]] = get_args(Kind)


@dataclass(frozen=True)
class Selection:
    """What is asked for.

    Args:
        what: the kind.
        destinations: names, wildcards too; empty for all.
        dead_letter_queues: names, wildcards too, of ``dead``.
        selector: of them; None for all. What cannot be decoded matches none.

    Raises:
        ConfigurationError, SelectorError: it cannot be asked for.
    """

    what: Kind = "all"
    destinations: Sequence[str] = ()
    dead_letter_queues: Sequence[str] = DEAD_LETTER_QUEUES
    selector: str | None = None

    def __post_init__(self) -> None:
        if self.what not in KINDS:
            raise ConfigurationError(f"there is no kind of messages {self.what!r}: {', '.join(KINDS)}")
        if self.selector is not None:
            Selector.parse(self.selector)
        for name in (*self.destinations, *self.dead_letter_queues):
            parse_destination(name)

    def messages(self, spark: SparkSession, url: str, columns: Sequence[str]) -> DataFrame:
        """The messages, with these columns and perhaps more.

        Raises:
            ConfigurationError, StoreError: the store cannot be read.
        """
        if has_journal(url):
            return self._of_journal(spark, path_of(url), list(dict.fromkeys((*columns, "topic"))))
        options = {"url": url, "onCorrupt": "column"}
        if self.selector is not None:
            options["selector"] = self.selector
            columns = list(dict.fromkeys((*columns, CORRUPT)))
        names, floors = self._known(url)
        needed = {"expired": ("expiration",), "acknowledged": ("offset", "rowPriority")}.get(self.what, ())
        columns = list(dict.fromkeys((*columns, "topic", *needed)))
        found = spark.read.format("activemq").options(columns=",".join(columns), **options).load()
        if names is not None:
            found = found.where(F.col("topic").isin(sorted(names)))
        if self.what == "expired":
            found = found.where(F.col("expiration") < F.current_timestamp())
        if self.what == "acknowledged":
            marks = spark.createDataFrame(floors, "floor_topic string, floor_level int, floor long")
            same = (F.col("topic") == F.col("floor_topic")) & F.col("rowPriority").eqNullSafe(F.col("floor_level"))
            found = found.join(F.broadcast(marks), same & (F.col("offset") <= F.col("floor")), "left_semi")
        if self.selector is not None:
            found = found.where(F.col(CORRUPT).isNull())
        return found

    def _of_journal(self, spark: SparkSession, path: str, columns: list[str]) -> DataFrame:
        """Those of a directory. A damaged one is refused: what cannot be read could be missed by nobody."""
        if self.what == "acknowledged":
            raise ConfigurationError("a journal keeps no message that everybody has acknowledged: leave out --what")
        columns += ["expiration"] if self.what == "expired" and "expiration" not in columns else []
        options = {"columns": ",".join(columns), "onCorrupt": "fail"} | (
            {} if self.selector is None else {"selector": self.selector}
        )
        found = spark.read.format("kahadb").options(**options).load(path)
        if (chosen := self._chooser()) is not None:
            topics = spark.read.format("kahadb").options(columns="topic", onCorrupt="fail").load(path).distinct()
            found = found.where(F.col("topic").isin([row.topic for row in topics.collect() if chosen(row.topic)]))
        if self.what == "expired":
            found = found.where(F.col("expiration") < F.current_timestamp())
        return found

    def _known(self, url: str) -> tuple[Collection[str] | None, list[tuple[str, int | None, int]]]:
        """The destinations that are meant, None for all; and up to which id everybody has acknowledged, by level."""
        floors: list[tuple[str, int | None, int]] = []
        with looking_into_sql(url) as adapter:
            with adapter.reading() as connection:
                rows = connection.execute(text(adapter.statements.containers_counted))
                counted = [(text_of(name), level, count) for name, level, count in rows]
            if self.what == "acknowledged":
                for name, level, _ in counted:
                    if not name.startswith("topic://"):
                        continue
                    state = adapter.registry.topics.get(name)
                    floor = None if state is None else state.floor(level)
                    # Without any subscription nobody waits for anything.
                    floors.append((name, level, adapter.registry.last_committed if floor is None else floor))
        names = {name for name, _, _ in counted}
        chosen = self._chooser()
        return (None if chosen is None else {name for name in names if chosen(name)}), floors

    def _chooser(self) -> Callable[[str], bool] | None:
        asked = [self.destinations] if self.destinations else []
        if self.what == "dead":
            asked.append(self.dead_letter_queues)
        if not asked:
            return None
        choosers = [chooser(names) for names in asked]
        return lambda name: all(chosen(name) for chosen in choosers)
