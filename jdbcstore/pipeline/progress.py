"""How far a job is, and how it ends at Ctrl-C.

Spark runs the job in a thread of ours, while the main thread shows the tasks that are done and listens for SIGINT. At
the first one the jobs of Spark are cancelled, and it is waited until the sinks have undone what they had begun; only
then is `Interrupted` raised. A second one waits for nothing.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TextIO, TypeVar

from jdbcstore.migration.progress import Showing
from jdbcstore.pipeline.errors import our_words

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Interrupted", "Watch"]

T = TypeVar("T")

_LOOK_S: Final = 0.25
_WAITING: Final = "interrupted: waiting until what was begun is undone (once more to stop at once)"


class Interrupted(KeyboardInterrupt):
    """The user wanted the end, and everything that was begun has been undone."""


class Watch:
    """Shows the steps of a job.

    Args:
        spark: the session.
        is_quiet: whether nothing is shown.
        stream: where to; a bar if it is a terminal, else lines.
    """

    def __init__(self, spark: SparkSession, *, is_quiet: bool = False, stream: TextIO | None = None) -> None:
        self._spark = spark
        self.showing: Final = Showing(stream or sys.stderr, is_quiet)
        self._steps = 0

    def run(self, title: str, action: Callable[[], T]) -> T:
        """Do one step, on another thread, and show how far it is.

        Raises:
            Interrupted: at Ctrl-C, when the step has ended.
            JdbcStoreError: what Spark reports, in our words.
        """
        from pyspark import InheritableThread

        context = self._spark.sparkContext
        self._steps += 1
        group = f"jdbcstore-{id(self)}-{self._steps}"
        outcome: list[Any] = []
        failure: list[BaseException] = []

        def work() -> None:
            context.setJobGroup(group, title, interruptOnCancel=False)
            # Formats are known to a session, and that of a new thread of Java's is none.
            context._jvm.SparkSession.setActiveSession(self._spark._jsparkSession)  # type: ignore[union-attr]
            try:
                with our_words():
                    outcome.append(action())
            except BaseException as error:  # noqa: BLE001  # raised again where it belongs
                failure.append(error)

        thread = InheritableThread(target=work, name="spark-step", session=self._spark)
        interrupted = threading.Event()
        with _listening(interrupted), self.showing.step(title, "tasks") as show:
            thread.start()
            is_cancelled = False
            while thread.is_alive():
                thread.join(_LOOK_S)
                if interrupted.is_set():
                    # Again and again: a job that is only just being planned is not there yet to be cancelled.
                    if not is_cancelled:
                        self.showing.say(_WAITING)
                    is_cancelled = True
                    context.cancelAllJobs()
                elif thread.is_alive():
                    show(*self._tasks(group))
            if interrupted.is_set():
                raise Interrupted
            if failure:
                raise failure[0]
        return outcome[0]  # type: ignore[no-any-return]

    def wait(self, seconds: float) -> None:
        """Let some time pass.

        Raises:
            Interrupted: at Ctrl-C.
        """
        interrupted = threading.Event()
        with _listening(interrupted):
            if interrupted.wait(max(0.0, seconds)):
                raise Interrupted

    def _tasks(self, group: str) -> tuple[int, int]:
        """How many tasks of the step are done, and how many there are as far as is known."""
        tracker = self._spark.sparkContext.statusTracker()
        done = known = 0
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for stage in info.stageIds if info is not None else ():
                # Of a stage that was skipped nothing was ever active.
                about = tracker.getStageInfo(stage)
                if about is not None and (about.numCompletedTasks or about.numActiveTasks):
                    done += about.numCompletedTasks
                    known += about.numTasks
        return done, known


@contextmanager
def _listening(interrupted: threading.Event) -> Iterator[None]:
    """Ctrl-C sets the event; the second one is what it always is."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def heard(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set():
            raise KeyboardInterrupt
        interrupted.set()

    former = signal.signal(signal.SIGINT, heard)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, former)
