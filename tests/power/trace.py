"""What a program did to a directory, call by call, and what of it is on the disk when the power fails.

Knows files and directories and no format. The model is that of POSIX, not of one file system: what was not forced may
be there or not, each sector of a write and each name for itself, in any order. One thing every journaling file system
gives is taken for granted: a rename happens or does not.

A force that failed proves nothing: what it should have forced may be missing for ever after, however often the file is
forced again, unless it is written again. That is how Linux behaves.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias

__all__ = ["Forced", "Made", "Noted", "Op", "Removed", "Renamed", "Resized", "Trace", "Version", "Wrote"]

#: A file or a directory, whatever its name is; 0 is the directory that is recorded.
Node: TypeAlias = int
ROOT: Final = 0


class Made(NamedTuple):
    """A file or directory got its first name."""

    folder: Node
    name: str
    node: Node


class Removed(NamedTuple):
    """A name is gone."""

    folder: Node
    name: str


class Renamed(NamedTuple):
    """A file or directory has another name; what had that name before is gone."""

    folder: Node
    name: str
    new_folder: Node
    new_name: str


class Wrote(NamedTuple):
    """Bytes of a file."""

    node: Node
    offset: int
    data: bytes


class Resized(NamedTuple):
    """A file has another length."""

    node: Node
    size: int


class Forced(NamedTuple):
    """A file or directory was forced to the disk, or that failed."""

    node: Node
    site: str
    """Who did it."""
    has_failed: bool = False


class Version(NamedTuple):
    """Files that somebody writes who knows how (SQLite): he has this version of them."""

    folder: Node
    key: str
    files: dict[str, bytes]
    """All of them, by name; none that is missing."""
    is_forced: bool
    """Whether no older version can come back."""


class Noted(NamedTuple):
    """What the one who does it all knows at this moment."""

    about: object


Op: TypeAlias = Made | Removed | Renamed | Wrote | Resized | Forced | Version | Noted


@dataclass
class Trace:
    """All that was done, in order.

    Args:
        ops: what was done.
        files: what was there before, and is on the disk: contents by node.
        folders: the same of directories: nodes by name.
    """

    ops: list[Op] = field(default_factory=list)
    files: dict[Node, bytes] = field(default_factory=dict)
    folders: dict[Node, dict[str, Node]] = field(default_factory=lambda: {ROOT: {}})

    @property
    def sites(self) -> set[str]:
        """Who forced something."""
        return {op.site for op in self.ops if isinstance(op, Forced) and not op.has_failed}

    def without(self, site: str) -> Trace:
        """The same without the forces of one site."""
        left = [op for op in self.ops if not (isinstance(op, Forced) and not op.has_failed and op.site == site)]
        return Trace(left, self.files, self.folders)
