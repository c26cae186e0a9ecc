"""``jdbcstore kahadb``: what is said, and the exit code."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from rich.console import Console

from jdbcstore.cli import run
from jdbcstore.console.kahadb_picture import NOBODY, Picture, as_lines, as_rich, as_svg, draw
from jdbcstore.destination import Queue
from jdbcstore.store.journal.commands import AddMessage, RemoveMessage
from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis, Held, Holder, Pins
from jdbcstore.store.journal.kahadb.journal import Journal, Location
from jdbcstore.store.journal.state import StoredMessage, Tier
from tests.unit.kahadb.journals import unpack, unpack_index, write

Capture = pytest.CaptureFixture[str]


def kahadb(*arguments: object) -> int:
    return run(["kahadb", *map(str, arguments)])


# --- directories that are none ----------------------------------------------------------------------------------------


def made(folder: Path, *names: str) -> Path:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return folder


@pytest.mark.parametrize("command", ["check", "diagnose", "dump"])
@pytest.mark.parametrize(
    ("names", "said"),
    [
        ([], "is empty"),
        (["readme"], "is no KahaDB store: it holds no journal"),
        (["journal/data-1", "kr-store/data/x"], "looks like an AMQ store"),
        (["0000000000000000.log", "store-version.txt"], "looks like a LevelDB store"),
        (["db.data"], "holds an index, but no journal"),
        (
            ["queue#3a#2f#2fA/db-1.log", "#20/db-1.log"],
            "holds several stores (mKahaDB): use mkahadb:DIRECTORY, or give one of them: #20",
        ),
        (["kahadb/db-1.log"], "is no store; give one that it holds: kahadb"),
    ],
)
def test_what_is_no_kahadb_directory(
    command: str, names: list[str], said: str, tmp_path: Path, capsys: Capture
) -> None:
    assert kahadb(command, made(tmp_path, *names)) == 2
    out, error = capsys.readouterr()
    assert out == ""
    assert error.startswith(f"jdbcstore: {tmp_path} {said}")
    assert error.count("\n") == 1


def test_what_is_no_directory(tmp_path: Path, capsys: Capture) -> None:
    assert kahadb("check", tmp_path / "nowhere") == 2
    assert "does not exist" in capsys.readouterr().err
    (tmp_path / "file").write_bytes(b"")
    assert kahadb("check", tmp_path / "file") == 2
    assert "is no directory" in capsys.readouterr().err
    (tmp_path / "db-1.log").write_bytes(b"")
    assert kahadb("check", tmp_path) == 2
    assert "holds only empty journal files" in capsys.readouterr().err
    made(tmp_path, "db-1.log", "db-01.log")
    assert kahadb("check", tmp_path) == 2
    assert "have the same number" in capsys.readouterr().err


#: The user without rights, on every Linux.
NOBODYS_ID = 65534


@contextmanager
def without_privileges() -> Iterator[None]:
    """Nobody in particular, if we are root, who may read everything."""
    own = os.geteuid()
    if own == 0:
        os.seteuid(NOBODYS_ID)
    try:
        yield
    finally:
        os.seteuid(own)


def test_what_must_not_be_read(tmp_path: Path, capsys: Capture) -> None:
    assert kahadb("check", made(tmp_path, "db-1.log")) == 1
    (tmp_path / "db-1.log").chmod(0)
    with without_privileges():
        assert kahadb("check", tmp_path) == 2
    assert "Permission denied" in capsys.readouterr().err


# --- check ------------------------------------------------------------------------------------------------------------


def test_check(tmp_path: Path, capsys: Capture) -> None:
    unpack("basic", tmp_path)
    unpack_index("basic", tmp_path)
    assert kahadb("check", tmp_path) == 0
    assert capsys.readouterr().out == (
        f"{tmp_path}: 1 file, 26.1 KiB, 58 records, 35 live messages read\nno problem found\n"
    )
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    unpack("corrupt", tmp_path)
    (tmp_path / "db.data").unlink()
    assert kahadb("check", tmp_path) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[-3].startswith("db-1.log:91328: no batch begins here (1036 bytes). A broker delivers")
    assert lines[-1] == "2 problems found"
    assert kahadb("check", tmp_path, "--json", "--quick") == 1
    told = json.loads(capsys.readouterr().out)
    assert [finding["place"] for finding in told["findings"]] == ["db-1.log:91328", "db-2.log:51850"]
    assert (told["files"], told["running"], told["index"]) == (3, False, None)
    assert "db.data" in before


# --- diagnose ---------------------------------------------------------------------------------------------------------


def test_diagnose(tmp_path: Path, capsys: Capture) -> None:
    unpack("pinned", tmp_path)
    unpack_index("pinned", tmp_path)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    svg = tmp_path.parent / "pinned.svg"
    assert kahadb("diagnose", tmp_path, "--svg", svg) == 0
    out = capsys.readouterr().out
    assert "10 files, 1.2 MiB, of which 1.6 KiB are live messages; the next cleanup removes 0 files" in out
    assert "\x1b" not in out
    assert "A live, a kept for: queue://Q.PIN (its end frees 9 files, 1.1 MiB)" in out
    assert "db-2 to 9 (8)" in out
    drawn = ET.parse(svg).getroot()
    assert sum(group.tag.endswith("}g") for group in drawn) == 10
    assert kahadb("diagnose", tmp_path, "--all") == 0
    assert "acknowledgements for db-2.log" in " ".join(capsys.readouterr().out.split())
    assert kahadb("diagnose", tmp_path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    assert [file["heldFor"] for file in told["files"][:9]] == [["queue://Q.PIN"]] * 9
    assert told["files"][0]["destinations"][0]["firstMessageId"] == "ID:vm-44079-1795173588083-2:1:1:2:1"
    assert told["files"][0]["destinations"][0]["firstAgeSeconds"] > 0
    assert told["holders"][0]["frees"] == list(range(1, 10))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert kahadb("diagnose", tmp_path, "--svg", tmp_path / "nowhere" / "x.svg") == 2
    assert "cannot write" in capsys.readouterr().err


def test_diagnose_tells_transactions_and_subscriptions(tmp_path: Path, capsys: Capture) -> None:
    unpack("transactions", tmp_path)
    assert kahadb("diagnose", tmp_path) == 0
    words = " ".join(capsys.readouterr().out.split())
    assert "prepared transaction -4:672d70726570617265642dc3a9:6234" in words.replace("- ", "-")
    assert "subscription ctx:dtx of topic://T.TX" in words


def held(location: Location) -> Held:
    return Held(1, location.size, StoredMessage("1", 1, location, Tier.LOW))


def pinned(files: int, queues: int) -> tuple[Diagnosis, dict[Holder, str]]:
    """A journal where every second file holds a message of one of the queues, and the others nothing."""
    live = {
        number: {
            Queue(f"Q.{number % queues}<&>"): Held(1, 300, StoredMessage("1", 1, Location(number, 28, 300), Tier.LOW))
        }
        for number in range(1, files, 2)
    }
    diagnosis = Diagnosis.of(Pins({number: 1000 + number for number in range(1, files + 1)}, files, live))  # type: ignore[arg-type]
    return diagnosis, {holder: str(holder) for holder in diagnosis.holders}


def boxes(picture: Picture) -> list[tuple[float, float, float, float]]:
    """Rectangles of the bars."""
    groups = [one for one in ET.fromstring(as_svg(picture)) if one.tag.endswith("}g")]
    assert len(groups) == len(picture.bars)
    return [
        tuple(float(box.attrib[name]) for name in ("x", "y", "width", "height"))  # type: ignore[misc]
        for group in groups
        for box in group
        if box.tag.endswith("}rect")
    ]


@pytest.mark.parametrize("files", [1, 2, 29, 75, 500, 900, pytest.param(5000, marks=pytest.mark.exhaustive)])
def test_pictures_of_few_and_many_files(files: int) -> None:
    diagnosis, names = pinned(files, 3)
    picture = draw(diagnosis, "directory", "summary", names, 800)
    assert len(picture.bars) == files if files <= 800 else 400 < len(picture.bars) <= 800
    assert sum(bar.bytes for bar in picture.bars) == sum(file.bytes for file in diagnosis.files.values())
    found = boxes(picture)
    width, height = (float(ET.fromstring(as_svg(picture)).attrib[name]) for name in ("width", "height"))
    assert height < 3000
    for place, (x, y, wide, high) in enumerate(found):
        assert x >= 0
        assert x + wide <= width
        assert wide >= 2
        assert high >= 8
        # No two overlap.
        before = found[place - 1] if place else None
        assert before is None or before[1] != y or x >= before[0] + before[2] - 0.2
    text = draw(diagnosis, "directory", "summary", names, 40)
    assert len(text.bars) <= 40
    lines = as_lines(text)
    assert all(len(line) <= 100 for line in lines)
    assert all(line.isascii() for line in lines)


def test_more_holders_than_colours_share_one() -> None:
    diagnosis, names = pinned(60, 13)
    picture = draw(diagnosis, "d", "s", names, 100)
    assert len(picture.names) == 8
    lines = as_lines(picture)
    assert any(line.startswith("X live, x kept for: others") for line in lines)
    assert any(line.startswith(". the next cleanup removes it") for line in lines)
    assert NOBODY in picture.keys


def test_a_terminal_gets_colours() -> None:
    diagnosis, names = pinned(4, 1)
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, color_system="truecolor", width=80)
    for line in as_rich(draw(diagnosis, "d", "s", names, 40), 80):
        console.print(line)
    assert "\x1b[38;2;0;114;178m█" in out.getvalue()


# --- dump -------------------------------------------------------------------------------------------------------------


def test_dump(tmp_path: Path, capsys: Capture) -> None:
    unpack("transactions", tmp_path)
    assert kahadb("dump", tmp_path, "--json") == 0
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    records = list(Journal(tmp_path).records())
    assert [(one["offset"], one["command"]) for one in told] == [(at.offset, type(c).__name__) for at, c in records]
    assert all("body" not in one.get("message", {}) for one in told)
    assert kahadb("dump", tmp_path, "--destination", "queue://Q.SRC", "--command", "removemessage") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines
    assert all("RemoveMessage" in line and "destination=queue://Q.SRC" in line for line in lines)
    assert kahadb("dump", tmp_path, "--command", "AddMessage", "--limit", 1, "--bodies") == 0
    (line,) = capsys.readouterr().out.splitlines()
    assert "body='src-0:ahwmarnq" in line
    assert kahadb("dump", tmp_path, "--command", "Nonsense") == 2
    assert "there is no command Nonsense" in capsys.readouterr().err
    assert kahadb("dump", tmp_path, "--file", 2) == 2
    assert "has no file db-2.log" in capsys.readouterr().err


def test_dump_shows_damage_and_what_cannot_be_read(tmp_path: Path, capsys: Capture) -> None:
    queue = Queue("A")
    write(tmp_path, {1: [AddMessage(None, queue, "1", b"nonsense"), RemoveMessage(None, queue, "1")], 2: []})
    (tmp_path / "db-2.log").write_bytes(b"nonsense" * 9)
    assert kahadb("dump", tmp_path) == 0
    lines = capsys.readouterr().out.splitlines()
    assert "unreadable: " in lines[0]
    assert lines[2] == "db-2.log:0-72: no batch begins here (damage)"
    assert kahadb("dump", tmp_path, "--json", "--file", 2) == 0
    assert json.loads(capsys.readouterr().out)["damage"]["file"] == 2


def test_who_reads_a_dump_may_stop(tmp_path: Path) -> None:
    unpack("pinned", tmp_path)
    program = "import sys; from jdbcstore.cli import main; main()"
    with subprocess.Popen(
        [sys.executable, "-c", program, "kahadb", "dump", str(tmp_path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert b"Trace" in process.stdout.readline()
        process.stdout.close()
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_dump_of_a_scheduler(tmp_path: Path, capsys: Capture) -> None:
    unpack("scheduled", tmp_path)
    assert kahadb("dump", tmp_path / "scheduler", "--command", "AddScheduledJob") == 0
    assert len(capsys.readouterr().out.splitlines()) == 6
