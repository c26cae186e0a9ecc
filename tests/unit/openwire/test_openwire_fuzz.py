"""Damaged frames: a `CodecError` or a message, never another exception, a hang or a heap of memory.

What is accepted as a frame of one version is written back to the same bytes. OPENWIRE_FUZZ_MUTANTS says how many.
"""

from __future__ import annotations

import json
import os
import random
import tracemalloc
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import CodecError
from jdbcstore.message import BytesMessage, MapMessage, Message, ObjectMessage, StreamMessage, TextMessage
from jdbcstore.openwire import marshal, unmarshal
from tests.examples import sampled

VECTORS = Path(__file__).parents[2] / "vectors"
MUTANTS = int(os.environ.get("OPENWIRE_FUZZ_MUTANTS", "4000"))
PARTS = 4
PEAK_BYTES_MAX = 64 << 20


def frames() -> list[tuple[bytes, int]]:
    lines = (VECTORS / "openwire-messages.jsonl").read_text("utf-8").splitlines()
    lines += (VECTORS / "openwire-commands.jsonl").read_text("utf-8").splitlines()
    vectors: list[dict[str, Any]] = [json.loads(line) for line in lines]
    loose = [vector for vector in vectors if not vector.get("tight") and not vector.get("cache")]
    return [(bytes.fromhex(v["hex"]), v["version"]) for v in loose if len(v["hex"]) < 4000]


INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xC0, 0xED, 0xF0, 0xFF, 23, 28, 100, 110, 123]


def mutate(data: bytes, chance: random.Random) -> bytes:
    body = bytearray(data[4:])
    for _ in range(chance.choice((1, 1, 1, 2, 4))):
        at = chance.randrange(len(body)) if body else 0
        match chance.randrange(6):
            case 0 if body:
                body[at] ^= 1 << chance.randrange(8)
            case 1 if body:
                body[at] = chance.choice(INTERESTING)
            case 2:
                del body[at : at + chance.randrange(1, 9)]
            case 3:
                body[at:at] = chance.randbytes(chance.randrange(1, 9))
            case 4:
                body[at : at + 4] = chance.choice((-1, 1, 1 << 30, (1 << 31) - 1, -(1 << 31))).to_bytes(
                    4, "big", signed=True
                )
            case _:
                del body[at:]
    size = len(body) if chance.random() < 0.95 else chance.randrange(1 << 31)
    return size.to_bytes(4, "big") + bytes(body)


def look_at(value: object) -> None:
    """Decode everything that is decoded only when asked for."""
    if not isinstance(value, Message):
        return
    str(value.message_id)
    value.copy()
    for read in (properties_of, body_of):
        with suppress(CodecError):
            read(value)


def properties_of(message: Message) -> object:
    return message.properties


def body_of(message: Message) -> object:
    match message:
        case TextMessage():
            return message.raw_text_bytes(), message.utf8_body, message.text
        case BytesMessage() | MapMessage() | ObjectMessage():
            return message.body
        case StreamMessage():
            return message.values
    return None


@pytest.mark.parametrize("part", sampled(range(PARTS), 1))
def test_damaged_frames_are_codec_errors_or_messages(part: int) -> None:
    chance = random.Random(part)
    originals = frames()
    for _ in range(MUTANTS // PARTS):
        data, version = chance.choice(originals)
        mutant = mutate(data, chance)
        with suppress(CodecError):
            look_at(unmarshal(mutant))
            assert marshal(unmarshal(mutant, version), version) == mutant


def test_damaged_frames_take_no_memory() -> None:
    chance = random.Random(99)
    originals = frames()
    mutants = [mutate(chance.choice(originals)[0], chance) for _ in range(200)]
    tracemalloc.start()
    try:
        for mutant in mutants:
            with suppress(CodecError):
                look_at(unmarshal(mutant))
        assert tracemalloc.get_traced_memory()[1] < PEAK_BYTES_MAX
    finally:
        tracemalloc.stop()


def test_noise_is_a_codec_error() -> None:
    chance = random.Random(7)
    for length in range(300):
        noise = chance.randbytes(length)
        for data in (noise, len(noise).to_bytes(4, "big") + noise):
            with pytest.raises(CodecError):
                unmarshal(data)
