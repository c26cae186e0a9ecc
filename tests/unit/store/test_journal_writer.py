"""The engine of journals carries a format that is as different from KahaDB's as LevelDB's log: it is written from
`JournalFormat` alone. Files are named by the position of their first byte, a batch is records and one that closes them,
nothing stands behind the last one."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

import pytest

from jdbcstore.errors import JournalDamaged, MessageTooLarge
from jdbcstore.store.journal.journal_files import journal_files
from jdbcstore.store.journal.journal_format import BatchPlace, FramedBatch, Tail
from jdbcstore.store.journal.journal_writer import JournalWriter

_RECORD: Final = struct.Struct(">cII")
_CLOSED: Final = struct.Struct(">cq")
_FILE_BYTES_MAX: Final = 4096


@dataclass(frozen=True)
class Options:
    journal_max_file_length_bytes: int = 200
    journal_disk_sync_strategy: str = "ALWAYS"
    journal_disk_sync_interval_ms: int = 1000
    preallocation_scope: str = "NONE"
    preallocation_strategy: str = "SPARSE_FILE"
    check_for_corrupt_journal_files: bool = False
    ignore_missing_journal_files: bool = False


class Torn(NamedTuple):
    file: int
    offset: int
    at_the_end: bool

    def __str__(self) -> str:
        return f"{self.file:016x}.log:{self.offset}: no unit of work"


class PositionFormat:
    """Records ``*``, checksum, length, data; a unit of work ends with ``.`` and where in the file it began."""

    file_pattern: Final = "*.log"
    number_max: Final = (1 << 63) - 1
    file_bytes_max: Final = _FILE_BYTES_MAX
    end_mark: Final = b""
    ends_with_data: Final = False
    uses_blank_files: Final = True
    file_head: Final = b""

    def file_name(self, number: int) -> str:
        return f"{number:016x}.log"

    def file_number(self, name: str) -> int | None:
        return int(name[:16], 16) if name.endswith(".log") else None

    def next_number(self, highest: int, number: int, end: int) -> int:
        return number + end

    def batch_size(self, payloads: Sequence[bytes]) -> int:
        return sum(_RECORD.size + len(payload) for payload in payloads) + _CLOSED.size

    def batch(self, payloads: Sequence[bytes], size: int, number: int, offset: int) -> FramedBatch[int]:
        data, places = bytearray(), []
        for payload in payloads:
            places.append(number + offset + len(data))
            data += _RECORD.pack(b"*", zlib.crc32(payload), len(payload)) + payload
        data += _CLOSED.pack(b".", offset)
        assert len(data) == size
        return FramedBatch(data, places, zlib.crc32(data))

    def tail(self, source: BinaryIO, number: int) -> Tail:
        data = source.read()
        last, end = None, 0
        for start, stop, _ in units(data, 0):
            last, end = BatchPlace(number, start, zlib.crc32(data[start:stop])), stop
        rest = data[end:].strip(b"\x00")
        flaws = (Torn(number, end, at_the_end=True),) if rest else ()
        return Tail(end, last, flaws, not rest, is_closed=False)

    def end_from(self, source: BinaryIO, number: int, start: int) -> int:
        return max((stop for _, stop, _ in units(source.read(), start)), default=start)


def units(data: bytes, o: int) -> Iterator[tuple[int, int, list[bytes]]]:
    """Whole units of work: where each begins and ends, and its records."""
    start, payloads = o, list[bytes]()
    while o < len(data):
        if data[o : o + 1] == b"*" and o + _RECORD.size <= len(data):
            _, checksum, length = _RECORD.unpack_from(data, o)
            payload = data[o + _RECORD.size : o + _RECORD.size + length]
            if len(payload) != length or zlib.crc32(payload) != checksum:
                return
            payloads.append(payload)
            o += _RECORD.size + length
        elif data[o : o + _CLOSED.size] == _CLOSED.pack(b".", start):
            o += _CLOSED.size
            yield start, o, payloads
            start, payloads = o, []
        else:
            return


def opened(directory: Path, options: Options | None = None) -> JournalWriter[int]:
    writer = JournalWriter(directory, PositionFormat(), options or Options())
    writer.open()
    return writer


def records(directory: Path) -> list[bytes]:
    files = journal_files(directory, PositionFormat().file_number)
    return [one for path in files.values() for _, _, payloads in units(path.read_bytes(), 0) for one in payloads]


def test_files_are_named_as_the_format_says(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    places = [writer.append([b"x" * 60, b"y"]) for _ in range(4)]
    writer.sync()
    assert writer.end[0] > 0
    writer.close()
    assert records(tmp_path) == [b"x" * 60, b"y"] * 4
    log = b"".join(path.read_bytes() for path in sorted(tmp_path.glob("*.log")))
    assert [log[one : one + 1] for group in places for one in group] == [b"*"] * 8
    assert len(list(tmp_path.glob("*.log"))) == 2


def test_what_does_not_fit_into_a_file_of_the_format_is_refused(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    with pytest.raises(MessageTooLarge, match=rf"{_FILE_BYTES_MAX} fit into a journal file"):
        writer.append([bytes(_FILE_BYTES_MAX)])
    writer.append([b"a"])
    writer.close()
    assert records(tmp_path) == [b"a"]


@pytest.mark.parametrize("rest", [b"", b"\x00" * 50], ids=["ends", "zeros"])
def test_a_file_that_was_cut_anywhere_is_continued(rest: bytes, tmp_path: Path) -> None:
    one = tmp_path / "one"
    writer = opened(one)
    whole = {0: list[bytes]()}
    for payloads in ([b"a", b"bb"], [b"ccc"], [b"d" * 20, b"e"]):
        writer.append(payloads)
        whole[writer.end[1]] = [*whole[max(whole)], *payloads]
    writer.close()
    name = f"{0:016x}.log"
    written = (one / name).read_bytes()
    for size in range(len(written) + 1):
        directory = tmp_path / str(size)
        directory.mkdir()
        left = written[:size] + rest
        (directory / name).write_bytes(left)
        # What is there is forced anew, which is not the subject of each of these, and takes time.
        strategy = "NEVER" if size % 10 else "ALWAYS"
        writer = opened(directory, Options(journal_disk_sync_strategy=strategy))
        end = max(end for end in whole if left.startswith(written[:end]))  # zeros may be what was cut
        assert writer.end == (0, end)
        writer.append([b"new"])
        writer.close()
        assert records(directory) == [*whole[end], b"new"]


def test_damage_in_an_earlier_file_is_refused_where_all_files_are_checked(tmp_path: Path) -> None:
    writer = opened(tmp_path)
    for _ in range(4):
        writer.append([b"x" * 60])
    writer.close()
    first = tmp_path / f"{0:016x}.log"
    first.write_bytes(b"?" + first.read_bytes()[1:])
    opened(tmp_path).close()
    checks = Options(check_for_corrupt_journal_files=True)
    with pytest.raises(JournalDamaged, match=r"1 damages .* 0000000000000000\.log:0: no unit of work"):
        opened(tmp_path, checks)
    tolerant = opened(tmp_path, replace(checks, ignore_missing_journal_files=True))
    assert [flaw.offset for flaw in tolerant.damages] == [0]
    tolerant.close()


def test_an_empty_file_that_was_begun_is_the_next_one(tmp_path: Path) -> None:
    """A kill may leave a file that was made and never written; a position is no counter that could go on behind it."""
    writer = opened(tmp_path)
    writer.append([b"x" * 150])
    _, end = writer.end
    writer.close()
    (tmp_path / PositionFormat().file_name(end)).touch()
    writer = opened(tmp_path)
    assert writer.append([b"y" * 100]) == [end]
    writer.close()
    assert records(tmp_path) == [b"x" * 150, b"y" * 100]
