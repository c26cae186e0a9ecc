"""Selectors as filters of DataFrames: for all selectors and messages the same as the selector itself says."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal
from jdbcstore.primitives import Byte, Char, Float, Long, Short
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import COLUMNS, MESSAGE, schema_of
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.selectors import columns_for, selector_filter
from tests.examples import examples, sampled

#: Where types meet: values that are equal in one type and not in another.
NUMBERS = ["0", "-0.0", "0.0", "1", "-1", "0.1", "1.5", "16777217", "2147483648", "9007199254740993", "1e999", "127"]
TEXTS = ["", "a", "ab", "a%b", "TRUE", "true", "1", "é\U0001f600", "a\nb", "PERSISTENT", "'"]
NAMES = ["p", "q", "r"]
HEADERS = {
    "JMSType": TEXTS, "JMSCorrelationID": TEXTS, "JMSXGroupID": TEXTS, "JMSReplyTo": ["queue://R", "x"],
    "JMSDeliveryMode": ["PERSISTENT", "NON_PERSISTENT"], "JMSMessageID": ["ID:h-1-1:1:1:1:1", "ID:h-1-1:1:1:1:2"],
}  # fmt: skip
NUMERIC_HEADERS = [
    "JMSPriority",
    "JMSTimestamp",
    "JMSExpiration",
    "JMSXDeliveryCount",
    "JMSXGroupSeq",
    "JMSActiveMQBrokerInTime",
]

VALUES: list[Any] = [
    *(None, True, False, *TEXTS, 0, 1, -1, 127, 16777217, 2147483647),
    *map(Byte, (0, 1, -1, 127)),
    *map(Short, (0, 1, -1, 127)),
    *map(Long, (0, -1, 1, 16777217, 2147483648, 9007199254740993)),
    *(0.0, -0.0, 0.1, 1.5, 1.0, 16777217.0, float("nan"), float("inf"), float("-inf")),
    *map(Float, (0.0, -0.0, 0.10000000149011612, 1.5, 16777216.0, float("nan"))),
    *(Char("a"), Char("1"), b"", b"a", [1]),
]
property_values: st.SearchStrategy[Any] = st.sampled_from(VALUES)
literals = st.sampled_from(NUMBERS)
texts = st.sampled_from(TEXTS).map(lambda text: "'" + text.replace("'", "''") + "'")
numeric = st.sampled_from(NAMES + NUMERIC_HEADERS)
textual = st.sampled_from([*NAMES, *HEADERS, "JMSRedelivered"])
orders = st.sampled_from(["<", "<=", ">", ">="])
equalities = st.sampled_from(["=", "<>"])
negations = st.sampled_from(["", "NOT "])


def quoted(names: list[str]) -> st.SearchStrategy[str]:
    return st.sampled_from(names).map(lambda text: "'" + text.replace("'", "''") + "'")


header_equalities = st.sampled_from(sorted(HEADERS)).flatmap(
    lambda name: st.builds("{} {} {}".format, st.just(name), equalities, quoted(HEADERS[name]))
)
leaves = st.one_of(
    st.builds("{} {} {}".format, numeric, orders | equalities, literals),
    st.builds("{} {} {}".format, literals, orders | equalities, numeric),
    st.builds("{} {} {}".format, textual, equalities, texts | st.sampled_from(["TRUE", "FALSE"])),
    header_equalities,
    st.builds("{} {} {}".format, texts, equalities, st.sampled_from(NAMES)),
    st.builds("{} {}BETWEEN {} AND {}".format, numeric, negations, literals, literals),
    st.builds("{} {}IN ({}, {})".format, textual, negations, texts, texts),
    st.builds("{} IS {}NULL".format, textual, negations),
    st.builds(
        "{} {}LIKE {}{}".format, textual, negations,
        quoted(["%", "a%", "%b", "_", "a!%b", "_%", "a%a%b", "é_", ".", "a_b"]), st.sampled_from(["", " ESCAPE '!'"]),
    ),
    st.sampled_from([*NAMES, "TRUE", "FALSE"]),
    # These have no expression.
    st.sampled_from(["p + 1 = q", "p = q", "JMSXUserID = 'me'", "p > 1 AND p = q"]),
)  # fmt: skip
selectors = st.recursive(
    leaves,
    lambda inner: st.one_of(
        st.builds("NOT ({})".format, inner),
        st.builds("({}) AND ({})".format, inner, inner),
        st.builds("({}) OR ({}) OR ({})".format, inner, inner, inner),
    ),
    max_leaves=4,
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    message = Message(
        type=draw(st.none() | st.sampled_from(TEXTS)),
        correlation_id=draw(st.none() | st.sampled_from(TEXTS)),
        group_id=draw(st.none() | st.sampled_from(TEXTS)),
        group_sequence=draw(st.integers(-1, 2)),
        reply_to=draw(st.none() | st.just(Queue("R"))),
        persistent=draw(st.booleans()),
        redelivery_counter=draw(st.integers(0, 2)),
        timestamp=draw(st.sampled_from([0, 1, 127, 16777217, 1_700_000_000_123])),
        expiration=draw(st.sampled_from([0, 1, 127, 1_700_000_000_123])),
        broker_in_time=draw(st.sampled_from([0, 1, 127])),
        priority=draw(st.integers(0, 9)),
        message_id=MessageId(ProducerId("ID:h-1-1:1", 1, 1), draw(st.integers(1, 2))),
    )
    message.properties = draw(st.dictionaries(st.sampled_from(NAMES), property_values))
    return message


def table(found: list[Message | bytes]) -> pa.RecordBatch:
    """Messages as rows of the schema."""
    plain = [Message() if isinstance(one, bytes) else one for one in found]
    rows = {
        "ID": pa.array(range(len(found)), pa.int64()),
        "CONTAINER": pa.array(["queue://A"] * len(found), pa.string()),
        "MSGID_PROD": pa.array(["ID:h-1-1:1:1:1"] * len(found), pa.string()),
        "MSGID_SEQ": pa.array([m.message_id.producer_sequence_id if m.message_id else 0 for m in plain], pa.int64()),
        "EXPIRATION": pa.array([message.expiration for message in plain], pa.int64()),
        "PRIORITY": pa.array([0] * len(found), pa.int64()),
        "XID": pa.array([None] * len(found), pa.string()),
        "MSG": pa.array([one if isinstance(one, bytes) else marshal(one) for one in found], pa.binary()),
    }
    return Decoder(schema_of(list(COLUMNS))).decode(pa.RecordBatch.from_pydict(rows))


# Each example is a job of Spark's, so there are few of them, and each has many of both.
@settings(
    max_examples=examples(1), phases=[Phase.explicit, Phase.generate], database=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow, HealthCheck.data_too_large],
)  # fmt: skip
@given(found=st.lists(messages(), min_size=40, max_size=40), asked=st.lists(selectors, min_size=40, max_size=40))
def test_a_filter_says_what_the_selector_says(spark: SparkSession, found: list[Message], asked: list[str]) -> None:
    check(spark, found, asked)


@pytest.mark.parametrize("part", sampled(range(3), 1))
def test_every_type_compared_with_every_literal(spark: SparkSession, part: int) -> None:
    found = [Message() for _ in VALUES] + [Message()]
    for message, value in zip(found, VALUES, strict=False):
        message.properties = {"p": value}
    literals = [*NUMBERS, *(f"-{number.removeprefix('-')}" for number in NUMBERS[:3])]
    asked = [f"p {sign} {literal}" for sign in ("=", "<", ">=") for literal in literals]
    asked += [f"{literal} {sign} p" for sign in ("<>", "<=", ">") for literal in literals]
    asked += [
        f"{sides}" for text in TEXTS[:5] for sides in (f"p = '{text}'", f"'{text}' <> p", f"p IN ('{text}', 'b')")
    ]
    asked += ["p", "NOT p", "p = TRUE", "p <> FALSE", "p IS NULL", "p LIKE 'a%'", "p NOT LIKE '_'", "JMSType IS NULL"]
    check(spark, found, asked[part::3])


def check(spark: SparkSession, found: list[Message], asked: list[str]) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([table([*found])]))
    conditions = [selector_filter(one, frame.columns).alias(str(place)) for place, one in enumerate(asked)]
    answers = frame.select("offset", *conditions).orderBy("offset").collect()
    for message, row in zip(found, answers, strict=True):
        for place, text in enumerate(asked):
            assert row[str(place)] == Selector.parse(text).evaluate(message), (text, message)


def test_what_is_damaged_matches_nothing(spark: SparkSession) -> None:
    frame = spark.createDataFrame(pa.Table.from_batches([table([b"\x00", Message()])]))
    for text in ("p IS NULL", "p IS NULL OR p = q"):
        assert [row.offset for row in frame.where(selector_filter(text, frame.columns)).collect()] == [1]


@pytest.mark.parametrize(
    ("selector", "columns"),
    [
        ("weight > 3", ["kind", "properties"]),
        ("JMSType = 'a' AND JMSTimestamp < 5", ["kind", "timestamp", "type"]),
        ("JMSPriority > 3", ["kind", "priority"]),
        ("JMSXUserID = 'me'", [MESSAGE]),
        ("a + 1 > 3", [MESSAGE]),
        ("convert_string_expressions:weight > 3", [MESSAGE]),
    ],
)
def test_only_the_columns_that_a_selector_asks_about_are_needed(selector: str, columns: list[str]) -> None:
    assert columns_for(selector) == columns


def test_missing_columns_are_named() -> None:
    with pytest.raises(ConfigurationError, match="needs the columns properties, or message"):
        selector_filter("weight > 3", ["kind", "topic"])
