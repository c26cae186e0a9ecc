"""The manifest of an archive: which files count.

::

    ARCHIVE/manifest/00000001.json     one for each run that is complete, never changed
    ARCHIVE/runs/<run>/…               its Parquet files

A run writes its files into a folder of its own and publishes them by a file in ``manifest/``, which appears in one
step. Until then they do not exist for who goes by the manifest, and after a crash the next run but one removes them.
Who reads all Parquet files below ``runs/`` without it may see those of a run that was interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.pipeline.folders import Folder

__all__ = ["FORMAT", "Manifest", "Run"]

#: Of the manifest and of the columns. Readers refuse a higher one.
FORMAT: Final = 1
_NAME: Final = re.compile(r"manifest/(\d{8})\.json")


@dataclass(frozen=True)
class Run:
    """One run that is complete.

    Args:
        run: its name, which is that of its folder.
        written_at: in UTC, as people write it.
        source: the store, without a password.
        what: which kind of messages; see `selection`.
        selector, destinations: which of them; None and empty for all.
        messages, bytes: how many there are, and what they take as messages.
        offsets: of each destination the first and the last ID.
        files: their paths below the archive.
    """

    run: str
    written_at: str
    source: str
    what: str
    selector: str | None
    destinations: list[str]
    messages: int
    bytes: int
    offsets: dict[str, list[int]]
    files: list[str]
    format: int = field(default=FORMAT)


class Manifest:
    """What is archived in a folder.

    Args:
        folder: the archive, which need not be there yet.

    Raises:
        ConfigurationError: it was written by a newer version, or a file in ``manifest/`` is none of a manifest.
    """

    def __init__(self, folder: Folder) -> None:
        self.folder = folder
        self.runs: list[Run] = []
        self._last = 0
        for file in folder.files("manifest"):
            found = _NAME.fullmatch(file.path)
            if found is not None:
                self._last = int(found[1])
                self.runs.append(_run(file.path, folder.read(file.path)))

    @property
    def files(self) -> list[str]:
        """The paths of all files that count, as Spark takes them."""
        return [self.folder.of(path) for run in self.runs for path in run.files]

    def publish(self, run: Run) -> None:
        """Make a run count.

        Raises:
            StoreError: another run was published meanwhile.
        """
        content = json.dumps(asdict(run), ensure_ascii=False, indent=1).encode()
        try:
            self.folder.publish(f"manifest/{self._last + 1:08}.json", content)
        except StoreError as error:
            raise StoreError(f"another run has archived to {self.folder} meanwhile; run this one again") from error
        self._last += 1
        self.runs.append(run)

    def clear_up(self, before_ms: int) -> list[str]:
        """Remove what runs left that were interrupted.

        Args:
            before_ms: only those in which nothing was written since; epoch milliseconds.

        Returns:
            Their names.
        """
        known = {run.run for run in self.runs}
        last_ms: dict[str, int] = {}
        for file in self.folder.files("runs"):
            name = file.path.split("/")[1]
            if name not in known:
                last_ms[name] = max(last_ms.get(name, 0), file.changed_ms)
        left = [name for name, changed_ms in sorted(last_ms.items()) if changed_ms < before_ms]
        for name in left:
            self.folder.remove(f"runs/{name}")
        return left


def _run(path: str, content: bytes) -> Run:
    try:
        found: Mapping[str, Any] = json.loads(content)
        number = int(found["format"])
        if number > FORMAT:
            raise ConfigurationError(
                f"the archive has format {number}, this version of jdbcstore reads up to {FORMAT}: upgrade jdbcstore"
            )
        return Run(**found)
    except (ValueError, TypeError, KeyError) as error:
        raise ConfigurationError(f"{path} is no manifest of an archive: {error}") from error
