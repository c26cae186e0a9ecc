"""Cleanup: remove the messages of topics that every durable subscription has acknowledged.

What may go is known without asking: for each priority of a topic everything up to the lowest mark, and all of it when
nobody subscribes. So the cleanup walks along the index from the place where it stopped, some hundred ids at a time, and
hands them to the writer, which removes them by primary key together with whatever else it commits. It never holds a
lock, never waits with one, and costs the same whatever else is in the table. The writer looks at the marks again before
it removes anything, since a subscription may have begun meanwhile. Rows in doubt stay.

It runs when about so many messages have become removable that it is worth while, and now and then for what a Java
broker has left.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from typing import Final

from sqlalchemy import text

from jdbcstore.errors import JdbcStoreError, StoreClosed
from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.store_host import StoreHost
from jdbcstore.store.jdbc.subscriptions import TopicState
from jdbcstore.store.jdbc.topic_work import Clear
from jdbcstore.store.jdbc.writes import Write
from jdbcstore.trouble import Trouble

__all__ = ["Cleanup"]

log = logging.getLogger(__name__)

#: Messages removed in one commit. More make those wait who send in between.
_ROWS_AT_ONCE: Final = 200
#: So many removable messages are worth a walk.
_ROWS_WORTH_IT: Final = 1000
#: The first run for everything, before the period is over: not while everybody connects again.
_FIRST_S: Final = 30.0
#: The shortest time between two runs.
_PAUSE_S: Final = 0.05


class Cleanup:
    """Removes what everybody has acknowledged, in a thread of its own or, by `run`, in the caller's.

    Args:
        adapter: whose topics.
        period_s: how often to look at every topic; 0 is never, and then there is no thread.
    """

    def __init__(self, adapter: StoreHost, period_s: float) -> None:
        self._adapter = adapter
        self._period_s = period_s
        self._one_at_a_time = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._trouble = Trouble()
        self._thread = threading.Thread(target=self._loop, name="jdbcstore-cleanup", daemon=True)

    def start(self) -> None:
        """Start the thread, unless the period is 0."""
        if self._period_s > 0:
            self._thread.start()

    def abandon(self) -> None:
        """Let the thread end when it can."""
        self._stopping.set()
        self._wake.set()

    def stop(self) -> None:
        """End the thread, after the commit that runs. The writer must be working, or have been stopped."""
        self.abandon()
        if self._thread.is_alive():
            self._thread.join()

    def look(self, topic: TopicState) -> None:
        """A topic has changed; called by the writer after its commits."""
        if topic.removable >= _ROWS_WORTH_IT or (not topic.live and topic.removable):
            self._wake.set()

    def run(self, topics: Iterable[TopicState] | None = None) -> int:
        """Remove what can be removed, of all topics unless told of which. Returns how many messages.

        Raises:
            JdbcStoreError: the store could not read or write; what was removed until then is.
        """
        with self._one_at_a_time:
            chosen = list(self._adapter.registry.topics.values()) if topics is None else topics
            return sum(self._clear(topic) for topic in chosen)

    def _clear(self, topic: TopicState) -> int:
        topic.removable = 0  # what the writer adds just now may be lost; the next one is seen
        if not topic.container.count:
            return 0
        return sum(self._clear_level(topic, level) for level in list(topic.container.levels))

    def _clear_level(self, topic: TopicState, level: int | None) -> int:
        floor = topic.floor(level)
        committed = topic.registry.last_committed
        upto = committed if floor is None else min(floor, committed)
        after, removed = topic.cleared.get(level, -1), 0
        while after < upto and not topic.counting and not self._stopping.is_set():
            ids = self._walk(topic, level, after, upto)
            if not ids:
                topic.cleared[level] = upto
                break
            done: Completion[None] = Completion()
            work = Clear(topic, level, ids)
            self._adapter.writer.submit(Write(done, topics=(work,)))
            done.result()
            removed += work.cleared
            if work.cleared < len(ids):
                break  # somebody began or is counting
            after = topic.cleared[level] = ids[-1]
        return removed

    def _walk(self, topic: TopicState, level: int | None, after: int, upto: int) -> list[int]:
        dialect = self._adapter.dialect
        parameters: dict[str, object] = {
            "container": topic.container.name,
            "after": after,
            "before": upto + 1,
            "rows": _ROWS_AT_ONCE,
        }
        if level is not None:
            parameters["level"] = level
        with self._adapter.reading() as connection:
            return [id for (id,) in connection.execute(text(dialect.walk(level)), parameters)]

    def _loop(self) -> None:
        due_s = time.monotonic() + min(self._period_s, _FIRST_S)
        while not self._stopping.is_set():
            self._wake.wait(max(0.0, due_s - time.monotonic()))
            self._wake.clear()
            try:
                if time.monotonic() >= due_s:
                    due_s = time.monotonic() + self._period_s
                    self.run()
                else:
                    self.run([one for one in list(self._adapter.registry.topics.values()) if one.removable])
            except StoreClosed:
                return
            except JdbcStoreError as error:  # nothing depends on it; the next round tries again
                if self._trouble.goes_on(error):
                    log.warning("cleanup of acknowledged messages failed, it is done again error=%r", str(error))
            else:
                if failures := self._trouble.is_over():
                    log.warning("acknowledged messages are cleaned up again failures=%d", failures)
            self._stopping.wait(_PAUSE_S)
