"""Rows → batches: what is in a message comes out in the right column, and what cannot be read is never dropped."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.primitives import Byte, Char, Float, Long, Short
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import COLUMNS, schema_of
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.values import typed, value_of

ALL = list(COLUMNS)
JAVA_TIME_MAX = (1 << 63) - 1


def raw_batch(*messages: Message | bytes | None, expiration: int = 0, **columns: Any) -> pa.RecordBatch:
    """Rows as a scan gives them."""
    count = len(messages)
    rows = {
        "ID": pa.array(range(1, count + 1), pa.int64()),
        "CONTAINER": pa.array(["queue://A"] * count, pa.string()),
        "MSGID_PROD": pa.array(["ID:host-1-1:1:1:1"] * count, pa.string()),
        "MSGID_SEQ": pa.array(range(7, count + 7), pa.int64()),
        "EXPIRATION": pa.array([expiration] * count, pa.int64()),
        "PRIORITY": pa.array([4] * count, pa.int64()),
        "XID": pa.array([None] * count, pa.string()),
        "MSG": pa.array([marshal(one) if isinstance(one, Message) else one for one in messages], pa.binary()),
    }
    return pa.RecordBatch.from_pydict(rows | columns)


def decoded(*names: str, raw: pa.RecordBatch, **options: Any) -> list[dict[str, Any]]:
    decoder = Decoder(schema_of(names), **options)
    batch = decoder.decode(raw.select([name for name in raw.schema.names if name in decoder.table_columns]))
    assert batch.schema.equals(decoder.schema)
    rows: list[dict[str, Any]] = batch.to_pylist()
    return rows


def test_columns_of_the_table_need_no_message() -> None:
    decoder = Decoder(schema_of(["topic", "offset", "messageId", "rowPriority", "expiration", "size", "partition"]))
    assert "MSG" not in decoder.table_columns
    assert set(decoder.table_columns) == {
        "CONTAINER", "ID", "MSGID_PROD", "MSGID_SEQ", "PRIORITY", "EXPIRATION", "SIZE"
    }  # fmt: skip


def test_rows_are_counted_by_their_ids() -> None:
    assert Decoder(schema_of(["partition"])).table_columns == ("ID",)
    assert decoded("partition", raw=raw_batch(b"", b"")) == [{"partition": 0}] * 2


def test_headers_of_a_message() -> None:
    message = TextMessage(
        correlation_id="c1", reply_to=Topic("R"), type="order", redelivery_counter=2, persistent=False, group_id="g",
        group_sequence=3, original_destination=Queue("B"), user_id="me", timestamp=1_700_000_000_123, broker_in_time=5,
    )  # fmt: skip
    message.text = "hé"
    message.properties = {"weight": 3, "big": Long(4), "name": "x"}
    (row,) = decoded(*ALL, raw=raw_batch(message, expiration=1_700_000_000_999))
    blob = marshal(message)
    assert row == {
        "key": b"g", "value": "hé".encode(), "topic": "queue://A", "partition": 0, "offset": 1,
        "timestamp": datetime(2023, 11, 14, 22, 13, 20, 123_000, UTC),
        "headers": [
            {"key": "weight", "value": b"3"}, {"key": "big", "value": b"4"}, {"key": "name", "value": b"x"},
        ],
        "messageId": "ID:host-1-1:1:1:1:7", "priority": 4,
        "expiration": datetime(2023, 11, 14, 22, 13, 20, 999_000, UTC),
        "correlationId": "c1", "replyTo": "topic://R", "type": "order", "redeliveryCounter": 2, "persistent": False,
        "properties": [
            ("weight", {"type": "int", "value": "3"}), ("big", {"type": "long", "value": "4"}),
            ("name", {"type": "string", "value": "x"}),
        ],
        "kind": "text", "text": "hé", "bytes": None, "map": None, "stream": None, "groupSequence": 3,
        "originalDestination": "queue://B", "userId": "me", "brokerInTime": datetime(1970, 1, 1, 0, 0, 0, 5000, UTC),
        "producerId": "ID:host-1-1:1:1:1", "size": len(blob), "rowPriority": 4, "xid": None,
        "message": blob, "_corrupt": None,
    }  # fmt: skip


def test_bodies_by_kind() -> None:
    data, table, values, thing = BytesMessage(), MapMessage(), StreamMessage(), ObjectMessage()
    data.body, table.body, values.values, thing.body = b"\x00\xff", {"a": Short(1)}, ["x", None], b"\xac\xed"
    rows = decoded(
        "kind", "value", "bytes", "map", "stream", "text", raw=raw_batch(data, table, values, thing, Message())
    )
    assert [row["kind"] for row in rows] == ["bytes", "map", "stream", "object", "message"]
    assert [row["bytes"] for row in rows] == [b"\x00\xff", None, None, None, None]
    assert rows[1]["map"] == [("a", {"type": "short", "value": "1"})]
    assert rows[2]["stream"] == [{"type": "string", "value": "x"}, {"type": "null", "value": None}]
    assert [rows[0]["value"], rows[3]["value"], rows[4]["value"]] == [b"\x00\xff", b"\xac\xed", None]
    assert rows[0]["stream"] is None
    assert rows[0]["map"] is None


@pytest.mark.parametrize(("blob", "why"), [(b"\x00\x01", "2 bytes"), (None, "MSG is NULL")])
def test_a_damaged_message_keeps_its_row(blob: bytes | None, why: str) -> None:
    rows = decoded("offset", "correlationId", "_corrupt", raw=raw_batch(Message(correlation_id="c"), blob))
    assert [row["offset"] for row in rows] == [1, 2]
    assert [row["correlationId"] for row in rows] == ["c", None]
    assert rows[0]["_corrupt"] is None
    assert why in rows[1]["_corrupt"]["error"]
    assert rows[1]["_corrupt"]["message"] == blob


@pytest.mark.parametrize(
    ("columns", "on_corrupt"), [(("correlationId",), "column"), (("correlationId", "_corrupt"), "fail")]
)
def test_a_damaged_message_stops_the_reading_where_it_has_no_column(columns: tuple[str, ...], on_corrupt: Any) -> None:
    with pytest.raises(CodecError, match=r"the message with ID 2 cannot be decoded: .* ask for _corrupt"):
        decoded(*columns, raw=raw_batch(Message(), b"\x00"), on_corrupt=on_corrupt)


def test_damage_inside_counts_only_where_somebody_looks() -> None:
    message = MapMessage(content=b"\xff", marshalled_properties=b"\xff\xff", correlation_id="c")
    assert decoded("correlationId", raw=raw_batch(message)) == [{"correlationId": "c"}]
    for column in ("properties", "map", "_corrupt"):
        (row,) = decoded(*{column: 0, "_corrupt": 0}, raw=raw_batch(message))
        assert row["_corrupt"] is not None


def test_a_text_that_is_none_is_in_the_value() -> None:
    message = TextMessage()
    message.utf8_body = b"\xff\xfe"
    assert decoded("text", "value", "_corrupt", raw=raw_batch(message)) == [
        {"text": None, "value": b"\xff\xfe", "_corrupt": None}
    ]


def test_half_a_surrogate_pair_becomes_a_question_mark() -> None:
    message = TextMessage(type="a\ud800")
    message.text = "b\udc00"
    assert decoded("text", "type", raw=raw_batch(message)) == [{"text": "b?", "type": "a?"}]


def test_times_that_no_timestamp_takes() -> None:
    raw = raw_batch(Message(timestamp=JAVA_TIME_MAX), expiration=JAVA_TIME_MAX)
    decoder = Decoder(schema_of(["timestamp", "expiration"]))
    for column in decoder.decode(raw).columns:
        assert column.cast(pa.int64()).to_pylist() == [JAVA_TIME_MAX // 1000 * 1000]
    assert decoded("timestamp", "expiration", raw=raw_batch(Message())) == [{"timestamp": None, "expiration": None}]


def test_a_selector_leaves_out_what_does_not_match_and_keeps_what_is_damaged() -> None:
    messages: list[Message | bytes] = [Message(type="a"), b"\x00", Message(type="b"), Message(type="a")]
    rows = decoded("offset", "type", "_corrupt", raw=raw_batch(*messages), selector=Selector.parse("JMSType = 'b'"))
    assert [(row["offset"], row["type"], row["_corrupt"] is not None) for row in rows] == [
        (2, None, True),
        (3, "b", False),
    ]


def test_a_schema_may_not_change_a_column() -> None:
    schema = schema_of(["topic"])
    schema["topic"].dataType = schema_of(["offset"])["offset"].dataType
    with pytest.raises(ConfigurationError, match="column topic is string, the given schema says bigint"):
        Decoder(schema)


def test_a_misspelt_column_is_an_error() -> None:
    with pytest.raises(ConfigurationError, match="no column 'messageid', did you mean messageId"):
        schema_of(["messageid"])


VALUES = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(-(1 << 31), (1 << 31) - 1),
        st.floats(allow_nan=False),
        st.text(),
        st.binary(),
        st.integers(-128, 127).map(Byte),
        st.integers(-(1 << 15), (1 << 15) - 1).map(Short),
        st.integers(-(1 << 63), (1 << 63) - 1).map(Long),
        st.floats(allow_nan=False, width=32).map(Float),
        st.characters(max_codepoint=0xFFFF).map(Char),
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)


@given(VALUES)
def test_a_typed_value_comes_back(value: Any) -> None:
    back = value_of(*typed(value))
    assert back == value
    assert back.__class__ is value.__class__


@pytest.mark.parametrize(
    ("kind", "text"),
    [("int", "2147483648"), ("byte", "128"), ("boolean", "yes"), ("char", "ab"), ("bytes", "?"), ("list", "{}x")],
)
def test_a_text_that_is_no_value_of_its_type(kind: str, text: str) -> None:
    with pytest.raises(CodecError, match=f"is no {kind}"):
        value_of(kind, text)


def test_an_unknown_type() -> None:
    with pytest.raises(CodecError, match="no type 'Integer': boolean, byte"):
        value_of("Integer", "1")
