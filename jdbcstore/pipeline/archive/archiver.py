"""``archive``: what is new goes into files, the files are published, and if wanted the messages removed."""

from __future__ import annotations

import secrets
import time
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import islice
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from jdbcstore.config.inspection import check_url
from jdbcstore.config.urls import open_store, store_url
from jdbcstore.destination import Queue, parse_destination
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.identifiers import MessageId
from jdbcstore.pipeline.archive.layout import COLUMNS, DAY, DESTINATION, SCHEMA, laid_out
from jdbcstore.pipeline.archive.manifest import Manifest, Run
from jdbcstore.pipeline.archive.selection import Selection
from jdbcstore.pipeline.directories import has_journal
from jdbcstore.pipeline.folders import Folder
from jdbcstore.pipeline.progress import Watch
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row, SparkSession

__all__ = ["Archived", "archive"]

#: What tells a message in the store from any other: ids are given out again after a Java broker emptied its tables.
_IDENTITY: Final = ("offset", "messageId")
_FILE_BYTES: Final = 128 << 20
#: So long a run may be silent before its files are taken for those of one that has died.
_DEAD_AFTER_MS: Final = 86_400_000
#: Removed at a time: handed over together, and then waited for.
_REMOVED_AT_ONCE: Final = 1000


@dataclass
class Archived:
    """What a run did.

    Args:
        run: its name; None if there was nothing new.
        messages, bytes: what it archived, or would.
        destinations: of each destination how many messages.
        files: how many.
        removed: how many messages were removed from the store.
        kept_of_topics: how many were not, since they are a topic's.
        cleared_up: names of runs that had been interrupted, whose files were removed.
    """

    run: str | None
    messages: int = 0
    bytes: int = 0
    destinations: dict[str, int] = field(default_factory=dict)
    files: int = 0
    removed: int = 0
    kept_of_topics: int = 0
    cleared_up: list[str] = field(default_factory=list)


def archive(
    spark: SparkSession,
    url: str,
    output: str,
    selection: Selection | None = None,
    watch: Watch | None = None,
    *,
    is_dry: bool = False,
    removes: bool = False,
) -> Archived:
    """Write messages of a store to Parquet that are not in the archive yet.

    Args:
        url: of a SQL store, or the directory of one in files, which must not be damaged. A broker may be running on a
            SQL store, unless messages are to be removed.
        output: the archive, a path or URI of a folder; made when it is missing.
        selection: which messages; all by default.
        watch: shows how far it is.
        is_dry: only say what would be done.
        removes: whether what is archived is removed from its queue afterwards. What a topic keeps is removed by its
            broker when all durable subscriptions are done with it.

    Raises:
        ConfigurationError, StoreError: the store or the archive cannot be read or written; nothing counts as archived.
        LockHeld: messages are to be removed, and a broker is master of the store.
    """
    is_directory = has_journal(url)
    if is_directory and removes:
        raise ConfigurationError("nothing is removed from a directory: serve it with a broker and purge its queues")
    if not is_directory:
        check_url(url, "who removes messages" if removes else "")
    source = url if is_directory else store_url(url).render_as_string(hide_password=True)
    selection, watch = selection or Selection(), watch or Watch(spark, is_quiet=True)
    manifest = Manifest(Folder(spark, output))
    done = Archived(None)
    if not is_dry:
        done.cleared_up = manifest.clear_up(int(time.time() * 1000) - _DEAD_AFTER_MS)
    new = _not_yet(spark, selection.messages(spark, url, COLUMNS), manifest)
    if is_dry:
        _count(done, watch.run("counting", lambda: _counted(_identified(spark, url, selection, manifest))))
        return done
    if removes:
        # Said before hours of work rather than behind them.
        _mastered(url).__exit__(None, None, None)
    started = datetime.now(UTC)
    run = f"{started:%Y%m%dT%H%M%S}-{secrets.token_hex(4)}"
    place = f"runs/{run}"
    manifest.folder.make("runs")
    try:
        watch.run("archiving", lambda: _write(new, manifest.folder.of(place)))
        files = [file.path for file in manifest.folder.files(place) if file.path.endswith(".parquet")]
        if files:
            written = spark.read.schema(SCHEMA).parquet(*map(manifest.folder.of, files))
            rows = watch.run("counting", lambda: _counted(written))
            _count(done, rows)
        if done.messages:
            manifest.folder.force(place)
            about = Run(
                run, f"{started:%Y-%m-%d %H:%M:%S} UTC", source,
                selection.what, selection.selector, list(selection.destinations), done.messages, done.bytes,
                {row["topic"]: [row["first"], row["last"]] for row in rows}, files,
            )  # fmt: skip
            manifest.publish(about)
            done.run, done.files = run, len(files)
    finally:
        if done.run is None:
            manifest.folder.remove(place)
    if removes and manifest.runs:
        _remove(spark, url, selection, manifest, watch, done)
    return done


def _not_yet(spark: SparkSession, messages: DataFrame, manifest: Manifest) -> DataFrame:
    """Those that are not archived."""
    if not manifest.runs:
        return messages
    return messages.join(_archived(spark, manifest), list(_IDENTITY), "left_anti")


def _archived(spark: SparkSession, manifest: Manifest) -> DataFrame:
    return spark.read.schema(SCHEMA).parquet(*manifest.files).select(*_IDENTITY)


def _identified(spark: SparkSession, url: str, selection: Selection, manifest: Manifest) -> DataFrame:
    """What would be archived, without a message being read unless a selector asks about it."""
    return _not_yet(spark, selection.messages(spark, url, ["topic", "size", *_IDENTITY]), manifest)


def _write(messages: DataFrame, place: str) -> None:
    spark = messages.sparkSession
    advice = "spark.sql.adaptive.advisoryPartitionSizeInBytes"
    before = spark.conf.get(advice, None)
    spark.conf.set(advice, str(_FILE_BYTES))
    try:
        laid_out(messages).write.partitionBy(DESTINATION, DAY).option("compression", "zstd").parquet(place)
    finally:
        if before is None:
            spark.conf.unset(advice)
        else:
            spark.conf.set(advice, before)


def _counted(messages: DataFrame) -> list[Row]:
    totals = (
        F.count("*").alias("messages"), F.sum("size").alias("bytes"), F.min("offset").alias("first"),
        F.max("offset").alias("last"),
    )  # fmt: skip
    return messages.groupBy("topic").agg(*totals).orderBy("topic").collect()


def _count(done: Archived, rows: list[Row]) -> None:
    done.destinations = {row["topic"]: row["messages"] for row in rows}
    done.messages = sum(done.destinations.values())
    done.bytes = sum(row["bytes"] or 0 for row in rows)


# -- removing ----------------------------------------------------------------------------------------------------------


def _mastered(url: str) -> PersistenceAdapter:
    """The store, started, with nobody else being master."""
    options = JdbcOptions(create_tables_on_startup=False, cleanup_period_ms=0, virtual_topic_consumers="")
    adapter = open_store(url, replace(options, lock=replace(options.lock, fail_if_locked=True)))
    try:
        return adapter.__enter__()
    except LockHeld as error:
        raise LockHeld(f"{error}. Messages are removed only while no broker runs on the store") from error


def _remove(
    spark: SparkSession, url: str, selection: Selection, manifest: Manifest, watch: Watch, done: Archived
) -> None:
    """Remove from queues what is selected and archived, by this run or another."""
    adapter = _mastered(url)
    try:
        there = selection.messages(spark, url, ["topic", *_IDENTITY])
        both = there.join(_archived(spark, manifest), list(_IDENTITY), "left_semi").select("topic", *_IDENTITY)
        rows = watch.run("finding what to remove", lambda: both.persist())
        try:
            done.kept_of_topics = rows.where(~F.col("topic").startswith(Queue.prefix)).count()
            queued = rows.where(F.col("topic").startswith(Queue.prefix)).toLocalIterator()
            while some := list(islice(queued, _REMOVED_AT_ONCE)):
                for completion in [_removal(adapter, row) for row in some]:
                    completion.result()
                done.removed += len(some)
        finally:
            rows.unpersist()
    finally:
        adapter.__exit__(None, None, None)


def _removal(adapter: PersistenceAdapter, row: Row) -> Completion[None]:
    queue = parse_destination(row["topic"])
    assert isinstance(queue, Queue)
    message_id = MessageId.parse(row["messageId"])
    message_id.broker_sequence_id = row["offset"]
    return adapter.queue_message_store(queue).remove_message(message_id)
