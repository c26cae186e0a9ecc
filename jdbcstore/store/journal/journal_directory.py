"""Files of a journal that nobody needs any more: how it is told, and how they go.

What a file is needed for is the format's: messages that stand in it, transactions that span it, what it removes from
other files. Here that is numbers of files.

The lowest number goes first, so that no acknowledgement goes before its message. That they go in this order after a
power failure, too, needs the directory to be forced in between.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterable, Mapping
from collections.abc import Set as AbstractSet
from pathlib import Path
from typing import Final

from jdbcstore.errors import StoreError
from jdbcstore.store.disk import force_directory, make_directory, move, remove

__all__ = ["JournalDirectory", "candidates", "unneeded"]

log = logging.getLogger(__name__)


def candidates(files: Iterable[int], end: int, live: AbstractSet[int], spans: Iterable[tuple[int, int]]) -> set[int]:
    """Files that nobody needs for what stands in them alone.

    Args:
        files: all numbers.
        end: the file that is written.
        live: files with live messages.
        spans: of each transaction in doubt the first and the last file.
    """
    left = {file for file in files if file < end} - live
    for first, last in spans:
        left = {file for file in left if not first <= file <= last}
    return left


def unneeded(left: AbstractSet[int], files: Iterable[int], needs: Mapping[int, AbstractSet[int]]) -> set[int]:
    """Those of them that no file which stays makes stay, over any number of others.

    Args:
        left: the files in question.
        files: all numbers.
        needs: which file has to stay as long as one of others does.
    """
    gone, there = set(left), set(files)
    while True:
        kept = there - gone
        needed = {file for file in gone if not kept.isdisjoint(needs.get(file, ()))}
        if not needed:
            return gone
        gone -= needed


class JournalDirectory:
    """The files of a journal as far as they come and go.

    Args:
        directory: where they are.
        file_name: the name of a file by its number.
        file_number: the number of a file by its name, None if it is none of the journal.
        archive: where files go that are not needed; None removes them.
    """

    def __init__(
        self,
        directory: Path,
        file_name: Callable[[int], str],
        file_number: Callable[[str], int | None],
        archive: Path | None,
    ) -> None:
        self._directory: Final = directory
        self._file_name = file_name
        self._file_number = file_number
        self._archive = archive

    def numbers(self) -> list[int]:
        """The journal files that there are, ascending.

        Raises:
            StoreError: the directory cannot be read.
        """
        try:
            names = os.listdir(self._directory)
        except OSError as error:
            raise StoreError(f"cannot read {self._directory}: {error.strerror or error}") from error
        return sorted(number for name in names if (number := self._file_number(name)) is not None)

    def remove(
        self, gone: Iterable[int], needs: Mapping[int, AbstractSet[int]], forget: Callable[[int], object]
    ) -> list[int]:
        """Remove files, the lowest number first. Those that need each other are not left to the disk's own order.

        Args:
            gone: their numbers, ascending.
            needs: of each the files that may not be there any more when it goes.
            forget: told the number of a file before it goes.

        Returns:
            Those that are gone; the first that could not be removed ends it, which is logged.
        """
        removed: list[int] = []
        unforced: set[int] = set()
        try:
            for number in gone:
                if not unforced.isdisjoint(needs[number]):
                    force_directory(self._directory)
                    unforced.clear()
                if not self._removed(number, forget):
                    break
                unforced.add(number)
                removed.append(number)
            if unforced:
                force_directory(self._directory)
        except OSError as error:  # the next cleanup goes on
            log.warning("cannot force %s to the disk error=%r", self._directory, str(error))
        return removed

    def _removed(self, number: int, forget: Callable[[int], object]) -> bool:
        directory, name = self._directory, self._file_name(number)
        forget(number)
        try:
            if self._archive is not None:
                make_directory(self._archive)
                _move(directory / name, self._archive / name)
            else:
                remove(directory / name)
        except OSError as error:  # the next cleanup finds it again
            log.warning("cannot remove %s error=%r", directory / name, str(error))
            return False
        return True


def _move(path: Path, target: Path) -> None:
    if target.exists():  # of another life of this directory
        target = target.with_name(f"{target.name}.{path.stat().st_mtime_ns}")
    move(path, target)
