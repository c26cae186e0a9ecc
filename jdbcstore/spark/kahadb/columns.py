"""The columns of all views. Those of messages are `jdbcstore.spark.columns`, and one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

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

from jdbcstore.spark.columns import COLUMNS, CORRUPT, MESSAGE, check_fields, check_names, default_names
from jdbcstore.spark.kahadb.options import KahaDBOptions

__all__ = [
    "FILES",
    "MESSAGES",
    "OPERATIONS",
    "RECORDS",
    "SUBSCRIBERS",
    "SUBSCRIPTIONS",
    "check_schema",
    "names_of",
    "schema_of",
]

#: Of messages of topics: keys of the durable subscriptions that wait for it.
SUBSCRIBERS: Final = "subscribers"

_STRING: Final = StringType()
_INT: Final = IntegerType()
_LONG: Final = LongType()
_BINARY: Final = BinaryType()


def _fields(*fields: tuple[str, DataType] | tuple[str, DataType, bool]) -> dict[str, StructField]:
    return {field[0]: StructField(*field) for field in fields}


_XA: Final = StructType(list(_fields(("formatId", _INT), ("globalId", _BINARY), ("branch", _BINARY)).values()))
_DAMAGE: Final = StructType(list(_fields(("error", _STRING), ("atTheEnd", BooleanType())).values()))

#: Of ``view=records``. A damage is a row with `CORRUPT`, its first byte and its length.
RECORDS: Final = _fields(
    ("file", _INT, False),
    ("offset", _LONG, False),
    ("size", _LONG, False),
    ("command", _STRING),
    ("destination", _STRING),
    ("messageId", _STRING),
    ("subscriptionKey", _STRING),
    ("transactionId", _STRING),
    ("xa", _XA),
    ("priority", _INT),
    ("prioritySupported", BooleanType()),
    ("messageBytes", _INT),
    ("retroactive", BooleanType()),
    ("subscriptionInfo", _BINARY),
    ("sourceFile", _INT),
    ("skipIfSourceExists", BooleanType()),
    (MESSAGE, _BINARY),
    ("acknowledgement", _BINARY),
    (CORRUPT, _DAMAGE),
)
_PAYLOAD: Final = (MESSAGE, "acknowledgement")
#: What a replay needs of the records.
OPERATIONS: Final = tuple(name for name in RECORDS if name not in _PAYLOAD)

#: Of ``view=messages``.
MESSAGES: Final = {name: StructField(name, column.type, column.nullable) for name, column in COLUMNS.items()} | _fields(
    (SUBSCRIBERS, ArrayType(_STRING, False))
)

#: Of ``view=subscriptions``.
SUBSCRIPTIONS: Final = _fields(
    ("topic", _STRING),
    ("partition", _INT, False),
    ("clientId", _STRING),
    ("subscriptionName", _STRING),
    ("subscriptionKey", _STRING),
    ("selector", _STRING),
    ("noLocal", BooleanType()),
    ("retroactive", BooleanType()),
    ("pending", _LONG),
    ("firstPending", _STRING),
    ("lastAck", _LONG),
    ("file", _INT, False),
    ("offset", _LONG, False),
    (CORRUPT, _STRING),
)

_PIN: Final = StructType(
    list(
        _fields(
            ("topic", _STRING),
            ("messages", _LONG),
            ("bytes", _LONG),
            ("firstMessageId", _STRING),
            ("firstTimestamp", TimestampType()),
        ).values()
    )
)
#: Of ``view=files``.
FILES: Final = _fields(
    ("partition", _INT, False),
    ("file", _INT, False),
    ("path", _STRING, False),
    ("bytes", _LONG, False),
    ("usedBytes", _LONG, False),
    ("records", MapType(_STRING, _LONG, False), False),
    ("liveMessages", _LONG, False),
    ("liveBytes", _LONG, False),
    ("destinations", ArrayType(_PIN, False), False),
    ("acknowledges", ArrayType(_INT, False), False),
    ("subscriptions", ArrayType(_STRING, False), False),
    ("transactions", ArrayType(_STRING, False), False),
    ("removable", BooleanType(), False),
    ("damages", ArrayType(_STRING, False), False),
)


def names_of(options: KahaDBOptions) -> list[str]:
    """The columns that these options ask for.

    Raises:
        ConfigurationError: there is none of a name, or one is named twice.
    """
    known = _known(options)
    names = list(options.columns)
    if not names and options.view == "messages":
        names = [
            *default_names(include_headers=options.include_headers, corrupt=options.on_corrupt == "column"),
            SUBSCRIBERS,
        ]
    elif not names:
        hidden = set(_PAYLOAD) if options.view == "records" else set()
        names = [name for name in known if name not in hidden]
        if options.on_corrupt == "fail" and options.view == "records":
            names.remove(CORRUPT)
    if options.payload:
        names += [name for name in (_PAYLOAD if options.view == "records" else (MESSAGE,)) if name not in names]
    check_names(names, known)
    return names


def schema_of(options: KahaDBOptions) -> StructType:
    """Spark's schema of these columns, in this order."""
    known = _known(options)
    return StructType([known[name] for name in names_of(options)])


def check_schema(options: KahaDBOptions, schema: StructType) -> list[str]:
    """The names in a schema that somebody gave, which may leave columns out but not change them.

    Raises:
        ConfigurationError: a column is unknown or of another type.
    """
    known = _known(options)
    check_names(schema.names, known)
    check_fields(schema, [known[name] for name in schema.names])
    return schema.names


def _known(options: KahaDBOptions) -> Mapping[str, StructField]:
    return {"messages": MESSAGES, "records": RECORDS, "subscriptions": SUBSCRIPTIONS, "files": FILES}[options.view]
