"""The columns of ``format("activemq")``: names, types, and what each of them costs to read.

Kafka's columns come first, with Kafka's names and types, so that a job written for Kafka finds its own; then JMS's. A
column comes from the table as it stands there, or out of the message, whose bytes (column MSG) are then read and
decoded. A query that asks for columns of the table only neither reads nor decodes a message.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    IntegerType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from jdbcstore.errors import ConfigurationError
from jdbcstore.spelling import did_you_mean

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = [
    "COLUMNS",
    "CORRUPT",
    "MESSAGE",
    "SIZE",
    "Column",
    "arrow_schema",
    "check_fields",
    "check_names",
    "check_schema",
    "columns_of",
    "default_names",
    "schema_of",
]

#: Bytes of a message as stored.
MESSAGE: Final = "message"
#: Where a message goes that cannot be read.
CORRUPT: Final = "_corrupt"
#: Not a column of the table: what MSG takes, computed by the database so that MSG itself need not be read.
SIZE: Final = "SIZE"

_STRING: Final = StringType()
_BINARY: Final = BinaryType()
_INT: Final = IntegerType()
_LONG: Final = LongType()
_TIME: Final = TimestampType()
#: See `jdbcstore.spark.values`.
_TYPED: Final = StructType([StructField("type", _STRING), StructField("value", _STRING)])
_HEADER: Final = StructType([StructField("key", _STRING), StructField("value", _BINARY)])
_UNREADABLE: Final = StructType([StructField("error", _STRING), StructField("message", _BINARY)])


@dataclass(frozen=True, slots=True)
class Column:
    """One column.

    Args:
        name: as Spark users see it.
        type: Spark's.
        needs: columns of ACTIVEMQ_MSGS, or `SIZE`, that it is made of.
        shown: whether it is there unless columns are named.
        nullable: whether it may be null.
    """

    name: str
    type: DataType
    needs: tuple[str, ...] = ("MSG",)
    shown: bool = True
    nullable: bool = True

    @property
    def is_decoded(self) -> bool:
        """Whether messages have to be decoded for it."""
        return "MSG" in self.needs and self.name != MESSAGE


#: By name, in the order in which they are shown.
COLUMNS: Final = {
    column.name: column
    for column in (
        # Kafka's
        Column("key", _BINARY),
        Column("value", _BINARY),
        Column("topic", _STRING, ("CONTAINER",)),
        Column("partition", _INT, ()),
        Column("offset", _LONG, ("ID",), nullable=False),
        Column("timestamp", _TIME),
        Column("headers", ArrayType(_HEADER), shown=False),
        # JMS's
        Column("messageId", _STRING, ("MSGID_PROD", "MSGID_SEQ")),
        Column("priority", _INT),
        Column("expiration", _TIME, ("EXPIRATION",)),
        Column("correlationId", _STRING),
        Column("replyTo", _STRING),
        Column("type", _STRING),
        Column("redeliveryCounter", _INT),
        Column("persistent", BooleanType()),
        Column("properties", MapType(_STRING, _TYPED)),
        Column("kind", _STRING),
        Column("text", _STRING),
        Column("bytes", _BINARY),
        Column("map", MapType(_STRING, _TYPED)),
        Column("stream", ArrayType(_TYPED)),
        Column("groupSequence", _INT),
        Column("originalDestination", _STRING),
        Column("userId", _STRING),
        Column("brokerInTime", _TIME),
        # What a store knows besides
        Column("producerId", _STRING, ("MSGID_PROD",)),
        Column("size", _LONG, (SIZE,)),
        Column("rowPriority", _INT, ("PRIORITY",), shown=False),
        Column("xid", _STRING, ("XID",), shown=False),
        Column(MESSAGE, _BINARY, shown=False),
        Column(CORRUPT, _UNREADABLE),
    )
}


def default_names(*, include_headers: bool, corrupt: bool) -> list[str]:
    """The columns that are there unless others are asked for.

    Args:
        include_headers: Kafka's option of this name.
        corrupt: whether there is a column for messages that cannot be read.
    """
    hidden = {CORRUPT} if not corrupt else set()
    return [
        column.name
        for column in COLUMNS.values()
        if (column.shown or (include_headers and column.name == "headers")) and column.name not in hidden
    ]


def columns_of(names: Sequence[str]) -> list[Column]:
    """The columns of these names.

    Raises:
        ConfigurationError: there is none of a name, or one is named twice.
    """
    check_names(names, COLUMNS)
    return [COLUMNS[name] for name in names]


def check_names(names: Sequence[str], known: Collection[str]) -> None:
    """Refuse columns that there are not, and those that are named twice. Raises ConfigurationError."""
    for name in names:
        if name not in known:
            hint = did_you_mean(name, known, 0.6) or f"; there are {', '.join(known)}"
            raise ConfigurationError(f"there is no column {name!r}{hint}")
    if len(set(names)) < len(names):
        raise ConfigurationError(f"a column is named twice: {', '.join(names)}")


def schema_of(names: Sequence[str]) -> StructType:
    """Spark's schema of these columns, in this order."""
    return StructType([StructField(column.name, column.type, column.nullable) for column in columns_of(names)])


def check_schema(schema: StructType) -> list[str]:
    """The names in a schema that somebody gave, which may leave columns out but not change them.

    Raises:
        ConfigurationError: a column is unknown or of another type.
    """
    names = list(schema.names)
    check_fields(schema, schema_of(names).fields)
    return names


def check_fields(schema: StructType, fields: Sequence[StructField]) -> None:
    """Refuse a schema that changes columns. Raises ConfigurationError.

    Args:
        schema: what somebody gave.
        fields: what its columns are, in the same order.
    """
    for given, ours in zip(schema.fields, fields, strict=True):
        if given.dataType.simpleString() != ours.dataType.simpleString():
            raise ConfigurationError(
                f"column {given.name} is {ours.dataType.simpleString()}, the given schema says"
                f" {given.dataType.simpleString()}; cast it after reading"
            )
        if ours.nullable and not given.nullable:
            raise ConfigurationError(f"column {given.name} may be null, the given schema says NOT NULL")


def arrow_schema(schema: StructType) -> pa.Schema:
    """What Spark expects of batches: names, order, types and nullability have to be equal."""
    from pyspark.sql.pandas.types import to_arrow_schema

    return to_arrow_schema(schema, timezone="UTC")
