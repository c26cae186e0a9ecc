"""A store of your own: queues in memory, and a log of every commit on the disk, one JSON line each.

What makes it a store is that a completion is resolved behind `os.fsync`, and that a start reads the log up to the last
whole line. It is simple, not fast.
"""

from __future__ import annotations

import json
import os
import threading
from base64 import b64decode, b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import IO, Any

import jdbcstore as js
from jdbcstore.openwire import marshal, unmarshal_message


def open_log_store(url: str) -> LogStore:
    return LogStore(Path(url.removeprefix("log:")))  # the entry point names this function


class LogQueue(js.MessageStore):
    def __init__(self, adapter: LogStore, queue: js.Queue) -> None:
        self.adapter, self.destination, self.prioritized = adapter, queue, False
        self.messages: dict[int, js.Message] = {}

    def add_message(self, message: js.Message) -> js.Completion[int]:
        self.adapter.commit_together(js.Commit(adds=[(self, message)]))
        return js.Completion.resolved(self.sequence_of(message.message_id))

    def get_message(self, message_id: js.MessageId) -> js.Message | None:
        found = self.messages.get(self.sequence_of(message_id))
        return None if found is None else found.copy()

    def remove_message(self, *message_ids: js.MessageId) -> js.Completion[None]:
        return self.adapter.commit_together(js.Commit(removes=[(self, one) for one in message_ids]))

    def update_message(self, message: js.Message) -> js.Completion[None]:
        sequence = self.sequence_of(message.message_id)
        return self.adapter.write(adds=[entry(self, sequence, message)] if sequence in self.messages else [])

    def remove_all_messages(self) -> js.Completion[None]:
        return self.adapter.write(removes=[[self.destination.physical_name, sequence] for sequence in self.messages])

    def recover_next_messages(self, cursor: js.Cursor, messages_max: int, bytes_max: int) -> js.Page:
        with self.adapter.lock:
            self.adapter.require_open()
            positions, page = list(cursor.positions), []
            waiting = [(-self.level(m), s) for s, m in self.messages.items() if s > positions[self.level(m)]]
            for level, sequence in sorted(waiting)[:messages_max]:
                page.append(self.messages[sequence].copy())
                positions[-level] = sequence
                bytes_max -= page[-1].size
                if bytes_max <= 0:
                    break
            return js.Page(page, js.Cursor(tuple(positions) if self.prioritized else (positions[0],) * 10))

    @property
    def message_count(self) -> int:
        return len(self.messages)

    def level(self, message: js.Message) -> int:
        return max(0, min(message.priority, 9)) if self.prioritized else 0

    def sequence_of(self, id: js.MessageId | None) -> int:
        if id is None or id.broker_sequence_id:
            return id.broker_sequence_id if id else 0
        return next((sequence for sequence, m in self.messages.items() if m.message_id == id), 0)


class LogStore(js.PersistenceAdapter):
    """Queues only: the broker asks with ``isinstance``."""

    def __init__(self, directory: Path) -> None:
        self.path, self.lock = directory / "log", threading.RLock()
        self.file: IO[bytes] | None = None

    def start(self) -> None:
        self.queues: dict[js.Queue, LogQueue] = {}
        self.producers: dict[str, int] = {}
        self.last = whole = 0
        self.path.parent.mkdir(parents=True, exist_ok=True)
        self.path.touch()
        for line in self.path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):  # what is behind the last end of a line was never told to be stored
                self.apply(**json.loads(line))
                whole += len(line)
        os.truncate(self.path, whole)
        self.file = self.path.open("ab")

    def stop(self) -> None:
        with self.lock:
            if self.file is not None:
                self.file.close()
            self.file = None

    def require_open(self) -> IO[bytes]:
        if self.file is None:
            raise js.StoreClosed(f"the store in {self.path.parent} is not started")
        return self.file

    def write(self, **change: Any) -> js.Completion[None]:
        """One commit: durable, then visible, then told."""
        with self.lock:
            file = self.require_open()
            file.write(json.dumps(change).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self.apply(**change)
        return js.Completion.resolved(None)

    def apply(self, adds: Iterable[Any] = (), removes: Iterable[Any] = (), producers: Iterable[Any] = ()) -> None:
        for name, sequence, text in adds:
            message = unmarshal_message(b64decode(text))
            message.message_id = id = js.MessageId(message.producer_id, id_of(message).producer_sequence_id, sequence)
            self.queue_message_store(js.Queue(name)).messages[sequence] = message
            producers = [*producers, (str(id.producer_id), id.producer_sequence_id)]
            self.last = max(self.last, sequence)
        for name, sequence in removes:
            self.queue_message_store(js.Queue(name)).messages.pop(sequence, None)
        for producer, number in producers:
            self.producers[producer] = max(number, self.producers.get(producer, -1))

    def commit_together(self, commit: js.Commit) -> js.Completion[None]:
        with self.lock:
            self.require_open()
            if failed := next((one.error for one in commit.follows if one.error is not None), None):
                refused: js.Completion[None] = js.Completion()
                refused.fail(js.TransientStoreError(f"not stored, because what it follows was not: {failed}"))
                return refused
            adds = [entry(self.own(store), n, message) for n, (store, message) in enumerate(commit.adds, self.last + 1)]
            for _, message in commit.adds:
                id_of(message).broker_sequence_id = self.last = self.last + 1
            gone = [[store.destination.physical_name, self.own(store).sequence_of(id)] for store, id in commit.removes]
            return self.write(adds=adds, removes=gone, producers=[(str(id), n) for id, n in commit.producers.items()])

    def own(self, store: js.MessageStore) -> LogQueue:
        if not isinstance(store, LogQueue) or store.adapter is not self:
            raise ValueError(f"{store!r} is a store of another adapter")
        return store

    def queue_message_store(self, queue: js.Queue, *, prioritized: bool = False) -> LogQueue:
        store = self.queues.setdefault(queue, LogQueue(self, queue))
        store.prioritized |= prioritized
        return store

    def remove_queue_message_store(self, queue: js.Queue) -> None:
        """Its messages are in memory in any case."""

    def remove_destination(self, destination: js.Queue | js.Topic) -> js.Completion[None]:
        return self.queue_message_store(js.Queue(destination.physical_name)).remove_all_messages()

    def destinations(self) -> set[js.Destination]:
        return {queue for queue, store in self.queues.items() if store.messages}

    def expired_messages(self, now_ms: int, messages_max: int, after: tuple[int, int] = (0, 0)) -> js.ExpiredPage:
        all = ((m.expiration, s, q) for q in self.queues.values() for s, m in list(q.messages.items()) if m.expiration)
        page = sorted((one for one in all if after < one[:2] < (now_ms, 0)), key=lambda one: one[:2])[:messages_max]
        found = [js.Expired(queue.destination, s, queue.level(queue.messages[s])) for _, s, queue in page]
        return js.ExpiredPage(found, page[-1][:2] if len(page) == messages_max else None)

    def last_message_broker_sequence_id(self) -> int:
        return self.last

    def last_producer_sequence_id(self, producer_id: js.ProducerId) -> int:
        return self.producers.get(str(producer_id), -1)

    def delete_all_messages(self) -> None:
        with self.lock:
            self.require_open().truncate(0)
            self.stop()
            self.start()

    def checkpoint(self) -> None:
        self.require_open()


def id_of(message: js.Message) -> js.MessageId:
    if message.message_id is None:
        raise ValueError("a message needs an id")
    return message.message_id


def entry(queue: LogQueue, sequence: int, message: js.Message) -> list[Any]:
    id_of(message)
    return [queue.destination.physical_name, sequence, b64encode(marshal(message)).decode()]
