"""Bytes of a hostile client: whatever they are, they are read or refused with the protocol's own error, in bounds."""

from __future__ import annotations

import collections
import tracemalloc

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.errors import CodecError
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.protocol import Failure, OpenWireConnection
from jdbcstore.openwire.wire_format import WireFormat
from tests.examples import examples, sampled
from tests.unit.openwire.test_connection_vectors import VECTORS, codec, frames

encodings = st.builds(Encoding, st.integers(1, 12), st.booleans(), st.booleans(), st.booleans())
MANY = settings(max_examples=examples(60), suppress_health_check=list(HealthCheck), deadline=None)


def refused_or_read(reader: ConnectionCodec, body: bytes) -> bool:
    try:
        reader.unmarshal(body)
    except CodecError:
        return True
    return False


@MANY
@given(encoding=encodings, type_id=st.integers(0, 130), rest=st.binary(max_size=300))
def test_random_bytes(encoding: Encoding, type_id: int, rest: bytes) -> None:
    refused_or_read(ConnectionCodec(encoding, 16), bytes((type_id,)) + rest)


@pytest.mark.parametrize("vector", sampled(VECTORS, 43), ids=lambda vector: vector["name"])
def test_truncated_frames_are_refused(vector: dict[str, object]) -> None:
    body = frames(vector)[0][4:]
    for end in range(1, len(body), 1 + len(body) // 1000):
        assert refused_or_read(codec(vector), body[:end]), end


@MANY
@given(data=st.data())
def test_mutated_frames(data: st.DataObject) -> None:
    vector = data.draw(st.sampled_from(VECTORS))
    body = bytearray(data.draw(st.sampled_from(frames(vector)))[4:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    refused_or_read(codec(vector), bytes(body))


@MANY
@given(chunks=st.lists(st.binary(max_size=60), max_size=6), is_greeted=st.booleans())
def test_connections_end_in_a_failure_at_worst(chunks: list[bytes], is_greeted: bool) -> None:
    connection = OpenWireConnection(WireFormat(max_frame_size=1000))
    if is_greeted:
        connection.receive(OpenWireConnection(WireFormat()).start())
    for chunk in chunks:
        events = connection.receive(chunk)
        assert connection.close_expected == any(isinstance(event, Failure) for event in events) or not events


@pytest.mark.parametrize("tight", [False, True], ids=["loose", "tight"])
def test_announced_bytes_are_not_allocated(tight: bool) -> None:
    huge = b"\x7f\xff\xff\xff"
    # PartialCommand: a number and bytes.
    body = b"\x3c" + (b"\x01\x01" if tight else b"") + bytes(4) + (b"" if tight else b"\x01") + huge
    reader = ConnectionCodec(Encoding(tight=tight))
    tracemalloc.start()
    try:
        with pytest.raises(CodecError, match="2147483647 bytes announced where 0 remain"):
            reader.unmarshal(body)
        assert tracemalloc.get_traced_memory()[1] < 100_000
    finally:
        tracemalloc.stop()


def test_nesting_is_bounded() -> None:
    # DataResponse within DataResponse within …
    body = b"\x20" + (bytes(9) + b"\x01\x20") * 40 + bytes(10)
    with pytest.raises(CodecError, match="nest deeper than"):
        ConnectionCodec(Encoding()).unmarshal(body)


def test_array_elements_are_bounded() -> None:
    array = b"\x21" + bytes(9) + b"\x01" + (32767).to_bytes(2, "big") + bytes(32767)
    body = b"\x21" + bytes(9) + b"\x01\x00\x03" + (b"\x01" + array) * 3
    with pytest.raises(CodecError, match="more than 65535 array elements"):
        ConnectionCodec(Encoding()).unmarshal(body)


def test_cached_bytes_are_bounded() -> None:
    reader = ConnectionCodec(Encoding(cached=True), 16383)
    text = b"x" * 60000
    session = b"\x01" + len(text).to_bytes(2, "big") + text + bytes(8)
    bodies = [b"\x04" + bytes(5) + b"\x01" + slot.to_bytes(2, "big") + b"\x01\x79" + session for slot in range(200)]
    with pytest.raises(CodecError, match="bytes of cached values"):
        collections.deque(map(reader.unmarshal, bodies), maxlen=0)


@pytest.mark.parametrize("slot", [16, 0x7FFF, 0x8000])
def test_slots_are_bounded(slot: int) -> None:
    reader = ConnectionCodec(Encoding(cached=True), 16)
    with pytest.raises(CodecError, match="cache slot"):
        reader.unmarshal(b"\x04" + bytes(5) + b"\x01" + slot.to_bytes(2, "big") + b"\x00")
    with pytest.raises(CodecError, match="is empty"):
        reader.unmarshal(b"\x04" + bytes(5) + b"\x00" + slot.to_bytes(2, "big"))
