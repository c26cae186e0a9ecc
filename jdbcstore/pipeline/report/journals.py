"""The figures of the directory of a store: all of them are in its journal."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from jdbcstore.pipeline.directories import path_of
from jdbcstore.pipeline.progress import Watch
from jdbcstore.pipeline.report.figures import Figures, Row
from jdbcstore.pipeline.report.messages import COLUMNS, measured

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["of_journal"]

_CLIENTS_SHOWN = 1000


def of_journal(
    spark: SparkSession,
    path: str,
    figures: Figures,
    now_s: float,
    watch: Watch,
    is_dead_letter_queue: Callable[[str], bool],
) -> None:
    """Fill in what a directory tells.

    Args:
        spark: the session.
        path: of the directory, or a URI.
        figures: to be filled.
        now_s: from when ages count; epoch seconds.
        watch: shows how far it is.
        is_dead_letter_queue: whether a destination is one.

    Raises:
        StoreError: the directory cannot be read.
    """
    path = path_of(path)
    reader = spark.read.format("kahadb")
    columns = ",".join((*COLUMNS, "expiration", "producerId", "xid"))
    # Rows without a message's id are damage of the journal and not messages.
    everything = reader.options(columns=columns, includePrepared="true", onCorrupt="column").load(path)
    messages = everything.where(F.col("topic").isNotNull()).persist()
    try:
        tables = watch.run("reading messages", lambda: measured(messages, now_s, is_dead_letter_queue))
        counted = watch.run("counting", lambda: _counted(messages, now_s))
        figures.tables["producers"] = watch.run("counting producers", lambda: _producers(messages))
    finally:
        messages.unpersist()
    by_name = {row["destination"]: row for row in tables.pop("destinations")}
    figures.tables |= {"destinations": [{**by_name[row["destination"]], **row} for row in counted], **tables}
    subscriptions = spark.read.format("kahadb").options(view="subscriptions", onCorrupt="column").load(path)
    figures.tables["subscriptions"] = watch.run("reading subscriptions", lambda: _subscriptions(subscriptions))
    files = spark.read.format("kahadb").options(view="files", onCorrupt="column").load(path)
    rows = watch.run(
        "reading files", lambda: [row.asDict(recursive=True) for row in files.orderBy("partition", "file").collect()]
    )
    figures.tables["files"] = [pin for row in rows for pin in _pins(row)]
    damages = [damage for row in rows for damage in row["damages"]]
    if damages:
        figures.notes.append(f"The journal is damaged in {len(damages)} places, the first one: {damages[0]}.")
    if any(row.get("prepared") for row in counted):
        figures.notes.append("Messages in doubt belong to prepared transactions; they count wherever messages count.")


def _counted(messages: DataFrame, now_s: float) -> list[Row]:
    expired = F.col("expiration").cast("double") < F.lit(now_s)
    return [
        row.asDict()
        for row in messages.groupBy(F.col("topic").alias("destination"))
        .agg(
            F.count("*").alias("depth"),
            F.sum("size").alias("bytes"),
            F.max("size").alias("bytes_max"),
            F.count(F.when(expired, 1)).alias("expired"),
            F.count("xid").alias("prepared"),
        )
        .orderBy("destination")
        .collect()
    ]


def _producers(messages: DataFrame) -> list[Row]:
    client = F.regexp_replace("producerId", r"^(.*)(:[^:]*){3}$", "$1")
    return [
        row.asDict()
        for row in messages.groupBy(client.alias("client"))
        .agg(
            F.countDistinct("producerId").alias("producers"),
            F.count("*").alias("messages"),
            F.sum("size").alias("bytes"),
        )
        .orderBy(F.desc("bytes"), "client")
        .limit(_CLIENTS_SHOWN)
        .collect()
    ]


def _subscriptions(subscriptions: DataFrame) -> list[Row]:
    found = subscriptions.where("subscriptionKey IS NOT NULL").select(
        "topic",
        F.coalesce("clientId", "subscriptionKey").alias("client_id"),
        F.col("subscriptionName").alias("subscription"),
        "selector",
        "pending",
        F.lit(None).cast("double").alias("oldest_s"),
    )
    return [row.asDict() for row in found.orderBy(F.desc("pending"), "topic", "client_id", "subscription").collect()]


def _pins(row: dict[str, Any]) -> list[Row]:
    """A row for each destination with messages in a file, or one for a file that has none."""
    keeps = [f"acknowledges messages of db-{number}.log" for number in row["acknowledges"]]
    keeps += [f"subscription {key}" for key in row["subscriptions"]]
    keeps += [f"transaction {one}" for one in row["transactions"]]
    if row["removable"]:
        keeps.append("nothing: the next cleanup removes it")
    about = {"file": row["file"], "bytes": row["bytes"], "used_bytes": row["usedBytes"], "keeps": "; ".join(keeps)}
    pins: list[Row] = [
        about
        | {
            "destination": pin["topic"],
            "messages": pin["messages"],
            "pinned_bytes": pin["bytes"],
            "oldest_message": pin["firstMessageId"],
        }
        for pin in sorted(row["destinations"], key=lambda pin: (-pin["messages"], pin["topic"]))
    ]
    return pins or [about | {"destination": None, "messages": 0, "pinned_bytes": 0, "oldest_message": None}]
