"""What an `Appender` writes a `Journal` reads, also after a crash, wherever it came and whatever the disk kept."""

from __future__ import annotations

import errno
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from jdbcstore.destination import Queue
from jdbcstore.errors import (
    JournalDamaged,
    MessageTooLarge,
    StoreClosed,
    StoreError,
    StoreFull,
    StoreReadOnly,
    StoreUnavailable,
)
from jdbcstore.store.disk import Disk, DiskFile
from jdbcstore.store.journal.commands import AddMessage, Command, RemoveMessage, RewrittenDataFile, Trace
from jdbcstore.store.journal.kahadb.appender import Appender
from jdbcstore.store.journal.kahadb.encoding import encode
from jdbcstore.store.journal.kahadb.journal import Journal, Location
from jdbcstore.store.journal.kahadb.options import PREALLOCATION_SCOPES, PREALLOCATION_STRATEGIES, KahaDBOptions
from tests.examples import examples
from tests.threads import no_new_threads
from tests.unit.kahadb.journals import CONTROL_BYTES, END, batch, unpack
from tests.unit.kahadb.journals import write as write_journal

LIMIT = 1024
SMALL = KahaDBOptions(journal_max_file_length_bytes=LIMIT)


def traces(*texts: str) -> list[bytes]:
    return [encode(Trace(text)) for text in texts]


def read(directory: Path) -> list[tuple[Location, Command]]:
    """All records; nothing may be damaged."""
    journal = Journal(directory)
    records = list(journal.records())
    assert journal.damages == []
    return records


def texts(directory: Path) -> list[str | None]:
    return [command.message for _, command in read(directory) if isinstance(command, Trace)]


def opened(directory: Path, options: KahaDBOptions = SMALL, disk: Disk | None = None) -> Appender:
    appender = Appender(directory, options, disk=disk)
    appender.open()
    return appender


# --- what is written --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scope", PREALLOCATION_SCOPES)
@pytest.mark.parametrize("strategy", PREALLOCATION_STRATEGIES)
def test_what_was_written_is_read(scope: str, strategy: str, tmp_path: Path) -> None:
    options = KahaDBOptions(
        journal_max_file_length_bytes=LIMIT, preallocation_scope=scope, preallocation_strategy=strategy
    )
    chance = random.Random(1)
    written: list[tuple[Location, Command]] = []
    for _ in range(3):
        appender = opened(tmp_path, options)
        for number in range(40):
            commands = [
                AddMessage(None, Queue("A"), f"ID:{number}.{i}", chance.randbytes(chance.randrange(150)))
                for i in range(chance.randrange(1, 4))
            ]
            locations = appender.append([encode(command) for command in commands])
            written += zip(locations, commands, strict=True)
            assert appender.end == (locations[-1].file, locations[-1].offset + locations[-1].size)
            appender.sync()
        appender.close()
        assert read(tmp_path) == written
    sizes = [path.stat().st_size for path in Journal(tmp_path).files.values()]
    assert len(sizes) > 5
    if scope == "NONE":
        assert max(sizes) <= LIMIT
    else:
        assert set(sizes) == {LIMIT}
    if strategy != "SPARSE_FILE" and scope != "NONE":
        assert all(path.stat().st_blocks * 512 >= LIMIT for path in Journal(tmp_path).files.values())


def test_the_bytes_are_those_of_a_broker(tmp_path: Path) -> None:
    appender = opened(tmp_path, KahaDBOptions(preallocation_scope="NONE"))
    appender.append(traces("a", "b"))
    appender.append(traces("c"))
    appender.close()
    wanted = batch(Trace("a"), Trace("b")) + batch(Trace("c")) + END
    assert (tmp_path / "db-1.log").read_bytes() == wanted
    assert appender.last_batch is not None
    assert appender.last_batch.offset == len(batch(Trace("a"), Trace("b")))


def test_a_batch_begins_a_file_when_it_does_not_fit_with_its_end(tmp_path: Path) -> None:
    empty = len(encode(Trace("")))
    longer_lengths = 2  # of the text and of the command
    room = LIMIT - 2 * (CONTROL_BYTES + 5 + empty) - longer_lengths - len(END)
    fits, too_long = "x" * room, "x" * (room + 1)
    for folder, text, files in ((tmp_path / "a", fits, [1, 1]), (tmp_path / "b", too_long, [1, 2])):
        appender = opened(folder)
        locations = [appender.append([encode(Trace(""))])[0], appender.append([encode(Trace(text))])[0]]
        assert [location.file for location in locations] == files
        appender.close()
        assert texts(folder) == ["", text]
    assert len((tmp_path / "a" / "db-1.log").read_bytes()) == LIMIT


def test_a_record_that_fits_nowhere_gets_a_file_of_its_own(tmp_path: Path) -> None:
    appender = opened(tmp_path)
    files = [appender.append(traces("x" * size))[0].file for size in (10, 5000, 10, 10)]
    appender.close()
    assert files == [1, 2, 3, 3]
    assert (tmp_path / "db-2.log").stat().st_size > 5000
    assert [len(text or "") for text in texts(tmp_path)] == [10, 5000, 10, 10]


def test_a_batch_that_no_file_can_hold_is_refused(tmp_path: Path) -> None:
    class Vast(bytes):
        def __len__(self) -> int:
            return (1 << 31) - 1

    appender = opened(tmp_path)
    with pytest.raises(MessageTooLarge):
        appender.append([Vast()])
    appender.append(traces("a"))
    appender.close()
    assert texts(tmp_path) == ["a"]


def test_numbers_are_not_used_again(tmp_path: Path) -> None:
    write_journal(tmp_path, {3: [Trace("x" * 900)]})
    (tmp_path / "db-7.log").touch()
    appender = opened(tmp_path)
    assert appender.append(traces("y" * 900))[0].file == 8
    appender.close()


def test_no_file_is_continued_behind_copied_acknowledgements(tmp_path: Path) -> None:
    """A broker that rebuilds its index would leave out what stands there."""
    copies: list[Command] = [RewrittenDataFile(1, 1), RemoveMessage(None, Queue("A"), "ID:1")]
    write_journal(tmp_path, {1: [Trace("a")], 2: copies})
    with (tmp_path / "db-2.log").open("r+b") as file:  # what brokers do not check in a file that is not the last one
        file.seek(-len(END), 2)
        file.write(batch(Trace("torn"))[:-1])
    appender = opened(tmp_path)
    assert appender.append(traces("new"))[0].file == 3
    appender.close()
    assert texts(tmp_path) == ["a", "new"]


def test_unused_files_are_used(tmp_path: Path) -> None:
    write_journal(tmp_path, {1: [Trace("a")]})
    (tmp_path / "db-2.log").write_bytes(END + bytes(LIMIT - len(END)))
    appender = opened(tmp_path)
    assert appender.end[0] == 1
    assert [appender.append(traces("x" * 900))[0].file for _ in range(3)] == [1, 2, 3]
    appender.close()
    assert len(texts(tmp_path)) == 4


def test_the_next_file_is_made_ahead(tmp_path: Path) -> None:
    options = KahaDBOptions(journal_max_file_length_bytes=LIMIT, preallocation_scope="ENTIRE_JOURNAL_ASYNC")
    appender = opened(tmp_path, options)
    appender.append(traces("a"))
    appender.close()  # waits for it
    assert (tmp_path / "db-2.log").read_bytes().startswith(END)
    appender = opened(tmp_path, options)
    assert [appender.append(traces("x" * 900))[0].file for _ in range(3)] == [1, 2, 3]
    appender.close()
    assert sorted(Journal(tmp_path).files) == [1, 2, 3, 4]


def test_without_a_thread_the_next_file_is_made_when_it_is_needed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    options = KahaDBOptions(journal_max_file_length_bytes=LIMIT, preallocation_scope="ENTIRE_JOURNAL_ASYNC")
    with no_new_threads():
        appender = opened(tmp_path, options)
        assert [appender.append(traces("x" * 900))[0].file for _ in range(3)] == [1, 2, 3]
        appender.close()
    assert "could not be made ahead" in caplog.text
    assert len(texts(tmp_path)) == 3


def test_brokers_journals_are_continued(tmp_path: Path) -> None:
    for name in ("basic", "torn", "tornzero", "large", "periodic"):
        folder = tmp_path / name
        folder.mkdir()
        unpack(name, folder)
        before = list(Journal(folder).records())
        appender = opened(folder, KahaDBOptions())
        appender.append(traces("ours"))
        appender.close()
        records = read(folder)
        assert records[:-1] == before
        assert records[-1][1] == Trace("ours")


# --- after a crash ----------------------------------------------------------------------------------------------------


def batches_of(chance: random.Random, number: int, largest: int) -> list[list[bytes]]:
    return [
        traces(*(f"{i}.{j}." + "x" * chance.randrange(largest) for j in range(chance.randrange(1, 4))))
        for i in range(number)
    ]


def continued(directory: Path, data: bytes, whole: Sequence[tuple[int, list[bytes]]], options: KahaDBOptions) -> None:
    """A file that was cut: its whole batches stay, and new ones, short and long, come behind them."""
    (directory / "db-1.log").write_bytes(data)
    kept = [payload for end, payloads in whole if end <= len(data.rstrip(b"\x00")) for payload in payloads]
    appender = opened(directory, options)
    for new in (traces("new"), traces("n" * 70, "m")):
        appender.append(new)
        kept += new
        assert [encode(command) for _, command in read(directory)] == kept
    appender.close()


@pytest.mark.parametrize("step", [19, pytest.param(1, marks=pytest.mark.exhaustive)])
@pytest.mark.parametrize(("scope", "filled"), [("NONE", False), ("ENTIRE_JOURNAL", True)])
def test_a_journal_that_was_cut_anywhere_is_continued(scope: str, filled: bool, step: int, tmp_path: Path) -> None:
    options = KahaDBOptions(journal_max_file_length_bytes=4096, preallocation_scope=scope)
    whole, data = written(tmp_path / "whole", batches_of(random.Random(3), 6, 30), options)
    for cut in (*range(1, len(data), step), len(data)):
        folder = tmp_path / f"{cut}"
        folder.mkdir()
        rest = bytes(4096 - cut) if filled else b""
        continued(folder, data[:cut] + rest, whole, options)


@pytest.mark.exhaustive
def test_a_large_journal_that_was_cut_somewhere_is_continued(tmp_path: Path) -> None:
    chance = random.Random(4)
    options = KahaDBOptions()
    whole, data = written(tmp_path / "whole", batches_of(chance, 2000, 2000), options)
    assert len(data) > 2 << 20
    for cut in sorted(chance.randrange(len(data)) for _ in range(15)):
        folder = tmp_path / f"{cut}"
        folder.mkdir()
        continued(folder, data[:cut], whole, options)


def written(
    directory: Path, batches: list[list[bytes]], options: KahaDBOptions
) -> tuple[list[tuple[int, list[bytes]]], bytes]:
    """A journal of one file: where each batch ends, and the file without what is unused."""
    appender = opened(directory, options)
    whole = []
    for payloads in batches:
        appender.append(payloads)
        whole.append((appender.end[1], payloads))
    appender.close()
    return whole, (directory / "db-1.log").read_bytes()[: appender.end[1]]


def test_leftovers_of_a_batch_are_not_read_behind_a_later_one(tmp_path: Path) -> None:
    """Its beginning did not reach the disk, its end did; and there is a whole batch in it."""
    appender = opened(tmp_path)
    appender.append(traces("first"))
    offset = appender.end[1]
    appender.close()
    hidden = batch(Trace("never written"))
    with (tmp_path / "db-1.log").open("r+b") as file:
        file.seek(offset + 200)
        file.write(hidden)
    appender = opened(tmp_path)
    appender.append(traces("second"))
    end = appender.end[1]
    appender.close()
    with (tmp_path / "db-1.log").open("r+b") as file:  # another batch that is torn
        file.seek(end)
        file.write(batch(Trace("torn"))[:20])
    assert [command for _, command in Journal(tmp_path).records()] == [Trace("first"), Trace("second")]


def test_damage_in_the_middle_is_reported_and_nothing_behind_it_is_lost(tmp_path: Path) -> None:
    good, bad = batch(Trace("good")), batch(Trace("bad"), checksum=1)
    (tmp_path / "db-1.log").write_bytes(good + bad + good + END)
    appender = opened(tmp_path)
    assert [str(damage) for damage in appender.damages] == [
        f"db-1.log:{len(good)}-{len(good + bad)}: a batch with a wrong checksum"
    ]
    assert appender.end == (1, len(good + bad + good))
    appender.append(traces("new"))
    appender.close()
    assert [command for _, command in Journal(tmp_path).records()] == [Trace("good"), Trace("good"), Trace("new")]


def test_all_files_are_checked_if_asked_for(tmp_path: Path) -> None:
    (tmp_path / "db-1.log").write_bytes(batch(Trace("a")) + batch(Trace("bad"), checksum=1) + batch(Trace("b")) + END)
    (tmp_path / "db-2.log").write_bytes(batch(Trace("c")) + batch(Trace("torn"))[:-1])
    opened(tmp_path).close()
    checking = KahaDBOptions(check_for_corrupt_journal_files=True)
    with pytest.raises(JournalDamaged, match=r"1 damages in the journal, the first is db-1\.log:38-.* start"):
        opened(tmp_path, checking)
    tolerant = KahaDBOptions(check_for_corrupt_journal_files=True, ignore_missing_journal_files=True)
    appender = opened(tmp_path, tolerant)
    assert [damage.file for damage in appender.damages] == [1]
    appender.close()


# --- power failures ---------------------------------------------------------------------------------------------------

SECTOR = 512
Change: TypeAlias = Callable[[bytearray], None]


class WatchedFile(DiskFile):
    """Writes, and tells the disk."""

    def __init__(self, disk: WatchedDisk, path: Path, *, create: bool) -> None:
        super().__init__(path, create=create)
        self._disk = disk

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        super().write(data, offset)
        self._disk.change(self.path.name, [_stored(offset + i, data[i:j]) for i, j in _sectors(offset, len(data))])

    def truncate(self, size: int) -> None:
        super().truncate(size)
        self._disk.change(self.path.name, [lambda image: _resize(image, size)])

    def sync(self) -> None:
        super().sync()
        self._disk.synced(self.path.name)


def _sectors(offset: int, length: int) -> Iterator[tuple[int, int]]:
    start = 0
    while start < length:
        stop = min(length, start + SECTOR - (offset + start) % SECTOR)
        yield start, stop
        start = stop


def _stored(offset: int, data: bytes | bytearray | memoryview) -> Change:
    def change(image: bytearray) -> None:
        if len(image) < offset:
            _resize(image, offset)
        image[offset : offset + len(data)] = data

    return change


def _resize(image: bytearray, size: int) -> None:
    del image[size:]
    image.extend(bytes(size - len(image)))


@dataclass
class WatchedDisk(Disk):
    """Knows what a power failure leaves behind: what was forced to the disk, and of the rest any part.

    Sectors reach the disk one by one, names when the directory is forced, at the latest.
    """

    directory: Path  # type: ignore[misc]
    images: dict[str, bytearray] = field(default_factory=dict)
    pending: dict[str, list[Change]] = field(default_factory=dict)
    named: set[str] = field(default_factory=set)

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        if create:
            self.images[name], self.pending[name] = bytearray(), []
        return WatchedFile(self, self.directory / name, create=create)

    def change(self, name: str, changes: Sequence[Change]) -> None:
        self.pending[name] += changes

    def synced(self, name: str) -> None:
        for change in self.pending[name]:
            change(self.images[name])
        self.pending[name] = []

    def sync(self) -> None:
        super().sync()
        self.named.update(self.images)

    def fail(self, chance: random.Random, folder: Path) -> None:
        """The power fails; `folder` gets what is left."""
        for name, image in self.images.items():
            left = bytearray(image)
            share = chance.choice([0.0, 0.2, 0.5, 0.8, 1.0])
            for change in self.pending[name]:
                if chance.random() < share:
                    change(left)
            if name in self.named or chance.random() < 0.5:
                (folder / name).write_bytes(left)


@pytest.mark.parametrize("scope", PREALLOCATION_SCOPES[::2])
@settings(max_examples=examples(15), deadline=None)
@given(seed=st.integers(0, 1 << 32))
def test_no_synced_batch_is_lost_when_the_power_fails(
    scope: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    options = KahaDBOptions(journal_max_file_length_bytes=4096, preallocation_scope=scope)
    folder = tmp_path_factory.mktemp("before")
    disk = WatchedDisk(folder)
    appender = opened(folder, options, disk)
    synced: list[str] = []
    unsynced: list[list[str]] = []
    names = count()
    for _ in range(chance.randrange(25)):
        batch_texts = [f"{next(names)}." + "x" * chance.randrange(900) for _ in range(chance.randrange(1, 4))]
        file = appender.end[0]
        appender.append(traces(*batch_texts))
        if appender.end[0] != file:  # rotation forces the file before
            synced += [text for one in unsynced for text in one]
            unsynced = []
        unsynced.append(batch_texts)
        if chance.random() < 0.5:
            appender.sync()
            synced += [text for one in unsynced for text in one]
            unsynced = []
    appender.abandon()
    for _ in range(3):
        left = tmp_path_factory.mktemp("after")
        disk.fail(chance, left)
        appender = opened(left, options)
        appender.append(traces("new", "y" * chance.randrange(300)))
        appender.append(traces("newer"))
        appender.close()
        found = [command.message for _, command in Journal(left).records() if isinstance(command, Trace)]
        assert found[: len(synced)] == synced
        assert found[-3] == "new"
        assert found[-1] == "newer"
        rest = found[len(synced) : -3]
        # Batches that were not synced are there whole or not at all.
        assert rest == [text for one in unsynced if one[0] in rest for text in one]


# --- a disk that refuses ----------------------------------------------------------------------------------------------


class RefusingFile(DiskFile):
    """Takes so many bytes of writing; so often forces."""

    disk: RefusingDisk

    def write(self, data: bytes | bytearray | memoryview, offset: int) -> None:
        if len(data) > self.disk.bytes_left:
            super().write(data[: self.disk.bytes_left], offset)
            raise OSError(self.disk.error, "refused")
        super().write(data, offset)

    def truncate(self, size: int) -> None:
        if self.disk.refuses_truncation:
            raise OSError(errno.EIO, "refused")
        super().truncate(size)

    def sync(self) -> None:
        self.disk.syncs += 1
        if self.disk.refuses_sync:
            raise OSError(errno.EIO, "refused")
        super().sync()


class RefusingDisk(Disk):
    """A disk that is full, or broken, when a test says so."""

    bytes_left = 1 << 40
    error = errno.ENOSPC
    refuses_truncation = False
    refuses_sync = False
    syncs = 0

    def open(self, name: str, *, create: bool = False) -> DiskFile:
        file = RefusingFile(self.directory / name, create=create)
        file.disk = self
        return file


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (errno.ENOSPC, StoreFull),
        (errno.EDQUOT, StoreFull),
        (errno.EFBIG, StoreFull),
        (errno.EROFS, StoreReadOnly),
        (errno.EIO, StoreUnavailable),
    ],
)
@pytest.mark.parametrize("bytes_left", [0, 3, 40])
def test_a_write_that_is_refused_never_was(error: int, kind: type[StoreError], bytes_left: int, tmp_path: Path) -> None:
    disk = RefusingDisk(tmp_path)
    appender = opened(tmp_path, disk=disk)
    appender.append(traces("a"))
    before = (appender.end, appender.last_batch)
    disk.bytes_left, disk.error = bytes_left, error
    for _ in range(2):
        with pytest.raises(kind, match=r"cannot write db-1\.log: refused"):
            appender.append(traces("refused" * 20))
        assert (appender.end, appender.last_batch) == before
        assert texts(tmp_path) == ["a"]
    disk.bytes_left = 1 << 40
    appender.append(traces("b"))
    appender.close()
    assert texts(tmp_path) == ["a", "b"]
    assert (tmp_path / "db-1.log").stat().st_size == LIMIT


def test_a_file_that_cannot_be_made_does_not_end_the_one_before(tmp_path: Path) -> None:
    disk = RefusingDisk(tmp_path)
    appender = opened(tmp_path, disk=disk)
    appender.append(traces("x" * 800))
    disk.bytes_left = 0
    for _ in range(2):
        with pytest.raises(StoreFull):
            appender.append(traces("y" * 800))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["db-1.log"]
    disk.bytes_left = 1 << 40
    appender.append(traces("small"))
    assert appender.append(traces("z" * 800))[0].file == 2
    appender.close()
    assert [(text or "")[0] for text in texts(tmp_path)] == ["x", "s", "z"]


def test_what_could_not_be_undone_ends_the_writing(tmp_path: Path) -> None:
    disk = RefusingDisk(tmp_path)
    appender = opened(tmp_path, disk=disk)
    appender.append(traces("a"))
    disk.bytes_left, disk.refuses_truncation = 10, True
    with pytest.raises(StoreError, match="neither be done nor undone"):
        appender.append(traces("b"))
    disk.bytes_left, disk.refuses_truncation = 1 << 40, False
    with pytest.raises(StoreError, match="not written any more"):
        appender.append(traces("c"))
    appender.close()
    appender.open()
    appender.append(traces("d"))
    appender.close()
    assert texts(tmp_path) == ["a", "d"]


def test_after_a_failed_sync_nothing_is_written_and_nobody_asks_again(tmp_path: Path) -> None:
    disk = RefusingDisk(tmp_path)
    appender = opened(tmp_path, disk=disk)
    appender.append(traces("a"))
    disk.refuses_sync = True
    syncs = disk.syncs
    with pytest.raises(StoreError, match=r"db-1\.log could not be forced to the disk \(refused\)"):
        appender.sync()
    disk.refuses_sync = False
    for attempt in (appender.sync, appender.force, lambda: appender.append(traces("b"))):
        with pytest.raises(StoreError, match="not written any more until it is opened anew"):
            attempt()
    appender.close()
    assert disk.syncs == syncs + 1


def test_a_closed_journal_is_not_written(tmp_path: Path) -> None:
    appender = Appender(tmp_path)
    with pytest.raises(StoreClosed):
        appender.append(traces("a"))
    appender.open()
    appender.close()
    appender.close()
    with pytest.raises(StoreClosed):
        appender.append(traces("a"))


# --- when it is forced to the disk ------------------------------------------------------------------------------------


def test_sync_strategies(tmp_path: Path) -> None:
    now_ns = 10**9
    for strategy in ("ALWAYS", "PERIODIC", "NEVER"):
        options = KahaDBOptions(journal_disk_sync_strategy=strategy, journal_disk_sync_interval_ms=50)
        folder = tmp_path / strategy
        folder.mkdir()
        disk = RefusingDisk(folder)
        clock = [now_ns]
        appender = Appender(folder, options, disk=disk, clock=lambda clock=clock: clock[0])  # type: ignore[misc]
        appender.open()
        disk.syncs = 0
        seen = []
        for later_ms in (0, 30, 30, 30, 0):
            clock[0] += later_ms * 1_000_000
            appender.append(traces("a"))
            appender.sync()
            seen.append(disk.syncs)
        due = appender.sync_due_ns
        appender.force()
        appender.force()
        assert (strategy, seen, due, disk.syncs) in [
            ("ALWAYS", [1, 2, 3, 4, 5], None, 5),
            ("PERIODIC", [0, 0, 1, 1, 1], now_ns + 110_000_000, 2),
            ("NEVER", [0, 0, 0, 0, 0], None, 1),
        ]
        appender.close()


def test_what_tells_a_batch_from_another(tmp_path: Path) -> None:
    appender = opened(tmp_path)
    places = [appender.last_batch]
    for text in "ab":
        (location,) = appender.append(traces(text))
        places.append(appender.last_batch)
    first, _, last = places
    assert first is None
    assert last is not None
    assert (last.file, last.offset) == (location.file, location.offset - CONTROL_BYTES)
    appender.close()
    appender = opened(tmp_path)
    assert appender.last_batch == last
    appender.close()
