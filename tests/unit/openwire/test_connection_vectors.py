"""Frames of connections that ActiveMQ 5.17.2 wrote, tight and loose, with and without the cache."""

from __future__ import annotations

from typing import Any

import pytest

from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.primitives import decode_map
from tests.unit.openwire.test_openwire_vectors import comparable, describe, entries, load

VECTORS = load("openwire-commands.jsonl")


def codec(vector: dict[str, Any]) -> ConnectionCodec:
    encoding = Encoding(vector["version"], vector["tight"], vector["cache"], vector["stackTrace"])
    return ConnectionCodec(encoding, vector.get("cacheSize", 1024))


def frames(vector: dict[str, Any]) -> list[bytes]:
    return [bytes.fromhex(frame) for frame in vector.get("frames") or [vector["hex"]]]


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_frames_are_read_and_written_back_to_the_same_bytes(vector: dict[str, Any]) -> None:
    reader, writer = codec(vector), codec(vector)
    values = [reader.unmarshal(frame[4:]) for frame in frames(vector)]
    assert [writer.marshal(value) for value in values] == frames(vector)


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector["name"])
def test_fields_are_those_that_java_sees(vector: dict[str, Any]) -> None:
    reader = codec(vector)
    expected = vector["fieldsList"] if "frames" in vector else [vector["fields"]]
    for frame, fields in zip(frames(vector), expected, strict=True):
        value = reader.unmarshal(frame[4:])
        described = describe(value, vector["version"])
        if fields is not None and "properties" in fields:
            stored = value.marshalled_properties
            del described["marshalledProperties"]
            described["properties"] = [] if stored is None else entries(decode_map(stored))
            fields = {key: value for key, value in fields.items() if key not in ("body", "JMS")}
            fields["properties"] = comparable(fields["properties"] or [])
        assert described == fields
