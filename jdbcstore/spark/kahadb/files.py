"""The files of a journal on any file system that pyarrow knows: local, ``hdfs://``, ``s3://``, ``gs://``.

Spark's Python workers have no JVM, so Hadoop's file systems are not at hand there. pyarrow's need no more than the URI
and what their libraries find in the environment (credentials, region, Hadoop's configuration).
"""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO, Final, Protocol, cast
from urllib.parse import quote, urlsplit

import pyarrow as pa
from pyarrow import fs

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.store.journal.amq.adapter import is_amq_store
from jdbcstore.store.journal.amq.journal import AMQLocation, rolled_back
from jdbcstore.store.journal.amq.journal import JournalFile as AMQJournalFile
from jdbcstore.store.journal.amq.journal import file_number as amq_file_number
from jdbcstore.store.journal.amq.store_journal import JOURNAL, StoreJournal
from jdbcstore.store.journal.commands import Command
from jdbcstore.store.journal.file_errors import reading
from jdbcstore.store.journal.kahadb.branches import correct_branches
from jdbcstore.store.journal.kahadb.directory_kind import INDEX_ALONE, foreign_store, is_index_alone, stores_in
from jdbcstore.store.journal.kahadb.journal import JournalFile, KahaDBLocation, file_number
from jdbcstore.store.journal.mkahadb.filters import NO_STORES, TX_STORE
from jdbcstore.store.journal.records import CHUNK_BYTES, AnyJournal, Location, Record
from jdbcstore.store.journal.replay import Replay

__all__ = ["JournalDirectory", "MessageFile", "RemoteFile", "archives_of", "beside", "local_path", "stores_within"]

#: Names that Hadoop has for what others call so.
_SCHEMES: Final = {"s3a": "s3", "s3n": "s3"}
_ALL_OF_SPARK: Final = "the driver's host and every executor have"
#: Read at once where messages stand; neighbours need one read then.
_MESSAGES_CHUNK_BYTES: Final = 1 << 20


class MessageFile(Protocol):
    """An open file whose messages are read."""

    @property
    def number(self) -> int:
        """Of the file."""

    def read(self, location: Location) -> Command:
        """A record of it. Raises `JournalDamaged`, `StoreError`."""


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A journal file.

    Args:
        uri: of the directory. May hold a password, so it stands in no error.
        path: of the file, as its file system has it.
        number: the file's.
        size: in bytes, when the directory was listed.
        is_amq: whether it is one of an AMQ store.
    """

    uri: str
    path: str
    number: int
    size: int
    is_amq: bool = False

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

    def read(
        self, source: BinaryIO, *, start: int = 0, stop: int | None = None, chunk_bytes: int = CHUNK_BYTES
    ) -> JournalFile | AMQJournalFile:
        """The open file, or a part of it, as its format has it."""
        if self.is_amq:
            return AMQJournalFile(source, self.number, chunk_bytes=chunk_bytes)
        return JournalFile(source, self.number, start=start, stop=stop, chunk_bytes=chunk_bytes)

    def messages(self, source: BinaryIO) -> MessageFile:
        """The open file, to read messages at their places."""
        return self.read(source, chunk_bytes=_MESSAGES_CHUNK_BYTES)

    def starts(self, source: BinaryIO, split_bytes: int) -> list[int]:
        """Where it may be cut; an AMQ store's is not."""
        return [0] if self.is_amq else JournalFile(source, self.number).starts(split_bytes)

    def location(self, offset: int, size: int) -> Location:
        """Where a record of it stands."""
        return (AMQLocation if self.is_amq else KahaDBLocation)(self.number, offset, size)


class JournalDirectory(AnyJournal):
    """A directory with a journal of KahaDB or of an AMQ store, and perhaps a second one with the files that the broker
    archived.

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
            for number, file in _listed(beside(uri, archive)).items():
                if number in found:
                    raise StoreError(f"{file.path} and {found[number].path} have the same number: one is a copy")
                found[number] = file
        self.files = dict(sorted(found.items()))
        self.damages = []
        self.damages_unlisted = 0
        self.is_amq = any(file.is_amq for file in self.files.values())
        self._local = local_path(uri)
        self._store = _local_store(self._local) if self.is_amq else None

    def file(
        self, source: BinaryIO, number: int, *, chunk_bytes: int = CHUNK_BYTES, start: int = 0
    ) -> JournalFile | AMQJournalFile:
        return self.files[number].read(source, start=start, chunk_bytes=chunk_bytes)

    def records(self, *, chunk_bytes: int = CHUNK_BYTES) -> Iterator[Record]:
        found = super().records(chunk_bytes=chunk_bytes)
        if self._store is not None:
            yield from self._store.subscriptions()
        yield from rolled_back(found) if self.is_amq else found
        if self._store is not None:
            self.damages += self._store.lost()

    def correct(self, progress: Replay) -> None:
        """Apply what a reference store or an index beside the journal knows better; only a local one is read."""
        if self._store is not None:
            self._store.correct(progress)
        elif self._local is not None:
            correct_branches(progress, self, self._local)

    @contextmanager
    def opened(self, number: int) -> Iterator[BinaryIO]:
        with self.files[number].opened() as source:
            yield source


def local_path(uri: str) -> Path | None:
    """Where a directory is on this machine; None if it is elsewhere. Raises `ConfigurationError`, `StoreError`."""
    system, path = _resolved(uri)
    return Path(path) if isinstance(system, fs.LocalFileSystem) else None


def stores_within(uri: str) -> tuple[list[str], str | None]:
    """The KahaDB stores in a directory that has no journal itself (mKahaDB), in the order of their names, and the
    outcomes of transactions over several of them (``txStore``).

    Raises:
        ConfigurationError: there is no such file system, or one of them has lost its journal.
        StoreError: it cannot be listed.
    """
    system, path = _resolved(uri)
    with reading(path):
        found = system.get_file_info(fs.FileSelector(path))
        if any(file_number(file.base_name) is not None for file in found):
            return [], None
        folders = {file.base_name: file.path for file in found if file.type == fs.FileType.Directory}
        listed = {name: _names_in(system, folder) for name, folder in folders.items() if name not in NO_STORES}
    stores = [name for name, names in listed.items() if any(file_number(one) is not None for one in names)]
    if TX_STORE not in folders and not any("#" in name for name in stores):
        return [], None
    for name, names in listed.items():
        if is_index_alone(names):
            raise ConfigurationError(
                f"{name} in {path} {INDEX_ALONE}. Restore its journal, or move {name} elsewhere and read the rest"
            )
    return [_within(uri, name) for name in sorted(stores)], _within(uri, TX_STORE) if TX_STORE in folders else None


def archives_of(stores: Sequence[str], archive: str) -> list[str | None]:
    """Where each of several stores has archived its files, None if it has archived none: ``archive`` in it if that is
    relative, else what is called there as the store.

    Raises:
        ConfigurationError: there is no such file system, or none of them has an archive there.
    """
    found: list[str | None] = []
    for uri in stores:
        place = beside(uri, archive)
        if place == archive:
            place = _within(archive, posixpath.basename(_resolved(uri)[1]))
        system, path = _resolved(place)
        found.append(place if system.get_file_info(path).type == fs.FileType.Directory else None)
    if not any(found):
        raise ConfigurationError(
            f"none of the {len(found)} stores has an archive in directoryArchive: give what each of them has in it"
            " (data-archive), or a directory with a folder for each store, called as the store"
        )
    return found


def _names_in(system: fs.FileSystem, folder: str) -> set[str]:
    return {file.base_name for file in system.get_file_info(fs.FileSelector(folder))}


def _local_store(folder: Path | None) -> StoreJournal | None:
    if folder is None:
        return None
    directory = folder if (folder / JOURNAL).is_dir() else folder.parent
    return StoreJournal(directory) if is_amq_store(directory) else None


def beside(uri: str, path: str) -> str:
    """A directory that belongs to another one.

    Args:
        uri: of the other one.
        path: absolute, a URI, or relative to the other one.
    """
    return path if "://" in path or path.startswith(("/", "file:")) else _within(uri, path)


def _within(uri: str, name: str) -> str:
    """What stands in a directory; a URI keeps its parameters."""
    if not _is_uri(uri):
        return f"{uri.rstrip('/')}/{name}"
    parts = urlsplit(uri.replace("#", "%23"))
    return parts._replace(path=posixpath.normpath(f"{parts.path}/{quote(name)}")).geturl()


def _is_uri(path: str) -> bool:
    return ":" in path and not os.path.exists(path)


def _resolved(uri: str) -> tuple[fs.FileSystem, str]:
    if not _is_uri(uri):
        return fs.LocalFileSystem(), os.path.abspath(uri)
    scheme, _, rest = uri.partition(":")
    rest = rest.replace("#", "%23")  # no file system has fragments, and ActiveMQ has it in names of directories
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
    amq: str | None = None
    with reading(path):
        for file in system.get_file_info(fs.FileSelector(path)):
            names.append(file.base_name)
            if file.base_name == JOURNAL and file.type == fs.FileType.Directory:
                amq = _within(uri, JOURNAL)
            number = amq_file_number(file.base_name)
            is_amq = number is not None
            if number is None:
                number = file_number(file.base_name)
            if number is None or file.type != fs.FileType.File or not file.size:
                continue
            if number in found:
                raise StoreError(f"{file.path} and {found[number].path} have the same number: one is a copy")
            found[number] = RemoteFile(uri, file.path, number, file.size, is_amq)
        is_local = isinstance(system, fs.LocalFileSystem)
        if not found and is_local:
            stores = stores_in(Path(path))
    if not found and amq is not None:
        return _listed(amq)
    if found and all(one.is_amq for one in found.values()):
        return found
    if is_index_alone(names):
        raise ConfigurationError(f"{path} {INDEX_ALONE}. Restore the journal from a backup")
    foreign = foreign_store(names, stores)
    if foreign is not None:
        elsewhere = "" if is_local else f". Spark reads it once it is copied to a local path that {_ALL_OF_SPARK}"
        raise ConfigurationError(f"{path} {foreign.rstrip('.')}{elsewhere}")
    return found
