"""The object cache of a connection."""

from __future__ import annotations

import pytest

from jdbcstore.identifiers import BrokerId
from jdbcstore.openwire.object_cache import SLOT_BYTES, ReadCache, WriteCache
from jdbcstore.openwire.source import Malformed


def test_a_writer_keeps_no_long_value() -> None:
    cache = WriteCache(1024)
    cache.begin_frame()
    long, short = BrokerId("x" * 201), BrokerId("x" * 200)
    assert cache.add(long) == -1
    assert cache.get(long) is None
    assert cache.add(short) == 0
    assert cache.get(short) == 0


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
