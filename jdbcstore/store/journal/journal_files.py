"""Which files of a directory are a journal's, in the order of their numbers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from jdbcstore.errors import StoreError
from jdbcstore.store.journal.file_errors import reading

__all__ = ["journal_files"]


def journal_files(directory: Path, file_number: Callable[[str], int | None]) -> dict[int, Path]:
    """The files that are not empty, by their numbers, ascending.

    Args:
        directory: where they are.
        file_number: the number of a file by its name, None if it is none of the journal.

    Raises:
        StoreError: no such directory, or two files have one number.
    """
    found: dict[int, Path] = {}
    with reading(str(directory)):
        for path in directory.iterdir():
            number = file_number(path.name)
            if number is None or not path.is_file() or not path.stat().st_size:
                continue
            if number in found:
                raise StoreError(f"{path} and {found[number].name} have the same number: one of them is a copy")
            found[number] = path
    return dict(sorted(found.items()))
