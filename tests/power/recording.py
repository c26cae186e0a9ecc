"""Recording what a program does to a directory, through the one module by which our stores change files.

`jdbcstore.store.disk` calls the system through its name ``os``. While a `Recorder` records, that name leads to it. An
audit hook of the interpreter sees to it that nothing goes beside: a file that is opened for writing, made, renamed or
removed below the directory in another way fails the recording.
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from jdbcstore.store import disk
from tests.power.trace import ROOT, Forced, Made, Node, Noted, Removed, Renamed, Resized, Trace, Version, Wrote

__all__ = ["Killed", "Recorder"]

_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
_CHANGES: Final = ("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link", "os.symlink")


class Killed(OSError):
    """The process ends here, as far as the program is concerned."""


class Recorder:
    """Records below one directory.

    Args:
        root: what is in it at the beginning is on the disk.
        is_foreign: of a file's name, whether somebody else writes it who knows how: the key that its files share.
        finds: whether another process writes, too. What it did is found when something is forced.
    """

    def __init__(
        self, root: Path, is_foreign: Callable[[str], str | None] = lambda name: None, *, finds: bool = False
    ) -> None:
        self.root: Final = root
        self.trace: Final = Trace()
        self._is_foreign = is_foreign
        self._lock = threading.RLock()
        self._nodes: dict[str, Node] = {"": ROOT}
        self._last: Node = ROOT
        self._open: dict[int, Node] = {}
        self._calls = threading.local()
        self._is_recording = False
        self._finds = finds
        self._seen: dict[str, tuple[int, int, int]] = {}
        #: What went beside.
        self.beside: list[str] = []
        #: Told the site of each force before it happens; what it raises, the program gets. `Killed` means that the
        #: force was never asked for, any other `OSError` that it failed.
        self.before_force: Callable[[str], None] = lambda site: None
        self._take_stock()

    def _take_stock(self) -> None:
        for path in sorted(self.root.rglob("*")):
            where = self._where(path)
            assert where is not None
            folder = self._nodes[os.path.dirname(where)]
            node = self._new(where)
            self.trace.folders[folder][path.name] = node
            if path.is_dir():
                self.trace.folders[node] = {}
            else:
                self.trace.files[node] = path.read_bytes()

    def _new(self, where: str) -> Node:
        self._last += 1
        self._nodes[where] = self._last
        return self._last

    def _where(self, path: Any) -> str | None:
        """A path below the root; None if it is not."""
        full = os.path.abspath(os.fspath(path))
        root = str(self.root)
        if full == root:
            return ""
        return full[len(root) + 1 :] if full.startswith(root + os.sep) else None

    @contextmanager
    def recording(self) -> Iterator[Trace]:
        """Record what is done meanwhile, in all threads.

        Raises:
            AssertionError: something was changed beside the module.
        """
        assert vars(disk)["os"] is os, "one recorder at a time"
        vars(disk)["os"] = self
        self._is_recording = True
        _listening.append(self)
        try:
            yield self.trace
        finally:
            vars(disk)["os"] = os
            self._is_recording = False
            _listening.remove(self)
        assert not self.beside, self.beside

    def _find(self) -> None:
        """Record what another process did since the last look: in any order, as nothing of it was forced."""
        found: dict[str, tuple[int, int, int]] = {}
        for path in sorted(self.root.rglob("*")):
            stat = path.stat()
            is_folder = path.is_dir()
            found[str(path.relative_to(self.root))] = (
                stat.st_ino, 0 if is_folder else stat.st_mtime_ns, -1 if is_folder else stat.st_size
            )  # fmt: skip
        before = {about[0]: where for where, about in self._seen.items()}
        for where, about in found.items():
            if where in self._seen and self._seen[where][0] == about[0]:
                continue
            old = before.get(about[0])
            folder, name = self._nodes[os.path.dirname(where)], os.path.basename(where)
            if old is not None and old not in found:
                self.trace.ops.append(Renamed(self._nodes[os.path.dirname(old)], os.path.basename(old), folder, name))
                for one in [one for one in self._nodes if one == old or one.startswith(old + os.sep)]:
                    moved = where + one[len(old) :]
                    self._nodes[moved] = self._nodes.pop(one)
                    if one in self._seen:
                        self._seen[moved] = self._seen.pop(one)
            elif where not in self._nodes:
                self.trace.ops.append(Made(folder, name, self._new(where)))
                if about[2] < 0:
                    self.trace.folders[self._nodes[where]] = {}
        for where, about in found.items():
            if about[2] >= 0 and self._seen.get(where) != about:
                self.trace.ops.append(Wrote(self._nodes[where], 0, (self.root / where).read_bytes()))
        for where in [where for where in self._seen if where not in found and where in self._nodes]:
            self.trace.ops.append(Removed(self._nodes[os.path.dirname(where)], os.path.basename(where)))
        for where in [where for where in self._nodes if where and where not in found]:
            self._nodes.pop(where)
        self._seen = found

    def note(self, about: object) -> None:
        """Somebody knows this now."""
        with self._lock:
            if self._finds:
                self._find()
            self.trace.ops.append(Noted(about))

    def version(self, folder: Path, key: str, *, is_forced: bool) -> None:
        """Files of somebody else are in this version now."""
        with self._lock:
            where = self._where(folder)
            if where is not None and where in self._nodes:
                names = [path for path in folder.iterdir() if self._is_foreign(path.name) == key]
                files = {path.name: path.read_bytes() for path in names}
                self.trace.ops.append(Version(self._nodes[where], key, files, is_forced))

    # -- in the place of `os` ------------------------------------------------------------------------------------

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    @contextmanager
    def _through(self) -> Iterator[None]:
        with self._lock:
            self._calls.is_ours = True
            try:
                yield
            finally:
                self._calls.is_ours = False

    def _recorded(self, path: Any) -> tuple[Node, str, str] | None:
        """Folder, name and path below the root, of what is recorded."""
        where = self._where(path)
        if not where or self._is_foreign(os.path.basename(where)) is not None:
            return None
        return self._nodes[os.path.dirname(where)], os.path.basename(where), where

    def open(self, path: Any, flags: int, mode: int = 0o777) -> int:
        with self._through():
            if self._finds and self._is_recording:
                self._find()
            is_new = bool(flags & os.O_CREAT) and not os.path.lexists(path)
            descriptor = os.open(path, flags, mode)
            found = self._recorded(path)
            if is_new and found is not None:
                folder, name, where = found
                self.trace.ops.append(Made(folder, name, self._new(where)))
            where_or_none = self._where(path)
            if where_or_none is not None and where_or_none in self._nodes:
                self._open[descriptor] = self._nodes[where_or_none]
            return descriptor

    def close(self, descriptor: int) -> None:
        with self._through():
            self._open.pop(descriptor, None)
            os.close(descriptor)

    def pwrite(self, descriptor: int, data: Any, offset: int) -> int:
        with self._through():
            written = os.pwrite(descriptor, data, offset)
            self._did(descriptor, lambda node: Wrote(node, offset, bytes(data[:written])))
            return written

    def ftruncate(self, descriptor: int, size: int) -> None:
        with self._through():
            os.ftruncate(descriptor, size)
            self._did(descriptor, lambda node: Resized(node, size))

    def posix_fallocate(self, descriptor: int, offset: int, size: int) -> None:
        with self._through():
            os.posix_fallocate(descriptor, offset, size)
            self._did(descriptor, lambda node: Resized(node, os.fstat(descriptor).st_size))

    def _did(self, descriptor: int, op: Callable[[Node], Wrote | Resized]) -> None:
        node = self._open.get(descriptor)
        if node is not None:
            self.trace.ops.append(op(node))

    def fsync(self, descriptor: int) -> None:
        """Recorded, and not done: no disk has to be safe here."""
        site = _site()
        with self._through():
            node = self._open.get(descriptor)
            if node is None:
                return
            try:
                self.before_force(site)
            except Killed:
                raise
            except OSError:
                self.trace.ops.append(Forced(node, site, has_failed=True))
                raise
            self.trace.ops.append(Forced(node, site))

    fdatasync = fsync

    def unlink(self, path: Any) -> None:
        with self._through():
            os.unlink(path)
            found = self._recorded(path)
            if found is not None:
                self._nodes.pop(found[2])
                self.trace.ops.append(Removed(found[0], found[1]))

    def rmdir(self, path: Any) -> None:
        with self._through():
            os.rmdir(path)
            found = self._recorded(path)
            if found is not None:
                self._nodes.pop(found[2])
                self.trace.ops.append(Removed(found[0], found[1]))

    def mkdir(self, path: Any, mode: int = 0o777) -> None:
        with self._through():
            os.mkdir(path, mode)
            found = self._recorded(path)
            if found is not None:
                folder, name, where = found
                self.trace.ops.append(Made(folder, name, self._new(where)))
                self.trace.folders[self._nodes[where]] = {}

    def rename(self, path: Any, target: Any) -> None:
        with self._through():
            old, new = self._recorded(path), self._recorded(target)
            os.rename(path, target)
            if old is None and new is None:
                return
            assert old is not None
            assert new is not None
            self.trace.ops.append(Renamed(old[0], old[1], new[0], new[1]))
            below = old[2] + os.sep
            for where in [where for where in self._nodes if where == old[2] or where.startswith(below)]:
                self._nodes[new[2] + where[len(old[2]) :]] = self._nodes.pop(where)

    # -- what goes beside ----------------------------------------------------------------------------------------

    def heard(self, event: str, arguments: tuple[Any, ...]) -> None:
        """What the interpreter is about to do."""
        if getattr(self._calls, "is_ours", False):
            return
        if event == "open":
            path, _, flags = arguments
            if not isinstance(path, str | bytes) or not int(flags or 0) & _WRITES:
                return
        elif event in _CHANGES:
            path = arguments[0]
        else:
            return
        if isinstance(path, int) or self._recorded(os.fsdecode(path)) is not None:
            self.beside.append(f"{event} {path} by {_site()}")


_listening: list[Recorder] = []


def _audit(event: str, arguments: tuple[Any, ...], listening: list[Recorder] = _listening) -> None:
    """Called until the interpreter has ended, when the names of this module lead to nothing any more."""
    for recorder in listening:
        recorder.heard(event, arguments)


sys.addaudithook(_audit)


def _site() -> str:
    """Who called the module: its function, and by which of the module's functions."""
    inside, frame = "", sys._getframe(1)
    while frame.f_back is not None:
        module = frame.f_globals.get("__name__", "")
        if module == disk.__name__:
            inside = frame.f_code.co_qualname
        elif module.startswith("jdbcstore."):
            return f"{module.rpartition('.')[2]}.{frame.f_code.co_qualname} {inside}".strip()
        frame = frame.f_back
    return f"a test {inside}".strip()
