"""The small parts of an AMQ store's files."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore.store.journal.amq.blank_state import blank_state
from jdbcstore.store.journal.amq.control_file import ControlFile, Place, forget_places, read_control_file
from jdbcstore.store.journal.amq.decoding import subscription_key, subscription_text
from jdbcstore.store.journal.amq.kaha_store import safe_name, unsafe_name
from jdbcstore.store.journal.amq.reference_store import mark_as_not_clean, read_reference_store
from jdbcstore.subscription import SubscriptionKey

VECTOR = Path(__file__).parents[2] / "vectors" / "amq-store" / "clean"


@pytest.mark.parametrize("client_id", ["c", "ID:host:1", "100%", "%3A:", ""])
@pytest.mark.parametrize("name", ["n", "a:b", ":"])
def test_keys_of_subscriptions_are_told_apart(client_id: str, name: str) -> None:
    key = SubscriptionKey(client_id, name)
    assert subscription_key(subscription_text(key)) == key


def test_names_of_containers() -> None:
    assert safe_name("queue://Q.BIG") == "queue#3a#2f#2fQ.BIG"
    assert safe_name("tsntopic://T.ONEc1:d1") == "tsntopic#3a#2f#2fT.ONEc1#3ad1"
    assert unsafe_name("queue#3a#2f#2fQ.BIG") == "queue://Q.BIG"
    assert len(safe_name("x" * 100)) == 64


def copies(*found: tuple[int, int, bytes]) -> bytes:
    data = bytearray(2088)
    for start, version, content in found:
        struct.pack_into(">qi", data, start, version, len(content))
        data[start + 12 : start + 12 + len(content)] = content
        struct.pack_into(">q", data, start + 1036, version)
    return bytes(data)


MARK = b"\x01" + struct.pack(">iiib", 1, 0, 100, 1)


def test_the_second_copy_counts_if_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "data-control"
    path.write_bytes(copies((0, 1, b"\x00\x00"), (1044, 2, MARK + b"\x00")))
    assert read_control_file(tmp_path) == ControlFile(2, Place(1, 0, 100, 1), None)
    torn = bytearray(path.read_bytes())
    torn[2080:2088] = bytes(8)
    path.write_bytes(torn)
    assert read_control_file(tmp_path) == ControlFile(1, None, None)
    path.write_bytes(b"short")
    assert read_control_file(tmp_path) is None
    forget_places(tmp_path, "data-*")
    assert read_control_file(tmp_path) == ControlFile(1, None, None)


def test_places_are_forgotten_once(tmp_path: Path) -> None:
    path = tmp_path / "data-control"
    path.write_bytes(copies((0, 7, MARK + MARK), (1044, 7, MARK + MARK)))
    forget_places(tmp_path, "data-*")
    assert read_control_file(tmp_path) == ControlFile(8, None, None)
    before = path.stat().st_mtime_ns
    forget_places(tmp_path, "data-*")
    assert path.stat().st_mtime_ns == before


def test_a_blank_state_is_that_of_a_broker_but_for_its_flag_and_lists(tmp_path: Path) -> None:
    state = VECTOR / "kr-store" / "state"
    for name, data in blank_state():
        theirs = (state / name).read_bytes()
        assert sum(one != other for one, other in zip(data, theirs, strict=False)) <= 8, name
    store = read_reference_store(tmp_path)
    assert not store.is_there
    mark_as_not_clean(store)
    store = read_reference_store(tmp_path)
    assert (store.is_there, store.is_clean, store.damage, store.subscriptions) == (True, False, None, [])


def test_a_state_that_is_no_state_is_put_aside(tmp_path: Path) -> None:
    state = tmp_path / "kr-store" / "state"
    state.mkdir(parents=True)
    (state / "index-store-state").write_bytes(b"nothing")
    store = read_reference_store(tmp_path)
    assert store.damage is not None
    mark_as_not_clean(store)
    assert read_reference_store(tmp_path).flag is not None
    assert len(list(state.parent.glob("state.damaged.*"))) == 1


def test_a_forked_process_does_not_continue_what_its_parent_began() -> None:
    program = """
import os
from jdbcstore.store.journal.amq import encoding
is_parent = os.fork() != 0
if is_parent:
    os.wait()
print(next(encoding._numbers), flush=True)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    child, parent = map(int, done.stdout.split())
    assert child > parent
