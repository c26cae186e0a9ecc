"""Bytes of a journal by their places, read from many threads."""

from __future__ import annotations

import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final, TypeVar

from jdbcstore.errors import JournalDamaged, StoreError
from jdbcstore.store.journal.file_errors import reading

__all__ = ["FileReader", "runs"]

#: Files that are kept open.
_FILES_MAX: Final = 64
#: What is read at once although it is not asked for, and how much is read at once, unless one record is larger.
_GAP_BYTES: Final = 1 << 10
_RUN_BYTES: Final = 1 << 20

PlaceT = TypeVar("PlaceT", bound=tuple[int, int, int])
WantedT = TypeVar("WantedT")


class _Opened:
    """An open file; closed when nobody reads it any more."""

    __slots__ = ("descriptor",)

    def __init__(self, path: Path) -> None:
        self.descriptor: Final = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def __del__(self) -> None:
        # Not opened: then there is nothing to close.
        if hasattr(self, "descriptor"):
            os.close(self.descriptor)


class FileReader:
    """Reads bytes of journal files, and keeps files open that were read lately.

    Args:
        directory: of the journal.
        file_name: the name of a file by its number.
    """

    def __init__(self, directory: Path, file_name: Callable[[int], str]) -> None:
        self._directory = directory
        self._file_name = file_name
        self._lock = threading.Lock()
        self._opened: OrderedDict[int, _Opened] = OrderedDict()
        self._files_max = _FILES_MAX

    def read(self, number: int, offset: int, size: int) -> bytes:
        """So many bytes of a file from this offset on, fewer if it ends.

        Raises:
            JournalDamaged: there is no such file.
            StoreError: the file cannot be read.
        """
        name = self._file_name(number)
        try:
            opened = self._file(number, name)
        except FileNotFoundError:
            raise JournalDamaged(f"{name}:{offset}: there is no such file in the journal") from None
        with reading(name):
            return os.pread(opened.descriptor, size, offset)

    def hold(self, numbers: Iterable[int]) -> None:
        """Open these files and keep them open: they may be removed meanwhile.

        Raises:
            JournalDamaged: there is no such file.
            StoreError: one cannot be opened.
        """
        listed = list(numbers)
        self._files_max = max(self._files_max, len(listed))
        for number in listed:
            self.read(number, 0, 0)

    def forget(self, number: int) -> None:
        """A file is gone."""
        with self._lock:
            self._opened.pop(number, None)

    def close(self) -> None:
        """Let go of all files."""
        with self._lock:
            self._opened.clear()

    def _file(self, number: int, name: str) -> _Opened:
        with self._lock:
            opened = self._opened.get(number)
            if opened is None:
                path = self._directory / name
                try:
                    opened = _Opened(path)
                except FileNotFoundError:
                    raise
                except OSError as error:
                    raise StoreError(f"cannot read {path.name}: {error.strerror or error}") from error
                self._opened[number] = opened
                if len(self._opened) > self._files_max:
                    self._opened.popitem(last=False)
            else:
                self._opened.move_to_end(number)
            return opened


def runs(places: Iterable[tuple[PlaceT, WantedT]]) -> Iterator[list[tuple[PlaceT, WantedT]]]:
    """Neighbours in the journal, and what stands between them is little: to be read at once.

    Args:
        places: file, offset and size of each, and what is wanted with it.
    """
    run: list[tuple[PlaceT, WantedT]] = []
    end = limit = 0
    for place in places:
        file, offset, size = place[0]
        if run and (file != run[0][0][0] or not end <= offset <= end + _GAP_BYTES or offset + size > limit):
            yield run
            run = []
        if not run:
            limit = offset + _RUN_BYTES
        run.append(place)
        end = offset + size
    if run:
        yield run
