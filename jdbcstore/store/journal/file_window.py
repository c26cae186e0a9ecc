"""A file's bytes as they are needed to find what stands in it: some at a time, whatever its length."""

from __future__ import annotations

from typing import BinaryIO

from jdbcstore.store.journal.file_errors import reading

__all__ = ["FileWindow"]


class FileWindow:
    """A file's bytes, a few MiB at a time. It only goes forward, but for what `peek` and `find` look at.

    Args:
        source: the bytes, seekable.
        name: the file's, for errors.
        chunk_bytes: how much is read at once.

    Raises:
        StoreError: the file cannot be read. So do all methods.
    """

    def __init__(self, source: BinaryIO, name: str, chunk_bytes: int) -> None:
        self._source = source
        self._name = name
        self._chunk_bytes = chunk_bytes
        with reading(name):
            self.size = source.seek(0, 2)
        self.data = b""
        self._base = 0

    def at(self, offset: int, least: int) -> tuple[bytes, int, int]:
        """Data with `least` bytes at this offset, fewer if the file ends: data, its own offset, and where to look."""
        o = offset - self._base
        if not 0 <= o <= len(self.data) - least:
            self.data, self._base, o = self.peek(offset, max(least, self._chunk_bytes)), offset, 0
        return self.data, self._base, o

    def peek(self, offset: int, length: int) -> bytes:
        """The bytes at this offset, fewer if the file ends."""
        length = min(length, self.size - offset)
        if length <= 0:
            return b""
        with reading(self._name):
            self._source.seek(offset)
            return self._source.read(length)

    def find(self, what: bytes, offset: int) -> int | None:
        """The first place from this offset on where it stands."""
        if 0 <= offset - self._base <= len(self.data):
            found = self.data.find(what, offset - self._base)
            if found >= 0:
                return self._base + found
            offset = max(offset, self._base + len(self.data) - len(what) + 1)
        while offset < self.size:
            data = self.peek(offset, self._chunk_bytes + len(what))
            found = data.find(what)
            if found >= 0:
                return offset + found
            offset += self._chunk_bytes
        return None

    def is_blank(self, offset: int, end_mark: bytes = b"") -> bool:
        """Whether only zeros follow, and perhaps the end mark in the last bytes, as in an unused file."""
        end = self.size
        if end - len(end_mark) >= offset and self.peek(end - len(end_mark), len(end_mark)) == end_mark:
            end -= len(end_mark)  # looked at alone: it may begin in one chunk and end in the next
        while offset < end:
            data = self.peek(offset, min(self._chunk_bytes, end - offset))
            offset += self._chunk_bytes
            if data.count(0) != len(data):
                return False
        return True
