"""Folders wherever Spark has them: local, HDFS, S3 and what else Hadoop's file systems know.

What Hadoop writes to a local folder it does not force to the disk: a power failure may take it, after it was said to be
complete. So that is done here. (Others see to it themselves; what they promise is theirs.)
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from jdbcstore.errors import StoreError
from jdbcstore.pipeline.errors import our_words
from jdbcstore.store.disk import force_directory, force_file, force_tree, make_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["File", "Folder"]


@contextmanager
def _disk_errors(folder: Folder) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise StoreError(f"{folder} cannot be forced to the disk: {error.strerror or error}") from error


class File(NamedTuple):
    """A file in a folder.

    Args:
        path: below the folder, with slashes.
        size: in bytes.
        changed_ms: when; epoch milliseconds.
    """

    path: str
    size: int
    changed_ms: int


class Folder:
    """A folder, which need not be there yet.

    Args:
        spark: whose file systems.
        path: a path or a URI.

    Raises:
        StoreError: there is no such file system.
    """

    def __init__(self, spark: SparkSession, path: str) -> None:
        self._mode = 0o700
        self._hadoop: Any = spark.sparkContext._jvm.org.apache.hadoop  # type: ignore[union-attr]  # there, without Connect
        with our_words():
            own = self._hadoop.fs.Path(path)
            self._system = own.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
            self._path = self._system.makeQualified(own)

    def __str__(self) -> str:
        return str(self._path.toString())

    def of(self, path: str) -> str:
        """The whole path of something in the folder, as Spark takes it."""
        return str(self._at(path).toString())

    def files(self, below: str = "") -> list[File]:
        """All files in the folder, or in one of its folders, however deep; none if it is not there."""
        with our_words():
            start = self._at(below)
            if not self._system.exists(start):
                return []
            # Both as raw texts: a space must not become %20 in one of them.
            root = len(self._path.toUri().getPath()) + 1
            found = []
            listed = self._system.listFiles(start, True)
            while listed.hasNext():
                status = listed.next()
                path = str(status.getPath().toUri().getPath())[root:]
                found.append(File(path, int(status.getLen()), int(status.getModificationTime())))
        return sorted(found)

    @property
    def _local(self) -> Path | None:
        """The folder on this machine; None if it is elsewhere."""
        uri = self._path.toUri()
        return Path(str(uri.getPath())) if uri.getScheme() == "file" else None

    def make(self, below: str) -> None:
        """Make the folder, if it is local and not there.

        Args:
            below: a folder in it. Who may read that may read what is written from now on; nobody else while it is not
                there.
        """
        if self._local is not None:
            with _disk_errors(self):
                make_directory(self._local)
                if (self._local / below).is_dir():
                    self._mode = stat.S_IMODE((self._local / below).stat().st_mode)

    def force(self, below: str) -> None:
        """Return when a folder in this one survives a power failure, with all that is in it."""
        if self._local is not None:
            with _disk_errors(self):
                force_tree(self._local / below, self._mode)
                force_directory(self._local)

    def read(self, path: str) -> bytes:
        """A small file."""
        with our_words():
            stream = self._system.open(self._at(path))
            try:
                size = self._system.getFileStatus(self._at(path)).getLen()
                return bytes(stream.readNBytes(int(size)))
            finally:
                stream.close()

    def publish(self, path: str, content: bytes) -> None:
        """Write a small file that is not there yet, in one step: it is seen as a whole or not at all.

        Raises:
            StoreError: it is there.
        """
        final, unfinished = self._at(path), self._at(f"{path}.tmp")
        with our_words():
            if self._system.exists(final):
                raise StoreError(f"{self.of(path)} is there already: somebody else writes to this folder")
            stream = self._system.create(unfinished, True)
            stream.write(bytearray(content))
            stream.hsync() if hasattr(stream, "hsync") else stream.flush()
            stream.close()
            self._force_local(f"{path}.tmp")
            if not self._system.rename(unfinished, final):
                raise StoreError(f"{self.of(path)} is there already: somebody else writes to this folder")
            self._force_local(path)

    def _force_local(self, path: str) -> None:
        """Force a file, its name, that of its folder, and what Hadoop keeps beside it to check it."""
        if self._local is None:
            return
        place = self._local / path
        with _disk_errors(self):
            check = place.with_name(f".{place.name}.crc")
            if check.exists():
                force_file(check, self._mode)
            force_file(place, self._mode)
            force_directory(self._local)

    def remove(self, below: str) -> None:
        """Remove a folder in this one, with all that is in it."""
        with our_words():
            self._system.delete(self._at(below), True)

    def _at(self, path: str) -> Any:
        return self._hadoop.fs.Path(self._path, path) if path else self._path
