"""Blocks of rows are the rows that are made one by one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.message import BytesMessage, MapMessage, StreamMessage, TextMessage
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.spark.encoder import Encoder
from jdbcstore.spark.options import WriteOptions
from jdbcstore.store.jdbc.dialect.base.bulk import row_by_row
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow
from jdbcstore.store.jdbc.dialect.postgresql.bulk import packed_for_copy

_TOPICS = ["queue://A", "queue://B", "topic://\u20ac"]


def made(columns: dict[str, Any], **options: str) -> list[LoadRow | LoadBlock]:
    encoder = Encoder(WriteOptions.of({"url": "postgresql://h/d", **options}), "job", 3)
    return list(encoder.rows([pa.RecordBatch.from_pydict(columns)]))


def rows_of(columns: dict[str, Any], **options: str) -> Iterator[LoadRow]:
    return row_by_row(made(columns, **options))


texts = st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
"""With NUL, and with what lies beyond the basic multilingual plane: Java writes both otherwise than UTF-8."""


@given(st.lists(st.tuples(st.sampled_from(_TOPICS), texts, st.integers(0, 9)), min_size=1, max_size=6))
def test_texts(given: list[tuple[str, str | None, int]]) -> None:
    topics, bodies, levels = map(list, zip(*given, strict=True))
    columns = {"topic": topics, "text": pa.array(bodies, pa.string()), "rowPriority": pa.array(levels, pa.int32())}
    found = list(rows_of(columns))
    assert [row[2:5] for row in found] == [(topic, 0, level) for topic, level in zip(topics, levels, strict=True)]
    assert [row[1] for row in found] == list(range(1, len(given) + 1))
    for (producer, sequence, container, _, _, data), body in zip(found, bodies, strict=True):
        message = unmarshal_message(data)
        assert isinstance(message, TextMessage)
        assert message.text == body
        assert str(message.message_id) == f"{producer}:{sequence}"
        assert message.destination == parse_destination(container)
        assert marshal(message) == data


bodies = st.none() | st.binary(max_size=40)


@given(st.lists(bodies, min_size=1, max_size=6), st.sampled_from([pa.binary, pa.large_binary]))
def test_bytes(bodies: list[bytes | None], type: Any) -> None:
    found = [unmarshal_message(row[5]) for row in rows_of({"bytes": pa.array(bodies, type())}, topic="queue://A")]
    assert [(message.__class__, message.content) for message in found] == [(BytesMessage, body) for body in bodies]


def test_kinds_that_follow_one_another() -> None:
    columns = {
        "topic": ["queue://A", "queue://B", "queue://A", "queue://A"],
        "kind": ["text", "map", "stream", None],
        "text": ["one", None, None, None],
        "map": pa.array([None, [("a", "b")], None, None], pa.map_(pa.string(), pa.string())),
        "bytes": [None, None, None, b"four"],
    }
    found = [unmarshal_message(row[5]) for row in rows_of(columns)]
    assert [message.__class__ for message in found] == [TextMessage, MapMessage, StreamMessage, BytesMessage]
    assert [str(message.destination) for message in found] == columns["topic"]
    assert found[0].content == b"\0\0\0\3one"
    assert found[3].content == b"four"


def test_texts_of_spark_s_large_types_are_texts() -> None:
    found = rows_of({"value": pa.array(["a", "b"], pa.large_string())}, topic="queue://A")
    assert [unmarshal_message(row[5]).text for row in found] == ["a", "b"]  # type: ignore[attr-defined]


def test_a_text_that_is_no_utf_8_is_refused() -> None:
    text = pa.array([b"good", b"\xed\xa0\x80"], pa.binary()).view(pa.string())
    with pytest.raises(ConfigurationError, match="column text: a value is no text in UTF-8"):
        made({"text": text}, topic="queue://A")


def test_a_part_of_an_array_is_that_part() -> None:
    """Spark and Arrow cut arrays without copying them."""
    whole = pa.array(["\0", "one", "two", "\U0001f600"])
    found = rows_of({"text": whole.slice(1, 2)}, topic="queue://A")
    assert [unmarshal_message(row[5]).text for row in found] == ["one", "two"]  # type: ignore[attr-defined]


def test_trusted_messages_are_stored_as_they_are() -> None:
    given = [row[5] for row in rows_of({"text": ["a", "b"]}, topic="queue://A")]
    columns = {"message": pa.array(given, pa.binary()), "topic": ["queue://B", "queue://C"]}
    found = made(columns, trustMessages="true")
    assert all(isinstance(row, LoadBlock) for row in found)
    assert [row[1:] for row in row_by_row(found)] == [
        (1, "queue://B", 0, 0, given[0]),
        (2, "queue://C", 0, 0, given[1]),
    ]


@pytest.mark.parametrize("place", [1 << 40, ("job", 7)], ids=["direct", "staged"])
@pytest.mark.parametrize("topics", [["queue://A"] * 5000, ["queue://A", "topic://BB"] * 2500], ids=["one", "two"])
def test_postgresql_gets_the_same_bytes(place: int | tuple[str, int], topics: list[str]) -> None:
    """Several blocks behind one another, with single rows between them."""
    blocks = made({"topic": topics, "text": [str(number) * 300 for number in range(5000)]})
    assert len(blocks) > 1
    mixed = [*blocks[0], *blocks[1:], *blocks[0]]
    assert b"".join(packed_for_copy(mixed, place)) == b"".join(packed_for_copy(row_by_row(mixed), place))
