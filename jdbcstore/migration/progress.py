"""Showing how far something is: a bar where there is a terminal, else a line now and then."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final, TextIO

__all__ = ["Showing", "shown"]

#: Without a terminal a long step says every so often that it is still at it.
_SAY_S: Final = 30.0


@dataclass(frozen=True)
class Showing:
    """Where and how progress is shown.

    Args:
        stream: where to; a bar if it is a terminal, else lines.
        is_quiet: whether nothing is shown.
    """

    stream: TextIO = field(default_factory=lambda: sys.stderr)
    is_quiet: bool = False

    def say(self, line: str) -> None:
        """Say something."""
        if not self.is_quiet:
            print(line, file=self.stream, flush=True)

    @contextmanager
    def step(self, title: str, unit: str) -> Iterator[Callable[[int, int], None]]:
        """Show one step, as `shown`, and without a terminal how long it took, if it did not fail."""
        began = time.monotonic()
        with shown(title, self.stream, unit, is_quiet=self.is_quiet) as tell:
            yield tell
        if not self.stream.isatty():
            self.say(f"{title}: done in {time.monotonic() - began:.1f} s")


@contextmanager
def shown(
    title: str, stream: TextIO, unit: str, *, is_quiet: bool = False, say_s: float = _SAY_S
) -> Iterator[Callable[[int, int], None]]:
    """Show one step.

    Args:
        title: what is done.
        stream: where to.
        unit: what is counted, in the plural.
        is_quiet: show nothing.
        say_s: without a terminal, seconds from line to line.

    Returns:
        To be called with how many are done, and how many there are as far as is known.
    """
    if is_quiet:
        yield lambda done, known: None
    elif stream.isatty():
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
        with Progress(*columns, console=Console(file=stream), refresh_per_second=4) as bar:
            task = bar.add_task(title, total=None)
            total = 1

            def draw(done: int, known: int) -> None:
                nonlocal total
                total = known or total
                bar.update(task, completed=done, total=known or None)

            yield draw
            bar.update(task, completed=total, total=total)
    else:
        said = time.monotonic()

        def say(done: int, known: int) -> None:
            nonlocal said
            if time.monotonic() - said >= say_s:
                said = time.monotonic()
                print(f"{title}: {done} of {known} {unit}", file=stream, flush=True)

        yield say
