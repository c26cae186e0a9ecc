"""Files, batches and records: what is read, what is left out, and what is said about it."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path

import pytest

from jdbcstore.destination import Queue
from jdbcstore.errors import JournalDamaged, StoreError
from jdbcstore.store.journal.commands import AddMessage, Command, RemoveMessage, Trace
from jdbcstore.store.journal.kahadb.journal import Damage, Journal, JournalFile, KahaDBLocation, Location
from tests.unit.kahadb.journals import CONTROL_BYTES, END, batch, control, record, write

ONE, TWO, THREE = Trace("one"), Trace("two"), Trace("three")


def read(data: bytes, chunk_bytes: int = 1 << 20) -> tuple[list[Command], list[Damage]]:
    file = JournalFile(BytesIO(data), 1, chunk_bytes=chunk_bytes)
    return [command for _, command in file.records()], file.damages


def listed(damages: list[Damage]) -> list[tuple[int, int, str, bool]]:
    return [damage[1:] for damage in damages]


# --- what is right ----------------------------------------------------------------------------------------------------


def test_records_and_their_places() -> None:
    first, second = batch(ONE, TWO), batch(THREE)
    file = JournalFile(BytesIO(first + second + END), 7)
    size = len(record(ONE))
    assert list(file.records()) == [
        (Location(7, 28, size), ONE),
        (Location(7, 28 + size, size), TWO),
        (Location(7, len(first) + 28, len(record(THREE))), THREE),
    ]
    assert file.damages == []
    assert file.append_offset == len(first + second)


@pytest.mark.parametrize(
    "tail",
    [
        b"",
        END,
        END + b"what stood here before",
        bytes(1),
        bytes(5),
        bytes(4000),
        bytes(4000) + END,
        END[:3],
        control(b""),
        control(b"") + batch(TWO),
    ],
)
def test_ends(tail: bytes) -> None:
    assert read(batch(ONE) + tail) == ([ONE], [])


@pytest.mark.parametrize("data", [b"", END, bytes(5000), END + bytes(5000), bytes(5000) + END, END + bytes(90) + END])
def test_unused_files(data: bytes) -> None:
    assert read(data) == ([], [])


def test_no_checksum() -> None:
    assert read(batch(ONE, checksum=0) + batch(TWO)) == ([ONE, TWO], [])


@pytest.mark.parametrize("chunk_bytes", [1, 28, 29, 40, 64, 100, 1000])
def test_batches_across_the_pieces_that_are_read(chunk_bytes: int) -> None:
    commands = [Trace("x" * size) for size in (1, 5, 40, 63, 64, 65, 300)]
    data = b"".join(batch(command) for command in commands) + batch(*commands) + END
    assert read(data, chunk_bytes) == (commands * 2, [])


def test_a_record_larger_than_any_limit() -> None:
    large = Trace("x" * (5 << 20))
    assert read(batch(ONE) + batch(large) + batch(TWO) + END) == ([ONE, large, TWO], [])


# --- what is wrong ----------------------------------------------------------------------------------------------------


def test_a_wrong_checksum_costs_the_batch() -> None:
    first, bad, last = batch(ONE), batch(TWO, ONE, checksum=1), batch(THREE)
    commands, damages = read(first + bad + last + END)
    assert commands == [ONE, THREE]
    assert listed(damages) == [(len(first), len(first + bad), "a batch with a wrong checksum", False)]


def test_a_wrong_checksum_at_the_end() -> None:
    commands, damages = read(batch(ONE) + batch(TWO, checksum=1) + END)
    assert commands == [ONE]
    assert listed(damages) == [(len(batch(ONE)), len(batch(ONE) + batch(TWO)), "a batch with a wrong checksum", True)]


@pytest.mark.parametrize("chunk_bytes", [1, 64, 1000])
def test_a_destroyed_control_record(chunk_bytes: int) -> None:
    bad = b"\xff" * CONTROL_BYTES + batch(TWO)[CONTROL_BYTES:]
    commands, damages = read(batch(ONE) + bad + batch(THREE) + END, chunk_bytes)
    assert commands == [ONE, THREE]
    assert listed(damages) == [(len(batch(ONE)), len(batch(ONE) + bad), "no batch begins here", False)]


def test_a_hole_in_the_file() -> None:
    commands, damages = read(batch(ONE) + bytes(4096) + batch(THREE) + END, 100)
    assert commands == [ONE, THREE]
    assert listed(damages) == [(len(batch(ONE)), len(batch(ONE)) + 4096, "no batch begins here", False)]


def test_a_length_beyond_the_end() -> None:
    bad = batch(TWO)
    bad = bad[:16] + (1 << 30).to_bytes(4, "big") + bad[20:]
    data = batch(ONE) + bad + batch(THREE) + END
    commands, damages = read(data)
    assert commands == [ONE, THREE]
    remain = len(data) - len(batch(ONE)) - CONTROL_BYTES
    what = f"a batch of {1 << 30} bytes where {remain} remain"
    assert listed(damages) == [(len(batch(ONE)), len(batch(ONE) + bad), what, False)]


def test_a_journal_within_a_damaged_message_is_not_read() -> None:
    """A message may contain a journal. Damage around it must not bring its records to life."""
    inner = batch(Trace("never happened"))
    message = AddMessage(None, Queue("A"), "ID:1", inner + END)
    for start in (0, 5, 15):
        bad = bytearray(batch(message))
        bad[start] ^= 0xFF
        commands, damages = read(batch(ONE) + bytes(bad) + batch(THREE) + END)
        assert commands == [ONE, THREE]
        assert [damage[1:3] for damage in damages] == [(len(batch(ONE)), len(batch(ONE) + bad))]


def test_damage_side_by_side_is_one() -> None:
    bad = batch(TWO, checksum=1)
    commands, damages = read(bad * 3 + batch(ONE))
    assert commands == [ONE]
    assert listed(damages) == [(0, 3 * len(bad), "a batch with a wrong checksum", False)]


@pytest.mark.parametrize(
    ("bad", "what"),
    [
        (record(b"\x11\x00"), "a record that cannot be read: command 17 is unknown"),
        (record(b"\xff\x00"), "a record that cannot be read: command -1 is unknown"),
        (record(TWO, kind=2), "a record that cannot be read: a record of type 2"),
        (record(b"\x00\x02\x0a"), "a record that cannot be read (Trace): a command of 2 bytes in 1"),
        (record(b"\x00\x02\x0a\x05"), "a record that cannot be read (Trace): field 1 has 5 bytes where 0 remain"),
        (record(b"\x00\x01\x0b"), "a record that cannot be read (Trace): a field of wire type 3"),
        (record(b"\x00\x01\x80"), "a record that cannot be read (Trace): it ends within a field"),
        (record(b"\x00" + b"\x80" * 10), "a record that cannot be read (Trace): a number of more than ten bytes"),
        (
            record(b"\x04\x02\x0a\x00"),
            "a record that cannot be read (Commit): transaction: a transaction that",
        ),
        (
            record(b"\x06\x02\x0a\x00"),
            "a record that cannot be read (RemoveDestination): destination: a dest",
        ),
    ],
)
def test_a_record_that_cannot_be_read_costs_itself(bad: bytes, what: str) -> None:
    before, after = record(ONE), record(THREE)
    records = before + bad + after
    commands, damages = read(control(records) + records + END)
    assert commands == [ONE, THREE]
    (damage,) = damages
    assert (damage.offset, damage.end) == (CONTROL_BYTES + len(before), CONTROL_BYTES + len(before + bad))
    assert damage.what.startswith(what)


def test_a_record_that_ends_within_its_length() -> None:
    for end in (b"", END, bytes(50), b"\x80" * 50):
        bad = record(b"\x00\x80")
        commands, damages = read(control(record(ONE) + bad) + record(ONE) + bad + end)
        assert commands == [ONE]
        assert damages[0].what == "a record that cannot be read (Trace): it ends within its length"


@pytest.mark.parametrize("size", [0, 6, 1 << 20, (1 << 32) - 1])
def test_a_record_that_does_not_fit_costs_the_rest_of_its_batch(size: int) -> None:
    before = record(ONE)
    records = before + size.to_bytes(4, "big") + record(TWO)[4:] + record(THREE)
    commands, damages = read(control(records) + records + batch(TWO) + END)
    assert commands == [ONE, TWO]
    assert listed(damages) == [
        (
            CONTROL_BYTES + len(before),
            CONTROL_BYTES + len(records),
            "a record that does not fit into its batch",
            False,
        )
    ]


def test_endless_damage_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jdbcstore.store.journal.kahadb.journal.DAMAGES_MAX", 5)
    file = JournalFile(BytesIO((batch(ONE) + batch(TWO, checksum=1)) * 9 + END), 1)
    assert len(list(file.records())) == 9
    assert (len(file.damages), file.damages_unlisted) == (5, 4)


# --- cut at every byte ------------------------------------------------------------------------------------------------

STEPS: list[Command] = [
    AddMessage(None, Queue("A"), "ID:1", b"\x00\x00\x00\x01\x00", 9, True),
    RemoveMessage(None, Queue("A"), "ID:1", b"ack"),
    Trace(),
]
BATCHES = [batch(STEPS[0], STEPS[1]), batch(STEPS[2]), batch(*STEPS)]
WHOLE = b"".join(BATCHES) + END


@pytest.mark.parametrize("rest", [0, 1000])
def test_cut_at_every_byte(rest: int) -> None:
    """Nothing at all, or zeros where a disk lost what was written last: only whole batches are read."""
    ends = [sum(map(len, BATCHES[: i + 1])) for i in range(len(BATCHES))]
    contents = [STEPS[:2], STEPS[2:], STEPS]
    for cut in range(len(WHOLE) + 1):
        data = WHOLE[:cut] + bytes(rest)
        whole = sum(data[:end] == WHOLE[:end] for end in ends)
        start = ends[whole - 1] if whole else 0
        file = JournalFile(BytesIO(data), 1, chunk_bytes=64)
        assert [command for _, command in file.records()] == [c for content in contents[:whole] for c in content]
        assert file.append_offset == start
        is_torn = cut < len(WHOLE) and WHOLE[start:cut].strip(b"\0") != b""
        if rest and 16 <= cut - start < 20:
            is_torn = False  # a batch of length 0, which is an end
        if not rest and whole == len(ends):
            is_torn = False  # half an end record says nothing else than a whole one
        assert [(damage.offset, damage.at_the_end) for damage in file.damages] == [(start, True)] * is_torn, cut


# --- directories ------------------------------------------------------------------------------------------------------


def test_files_are_read_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    write(tmp_path, {10: [THREE], 9: [TWO], 1: [ONE]})
    (tmp_path / "db-5.log").touch()
    (tmp_path / "db-11.log").write_bytes(END + bytes(100))
    for name in (
        "db-x.log",
        "db-.log",
        "db-1.log.bak",
        "db-log.template",
        "db.data",
        "db-99999999999.log",
        "xdb-2.log",
    ):
        (tmp_path / name).write_bytes(b"nothing of ours")
    (tmp_path / "db-12.log").mkdir()
    journal = Journal(tmp_path)
    assert list(journal.files) == [1, 9, 10, 11]
    assert [(location.file, command) for location, command in journal.records()] == [(1, ONE), (9, TWO), (10, THREE)]
    assert journal.damages == []


def test_two_files_of_one_number(tmp_path: Path) -> None:
    write(tmp_path, {1: [ONE]})
    (tmp_path / "db-01.log").write_bytes(batch(ONE))
    with pytest.raises(StoreError, match="have the same number"):
        Journal(tmp_path)


def test_no_directory(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"cannot read .*nowhere: No such file or directory"):
        Journal(tmp_path / "nowhere")


def test_a_file_that_vanished(tmp_path: Path) -> None:
    journal = Journal(write(tmp_path, {1: [ONE]}))
    ((location, _),) = journal.records()
    (tmp_path / "db-1.log").unlink()
    with pytest.raises(StoreError, match=r"cannot read .*db-1.log"):
        list(journal.records())
    with pytest.raises(StoreError, match=r"cannot read .*db-1.log"):
        journal.read(location)


def test_reading_one_record(tmp_path: Path) -> None:
    journal = Journal(write(tmp_path, {1: [ONE, TWO], 3: [THREE]}))
    for location, command in journal.records():
        assert journal.read(location) == command
        with pytest.raises(JournalDamaged, match="no message, but a record of Trace"):
            journal.message(location)


@pytest.mark.parametrize(
    ("location", "what"),
    [
        (KahaDBLocation(2, 28, 12), "db-2.log:28: there is no such file"),
        (KahaDBLocation(1, 27, 12), "db-1.log:27: a record that"),
        (KahaDBLocation(1, 28, 13), "db-1.log:28: a record that does not fit"),
        (KahaDBLocation(1, 28, 100), "db-1.log:28: a record that does not fit"),
        (KahaDBLocation(1, 500, 12), "db-1.log:500: no record of 12 bytes"),
        (KahaDBLocation(1, 0, 28), "db-1.log:0: a record that cannot be read: a record of type 2"),
    ],
)
def test_no_record_at_this_place(location: Location, what: str, tmp_path: Path) -> None:
    journal = Journal(write(tmp_path, {1: [ONE]}))
    with pytest.raises(JournalDamaged, match=what):
        journal.read(location)
