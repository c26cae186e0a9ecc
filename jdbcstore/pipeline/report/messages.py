"""What only the messages tell: ages, redeliveries, and why dead letters are dead. They are read and decoded once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it

from jdbcstore.pipeline.report.figures import Row

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["AGES", "COLUMNS", "measured"]

#: What is read of a message.
COLUMNS: Final = (
    "topic", "offset", "timestamp", "brokerInTime", "size", "priority", "redeliveryCounter", "properties",
    "originalDestination", "kind", "_corrupt",
)  # fmt: skip
#: Upper bounds in seconds, and how people say it.
AGES: Final = (
    (60, "under a minute"),
    (600, "1 to 10 minutes"),
    (3600, "10 to 60 minutes"),
    (6 * 3600, "1 to 6 hours"),
    (86_400, "6 to 24 hours"),
    (7 * 86_400, "1 to 7 days"),
    (30 * 86_400, "7 to 30 days"),
    (None, "over 30 days"),
)
#: Where a broker says why a message is a dead letter.
CAUSE: Final = "dlqDeliveryFailureCause"
_CAUSE_CHARS: Final = 300
_CAUSES_MAX: Final = 1000
_PERCENTILES: Final = (0.5, 0.9, 0.99)
#: One part in ten thousand: of a million messages the p99 may be that of 98.99 to 99.01 %.
_ACCURACY: Final = 10_000


def measured(messages: DataFrame, now_s: float, is_dead_letter_queue: Callable[[str], bool]) -> dict[str, list[Row]]:
    """Tables of `figures`: ``destinations`` without what the database counts, and all that is counted by destination.

    Args:
        messages: with `COLUMNS`.
        now_s: from when ages count; epoch seconds.
        is_dead_letter_queue: whether a destination is one; what is there is dead, also without a cause.
    """
    sent = F.coalesce(F.col("timestamp"), F.col("brokerInTime"))
    age = F.greatest(F.lit(now_s) - sent.cast("double"), F.lit(0.0))
    place, name = F.lit(len(AGES) - 1), F.lit(AGES[-1][1])
    for number, (upto, words) in reversed(list(enumerate(AGES[:-1]))):
        place = F.when(age < upto, number).otherwise(place)
        name = F.when(age < upto, words).otherwise(name)
    cause = F.element_at("properties", CAUSE)["value"]
    narrow = messages.select(
        F.col("topic").alias("destination"),
        age.alias("age_s"),
        F.when(age.isNotNull(), place).alias("place"),
        F.when(age.isNotNull(), name).otherwise(F.lit("unknown")).alias("age"),
        F.col("size").cast("bigint").alias("bytes"),
        F.col("priority").cast("bigint").alias("priority"),
        F.col("redeliveryCounter").cast("bigint").alias("redeliveries"),
        F.col("originalDestination").alias("original_destination"),
        F.substring(cause, 1, _CAUSE_CHARS).alias("cause"),
        F.col("_corrupt").isNotNull().alias("unreadable"),
    ).persist()
    try:
        return _grouped(narrow, is_dead_letter_queue)
    finally:
        narrow.unpersist()


def _grouped(narrow: DataFrame, is_dead_letter_queue: Callable[[str], bool]) -> dict[str, list[Row]]:
    power = F.floor(F.log2(F.greatest(F.col("bytes"), F.lit(1)))).cast("int")
    by = narrow.groupBy("destination")
    count = F.count("*").alias("messages")
    destinations = _rows(
        by.agg(
            *_percentiles("bytes"),
            *_percentiles("age_s"),
            F.max("age_s").alias("age_s_max"),
            F.sum(F.col("unreadable").cast("bigint")).alias("unreadable"),
        ).orderBy("destination")
    )
    names = [row["destination"] for row in destinations if is_dead_letter_queue(str(row["destination"]))]
    is_dead = F.col("cause").isNotNull() | F.col("destination").isin(names)
    dead = narrow.where(is_dead).groupBy("destination", "original_destination", "cause")
    return {
        "destinations": destinations,
        "ages": _rows(narrow.groupBy("destination", "age", "place").agg(count).orderBy("destination", "place")),
        "sizes": _rows(
            narrow.groupBy("destination", F.pow(F.lit(2), power).cast("bigint").alias("bytes_from"))
            .agg(count)
            .orderBy("destination", "bytes_from")
        ),
        "priorities": _rows(narrow.groupBy("destination", "priority").agg(count).orderBy("destination", "priority")),
        "redeliveries": _rows(
            narrow.where("redeliveries > 0")
            .groupBy("destination", "redeliveries")
            .agg(count)
            .orderBy("destination", "redeliveries")
        ),
        "dead_letters": _rows(
            dead.agg(count, F.max("age_s").alias("oldest_s"))
            .orderBy(F.desc("messages"), "destination", "cause", "original_destination")
            .limit(_CAUSES_MAX)
        ),
    }


def _percentiles(column: str) -> list[Column]:
    return [
        F.percentile_approx(column, part, _ACCURACY).alias(f"{column}_p{round(part * 100)}") for part in _PERCENTILES
    ]


def _rows(frame: DataFrame) -> list[Row]:
    return [row.asDict() for row in frame.collect()]
