"""Long work in the event loop, a slice at a time, so that nobody waits long for it.

Everything in the broker runs in one event loop, so what takes long for one client takes long for all. Two rules keep
that bounded:

* Work is proportional to what it changes. There is no walk over everything for the sake of one.
* What changes very much is a *job*: a generator that yields wherever it may be interrupted. Its first slice runs at
  once, which for nearly everything is all of it. The rest waits in a rotation: however many clients have jobs, in one
  turn of the event loop there is one slice of them. So do the first slices of clients' jobs when many begin in the
  same turn, since hundreds of connections may break at once.

**Order.** Jobs of different clients mix. Of one client nothing does: who begins a job for a client holds it back
(`Client.hold`) until the job is done. So what the client says afterwards meets its full effect. Whatever else a job
leaves half done between its slices is its own business: it yields only where others may look.

A job is never given up. Who closes what jobs work on waits for `drained` before that.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator
from functools import partial
from time import perf_counter

from jdbcstore.broker.rotation import SLICE_S, Rotation

__all__ = ["Slices"]

log = logging.getLogger(__name__)


class Slices:
    """The jobs of one broker.

    Args:
        loop: the event loop that they run in.
    """

    __slots__ = ("_begun_s", "_loop", "_rotation", "at_work")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._rotation = Rotation(loop)
        #: How long the jobs of clients took that have begun in this turn of the loop.
        self._begun_s = 0.0
        #: The job whose slice is running.
        self.at_work: Iterator[None] | None = None

    def begin(self, job: Iterator[None]) -> bool:
        """Run the first slice of a client's job, unless those that have begun in this turn of the loop have had their
        time. Returns whether that was all; if not, `go_on` has to be called.

        Args:
            job: yields where it may be interrupted. What it raises is a defect: it is logged, and ends the job.
        """
        if self._begun_s > SLICE_S:
            return False
        if not self._begun_s:
            self._loop.call_soon(self._next_turn)
        began_s = perf_counter()
        is_all = self._slice(job)
        self._begun_s += perf_counter() - began_s
        return is_all

    def _next_turn(self) -> None:
        self._begun_s = 0.0

    def go_on(self, job: Iterator[None], done: Callable[[], object]) -> None:
        """Run the rest of a job, in later turns of the loop.

        Args:
            job: one that was begun.
            done: called when it is done, also after a defect.
        """
        self._rotation.later(partial(self._go_on, job, done))

    def _go_on(self, job: Iterator[None], done: Callable[[], object]) -> None:
        if self._slice(job):
            done()
        else:
            self.go_on(job, done)

    def run(self, job: Iterator[None], done: Callable[[], object] = lambda: None) -> None:
        """Run the first slice of a job at once, and go on with it; `done` may be called before this returns."""
        if self._slice(job):
            done()
        else:
            self.go_on(job, done)

    async def complete(self, job: Iterator[None]) -> None:
        """Run a job and wait until it is done. Raises what it raises."""
        done: asyncio.Future[None] = self._loop.create_future()

        def told() -> Iterator[None]:
            try:
                yield from job
            except Exception as error:  # noqa: BLE001  # it is raised again where somebody waits
                done.set_exception(error)
            else:
                done.set_result(None)

        self.run(told())
        await done

    async def drained(self) -> None:
        """Wait until all jobs are done."""
        while not self._rotation.is_empty:
            await asyncio.sleep(0)

    def _slice(self, job: Iterator[None]) -> bool:
        """Let a job work for one slice. Returns whether that was all."""
        before, self.at_work = self.at_work, job
        deadline_s = perf_counter() + SLICE_S
        try:
            for _ in job:
                if perf_counter() > deadline_s:
                    return False
        except Exception:
            log.exception("defect in the job %r", job)
        finally:
            self.at_work = before
        return True
