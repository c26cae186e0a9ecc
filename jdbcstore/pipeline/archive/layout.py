"""How the files of an archive lie, and what is in them.

``runs/<run>/destination=queue.ORDERS/day=2026-11-22/part-….parquet``: a day is that on which a message was sent, by its
producer's clock in UTC. A destination in a path has letters, digits, ``-``, ``_`` and ``.``; any other byte of its name
in UTF-8 is ``~`` and two hexadecimal digits, and a name that would be too long for a folder ends in a hash. The column
``topic`` has the name itself. Files hold up to about 128 MiB, and what belongs into one folder is in as few as that
allows.

Column ``message`` has the bytes of the message as they were stored, so nothing is lost by decoding; the others are for
queries. Names and types are those of ``format("activemq")``, without the columns that only show the body another way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812  # as everybody calls it
from pyspark.sql.types import StringType, StructField, StructType

from jdbcstore.pipeline.archive.manifest import FORMAT
from jdbcstore.spark.columns import CORRUPT, MESSAGE, schema_of

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

__all__ = ["COLUMNS", "DAY", "DESTINATION", "SCHEMA", "laid_out"]

COLUMNS: Final = (
    "topic", "offset", "messageId", "timestamp", "priority", "expiration", "correlationId", "replyTo", "type",
    "redeliveryCounter", "persistent", "key", "groupSequence", "properties", "kind", "text", "originalDestination",
    "userId", "brokerInTime", "producerId", "size", MESSAGE, CORRUPT,
)  # fmt: skip
DESTINATION: Final = "destination"
DAY: Final = "day"
#: Parquet knows no NOT NULL that Spark would believe.
SCHEMA: Final = StructType([StructField(field.name, field.dataType) for field in schema_of(COLUMNS).fields])
SCHEMA_WITH_FOLDERS: Final = StructType(
    [*SCHEMA.fields, StructField(DESTINATION, StringType()), StructField(DAY, StringType())]
)
#: Where Parquet's metadata have the format: Spark keeps those of columns.
METADATA: Final = {"jdbcstore.archive.format": FORMAT}
_NO_DAY: Final = "unknown"
_NAME_MAX: Final = 180
_HASH_CHARS: Final = 16


def laid_out(messages: DataFrame) -> DataFrame:
    """Messages as they are to be written: what goes into one folder side by side, by day and in the order of ids."""
    sent = F.coalesce("timestamp", "brokerInTime")
    day = F.coalesce(F.date_format(sent, "yyyy-MM-dd"), F.lit(_NO_DAY))
    topic = F.col("topic").alias("topic", metadata=METADATA)
    others = [F.col(name) for name in COLUMNS if name != "topic"]
    shown = messages.select(topic, *others, folder_name(F.col("topic")).alias(DESTINATION), day.alias(DAY))
    return shown.hint("rebalance", DESTINATION, DAY).sortWithinPartitions(DESTINATION, DAY, "offset")


def folder_name(destination: Column | str) -> Column:
    """A destination as the name of a folder.

    Args:
        destination: its column.
    """
    topic = F.col(destination) if isinstance(destination, str) else destination
    kind = F.when(topic.startswith("queue://"), "queue.").when(topic.startswith("topic://"), "topic.").otherwise("~")
    rest = F.when(topic.rlike("^(queue|topic)://"), F.substr(topic, F.lit(len("queue://") + 1))).otherwise(topic)
    encoded = F.url_encode(rest)
    for found, instead in (("%", "~"), ("+", "~20"), ("*", "~2A")):
        encoded = F.replace(encoded, F.lit(found), F.lit(instead))
    name = F.concat(kind, encoded)
    cut = F.concat(
        F.substr(name, F.lit(1), F.lit(_NAME_MAX)),
        F.lit("~~"),
        F.substr(F.sha2(topic, 256), F.lit(1), F.lit(_HASH_CHARS)),
    )
    return F.when(F.length(name) > _NAME_MAX, cut).otherwise(name)
