"""Decoding a batch at a time finds what decoding one message after another finds, whatever stands in the frames."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from jdbcstore.destination import Queue, TempQueue, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, MessageId, ProducerId, XATransactionId
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.selector import Selector
from jdbcstore.spark.columns import COLUMNS, schema_of
from jdbcstore.spark.decoder import Decoder
from jdbcstore.spark.frames import Frames
from jdbcstore.spark.from_frames import FrameColumns
from jdbcstore.store.jdbc.dialect.base.scan_columns import PADDING
from tests.examples import sampled
from tests.spark.test_decoding import raw_batch
from tests.unit.openwire.test_openwire_fuzz import frames, mutate

FRAMES = [frame for frame, _ in frames()]
#: With ``_corrupt`` all of a message is looked at.
SCHEMAS = [list(COLUMNS), ["replyTo", "correlationId", "priority", "_corrupt"]]
#: Makes a decoder look at one message after another.
EVERY = Selector.parse("JMSPriority = JMSPriority")


def text(body: str | bytes | None, **attributes: object) -> TextMessage:
    message = TextMessage(
        producer_id=ProducerId("ID:a-1-1:1", 1, 1),
        destination=Queue("A"),
        message_id=MessageId(ProducerId("ID:a-1-1:1", 1, 1), 5),
        **attributes,  # type: ignore[arg-type]
    )
    if isinstance(body, bytes):
        message.utf8_body = body
    else:
        message.text = body
    return message


def usual() -> list[Message]:
    """Messages as clients send them, which have to be decoded together."""
    table, values, data = MapMessage(), StreamMessage(), BytesMessage(timestamp=3)
    table.body, values.values, data.body = {"a": 1, "é": "ü"}, [1, "x"], b"\x00\xff"
    nul = text(None)
    nul.content = b"\x00\x00\x00\x04nul\x00"
    with_properties = text("p", correlation_id="c", type="t", group_id="g", user_id="u")
    with_properties.properties = {"weight": 3, "name": "ä"}
    sent = LocalTransactionId(7, ConnectionId("ID:a-1-1:1"))
    return [
        text("plain"), text(""), text(None), text("naïve €"), nul, table, values, data,
        MapMessage(), StreamMessage(), BytesMessage(), Message(), ObjectMessage(content=b"\xac\xed"), with_properties,
        text("x" * 5000, transaction_id=sent, original_transaction_id=sent),
        text("r", reply_to=TempQueue("ID:a-1-1:1:1"), original_destination=Topic("A,queue://B")),
        text("t", timestamp=1 << 62, expiration=-1, broker_in_time=5, priority=9, persistent=False, group_sequence=-1),
    ]  # fmt: skip


def unusual() -> list[Message | bytes | None]:
    """What is left to the other way."""
    late = text("x")
    late.content = b"\x00\x00\x00\x02x"
    raw_nul = text(None)
    raw_nul.content = b"\x00\x00\x00\x03\xc3\xa4\x00"
    nameless = marshal(text("x")).replace(b"\x64\x01\x00\x01A", b"\x64\x01\x00\x00")
    nameless = (len(nameless) - 4).to_bytes(4, "big") + nameless[4:]
    squeezed = text("x")
    squeezed.compressed = True
    broken = MapMessage(content=b"\xff", correlation_id="c")
    return [
        None, b"", b"\x00", marshal(None), marshal(text("old"), 3), text("emoji 😀"), text(b"\xff\xfe"), text("\ud800"),
        text("ä\x00"), text("x", type="ä"), text("x", transaction_id=XATransactionId(1, b"g", b"b")), late, squeezed,
        broken, Message(marshalled_properties=b"\xff\xff"), text("x", cluster=()), raw_nul, nameless,
    ]  # fmt: skip


def same_both_ways(raw: pa.RecordBatch) -> None:
    for names in SCHEMAS:
        schema, lacks = schema_of(names), frozenset({"EXPIRATION"})
        found = Decoder(schema, lacks=lacks).decode(raw)
        wanted = Decoder(schema, lacks=lacks, selector=EVERY).decode(raw)
        found.validate(full=True)
        for name in names:
            one, other = found.column(name), wanted.column(name)
            assert one.equals(other), f"{name}: {one.diff(other) if one.type == pa.string() else (one, other)}"


def test_usual_messages_are_decoded_together() -> None:
    raw = raw_batch(*usual())
    found = FrameColumns(raw.column("MSG"), [*COLUMNS], reads_properties=True, reads_bodies=True)
    assert found.fits.all()
    same_both_ways(raw)


def test_unusual_messages_are_not() -> None:
    raw = raw_batch(*unusual())
    found = FrameColumns(raw.column("MSG"), [*COLUMNS], reads_properties=True, reads_bodies=True)
    assert not found.fits.any()
    same_both_ways(raw)


def test_a_null_may_have_bytes() -> None:
    raw = raw_batch(text("a"), text("b"))
    hidden = pa.Array.from_buffers(pa.binary(), 2, [pa.py_buffer(b"\x02"), *raw.column("MSG").buffers()[1:]])
    same_both_ways(raw.set_column(raw.schema.get_field_index("MSG"), "MSG", hidden))


def test_messages_of_both_sorts_come_in_their_order() -> None:
    some: list[Message | bytes | None] = [*usual(), *unusual()]
    random.Random(1).shuffle(some)
    raw = raw_batch(*some)
    same_both_ways(raw)
    same_both_ways(raw.slice(3, 20))


def test_what_real_brokers_wrote() -> None:
    same_both_ways(raw_batch(*FRAMES))


@pytest.mark.parametrize("part", sampled(range(12), 1))
def test_damaged_frames(part: int) -> None:
    chance = random.Random(part)
    sound = [*FRAMES, *map(marshal, usual())]
    for _ in range(10):
        some = [
            mutate(chance.choice(sound), chance) if chance.random() < 0.9 else chance.choice(sound) for _ in range(50)
        ]
        same_both_ways(raw_batch(*some))


def test_what_stands_last_in_the_last_frame_is_read_with_room_behind_it() -> None:
    blobs = [marshal(text("", user_id="u" * length)) for length in range(16)]
    for blob in blobs:
        found = Frames(pa.array([blob], pa.binary()), ())
        assert found.fits.all()
        last = max(int(span.places[0] + span.lengths[0]) for span in found.spans.values())
        assert last + PADDING <= len(blob)
        assert found.column(found.spans["user_id"], pa.string()).to_pylist() == ["u" * (len(blob) - len(blobs[0]))]
