"""CoilMQ's queues in one of our stores.

**What dequeue means.** CoilMQ asks a store to remove a message *before* it is sent to a subscriber, and never tells
when it was acknowledged. So a message that was dequeued stays in the store, claimed, for as long as CoilMQ remembers
its frame, which it does until the ACK (``QueueManager._pending``), or until the end of a transaction. When the frame is
forgotten the message is removed; when CoilMQ gives it back (`requeue`) the message moves to the end of its queue.
After a crash everything claimed is there again: a message that was sent and not acknowledged is not lost.

What no store can keep: a message that CoilMQ hands to a waiting subscriber at once never comes here.
"""

from __future__ import annotations

import logging
import threading
import weakref
from collections import deque
from configparser import NoOptionError
from dataclasses import dataclass, field
from itertools import count
from queue import SimpleQueue
from typing import Any, Final

from coilmq.config import config
from coilmq.exception import ConfigError
from coilmq.store import QueueStore
from coilmq.util.frames import MESSAGE, Frame

from jdbcstore.adapters.producer import Producer
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import JdbcStoreError
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.primitives import Value
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Cursor, MessageStore, PersistenceAdapter

__all__ = ["JdbcQueueStore", "make_jdbcstore"]

log = logging.getLogger(__name__)

_PREFIX: Final = "/queue/"
_PAGE_MESSAGES: Final = 100
_PAGE_BYTES: Final = 1 << 20
#: Writes wait for each other; a thread that has removed nothing for so long has lost its store.
_WRITE_TIMEOUT_S: Final = 60.0


def make_jdbcstore() -> JdbcQueueStore:
    """The store that CoilMQ's configuration names.

    Raises:
        ConfigError: ``qstore.jdbcstore.url`` is missing.
        JdbcStoreError: the URL is wrong, or the store cannot be opened.
    """
    try:
        url = config.get("coilmq", "qstore.jdbcstore.url")
    except NoOptionError as error:
        raise ConfigError("qstore.jdbcstore.url is missing: set it to sqlite:///data/coilmq.db, for example") from error
    return JdbcQueueStore(url)


@dataclass
class _Waiting:
    """A queue: what is not claimed."""

    store: MessageStore
    available: int
    cursor: Cursor = field(default_factory=Cursor)
    page: deque[Message] = field(default_factory=deque)


class JdbcQueueStore(QueueStore):
    """Queues in a store; it is this store's only user.

    Args:
        url: of the store.

    Raises:
        ConfigurationError: the URL is wrong, or its driver is not installed.
        StoreError: the store cannot be opened.
        LockHeld: another program has the store.
    """

    def __init__(self, url: str) -> None:
        super().__init__()
        self._adapter: PersistenceAdapter = open_store(url)
        self._adapter.start()
        self._producer = Producer("coilmq")
        self._lock = threading.RLock()
        self._queues: dict[str, _Waiting] = {}
        #: Claimed messages with their queues, by the claim's number, which is never used again (an `id` would be); the
        #: frame has it, and the end of the frame ends the claim.
        self._claims: dict[int, tuple[_Waiting, Message, Any]] = {}
        self._numbers = count(1)
        #: Frames that CoilMQ has forgotten. That may happen anywhere, so nothing but a note is made of it.
        self._forgotten: SimpleQueue[int | None] = SimpleQueue()
        self._settler = threading.Thread(target=self._settle, name="jdbcstore-coilmq", daemon=True)
        self._settler.start()

    def _waiting(self, destination: str) -> _Waiting:
        waiting = self._queues.get(destination)
        if waiting is None:
            store = self._adapter.queue_message_store(Queue(destination.removeprefix(_PREFIX)))
            waiting = self._queues[destination] = _Waiting(store, store.message_count)
        return waiting

    def enqueue(self, destination: str, frame: Any) -> None:
        """Store a frame; it is durable when this returns.

        Raises:
            CodecError, MessageTooLarge: it can never be stored.
            StoreError: it is not stored, or nobody knows.
        """
        with self._lock:
            waiting = self._waiting(destination)
            message = _message_of(self._producer, waiting.store, frame)
            stored = waiting.store.add_message(message)
        stored.result(_WRITE_TIMEOUT_S)
        with self._lock:
            waiting.available += 1

    def dequeue(self, destination: str) -> Any:
        """The next frame, None if there is none. It stays in the store as long as the frame is kept."""
        with self._lock:
            waiting = self._waiting(destination)
            message = self._next(waiting)
            if message is None:
                return None
            frame = _frame_of(message)
            key = frame.jdbcstore_claim = next(self._numbers)
            self._claims[key] = (waiting, message, weakref.finalize(frame, self._forgotten.put, key))
            self._claims[key][2].atexit = False
            waiting.available -= 1
            return frame

    @staticmethod
    def _next(waiting: _Waiting) -> Message | None:
        if not waiting.page:
            page = waiting.store.recover_next_messages(waiting.cursor, _PAGE_MESSAGES, _PAGE_BYTES)
            waiting.page.extend(page.messages)
            waiting.cursor = page.cursor
            for sequence, error in page.unreadable:
                log.error(
                    "a message cannot be read and stays destination=%s sequence=%d error=%s",
                    waiting.store.destination,
                    sequence,
                    error,
                )
        return waiting.page.popleft() if waiting.page else None

    def requeue(self, destination: str, frame: Any) -> None:
        """Give a frame back: it goes to the end of its queue, as CoilMQ's own stores have it, in one commit.

        Raises:
            As `enqueue`; then it stays where it was, and is there after the next start.
        """
        with self._lock:
            claim = self._claims.pop(getattr(frame, "jdbcstore_claim", 0), None)
            if claim is not None:
                waiting, message, ending = claim
                ending.detach()
                assert message.message_id is not None
                again = _message_of(self._producer, waiting.store, frame)
                moved = self._adapter.move_message(message.message_id, waiting.store, again, waiting.store)
        if claim is None:
            self.enqueue(destination, frame)  # it went past us to a subscriber
            return
        moved.result(_WRITE_TIMEOUT_S)
        with self._lock:
            waiting.available += 1

    def size(self, destination: str) -> int:
        """How many frames wait; those that were dequeued do not count."""
        with self._lock:
            return self._waiting(destination).available

    def destinations(self) -> set[str]:
        """The queues that have frames, or had some since the start."""
        stored = {_PREFIX + found.physical_name for found in self._adapter.destinations() if isinstance(found, Queue)}
        with self._lock:
            return stored | set(self._queues)

    def close(self) -> None:
        """Remove what was acknowledged, and close the store. What was not acknowledged is there at the next start."""
        if self._settler.is_alive():
            self._forgotten.put(None)
            self._settler.join(_WRITE_TIMEOUT_S)
            for _, _, ending in self._claims.values():
                ending.detach()
            self._adapter.stop()

    def _settle(self) -> None:
        """Remove the messages whose frames are forgotten; those of a while share commits."""
        key: int | None = 0
        while key is not None:
            key = self._forgotten.get()
            removals = []
            while key is not None:
                removals.append(self._removal(key))
                if self._forgotten.empty():
                    break
                key = self._forgotten.get()
            for removal in removals:
                try:
                    if removal is not None:
                        removal.result(_WRITE_TIMEOUT_S)
                except JdbcStoreError:  # they are sent again after the next start, which is allowed
                    log.exception("acknowledged messages could not be removed")

    def _removal(self, key: int) -> Completion[None] | None:
        with self._lock:
            claim = self._claims.pop(key, None)
        if claim is None:
            return None
        waiting, message, _ = claim
        assert message.message_id is not None
        return waiting.store.remove_message(message.message_id)


def _message_of(producer: Producer, store: MessageStore, frame: Any) -> Message:
    queue = store.destination
    assert isinstance(queue, Queue)
    properties: dict[str, Value] = {
        name: value if isinstance(value, int) else str(value) for name, value in frame.headers.items()
    }
    return producer.message(queue, frame.body, properties)


def _frame_of(message: Message) -> Any:
    body: str | bytes = ""
    match message:
        case TextMessage():
            body = message.text or ""
        case BytesMessage():
            body = message.body
    return Frame(MESSAGE, headers=dict(message.properties), body=body)
