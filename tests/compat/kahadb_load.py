"""Work on a store until it is killed: ``python -m tests.compat.kahadb_load URL FIRST``.

It says what it is about to do (``?``) and what is done (``!``), a line each: ``? add Q.0 17``. Sends and
acknowledgements are under way together; transactions go one after the other. What it finds it acknowledges, too.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections import deque
from typing import Any, Final

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import MessageId, XATransactionId
from jdbcstore.message import TextMessage
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import (
    Commit,
    Cursor,
    MessageStore,
    ScheduledJob,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
    TopicMessageStore,
)
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import PRODUCER, text_message

QUEUES: Final = ("Q.0", "Q.1", "Q.2")
TOPIC: Final = Topic("T")
KEYS: Final = (SubscriptionKey("ann", "news"), SubscriptionKey("bob", "news"))
_UNDER_WAY: Final = 30
_HOUR_MS: Final = 3_600_000
#: Waiting messages of a queue: more are acknowledged sooner.
_WAITING_MAX: Final = 60


def _say(line: str) -> None:
    os.write(1, f"{line}\n".encode())


class _Load:
    def __init__(self, url: str, first: int) -> None:
        self._chance = random.Random(first)
        self._number = first
        self._adapter = adapter = open_store(url)
        adapter.start()
        assert isinstance(adapter, SupportsTopics)
        assert isinstance(adapter, SupportsTransactions)
        assert isinstance(adapter, SupportsScheduling)
        self._stores: dict[str, MessageStore] = {name: adapter.queue_message_store(Queue(name)) for name in QUEUES}
        self._topic: TopicMessageStore = adapter.topic_message_store(TOPIC)
        self._transactions = adapter.transaction_store()
        self._waiting: dict[str, deque[int]] = {name: deque() for name in QUEUES}
        #: The ids of what was there before, some of it from a Java broker.
        self._found: dict[tuple[str, int], MessageId] = {}
        for name, store in self._stores.items():
            for message in store.recover_next_messages(Cursor(), 10_000, 1 << 28).messages:
                assert isinstance(message, TextMessage)
                assert message.message_id is not None
                number = int(str(message.text).partition("x")[0])
                self._found[name, number] = message.message_id
                self._waiting[name].append(number)
        self._pending: dict[SubscriptionKey, deque[int]] = {key: deque() for key in KEYS}
        self._under_way: deque[tuple[Completion[Any], str]] = deque()
        for key in KEYS:
            self._topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC)).result(60)
        _say("! ready")

    def run(self) -> None:
        """For ever."""
        while True:
            self._number += 1
            what = self._chance.randrange(20)
            if what < 10:
                self._queue_work(self._chance.choice(QUEUES))
            elif what < 15:
                self._topic_work()
            elif what < 17:
                self._settle(0)
                self._together()
            elif what == 17:
                self._settle(0)
                self._prepared()
            elif what == 18:
                self._job()
            self._settle(_UNDER_WAY)

    def _id_of(self, name: str, number: int) -> MessageId:
        return self._found.get((name, number)) or MessageId(PRODUCER, number)

    def _begin(self, *lines: str, done: Completion[Any]) -> None:
        self._under_way.append((done, "\n".join(f"! {line}" for line in lines)))

    def _settle(self, left: int) -> None:
        while len(self._under_way) > left:
            done, line = self._under_way.popleft()
            done.result(60)
            _say(line)

    def _queue_work(self, name: str) -> None:
        number, store, waiting = self._number, self._stores[name], self._waiting[name]
        _say(f"? add {name} {number}")
        message = text_message(number, str(number) + "x" * self._chance.randrange(600), destination=Queue(name))
        self._begin(f"add {name} {number}", done=store.add_message(message))
        waiting.append(number)
        while len(waiting) > 5 and (len(waiting) > _WAITING_MAX or self._chance.random() < 0.45):
            gone = waiting[self._chance.randrange(5)]
            waiting.remove(gone)
            _say(f"? remove {name} {gone}")
            self._begin(f"remove {name} {gone}", done=store.remove_message(self._id_of(name, gone)))

    def _topic_work(self) -> None:
        number = self._number
        _say(f"? publish {number}")
        self._begin(
            f"publish {number}",
            done=self._topic.add_message(text_message(number, str(number), destination=TOPIC)),
        )
        for key in KEYS:
            pending = self._pending[key]
            pending.append(number)
            while len(pending) > (3 if key is KEYS[0] else 40):
                gone = pending.popleft()
                _say(f"? acknowledge {key.client_id} {gone}")
                done = self._topic.acknowledge(key, MessageId(PRODUCER, gone))
                self._begin(f"acknowledge {key.client_id} {gone}", done=done)

    def _together(self) -> None:
        adds: list[tuple[MessageStore, object]] = []
        lines = []
        for name in QUEUES:
            self._number += 1
            lines.append(f"add {name} {self._number}")
            adds.append((self._stores[name], text_message(self._number, str(self._number), destination=Queue(name))))
        name = self._chance.choice(QUEUES)
        removes = []
        if self._waiting[name]:
            gone = self._waiting[name].popleft()
            lines.append(f"remove {name} {gone}")
            removes.append((self._stores[name], self._id_of(name, gone)))
        for line in lines:
            _say(f"? {line}")
        self._adapter.commit_together(Commit(adds=adds, removes=removes)).result(60)  # type: ignore[arg-type]
        _say("\n".join(f"! {line}" for line in lines))
        for line in lines[:3]:
            _, where, number = line.split()
            self._waiting[where].append(int(number))

    def _prepared(self) -> None:
        global_id = b"%d" % self._number
        xid = XATransactionId(7, global_id, b"b")
        name = self._chance.choice(QUEUES)
        self._number += 1
        sent = self._number
        transaction = self._transactions.begin(xid)
        transaction.add_message(self._stores[name], text_message(sent, str(sent), destination=Queue(name)))
        gone = self._waiting[name].popleft() if self._waiting[name] else None
        if gone is not None:
            transaction.remove_message(self._stores[name], self._id_of(name, gone))
        about = f"7:{global_id.hex()}:{b'b'.hex()} {name} {sent} {gone}"
        _say(f"? prepare {about}")
        transaction.prepare().result(60)
        _say(f"! prepare {about}")
        what = self._chance.choice(("commit", "commit", "rollback", "leave"))
        if what == "leave":
            return
        _say(f"? {what} {about}")
        decide = self._transactions.commit_prepared if what == "commit" else self._transactions.rollback_prepared
        decide(xid).result(60)
        _say(f"! {what} {about}")

    def _job(self) -> None:
        number = self._number
        message = text_message(number, f"later {number}", destination=Queue("LATER"))
        _say(f"? job {number}")
        due_ms = time.time_ns() // 1_000_000 + _HOUR_MS
        job = ScheduledJob(f"job:{number}", message, due_ms, _HOUR_MS, 0, 0, "")
        self._adapter.commit_together(Commit(jobs=[job])).result(60)
        _say(f"! job {number}")


if __name__ == "__main__":
    _Load(sys.argv[1], int(sys.argv[2])).run()
