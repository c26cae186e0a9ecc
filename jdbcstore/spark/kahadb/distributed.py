"""`live_messages`: Spark's workers read the records in parallel, without messages, sort them into one task that replays
them, and read the messages in parallel again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial, reduce
from typing import TYPE_CHECKING, Final

from pyspark.sql.functions import expr
from pyspark.sql.types import StructType

from jdbcstore.errors import ConfigurationError
from jdbcstore.spark.kahadb.columns import OPERATIONS, schema_of
from jdbcstore.spark.kahadb.files import JournalDirectory
from jdbcstore.spark.kahadb.live import LIVE_TYPE, live_batches
from jdbcstore.spark.kahadb.messages import TASK_BYTES, read_live, reads_messages, takes_corrupt
from jdbcstore.spark.kahadb.options import KahaDBOptions
from jdbcstore.spark.kahadb.source import KahaDBDataSource
from jdbcstore.spark.kahadb.stores import stores_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["live_messages"]

_TASKS_MAX: Final = 10_000


def live_messages(spark: SparkSession, *paths: str, **options: object) -> DataFrame:
    """The messages that a broker would have, found by Spark's workers.

    ::

        live_messages(spark, "/backup/kahadb", columns="topic,messageId,text", subscribe="queue://ORDERS")

    Records are read in parallel, without messages; one task puts them in their order and replays them, in the memory
    that live messages and open transactions take; the messages are read in parallel. Each action on the result does
    all this again, so ``cache()`` or write it.

    Args:
        spark: the session.
        paths: directories, each a store of its own: column ``partition`` says which.
        options: those of ``format("kahadb")``.

    Raises:
        ConfigurationError: an option is unknown or wrong.
        StoreError: a directory cannot be listed.
    """
    given = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
    chosen = replace(KahaDBOptions.of({"path": "-"} | given), paths=paths)
    if chosen.view != "messages":
        raise ConfigurationError(f"for view={chosen.view} use spark.read.format('kahadb')")
    stores = [(store, store.directory()) for store in stores_of(chosen)]
    journals = [(store, one) for store, one in stores if isinstance(one, JournalDirectory) and not one.is_amq]
    if len(journals) < len(stores):
        # What their indexes know is read where Spark plans.
        spark.dataSource.register(KahaDBDataSource)
        return spark.read.format("kahadb").options(**given).load(list(paths))
    schema = schema_of(chosen)
    spark.dataSource.register(KahaDBDataSource)
    found = [
        _live(spark, replace(chosen, tx_store=store.tx_store), store.partition, store.uri, one, schema)
        for store, one in journals
    ]
    return reduce(lambda one, other: one.unionAll(other), found)


def _live(
    spark: SparkSession,
    options: KahaDBOptions,
    partition: int,
    path: str,
    directory: JournalDirectory,
    schema: StructType,
) -> DataFrame:
    records = spark.read.format("kahadb").option("view", "records").option("columns", ",".join(OPERATIONS))
    records = records.option("splitBytes", options.split_bytes)
    if options.archive is not None:
        records = records.option("directoryArchive", options.archive)
    merge = partial(
        live_batches,
        directory=directory,
        options=options,
        takes_corrupt=takes_corrupt(options, schema),
    )
    live = records.load(path).repartition(1).sortWithinPartitions("file", "offset").mapInArrow(merge, LIVE_TYPE)
    task_bytes = min(options.split_bytes, TASK_BYTES)
    tasks = min(sum(file.size for file in directory.files.values()) // task_bytes, _TASKS_MAX)
    if tasks > 1 and reads_messages(options, schema):
        live = live.repartition(tasks, expr("FILE"), expr(f"RECORD div {task_bytes}"))
        live = live.sortWithinPartitions("FILE", "RECORD")
    read = partial(read_live, files=directory.files, partition=partition, options=options, schema=schema)
    return live.mapInArrow(read, schema)
