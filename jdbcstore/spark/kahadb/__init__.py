"""KahaDB directories as a source of Spark.

::

    spark.read.format("kahadb").load("/var/lib/activemq/kahadb")  # live messages
    spark.read.format("kahadb").option("view", "records").load("s3://backup/kahadb")

    from jdbcstore.spark.kahadb import live_messages

    live_messages(spark, "s3://backup/kahadb", subscribe="queue://ORDERS")  # the same, replayed by Spark's workers

Read it in this order: `options`, `files` (wherever the journal is), `columns`, `records` (one task for each file or
part of one), `operations` (records without messages, back to commands), `live` (from the state to what there is to
read), `messages` (reading it), `overview` (subscriptions, and what keeps files), `source` (what Spark sees).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jdbcstore.spark.kahadb.distributed import live_messages

__all__ = ["live_messages"]


def __getattr__(name: str) -> object:
    # Every session of Spark asks for all formats that are installed: reading takes pyarrow, to say a name takes none.
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from jdbcstore.spark.kahadb import distributed

    return distributed.live_messages
