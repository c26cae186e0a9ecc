"""The files of a journal on any file system that pyarrow knows: local, ``hdfs://``, ``s3://``, ``gs://``.

Spark's Python workers have no JVM, so Hadoop's file systems are not at hand there. pyarrow's need no more than the URI
and what their libraries find in the environment (credentials, region, Hadoop's configuration).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, cast

import pyarrow as pa
from pyarrow import fs

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.directory_kind import foreign_store, stores_in
from jdbcstore.store.journal.kahadb.journal import AnyJournal, file_number

__all__ = ["JournalDirectory", "RemoteFile"]

#: Names that Hadoop has for what others call so.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A journal file.

    Args:
        uri: of the directory. May hold a password, so it stands in no error.
        path: of the file, as its file system has it.
        number: the file's.
        size: in bytes, when the directory was listed.
    """

    uri: str
    path: str
    number: int
    size: int

    def __repr__(self) -> str:
        return f"RemoteFile({self.path!r})"

    @contextmanager
    def opened(self) -> Iterator[BinaryIO]:
        """The file, seekable.

        Raises:
            StoreError: it cannot be opened.
        """
        system, _ = _resolved(self.uri)
        with reading(self.path):
            source = system.open_input_file(self.path)
        with source:
            yield cast(BinaryIO, source)


class JournalDirectory(AnyJournal):
    """A directory with a journal, and perhaps a second one with the files that the broker archived.

    Args:
        uri: a path, or a URI of one of pyarrow's file systems.
        archive: the second one: absolute, a URI, or relative to the first. The two have no file number in common.

    Raises:
        ConfigurationError: there is no such file system.
        StoreError: it cannot be listed, or two files have one number.
    """

    files: dict[int, RemoteFile]

    def __init__(self, uri: str, archive: str | None = None) -> None:
        found = _listed(uri)
        if archive is not None:
            for number, file in _listed(archive if _is_absolute(archive) else f"{uri.rstrip('/')}/{archive}").items():
                if number in found:
                    raise StoreError(f"{file.path} and {found[number].path} have the same number: one is a copy")
                found[number] = file
        self.files = dict(sorted(found.items()))
        self.damages = []
        self.damages_unlisted = 0

    @contextmanager
    def opened(self, number: int) -> Iterator[BinaryIO]:
        with self.files[number].opened() as source:
            yield source


def _is_absolute(path: str) -> bool:
    return "://" in path or path.startswith(("/", "file:"))


def _resolved(uri: str) -> tuple[fs.FileSystem, str]:
    scheme, colon, rest = uri.partition(":")
    if not colon or os.path.exists(uri):
        return fs.LocalFileSystem(), os.path.abspath(uri)
    try:
        found: tuple[fs.FileSystem, str] = fs.FileSystem.from_uri(f"{_SCHEMES.get(scheme, scheme)}:{rest}")
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise ConfigurationError(
            f"no file system is known for {scheme}: — give a path or a URI with file, hdfs, s3 or gs"
        ) from None
    except OSError as error:  # such as no Hadoop where this runs
        raise StoreError(f"the file system for {scheme}: cannot be used: {error}") from error
    return found


def _listed(uri: str) -> dict[int, RemoteFile]:
    system, path = _resolved(uri)
    found: dict[int, RemoteFile] = {}
    names: list[str] = []
    stores: list[str] = []
    with reading(path):
        for file in system.get_file_info(fs.FileSelector(path)):
            names.append(file.base_name)
            number = file_number(file.base_name)
            if number is None or file.type != fs.FileType.File or not file.size:
                continue
            if number in found:
                raise StoreError(f"{file.path} and {found[number].path} have the same number: one is a copy")
            found[number] = RemoteFile(uri, file.path, number, file.size)
        if not found and isinstance(system, fs.LocalFileSystem):
            stores = stores_in(Path(path))
    foreign = foreign_store(names, stores)
    if foreign is not None:
        raise ConfigurationError(f"{uri} {foreign}")
    return found
