"""``jdbcstore journal`` on AMQ stores, sound and damaged ones."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest

from jdbcstore.cli import main
from jdbcstore.destination import Queue
from jdbcstore.errors import StoreError
from jdbcstore.message import TextMessage
from jdbcstore.migration import migrate
from jdbcstore.store.journal.amq.adapter import AMQPersistenceAdapter
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.testing.messages import text_message

VECTOR = Path(__file__).parents[2] / "vectors" / "amq-store" / "clean"


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return Path(shutil.copytree(VECTOR, tmp_path / "amq"))


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
    assert (code, found["findings"], found["messages"]) == (0, [], 26)
    assert any("clean" in note for note in found["notes"])
    assert journal("diagnose", "--json", directory) == 0
    uses = {one["file"]: one for one in json.loads(capsys.readouterr().out)["uses"]}
    assert uses["data-1"]["holders"]["queue://Q.ONE"] == 16
    assert (uses["data-2"]["messages"], uses["data-4"]["acknowledges"]) == (0, ["data-1"])
    assert journal("dump", directory, "--command", "Prepare", "--json") == 0
    *_, prepared = map(json.loads, capsys.readouterr().out.splitlines())
    assert prepared["command"] == "Prepare"
    assert before == {path: path.read_bytes() for path in directory.rglob("*") if path.is_file()}


def test_a_damaged_one_gives_what_can_be_had(
    directory: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = directory / "journal" / "data-1"
    data = bytearray(path.read_bytes())
    data[172 + 26 : 172 + 29] = b"???"  # the first message of Q.ONE that was acknowledged
    data[533 + 100] ^= 0xFF
    path.write_bytes(data)
    code, found = checked(directory, capsys)
    assert code == 1
    assert {one["kind"] for one in found["findings"]} >= {"damage"}
    assert found["findings"][0]["place"].startswith("data-1:172-533")
    assert journal("repair", directory, tmp_path / "new") in (0, 1)
    capsys.readouterr()
    code, found = checked(tmp_path / "new", capsys)
    assert (code, found["findings"]) == (0, [])
    with AMQPersistenceAdapter(tmp_path / "new") as adapter:
        assert adapter.queue_message_store(Queue("Q.ONE")).message_count == 16
        assert len(adapter.transaction_store().prepared_transactions()) == 1


def test_where_a_broker_would_stop(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broker was killed and its file was not cut: when it replays it stops at the zeros."""
    with (directory / "journal" / "data-2").open("ab") as file:
        file.write(bytes(10_000))
    code, found = checked(directory, capsys)
    assert (code, found["messages"]) == (1, 26)
    (finding,) = found["findings"]
    assert finding["kind"] == "ends-early"
    assert finding["place"] == "data-2:65220"


def test_a_reference_store_that_was_deleted(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shutil.rmtree(directory / "kr-store" / "state")
    code, found = checked(directory, capsys)
    assert code == 1
    (finding,) = found["findings"]
    assert finding["kind"] == "no-reference-store"
    assert "forceRecoverReferenceStore" in finding["advice"]


def test_what_a_kill_leaves_is_no_damage(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with (directory / "journal" / "data-4").open("r+b") as file:
        file.truncate(34_600)
        file.truncate(524_288)
    code, found = checked(directory, capsys)
    assert (code, found["findings"]) == (0, [])
    assert any("cut off" in note for note in found["notes"])


def test_a_batch_with_a_hole_is_left_out_as_a_whole(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A power failure has kept both ends of a record, and not what is between them."""
    with AMQPersistenceAdapter(tmp_path, AMQOptions(virtual_topic_consumers="")) as adapter:
        store = adapter.queue_message_store(Queue("A"))
        for number in range(3):
            store.add_message(text_message(number, "x" * 2000)).result(30)
    path = tmp_path / "journal" / "data-1"
    data = bytearray(path.read_bytes())
    hole = data.index(b"x" * 2000) + 2500
    hole = data.index(b"x" * 500, hole)
    data[hole : hole + 400] = bytes(400)
    path.write_bytes(data)
    code, found = checked(tmp_path, capsys)
    assert (code, found["messages"]) == (1, 2)
    assert "wrong checksum" in found["findings"][0]["place"]
    assert journal("repair", tmp_path, tmp_path.with_name("new")) == 1
    assert "whose good records are read one by one" in capsys.readouterr().out
    with AMQPersistenceAdapter(tmp_path.with_name("new")) as adapter:
        texts = [one.text for one in adapter.queue_message_store(Queue("A")).recover() if isinstance(one, TextMessage)]
    assert [None if text is None else len(text) for text in texts] == [2000] * 3
    assert sum("\0" in (text or "") for text in texts) == 1


def test_kahadb_is_told_by_what_lies_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    vector = VECTOR.parents[1] / "kahadb"
    assert vector.is_dir()
    assert journal("check", tmp_path) == 2
    assert "KahaDB" in capsys.readouterr().err


def test_an_archive_is_shown(directory: Path, capsys: pytest.CaptureFixture[str]) -> None:
    archive = directory / "archive"
    archive.mkdir()
    (directory / "journal" / "data-2").rename(archive / "data-2")
    assert journal("dump", archive, "--command", "AddMessage", "--limit", "1") == 0
    assert capsys.readouterr().out.startswith("data-2:")
    assert checked(directory, capsys)[0] == 0  # files may be missing: a broker removes those that it does not need


@pytest.mark.parametrize("name", ["data-1", "data-4"])
@pytest.mark.parametrize("left_bytes", [None, 0, 20])
def test_a_file_that_is_gone_or_shorter_is_told(
    directory: Path, capsys: pytest.CaptureFixture[str], name: str, left_bytes: int | None
) -> None:
    """The reference store and the control file know that it was there: a migration does not pass over it."""
    path = directory / "journal" / name
    if left_bytes is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:left_bytes])
    code, found = checked(directory, capsys)
    assert code == 1
    assert any(name in finding["place"] for finding in found["findings"])
    with pytest.raises(StoreError, match=name):
        migrate(f"amq:{directory}", f"kahadb:{directory.parent / 'target'}", is_dry=True)
    skipped = migrate(f"amq:{directory}", f"kahadb:{directory.parent / 'target'}", skips_damage=True)
    assert any(name in damage for damage in skipped.damages)
