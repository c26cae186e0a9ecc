"""Where messages are replayed from: an archive, or a journal."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.openwire import unmarshal_message
from jdbcstore.pipeline.archive.reader import read_archive
from jdbcstore.pipeline.directories import has_journal, path_of, scheme_of
from jdbcstore.selector import Selector
from jdbcstore.spark.one_line import one_line
from jdbcstore.spark.selectors import selector_filter

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["COLUMNS", "messages_of"]

#: Of what `messages_of` gives.
COLUMNS: Final = ("topic", "offset", "timestamp", "message")
_SCHEMA: Final = "topic string, offset long, timestamp timestamp, message binary"


def messages_of(spark: SparkSession, source: str, selector: str | None, *, live: bool) -> DataFrame:
    """The messages of a source that a selector matches.

    Args:
        spark: the session.
        source: the folder of an archive, a folder of its Parquet files, or the directory of a store
            (KahaDB, mKahaDB, AMQ, LevelDB).
        selector: None for all that can be decoded; then the others are left out too.
        live: of a directory: what its broker would still have, instead of all that was ever sent.

    Raises:
        ConfigurationError: it is none of these.
    """
    if has_journal(source):
        path = path_of(source)
        if not live and scheme_of(source) == "leveldb:":
            raise ConfigurationError(
                f"{source} is a LevelDB store: only what its broker would still have is replayed, add --live"
            )
        return _live(spark, path, selector) if live else _ever(spark, path, selector)
    if live:
        raise ConfigurationError(f"--live is about directories of stores, and {source} has no journal")
    found = read_archive(spark, source)
    if selector is not None:
        found = found.where(selector_filter(selector, found.columns))
    return found.where(F.col("_corrupt").isNull()).select(*COLUMNS)


def _live(spark: SparkSession, path: str, selector: str | None) -> DataFrame:
    reader = spark.read.format("kahadb").options(columns=",".join((*COLUMNS, "_corrupt")), onCorrupt="column")
    if selector is not None:
        reader = reader.option("selector", selector)
    return reader.load(path).where("topic IS NOT NULL AND _corrupt IS NULL").select(*COLUMNS)


def _ever(spark: SparkSession, path: str, selector: str | None) -> DataFrame:
    """All that was sent: not in a transaction, or in one that was committed. Of one that was changed the last state."""
    records = spark.read.format("kahadb").options(view="records", payload="true", onCorrupt="column").load(path)
    commits = records.where("command = 'Commit'").select("transactionId").distinct()
    added = records.where("command IN ('AddMessage', 'UpdateMessage') AND message IS NOT NULL")
    settled = added.where("transactionId IS NULL").unionByName(
        added.where("transactionId IS NOT NULL").join(F.broadcast(commits), "transactionId", "left_semi")
    )
    newest = Window.partitionBy("destination", "messageId").orderBy(F.desc("file"), F.desc("offset"))
    places = (
        settled.withColumn("newest", F.row_number().over(newest))
        .where("newest = 1")
        .select(
            F.col("destination").alias("topic"),
            (F.shiftleft(F.col("file").cast("long"), 32) + F.col("offset")).alias("offset"),
            "message",
        )
    )
    chosen = None if selector is None else Selector.parse(selector)
    return places.mapInArrow(partial(_decoded, chosen), _SCHEMA)


def _decoded(selector: Selector | None, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """With the time that a message was sent; without what does not match."""
    with one_line():
        for batch in batches:
            topics, offsets, times, blobs = [], [], [], []
            for topic, offset, blob in zip(*(column.to_pylist() for column in batch.columns), strict=True):
                try:
                    message = unmarshal_message(blob)
                except CodecError:
                    continue
                if selector is None or selector.matches(message):
                    topics.append(topic)
                    offsets.append(offset)
                    times.append((message.timestamp or message.broker_in_time) * 1000)
                    blobs.append(blob)
            columns = [
                pa.array(topics, pa.string()),
                pa.array(offsets, pa.int64()),
                pa.array(times, pa.int64()).cast(pa.timestamp("us", tz="UTC")),
                pa.array(blobs, pa.binary()),
            ]
            yield pa.RecordBatch.from_arrays(columns, list(COLUMNS))
