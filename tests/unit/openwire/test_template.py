"""Templates are the pieces of what `marshal` writes."""

from __future__ import annotations

import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.openwire import MessageTemplate, marshal

_PRODUCER = ProducerId("ID:\u00e4-1", 1, 1)


@given(
    st.sampled_from([Message, TextMessage, BytesMessage, MapMessage, StreamMessage, ObjectMessage]),
    st.sampled_from([Queue("A"), Topic("B.\u20ac")]),
    st.booleans(),
    st.none() | st.text(max_size=20),
    st.lists(st.tuples(st.integers(-(1 << 63), (1 << 63) - 1), st.none() | st.binary(max_size=300)), max_size=5),
)
def test_they_are_the_pieces_of_what_marshal_writes(
    kind: type[Message],
    destination: Queue | Topic,
    compressed: bool,
    type: str | None,
    rows: list[tuple[int, bytes | None]],
) -> None:
    message = kind(
        destination=destination,
        message_id=MessageId(_PRODUCER, 7),
        producer_id=_PRODUCER,
        content=b"kept",
        compressed=compressed,
        type=type,
        marshalled_properties=b"\0\0\0\0",
        timestamp=1 << 40,
    )
    before = marshal(message)
    template = MessageTemplate(message)
    assert marshal(message) == before
    for number, content in rows:
        body = b"\0" if content is None else struct.pack(">Bi", 1, len(content)) + content
        fields = template.head + struct.pack(">q", number) + template.between + body + template.tail
        expected = replace(message, message_id=MessageId(_PRODUCER, number), content=content)
        assert struct.pack(">i", len(fields)) + fields == marshal(expected)


def test_a_message_without_an_id() -> None:
    with pytest.raises(CodecError, match="no id"):
        MessageTemplate(TextMessage())
