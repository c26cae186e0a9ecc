"""Looking for a power failure after which something is lost."""

from __future__ import annotations

import os
import random
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

import pytest

from jdbcstore.errors import JdbcStoreError
from tests.power.states import State, states
from tests.power.trace import Trace

__all__ = ["FAST", "first_loss"]

#: In memory, where there is such a place: nothing has to be safe here.
FAST: Final = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


def first_loss(
    trace: Trace,
    wrong_in: Callable[[State, Path], str | None],
    sector: int,
    all_subsets: int,
    looks_max: int | None = None,
) -> tuple[int, str | None]:
    """How many states were looked at, some by chance if there are too many, and what is wrong with the last.

    Args:
        trace: what was written, and forced.
        wrong_in: what is wrong with what a state has left in a folder; None if nothing is.
        sector, all_subsets: as `tests.power.states.states`.
        looks_max: how many to look at; None for all.
    """
    looked = 0
    found: Iterable[State] = states(trace, sector=sector, all_subsets=all_subsets)
    if looks_max is not None:
        everything = list(found)
        found = random.Random(sector).sample(everything, min(looks_max, len(everything)))
    with tempfile.TemporaryDirectory(dir=FAST) as place, pytest.MonkeyPatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: None)
        patch.setattr(os, "fdatasync", lambda _: None)
        for state in found:
            looked += 1
            folder = Path(place) / str(looked)
            folder.mkdir()
            state.write(folder)
            try:
                wrong = wrong_in(state, folder)
            except (JdbcStoreError, OSError, sqlite3.Error, LookupError, ValueError, AssertionError) as error:
                wrong = f"it does not open: {error!r}"
            shutil.rmtree(folder)
            if wrong is not None:
                return looked, f"after {state.moment} operations: {wrong}; files {sorted(state.files)}"
    return looked, None
