"""Folders wherever Spark has them: local, HDFS, S3 and what else Hadoop's file systems know."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from jdbcstore.errors import StoreError
from jdbcstore.pipeline.errors import our_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["File", "Folder"]


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
            if not self._system.rename(unfinished, final):
                raise StoreError(f"{self.of(path)} is there already: somebody else writes to this folder")

    def remove(self, below: str) -> None:
        """Remove a folder in this one, with all that is in it."""
        with our_words():
            self._system.delete(self._at(below), True)

    def _at(self, path: str) -> Any:
        return self._hadoop.fs.Path(self._path, path) if path else self._path
