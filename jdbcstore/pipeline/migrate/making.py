"""``migrate``: hold the target, copy, make indexes, compare, let brokers in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sqlalchemy import text

from jdbcstore.config.inspection import check_url, is_journal
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.migration import Showing
from jdbcstore.migration import migrate as migrate_alone
from jdbcstore.migration.holding import (
    Held,
    hold,
    location_of,
    opened,
    release,
    require_no_master,
)
from jdbcstore.migration.rows import ranges_of
from jdbcstore.pipeline.migrate.made import Migrated
from jdbcstore.pipeline.migrate.stores import compared, copied, copy_tables
from jdbcstore.pipeline.progress import Watch
from jdbcstore.store.jdbc.dialect import database_for
from jdbcstore.store.jdbc.message_indexes import build_message_indexes, drop_message_indexes
from jdbcstore.store.jdbc.statements import Statements, text_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from jdbcstore.store.jdbc.location import StoreLocation

__all__ = ["Migrated", "migrate"]


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
        source: the URL of a SQL store, or a KahaDB directory. No broker may be running on it.
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
    watch = watch or Watch(spark, is_quiet=True)
    if target.startswith("kahadb:"):
        return _into_a_journal(source, target, watch, is_dry=is_dry, skips_damage=skips_damage)
    if "://" not in target or target.startswith("file:"):
        raise ConfigurationError("the target must be a SQL store, sqlite:///FILE or another, or kahadb:DIRECTORY")
    to = location_of(target)
    if is_journal(source):
        from jdbcstore.pipeline.migrate.journals import migrate_journal

        return migrate_journal(spark, source, to, watch, is_dry=is_dry, skips_damage=skips_damage)
    check_url(source)
    origin = location_of(source)
    if (origin.url, origin.options.table_names) == (to.url, to.options.table_names):
        raise ConfigurationError("source and target are the same store")
    done = Migrated(str(origin), str(to))
    with opened(origin) as store:
        require_no_master(store, "source")
        ranges = ranges_of(store)
        if is_dry:
            container = store.dialect.container_expression(collation_is_binary=False)
            counted = text(Statements(origin.options.table_names, container).containers_sized)
            for name, messages, size in sorted(store.connection.execute(counted).all()):
                done.count(text_of(name), int(messages), int(size or 0))
            return done
    held = hold(f"{origin} {origin.options.table_names}", to)
    done.is_resumed = held.is_resumed
    _prepare(held)
    tasks = database_for(to.url.get_backend_name()).writers_max
    rows = watch.run("copying messages", lambda: copied(spark, origin, held, ranges, tasks).collect())
    done.skipped = sum(row["skipped"] for row in rows)
    done.others = watch.run("copying subscriptions and the rest", lambda: copy_tables(origin, held))
    watch.run("making indexes", lambda: _finish(held))
    found = watch.run("comparing", lambda: compared(spark, origin, held, ranges).collect())
    different = [row["destination"] for row in found if not row["same"]]
    for row in found:
        done.count(row["destination"], row["messages"], row["bytes"], int(row["content"]))
    _compare_counts(origin, held, done, different)
    release(held)
    return done


def _into_a_journal(source: str, target: str, watch: Watch, *, is_dry: bool, skips_damage: bool) -> Migrated:
    """A journal has one writer."""
    if is_journal(source):
        source = f"kahadb:{source.removeprefix('kahadb:')}"
    showing = Showing(watch.stream, watch.is_quiet)
    found = migrate_alone(source, target, is_dry=is_dry, skips_damage=skips_damage, showing=showing)
    done = Migrated(found.source, found.target, found.is_resumed)
    for name, moved in found.destinations.items():
        done.count(name, moved.messages, moved.bytes or 0, int(moved.content, 16) if moved.content else None)
    done.skipped = 0 if is_dry else found.messages - found.copied
    done.others = {
        "durable subscriptions": len(found.subscriptions),
        "prepared transactions": len(found.transactions),
        "scheduled messages": found.jobs,
        "damaged messages left out": len(found.damages) + found.damages_unlisted,
    }
    return done


def _prepare(held: Held) -> None:
    if not held.is_resumed:
        with opened(held.location) as store:
            drop_message_indexes(store.connection, store.location.options.table_names)


def _finish(held: Held) -> None:
    with opened(held.location) as store:
        build_message_indexes(store.connection, store.location.options.table_names)


def _compare_counts(origin: StoreLocation, held: Held, done: Migrated, different: list[str]) -> None:
    """Rows outside all ranges would be in one of the stores only."""
    counts = []
    for location in (origin, held.location):
        with opened(location) as store:
            counts.append(
                store.connection.execute(text(f"SELECT COUNT(*) FROM {store.statements.messages}")).scalar_one()
            )
    if different or counts != [done.messages, done.messages]:
        what = f"in {', '.join(different[:5])}" if different else f"{counts[0]} messages there, {counts[1]} here"
        raise StoreError(
            f"the stores are not alike ({what}): has somebody written to the source meanwhile? The target stays closed"
            " to brokers; run the migration again"
        )
