"""Directories of the real store, whole and damaged, against what the real one found in them."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import plyvel
import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.journal.leveldb import recovery
from jdbcstore.store.journal.leveldb.index_reader import read_index, snapshots
from jdbcstore.store.journal.leveldb.log import log_files
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.testing import text_message
from tests.examples import sampled
from tests.unit.leveldb.directories import SAMPLE, contents

INDEX = "0000000000034565.index"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "leveldb"))


@pytest.fixture(scope="module")
def expected() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((SAMPLE / "expected.json").read_text())["as_left"]
    return {name: found[name] for name in ("queues", "durable_receive", "xa")}


def test_a_directory_is_what_its_broker_left(expected: dict[str, Any]) -> None:
    assert contents(SAMPLE) == expected
    assert recover(SAMPLE).state.remarks == []


def test_without_its_index_nothing_is_lost_though_the_original_loses_half(
    directory: Path, expected: dict[str, Any]
) -> None:
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    assert contents(directory) == expected
    (remark,) = recover(directory).state.remarks
    assert "position 0x2c80" in remark
    assert "127 units of work" in remark


def test_where_the_first_files_are_gone_the_index_says_what_is_there(directory: Path) -> None:
    first, second, *_ = log_files(directory).values()
    second.unlink()
    found = recover(directory)
    assert found.is_from_index
    assert [one.name for one in found.state.collections.values() if one.type == 1] == [
        "queue://Q.ONE",
        "queue://Q.TWO",
        "queue://Q.BIG",
    ]
    first.unlink()
    assert recover(directory).is_from_index


def test_without_first_files_and_index_the_log_says_what_it_can(directory: Path) -> None:
    next(iter(log_files(directory).values())).unlink()
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    found = recover(directory)
    assert contents(directory)["queues"]["queue://Q.BIG"] == [
        "ID:vm-36697-1795176087262-2:1:1:4:59",
        "ID:vm-36697-1795176087262-2:1:1:4:60",
    ]
    assert any("acknowledged may come back" in remark for remark in found.state.remarks)
    assert any("is queue://Q.BIG, as its messages say" in remark for remark in found.state.remarks)


def test_every_cut_of_the_log_leaves_a_prefix_of_its_units(directory: Path) -> None:
    path = next(iter(log_files(directory).values()))
    for other in list(log_files(directory).values())[1:]:
        other.unlink()
    for one in directory.glob("*.index"):
        shutil.rmtree(one)
    data = path.read_bytes()
    units = 0
    for end in range(1, 3000, 7):
        path.write_bytes(data[:end])
        found = recover(directory)
        assert found.end <= end
        assert found.state.units >= units
        units = found.state.units
        path.write_bytes(data[:end] + bytes(5000))  # made ahead; a unit may end in zeros
        assert found.end <= recover(directory).end < end + 8


def test_damage_in_the_middle_costs_what_is_damaged(directory: Path, expected: dict[str, Any]) -> None:
    path = list(log_files(directory).values())[1]
    data = bytearray(path.read_bytes())
    data[9 * 3288 + 100] ^= 1  # the body of a message that is gone
    path.write_bytes(data)
    assert contents(directory) == expected
    assert any("does not fit its checksum" in remark for remark in recover(directory).state.remarks)
    data[9 * 3288 : 9 * 3288 + 40] = b"\xff" * 40  # and what says how long it is
    path.write_bytes(data)
    found = recover(directory)
    assert any("cannot be read" in remark for remark in found.state.remarks)
    assert contents(directory)["queues"]["queue://Q.ONE"] == expected["queues"]["queue://Q.ONE"]


def test_a_log_elsewhere(directory: Path, tmp_path: Path, expected: dict[str, Any]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in log_files(directory).values():
        path.rename(logs / path.name)
    assert contents(directory, logs) == expected
    with pytest.raises(ConfigurationError, match="logDirectory"):
        recover(directory)
    shutil.rmtree(directory / INDEX)  # a broker that has not written a snapshot yet
    with pytest.raises(ConfigurationError, match="logDirectory"):
        recover(directory)


def test_a_slave_that_was_copying_has_what_it_had_before(directory: Path, expected: dict[str, Any]) -> None:
    stash = directory / "stash"
    stash.mkdir()
    for path in list(directory.iterdir()):
        if path != stash:
            path.rename(stash / path.name)
    shutil.copy(stash / "0000000000000000.log", directory)
    (directory / "nodeid.txt").write_text("n1")
    assert contents(directory) == expected
    assert "stash" in recover(directory).state.remarks[0]


def test_another_version_is_refused(directory: Path) -> None:
    (directory / "store-version.txt").write_text("activemq_leveldb_store:2")
    with pytest.raises(ConfigurationError, match="activemq_leveldb_store:1"):
        recover(directory)


def test_an_index_is_what_leveldb_says_of_it_with_tables_and_snappy(directory: Path) -> None:
    index = directory / INDEX
    with plyvel.DB(str(index)) as database:
        original = dict(database)
    assert read_index(index) == original
    with plyvel.DB(str(index), compression="snappy") as database:
        for n in range(3000):
            database.put(b"k%06d" % n, b"value" * 10 + b"%d" % n)
        for n in range(0, 3000, 3):
            database.delete(b"k%06d" % n)
        database.compact_range()
        database.put(b"k000001", b"again")
        database.put(b":dirty", b"false")
        changed = dict(database)
    assert list(index.glob("*.ldb"))
    assert read_index(index) == changed


def test_a_snapshot_that_a_broker_replaces_meanwhile_is_looked_for_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def go_on(number: int) -> None:
        with open_store(f"leveldb:{tmp_path / 'd'}") as store:
            store.queue_message_store(Queue("Q")).add_message(text_message(number)).result(60)

    go_on(1)
    calls: list[Path] = []

    def read_late(path: Path) -> dict[bytes, bytes]:
        calls.append(path)
        if len(calls) == 1:
            monkeypatch.setattr(recovery, "read_index", read_index)
            go_on(2)
        return read_index(path)

    monkeypatch.setattr(recovery, "read_index", read_late)
    found = recovery.recover(tmp_path / "d")
    assert len(calls) == 1
    assert [found.snapshot] == list(snapshots(tmp_path / "d"))
    assert not found.state.remarks
    assert len(next(iter(found.state.collections.values())).entries) == 2


def test_an_index_whose_end_is_missing_is_no_index(directory: Path, expected: dict[str, Any]) -> None:
    """It says of messages that were acknowledged that they are there; the log knows better, what is left of it."""
    path = directory / INDEX / "000003.log"
    data = path.read_bytes()
    third = list(log_files(directory).values())[2]
    third.write_bytes(third.read_bytes()[:32000])  # now the log has a gap
    assert recover(directory).is_from_index
    for left in (data[:14000], b""):
        path.write_bytes(left)
        found = recover(directory)
        assert not found.is_from_index
        assert any("its end is missing" in remark for remark in found.state.remarks)
        got = contents(directory)
        assert got["queues"]["queue://Q.ONE"] == expected["queues"]["queue://Q.ONE"]
        assert got["queues"]["queue://Q.BIG"] == expected["queues"]["queue://Q.BIG"]
        assert got["durable_receive"] == expected["durable_receive"]


def test_an_index_that_is_damaged_helps_a_log_whose_beginning_is_gone(directory: Path) -> None:
    """What its collections are called, and how far subscriptions have acknowledged, nobody else knows."""
    next(iter(log_files(directory).values())).unlink()
    path = directory / INDEX / "000003.log"
    path.write_bytes(path.read_bytes()[:14000])
    names = {one.name for one in recover(directory).state.collections.values()}
    assert {"queue://Q.ONE", "queue://Q.TWO", "topic://T.ONE"} <= names
    assert set(contents(directory)["durable_receive"]) == {"d1", "d2"}


@pytest.mark.parametrize("name", ["MANI\0EST-000002", "../0000000000034565.index/MANIFEST-000002", ""])
def test_an_index_that_names_no_manifest(directory: Path, name: str, expected: dict[str, Any]) -> None:
    (directory / INDEX / "CURRENT").write_text(name)
    assert contents(directory) == expected
    assert any("CURRENT names" in remark for remark in recover(directory).state.remarks)


def test_what_the_log_cannot_tell_the_index_does(directory: Path, expected: dict[str, Any]) -> None:
    """An entry's own record is damaged, the message is not."""
    for path in log_files(directory).values():
        data = path.read_bytes()
        entry = data.rfind(b"*\x03", 0, len(data) - 60)
        if entry < 0:
            continue
        damaged = bytearray(data)
        damaged[entry + 12] ^= 0xFF
        path.write_bytes(damaged)
        found = recover(directory)
        assert found.state.damages
        assert contents(directory) == expected
        path.write_bytes(data)


def test_a_damaged_version_is_no_reason_to_refuse_a_log(directory: Path, expected: dict[str, Any]) -> None:
    path = directory / "store-version.txt"
    path.write_bytes(b"activemq_lev\xff\xff\xffb_store:1")
    assert contents(directory) == expected
    with open_store(f"leveldb:{directory}"):
        assert path.read_text() == "activemq_leveldb_store:1"
    path.write_text("activemq_leveldb_store:2")
    with pytest.raises(ConfigurationError, match="only activemq_leveldb_store:1"):
        recover(directory)


ZEROED = {"the first": [0], "one in the middle": [1], "the last": [3], "all": [0, 1, 2, 3]}


@pytest.mark.parametrize("which", sampled([*ZEROED], 1))
@pytest.mark.parametrize("has_index", [True, False])
def test_files_of_zeros_are_told_and_what_is_written_then_stays(
    directory: Path, which: str, has_index: bool, expected: dict[str, Any]
) -> None:
    """Files are made long before they are written; one of zeros that others follow is damaged."""
    if not has_index:
        for path in directory.glob("*.index"):
            shutil.rmtree(path)
    files = list(log_files(directory).values())
    for number in ZEROED[which]:
        files[number].write_bytes(bytes(files[number].stat().st_size))
    is_told = has_index or which in ("the first", "one in the middle")
    assert bool(recover(directory).state.damages) == is_told
    sent: list[str] = []
    for number in (1, 2, 3):
        with open_store(f"leveldb:{directory}?logSize=200kb") as adapter:
            store = adapter.queue_message_store(Queue("NEW"))
            assert [str(one.message_id) for one in store.recover()] == sent
            message = text_message(number, destination=Queue("NEW"))
            store.add_message(message).result(30)
            sent.append(str(message.message_id))
            if number == 2:  # killed
                copy = Path(shutil.copytree(directory, directory.with_name("killed"), ignore=_LOCK))
        if number == 2:
            shutil.rmtree(directory)
            copy.rename(directory)
    if which != "all" and 0 not in ZEROED[which]:
        with open_store(f"leveldb:{directory}") as adapter:
            found = [str(one.message_id) for one in adapter.queue_message_store(Queue("Q.ONE")).recover()]
        assert found == expected["queues"]["queue://Q.ONE"]
    if has_index and which == "all":
        assert not any(base < 0x34565 for base in log_files(directory)), "nothing is written before a snapshot"


_LOCK = shutil.ignore_patterns("lock")
