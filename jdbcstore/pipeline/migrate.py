"""``migrate``: everything of a store into an empty one, rows copied and compared by Spark."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final, TypeVar

from jdbcstore.config.inspection import is_journal
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration import Migrated
from jdbcstore.migration import migrate as migrate_alone
from jdbcstore.migration.journal_rows import journal_plan
from jdbcstore.migration.locations import location_of
from jdbcstore.migration.table_rows import table_plan
from jdbcstore.pipeline.directories import path_of, scheme_of
from jdbcstore.pipeline.progress import Watch
from jdbcstore.spark.one_line import one_line

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.migration.plan import MigrationPlan
    from jdbcstore.migration.table_target import RowTarget

__all__ = ["Migrated", "SparkWorkers", "migrate"]

P = TypeVar("P")
R = TypeVar("R")
T = TypeVar("T")

_KAHADB: Final = "kahadb:"


class SparkWorkers:
    """Spark's workers.

    Args:
        spark: the session.
        watch: shows how far it is.
    """

    def __init__(self, spark: SparkSession, watch: Watch) -> None:
        self._context = spark.sparkContext
        self._watch = watch

    def run(self, title: str, action: Callable[[], T]) -> T:
        """As `jdbcstore.migration.plan.Workers.run`."""
        return self._watch.run(title, action)

    def map(
        self, work: Callable[[Iterable[P]], Iterator[R]], partitions: Sequence[P], tasks_max: int | None = None
    ) -> list[R]:
        """As `jdbcstore.migration.plan.Workers.map`."""

        def run(some: Iterable[P]) -> Iterator[R]:
            with one_line():
                yield from work(some)

        tasks = max(1, min(len(partitions), tasks_max or len(partitions)))
        return self._context.parallelize(partitions, tasks).mapPartitions(run).collect()


def migrate(
    spark: SparkSession,
    source: str,
    target: str,
    watch: Watch | None = None,
    *,
    is_dry: bool = False,
    skips_damage: bool = False,
) -> Migrated:
    """Bring everything of a store into an empty one, and compare them.

    It may be run again after anything, and goes on where it stopped. Until it is complete no broker gets the target.

    Args:
        spark: the session.
        source: the URL of a SQL store, or a directory: of a KahaDB store, or of mKahaDB, an AMQ
            store or LevelDB, which one process reads. No broker may be running on it.
        target: the URL of a SQL store, whose tables are made when they are missing, or ``kahadb:DIRECTORY``, which one
            process writes, and Spark has nothing to do.
        watch: shows how far it is.
        is_dry: only say what would be done.
        skips_damage: of KahaDB: leave out what cannot be read.

    Raises:
        ConfigurationError: one of the stores cannot be used so; the text says why.
        LockHeld: a broker is master of one of them.
        StoreError: they cannot be read or written, or are not alike afterwards.
    """
    began = time.monotonic()
    watch = watch or Watch(spark, is_quiet=True)
    if is_journal(source) and (scheme := scheme_of(source)) != _KAHADB:
        origin = f"{scheme}{path_of(source)}"
        return migrate_alone(origin, target, is_dry=is_dry, skips_damage=skips_damage, showing=watch.showing)
    if target.startswith(_KAHADB):
        # A journal has one writer.
        origin = f"{_KAHADB}{source.removeprefix(_KAHADB)}" if is_journal(source) else source
        return migrate_alone(origin, target, is_dry=is_dry, skips_damage=skips_damage, showing=watch.showing)
    if "://" not in target or target.startswith("file:"):
        raise ConfigurationError("the target must be a SQL store, sqlite:///FILE or another, or kahadb:DIRECTORY")
    plan = _plan(spark, source, target, watch, skips_damage=skips_damage)
    done = plan.survey() if is_dry else plan.carry_out()
    done.seconds = round(time.monotonic() - began, 3)
    return done


def _plan(
    spark: SparkSession, source: str, target: str, watch: Watch, *, skips_damage: bool
) -> MigrationPlan[RowTarget]:
    workers, to = SparkWorkers(spark, watch), location_of(target)
    if not is_journal(source):
        return table_plan(location_of(source), to, workers)
    from jdbcstore.spark.kahadb.files import JournalDirectory
    from jdbcstore.spark.kahadb.live import replayed

    path = source.removeprefix(_KAHADB)
    journal = JournalDirectory(path)
    state = watch.run("reading the journal", lambda: replayed(journal, None))
    return journal_plan(path, journal, state, to, workers, skips_damage=skips_damage)
