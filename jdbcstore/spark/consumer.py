"""Streams that take messages out of the store: what a committed batch has read is removed, by a master.

Removing is writing, so whoever does it has to be the master, as a broker is: while the stream runs no broker can start,
and beside a broker that is running the stream does not start. Messages are removed through the store's own writer,
whose every commit proves the mastership; a stream that was replaced while it slept removes nothing any more.

When Spark has committed a batch and the process dies before the batch is removed, the next one does it first thing. It
makes sure that the highest id of that time is still the same message: if it is not, a broker was at work in between,
and ids may mean other messages now. Then nothing is removed, and what is there is read.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Final, TypeAlias

from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError, LockHeld
from jdbcstore.identifiers import MessageId
from jdbcstore.spark.intervals import Interval
from jdbcstore.spark.offsets import Offset, batch_of
from jdbcstore.spark.options import EARLIEST, ReadOptions
from jdbcstore.spark.view import TableView
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.location import StoreLocation
from jdbcstore.store.jdbc.rows import Container

__all__ = ["Consumer", "check_consumer"]

log = logging.getLogger(__name__)

#: Gives the table as it is now.
Views: TypeAlias = Callable[[], AbstractContextManager[TableView]]

_PAGE_ROWS: Final = 5_000
_LOOK_AGAIN_S: Final = 0.2
#: By so much a lease has to get longer to have been renewed.
_RENEWED_MS: Final = 100


def check_consumer(options: ReadOptions) -> None:
    """Raise `ConfigurationError` unless messages can be taken out with these options."""
    topics = [name for name in options.subscribe if not name.startswith("queue://")]
    if topics:
        raise ConfigurationError(
            f"mode=consume takes messages out of queues; {topics[0]} is none. A message of a topic belongs to every"
            " durable subscription: read it with mode=browse"
        )
    for name, is_wrong, why in (
        ("selector", options.selector is not None, "what it leaves out would be removed too: filter the DataFrame"),
        ("startingOffsets", options.starting != EARLIEST, "a queue is taken from its first message on"),
        ("locker", options.location.options.locker == "none", "without one nobody knows whether a broker is running"),
    ):
        if is_wrong:
            raise ConfigurationError(f"{name} does not go with mode=consume: {why}")


class Consumer:
    """Removes what was read, as master of the store.

    Args:
        location: the store.
        subscription: what the stream reads, in words.
    """

    def __init__(self, location: StoreLocation, subscription: str) -> None:
        options = replace(
            location.options, cleanup_period_ms=0, create_tables_on_startup=False, virtual_topic_consumers=""
        )
        self._adapter = JdbcPersistenceAdapter(location.url, options)
        self._subscription = subscription
        self._is_started = False
        self._removed: Offset | None = None

    def start(self) -> None:
        """Become master, unless we are.

        Raises:
            LockHeld: a broker is at work on this store.
            StoreError: the store cannot be opened.
        """
        if self._is_started:
            return
        locker = self._adapter.locker()
        left_ms: int | None = None
        while True:
            try:
                self._adapter.start()
            except LockHeld as error:
                # A stream that was killed leaves a lease that runs out; that of a broker at work is renewed.
                status = locker.status()
                is_renewed = status.expires_in_ms is None or (
                    left_ms is not None and status.expires_in_ms > left_ms + _RENEWED_MS
                )
                if status.holder is not None and is_renewed:
                    locker.release()  # closes its connection
                    raise LockHeld(
                        f"{error}. A stream with mode=consume takes messages out, which only one may do at a time"
                    ) from None
                left_ms = status.expires_in_ms
                time.sleep(_LOOK_AGAIN_S)
            else:
                self._is_started = True
                return

    def stop(self) -> None:
        """Let the next one be master."""
        if self._is_started:
            self._is_started = False
            self._adapter.stop()

    def has_removed(self, end: Offset) -> bool:
        """Whether the batch that ends here was removed by this process."""
        return end == self._removed

    def remove(self, views: Views, end: Offset) -> None:
        """Remove the batch that ends here, which is committed.

        Args:
            views: gives the table as it is now.
            end: says where it began.

        Raises:
            LeaseLost: somebody else is master now. StoreError: the database failed.
        """
        if end.since is not None and end.top is not None:
            batch, (marker, trace) = batch_of(end.since, end), end.top
            with views() as view:
                is_as_it_was = view.trace(marker) == trace and end.subscription == self._subscription
                left = 0 if is_as_it_was else view.count(batch)
            if is_as_it_was:
                for interval in batch:
                    self._remove(views, interval)
            elif left:
                log.info(
                    "a broker was at work since the last batch, or other queues are subscribed to now: messages with"
                    " ids of that batch are taken for new ones messages=%d",
                    left,
                )
        self._removed = end

    def _remove(self, views: Views, interval: Interval) -> None:
        """In the order of ids: the highest goes last, since by it the others are known."""
        after = interval[0] - 1
        while True:
            with views() as view:
                rows = view.containers((after + 1, interval[1]), _PAGE_ROWS)
            if not rows:
                return
            self._remove_rows(rows)
            after = rows[-1][0]

    def _remove_rows(self, rows: Sequence[tuple[int, str]]) -> None:
        adapter = self._adapter
        done = []
        for id, container in rows:
            queue = adapter.destination_of(Container(container))
            assert isinstance(queue, Queue), container  # the view has no others
            store = adapter.queue_message_store(queue)
            done.append(store.remove_message(MessageId(None, 0, id)))
        for completion in done:
            completion.result()
