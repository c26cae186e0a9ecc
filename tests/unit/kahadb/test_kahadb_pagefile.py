"""The index of real directories says what their brokers found in it; a damaged one is an error, and nothing else."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.errors import IndexDamaged, StoreError
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.pagefile import PageFile
from tests.unit.kahadb.journals import unpack, unpack_index

NAMES = [
    "basic",
    "compaction",
    "expired",
    "large",
    "periodic",
    "pinned",
    "pinnedgap",
    "priorities",
    "scheduled",
    "transactions",
]


def told(index: PageFile) -> dict[str, Any]:
    """What is in an index, in the words of the vectors."""
    found: dict[str, Any] = {}
    for destination in index.destinations():
        one: dict[str, Any] = {
            "messages": [
                (message.message_id, message.sequence, message.tier.name.lower(), list(message.location))
                for message in destination.messages()
            ]
        }
        found[str(destination.destination)] = one
        if destination.destination.is_topic:
            one["subscriptions"] = {
                key: {
                    "retroactive": subscription.command.retroactive,
                    "last_ack": list(subscription.last_ack or ()),
                    "location": list(subscription.location or ()),
                    "ack_positions": [list(one) for one in subscription.pending.ranges()],
                }
                for key, subscription in destination.subscriptions.items()
            }
    return found


def wanted(expected: dict[str, Any]) -> dict[str, Any]:
    """The same of what the real broker found."""
    (store,) = [store for store in expected["stores"] if store["kind"] == "kahadb"]
    found: dict[str, Any] = {}
    for name, destination in store["index"]["destinations"].items():
        one: dict[str, Any] = {
            "messages": [
                (message["id"], message["seq"], message["tier"], message["location"])
                for message in destination["messages"]
            ]
        }
        found[name] = one
        if "subscriptions" in destination:
            one["subscriptions"] = {
                key: {name: each[name] for name in ("retroactive", "last_ack", "location", "ack_positions")}
                for key, each in destination["subscriptions"].items()
            }
    return found


@pytest.mark.parametrize("name", NAMES)
def test_the_index_says_what_its_broker_found_in_it(name: str, tmp_path: Path) -> None:
    expected = unpack(name, tmp_path)
    unpack_index(name, tmp_path)
    with PageFile(tmp_path) as index:
        assert index.closed_cleanly
        assert (index.version, index.openwire_version) == (7, 11)
        assert told(index) == wanted(expected)
        assert index.last_update is not None
        (last,) = [location for location, _ in Journal(tmp_path).records() if location[:2] == index.last_update]
        assert last.file == index.last_update.file


def unclean(path: Path) -> bytearray:
    data = bytearray(path.read_bytes().replace(b"cleanShutdown=true", b"cleanShutdown=no  "))
    path.write_bytes(data)
    return data


@pytest.mark.parametrize("name", ["basic", "transactions"])
def test_pages_that_a_killed_broker_was_writing_are_taken_from_the_redo_file(name: str, tmp_path: Path) -> None:
    expected = unpack(name, tmp_path)
    unpack_index(name, tmp_path)
    data = unclean(tmp_path / "db.data")
    redo = (tmp_path / "db.redo").read_bytes()
    for at in range(4096, len(redo) - 4096, 8 + 4096):
        page = int.from_bytes(redo[at : at + 8], "big")
        data[4096 * (page + 1) : 4096 * (page + 1) + 2000] = random.Random(page).randbytes(2000)
    (tmp_path / "db.data").write_bytes(data)
    with PageFile(tmp_path) as index:
        assert not index.closed_cleanly
        assert index.redone == (len(redo) - 4096) // (8 + 4096)
        assert told(index) == wanted(expected)
    # One of its bytes is another: it was not written to its end, and must not be taken.
    (tmp_path / "db.redo").write_bytes(redo[:-1] + bytes([redo[-1] ^ 1]))
    with pytest.raises(IndexDamaged):
        PageFile(tmp_path)
    (tmp_path / "db.redo").write_bytes(redo[:-1])
    with pytest.raises(IndexDamaged):
        PageFile(tmp_path)


def test_the_second_copy_of_the_header_is_used_if_the_first_is_damaged(tmp_path: Path) -> None:
    expected = unpack("basic", tmp_path)
    unpack_index("basic", tmp_path)
    data = bytearray((tmp_path / "db.data").read_bytes())
    data[:2048] = bytes(2048)
    (tmp_path / "db.data").write_bytes(data)
    with PageFile(tmp_path) as index:
        assert told(index) == wanted(expected)
    data[2048:4096] = bytes(2048)
    (tmp_path / "db.data").write_bytes(data)
    with pytest.raises(IndexDamaged, match="its header cannot be read"):
        PageFile(tmp_path)


def write_page(path: Path, page: int, at: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * (page + 1) + at)
        file.write(data)


@pytest.mark.parametrize(
    ("page", "at", "data", "message"),
    [
        (0, 21, (2).to_bytes(4, "big") + (-1).to_bytes(8, "big", signed=True), "page -1 is not in the file"),
        (0, 21, (2).to_bytes(4, "big") + (1 << 60).to_bytes(8, "big"), "is not in the file"),
        (0, 21, (2).to_bytes(4, "big") + (0).to_bytes(8, "big"), "page 0 begins two trees"),
        (0, 0, b"\x01" + bytes(8) + (0).to_bytes(8, "big"), "page 0 is used twice"),
        (0, 0, b"\x00", "page 0 is needed and free"),
        (0, 0, b"\x07", "page 0 is needed and of type 7"),
        (0, 9, (5000).to_bytes(8, "big"), "page 0 ends at its byte 5000"),
        (0, 9, (30).to_bytes(8, "big"), "a node ends within a value"),
    ],
)
def test_wild_pointers_are_an_error(page: int, at: int, data: bytes, message: str, tmp_path: Path) -> None:
    unpack_index("basic", tmp_path)
    write_page(tmp_path / "db.data", page, at, data)
    with pytest.raises(IndexDamaged, match=message), PageFile(tmp_path) as index:
        told(index)


@pytest.mark.parametrize("seed", range(60))
def test_a_damaged_index_is_read_or_is_an_error(seed: int, tmp_path: Path) -> None:
    chance = random.Random(seed)
    unpack_index("transactions", tmp_path)
    data = bytearray((tmp_path / "db.data").read_bytes())
    for _ in range(chance.randint(1, 40)):
        page = chance.randrange(len(data) // 4096)
        at = page * 4096 + chance.randrange(chance.choice([30, 300]))
        data[at] = chance.choice([0, 1, 2, 255, chance.randrange(256)])
    (tmp_path / "db.data").write_bytes(data)
    with suppress(IndexDamaged), PageFile(tmp_path) as index:
        told(index)


def test_what_is_no_index(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*db\.data: No such file"):
        PageFile(tmp_path)
    (tmp_path / "db.data").write_bytes(b"")
    with pytest.raises(IndexDamaged, match="its header cannot be read"):
        PageFile(tmp_path)
    unpack_index("basic", tmp_path)
    data = (tmp_path / "db.data").read_bytes()
    (tmp_path / "db.data").write_bytes(data.replace(b"pageSize=4096", b"pageSize=-1  "))
    with pytest.raises(IndexDamaged, match="pages have -1 bytes"):
        PageFile(tmp_path)
