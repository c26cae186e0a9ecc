"""``replay``: choose, put into order, change, and load; all at once, or so many a second."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from sqlalchemy import inspect, text

from jdbcstore.config.inspection import check_url
from jdbcstore.config.urls import store_url
from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.migration.locations import location_of
from jdbcstore.pipeline.progress import Watch
from jdbcstore.pipeline.replay.rewriter import Rewriting
from jdbcstore.pipeline.replay.sources import messages_of
from jdbcstore.selector import Selector
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.tables import Tables

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Replay", "Replayed", "replay"]

#: With a rate, messages are loaded in slices of so many seconds: a load costs about one.
_SLICE_S: Final = 5.0
_NUMBER: Final = "_number"


@dataclass(frozen=True)
class Replay:
    """What is to be replayed, and how.

    Args:
        live: of KahaDB: only what its broker would still have.
        since, until: when messages were sent, the first time and the one behind the last; None for no bound.
        selector: which of them.
        destination: where they go; None for where they were.
        rate: messages per second; None for as fast as it goes.
        keeps_ids: whether they keep their message ids.
        forgets_expiration: whether messages that had a time to live get none.
        job_id: what this replay is called. One that stopped goes on if it is done again under its name, with the
            same other arguments; what is done is not done again. None for a new name.

    Raises:
        ConfigurationError, SelectorError: it cannot be done.
    """

    live: bool = False
    since: datetime | None = None
    until: datetime | None = None
    selector: str | None = None
    destination: str | None = None
    rate: float | None = None
    keeps_ids: bool = True
    forgets_expiration: bool = False
    job_id: str | None = None

    def __post_init__(self) -> None:
        if self.rate is not None and not 0 < self.rate <= 1_000_000:
            raise ConfigurationError(
                f"the rate must be above 0 and at most 1000000 messages per second, got {self.rate}"
            )
        if self.selector is not None:
            Selector.parse(self.selector)
        if self.destination is not None:
            target = parse_destination(self.destination)
            if target.is_wildcard or target.is_composite:
                raise ConfigurationError(f"{self.destination} is not one destination")


@dataclass
class Replayed:
    """What was done, or would be.

    Args:
        job_id: under which name it goes on.
        messages: how many are in the store now.
        skipped: how many of them an earlier run had brought.
        destinations: of each how many; only of a dry run.
        seconds: how long it took.
    """

    job_id: str
    messages: int = 0
    skipped: int = 0
    destinations: dict[str, int] = field(default_factory=dict)
    seconds: float = 0.0


def replay(
    spark: SparkSession,
    source: str,
    url: str,
    how: Replay | None = None,
    watch: Watch | None = None,
    *,
    is_dry: bool = False,
) -> Replayed:
    """Bring messages of an archive or of a journal into a store, in the order in which they were sent.

    A broker of ours may be running on the store: then it takes them in and delivers them. Beside a Java broker nothing
    can be loaded.

    Args:
        spark: the session.
        source: an archive, or a KahaDB directory.
        url: of the SQL store.
        how: which messages, and how.
        watch: shows how far it is.
        is_dry: only count.

    Raises:
        ConfigurationError, StoreError: one of them cannot be used so.
        LockHeld: a Java broker is master of the store.
    """
    how, watch = how or Replay(), watch or Watch(spark, is_quiet=True)
    store_url(url)
    if not is_dry:
        check_url(url, "a replay")
    done = Replayed(how.job_id or f"replay-{secrets.token_hex(6)}")
    messages = messages_of(spark, source, how.selector, live=how.live)
    if how.since is not None:
        messages = messages.where(F.col("timestamp") >= F.lit(how.since))
    if how.until is not None:
        messages = messages.where(F.col("timestamp") < F.lit(how.until))
    if is_dry:
        rows = watch.run("counting", messages.groupBy("topic").count().orderBy("topic").collect)
        for row in rows:
            name = (how.destination and parse_destination(how.destination).qualified_name) or row["topic"]
            done.destinations[name] = done.destinations.get(name, 0) + row["count"]
        done.messages = sum(done.destinations.values())
        return done
    began = time.monotonic()
    ordered = messages.orderBy("timestamp", "offset", "topic")
    rewriting = Rewriting(how.destination, None if how.keeps_ids else done.job_id, how.forgets_expiration)
    if how.rate is None:
        earlier = _loaded(url, done.job_id)
        watch.run("replaying", lambda: _load(rewriting.of(ordered), url, done.job_id))
        done.messages = _loaded(url, done.job_id).get(done.job_id, 0)
        done.skipped = earlier.get(done.job_id, 0)
    else:
        _by_and_by(ordered, rewriting, url, how.rate, done, watch)
    done.seconds = round(time.monotonic() - began, 3)
    return done


def _load(messages: DataFrame, url: str, job: str) -> None:
    messages.select("topic", "message").write.format("activemq").options(url=url, jobId=job).mode("append").save()


def _by_and_by(ordered: DataFrame, rewriting: Rewriting, url: str, rate: float, done: Replayed, watch: Watch) -> None:
    """A slice after the other, each when the last of its messages is due."""
    numbered = ordered.withColumn(_NUMBER, F.monotonically_increasing_id()).persist()
    try:
        # The number is that of the partition, in the upper bits, and of the row in it.
        partition = F.shiftrightunsigned(_NUMBER, 33)
        counts = watch.run("putting into order", numbered.groupBy(partition.alias("p")).count().collect)
        before, total = {}, 0
        for row in sorted(counts, key=lambda row: row["p"]):
            before[row["p"]] = total
            total += row["count"]
        size = max(1, round(rate * _SLICE_S))
        loaded = _loaded(url, done.job_id)
        began = time.monotonic()
        first = 0
        while first < total:
            job, last = f"{done.job_id}-{first}", min(first + size, total)
            if job in loaded:
                done.skipped += loaded[job]
            else:
                # Late is late: the rest is not hurried up for it.
                due = began + (last - done.skipped) / rate
                watch.wait(due - time.monotonic())
                inside = [
                    (F.col(_NUMBER) >= (p << 33) + max(first - start, 0)) & (F.col(_NUMBER) < (p << 33) + last - start)
                    for p, start in before.items()
                    if start < last
                ]
                condition = inside[0]
                for one in inside[1:]:
                    condition = condition | one
                some = rewriting.of(numbered.where(condition).select("topic", "offset", "timestamp", "message"))
                watch.run(f"replaying {last} of {total}", lambda some=some, job=job: _load(some, url, job))  # type: ignore[misc]
            done.messages += last - first
            first = last
    finally:
        numbered.unpersist()


def _loaded(url: str, job: str) -> Mapping[str, int]:
    """What earlier runs brought: loads whose names begin so, and how many messages each had."""
    with opened(location_of(url)) as store:
        loads = Tables.on(store.connection, store.location.options.table_names).loads.name
        if not inspect(store.connection).has_table(loads):
            return {}
        rows = store.connection.execute(text(f"SELECT JOB, ROWS_LOADED FROM {loads} WHERE STATE = 'committed'"))
        return {str(found): int(count) for found, count in rows if str(found).startswith(job)}
