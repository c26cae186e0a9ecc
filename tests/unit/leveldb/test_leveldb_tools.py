"""``jdbcstore journal`` on LevelDB directories, sound and damaged ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.cli import main
from jdbcstore.store.journal.leveldb.log import log_files
from jdbcstore.store.journal.leveldb.recovery import recover
from tests.unit.leveldb.directories import SAMPLE, contents


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(SAMPLE, tmp_path / "leveldb"))


def journal(*args: object) -> int:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", ["jdbcstore", "journal", *map(str, args)])
        with pytest.raises(SystemExit) as ended:
            main()
    return int(ended.value.code or 0)


def checked(directory: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, Any]:
    code = journal("check", directory, "--json")
    return code, json.loads(capsys.readouterr().out)


def test_a_sound_one(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}
    code, found = checked(directory, capsys)
    assert (code, found["findings"], found["in_doubt"]) == (0, [], 1)
    assert found["destinations"]["queue://Q.ONE"] == 16
    assert journal("check", directory) == 0
    assert "no problem found" in capsys.readouterr().out
    assert journal("diagnose", directory) == 0
    assert "queue://Q.BIG (2)" in capsys.readouterr().out
    assert journal("dump", directory, "--command", "RemoveCollection", "--json") == 0
    removed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [one["collection"] for one in removed] == [6, 7]
    assert journal("dump", directory, "--limit", "3") == 0
    assert "AddCollection collection=1 type=1 meta=queue://Q.ONE" in capsys.readouterr().out
    assert before == {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_damaged_one_gives_what_can_be_had(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for path in directory.glob("*.index"):
        shutil.rmtree(path)
    path = next(iter(log_files(directory).values()))
    data = bytearray(path.read_bytes())
    data[recover(directory).state.collections[1].entries[8].location + 60] ^= 1  # a message of Q.ONE
    path.write_bytes(data)
    code, found = checked(directory, capsys)
    assert code == 1
    assert any("checksum" in one for one in found["findings"])
    assert any("ActiveMQ's own replay" in one for one in found["notes"])
    assert journal("repair", directory, tmp_path / "new") == 1
    assert "lost: " in capsys.readouterr().out
    code, found = checked(tmp_path / "new", capsys)
    assert (code, found["findings"]) == (0, [])
    expected, repaired = contents(SAMPLE), contents(tmp_path / "new")
    assert repaired["queues"]["queue://Q.BIG"] == expected["queues"]["queue://Q.BIG"]
    assert repaired["durable_receive"] == expected["durable_receive"]
    assert repaired["xa"] == expected["xa"]


def test_a_sound_one_is_repaired_into_the_same(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert journal("repair", directory, tmp_path / "new", "--json") == 0
    assert json.loads(capsys.readouterr().out)["lost"] == []
    assert contents(tmp_path / "new") == contents(SAMPLE)


def test_a_log_elsewhere_has_to_be_named(directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    logs = tmp_path / "logs"
    logs.mkdir()
    for path in log_files(directory).values():
        path.rename(logs / path.name)
    for command in (["check"], ["diagnose"], ["dump"], ["repair"]):
        places = [directory, *([tmp_path / "new"] if command == ["repair"] else [])]
        assert journal(*command, *places) == 2
        assert "--log-directory" in capsys.readouterr().err
        assert journal(*command, *places, "--log-directory", logs) == 0
    assert ", 2 durable subscriptions, 1 prepared transaction; read again" in capsys.readouterr().out
    assert contents(tmp_path / "new") == contents(SAMPLE)


def test_options_are_those_of_the_format_and_a_url_is_no_directory(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert journal("check", directory, "--help") == 0
    assert "--log-directory" in capsys.readouterr().out
    assert journal("repair", "--help") == 0
    assert "DIRECTORY NEW [OPTIONS]" in capsys.readouterr().out
    assert journal("check", f"leveldb:{directory}?sync=false") == 2
    assert f"jdbcstore journal check {directory} " in capsys.readouterr().err


def test_a_queue_of_which_nothing_can_be_read_does_not_end_a_repair(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    next(iter(log_files(directory).values())).write_bytes(b"")  # all of Q.TWO stood there
    assert journal("repair", directory, tmp_path / "new") == 1
    assert "lost: " in capsys.readouterr().out
    assert checked(tmp_path / "new", capsys)[0] == 0
    assert contents(tmp_path / "new")["queues"]["queue://Q.BIG"]
