"""Why the files of a KahaDB journal are still there: the diagnosis of `jdbcstore kahadb diagnose`, for the console.

Whoever diagnoses reads the whole journal and computes for seconds. So that is a process of its own, of low priority,
one at a time; what it found is good for a while.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import sys
import tempfile
from pathlib import Path
from time import monotonic
from typing import Any, Final

from jdbcstore.broker.broker import Broker
from jdbcstore.errors import ConfigurationError, StoreError
from jdbcstore.management.views import DiagnosisView, HolderView

__all__ = ["Diagnoses"]

_KIND: Final = "kahadb:"
_GOOD_FOR_S: Final = 60.0
_TIMEOUT_S: Final = 300.0
_HOLDERS_MAX: Final = 100
_ERROR_CHARS_MAX: Final = 500


class Diagnoses:
    """Diagnoses the journal of one broker.

    Args:
        broker: whose.
    """

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._one_at_a_time = asyncio.Lock()
        self._last: DiagnosisView | None = None
        self._made_s = 0.0

    async def latest(self) -> DiagnosisView:
        """A diagnosis, a minute old at most.

        Raises:
            ConfigurationError: the store is none in KahaDB.
            StoreError: it was not possible; the text says why.
        """
        location = self._broker.adapter.location
        if not location.startswith(_KIND):
            raise ConfigurationError(f"there is a diagnosis of KahaDB's files only, the store is {location}")
        async with self._one_at_a_time:
            if self._last is None or monotonic() - self._made_s > _GOOD_FOR_S:
                self._last = await self._made(location.removeprefix(_KIND))
                self._made_s = monotonic()
            return self._last

    async def _made(self, directory: str) -> DiagnosisView:
        with tempfile.TemporaryDirectory(prefix="jdbcstore-diagnosis-") as folder:
            picture = Path(folder) / "picture.svg"
            nice = shutil.which("nice")
            program = [*([nice, "-n", "10"] if nice else []), sys.executable, "-m", "jdbcstore"]
            told = await _output(*program, "kahadb", "diagnose", directory, "--json", "--svg", str(picture))
            found = json.loads(told)
            return DiagnosisView(
                made_ms=self._broker.now_ms(),
                directory=directory,
                files=len(found["files"]),
                bytes=sum(file["bytes"] for file in found["files"]),
                live_bytes=sum(file["liveBytes"] for file in found["files"]),
                removable=sum(file["removable"] for file in found["files"]),
                holders=[_holder(one) for one in found["holders"][:_HOLDERS_MAX]],
                svg=picture.read_text("utf-8"),
            )


def _holder(found: dict[str, Any]) -> HolderView:
    return HolderView(
        found["holder"],
        found["messages"],
        found["bytes"],
        found["files"],
        found["oldestAgeSeconds"],
        len(found["frees"]),
        found["freesBytes"],
    )


async def _output(*command: str) -> bytes:
    """What a program prints. Raises StoreError."""
    process = await asyncio.create_subprocess_exec(
        *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            out, errors = await process.communicate()
    except BaseException as error:
        process.kill()
        await process.wait()
        if isinstance(error, TimeoutError):
            raise StoreError(f"the diagnosis took more than {_TIMEOUT_S:.0f} s and was stopped") from error
        raise
    if process.returncode != 0:
        told = errors.decode("utf-8", "replace").strip()[-_ERROR_CHARS_MAX:]
        raise StoreError(f"the diagnosis was not possible: {told or f'exit code {process.returncode}'}")
    return out
