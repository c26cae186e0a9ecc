"""``report``: everything counted, then written."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from jdbcstore.config.inspection import is_journal, looking_into
from jdbcstore.config.urls import store_url
from jdbcstore.pipeline.destinations import DEAD_LETTER_QUEUES, chooser
from jdbcstore.pipeline.progress import Watch
from jdbcstore.pipeline.report.figures import Figures, Row
from jdbcstore.pipeline.report.messages import COLUMNS, measured
from jdbcstore.pipeline.report.page import page
from jdbcstore.pipeline.report.stores import counted, counting, producers, subscriptions

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["report"]


def report(
    spark: SparkSession,
    source: str,
    output: str | Path,
    watch: Watch | None = None,
    dead_letter_queues: Sequence[str] = DEAD_LETTER_QUEUES,
) -> Figures:
    """Write what is in a store to ``report.html`` and ``tables/*.parquet``. Nothing in the store is changed.

    Args:
        source: the URL of a SQL store, or a KahaDB directory.
        output: a folder; files of an earlier report in it are replaced.
        watch: shows how far it is.
        dead_letter_queues: names, wildcards too. Elsewhere a dead letter is what has a cause.

    Returns:
        All that the page says.

    Raises:
        ConfigurationError, StoreError: the store cannot be read, or the folder cannot be written.
    """
    is_dead_letter_queue = chooser(dead_letter_queues)
    watch = watch or Watch(spark, is_quiet=True)
    now_s = time.time()
    taken_at = datetime.fromtimestamp(now_s, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
    figures = Figures(str(source), taken_at)
    if is_journal(source):
        from jdbcstore.pipeline.report.journals import of_journal

        of_journal(spark, str(source), figures, now_s, watch, is_dead_letter_queue)
    else:
        figures.source = store_url(source).render_as_string(hide_password=True)
        _of_store(spark, source, figures, now_s, watch, is_dead_letter_queue)
    folder = Path(output)
    figures.write(folder / "tables")
    unfinished = folder / ".report.html.tmp"
    unfinished.write_text(page(figures), encoding="utf-8")
    os.replace(unfinished, folder / "report.html")
    return figures


def _of_store(
    spark: SparkSession,
    url: str,
    figures: Figures,
    now_s: float,
    watch: Watch,
    is_dead_letter_queue: Callable[[str], bool],
) -> None:
    with looking_into(url) as adapter:
        waiting = subscriptions(adapter, int(now_s * 1000))
    with counting(url) as (connection, statements):
        found = counted(connection, statements)
        figures.tables["producers"] = producers(connection, statements)
    messages = (
        spark.read.format("activemq")
        .options(url=url, columns=",".join(COLUMNS), includePrepared="true", onCorrupt="column")
        .load()
    )
    tables = watch.run("reading messages", lambda: measured(messages, now_s, is_dead_letter_queue))
    by_name = {row["destination"]: row for row in tables.pop("destinations")}
    # Counted a moment later, so what came or went meanwhile is in one of the two only.
    rows: list[Row] = [{**by_name.get(str(row["destination"]), {}), **row} for row in found]
    figures.tables |= {"destinations": rows, **tables, "subscriptions": waiting}
    if any(row.get("prepared") for row in rows):
        figures.notes.append("Messages in doubt belong to prepared transactions; they count wherever messages count.")
