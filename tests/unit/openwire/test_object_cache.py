"""The object cache of a connection."""

from __future__ import annotations

import pytest

from jdbcstore.identifiers import BrokerId
from jdbcstore.openwire.object_cache import FREE_SLOTS, NO_SLOT, SLOT_BYTES, ReadCache, WriteCache
from jdbcstore.openwire.source import Malformed


def test_a_writer_keeps_no_long_value() -> None:
    cache = WriteCache(1024)
    cache.begin_frame()
    long, short = BrokerId("x" * 201), BrokerId("x" * 200)
    assert cache.add(long) == NO_SLOT
    assert cache.get(long) is None
    assert cache.add(short) == b"\0\0"
    assert cache.get(short) == b"\0\0"


def test_a_writer_finds_equal_values_and_the_same_ones() -> None:
    cache = WriteCache(FREE_SLOTS + 2)
    first, equal = BrokerId("broker"), BrokerId("broker")
    cache.begin_frame()
    slot = cache.add(first)
    assert cache.get_same(id(first)) == cache.get(equal) == slot
    assert cache.get_same(id(equal)) is None
    for number in range(FREE_SLOTS):
        cache.add(BrokerId(str(number)))
    cache.begin_frame()  # makes room
    assert cache.get_same(id(first)) is cache.get(first) is None


def test_a_writer_forgets_what_a_frame_added_that_was_not_written() -> None:
    cache = WriteCache(1024)
    cache.begin_frame()
    value = BrokerId("broker")
    cache.add(value)
    cache.abandon_frame()
    assert cache.get_same(id(value)) is cache.get(value) is None


def test_a_reader_counts_what_its_values_take() -> None:
    cache = ReadCache(16)
    cache.put(0, BrokerId("a"), 100)
    cache.put(1, BrokerId("b"), 50)
    cache.put(0, BrokerId("c"), 20)
    assert cache.kept_bytes == 70 + 2 * SLOT_BYTES


def test_a_reader_bounds_what_its_values_take() -> None:
    cache = ReadCache(16, bytes_max=100)
    cache.put(0, BrokerId("a"), 100)
    with pytest.raises(Malformed, match="more than 100 bytes of cached values"):
        cache.put(1, BrokerId("b"), 1)
