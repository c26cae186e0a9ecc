"""Ours under load and killed, Java, ours, Java, on one KahaDB directory: each finds all that the one before had.

``JDBCSTORE_TEST_KILLS=20`` takes so many turns.
"""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import stomp

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import (
    Cursor,
    PersistenceAdapter,
    SupportsScheduling,
    SupportsTopics,
    SupportsTransactions,
)
from tests.compat.activemq import ActiveMQ
from tests.compat.kahadb_load import KEYS, QUEUES, TOPIC
from tests.compat.stomp_client import Collector, client
from tests.waiting import wait_until

TURNS = int(os.environ.get("JDBCSTORE_TEST_KILLS", "2"))
OPTIONS = "journalMaxFileLength=64kb&cleanupInterval=150&checkpointInterval=100&compactAcksAfterNoGC=1"

pytestmark = pytest.mark.timeout(200 + 150 * TURNS)


@dataclass(slots=True)
class Known:
    """Of a queue, a subscription, the jobs or the transactions: what is there for sure, and what may be."""

    sure: set[str] = field(default_factory=set)
    perhaps: set[str] = field(default_factory=set)
    going: set[str] = field(default_factory=set)
    """Perhaps removed; that they were added may be told later."""

    def asked(self, one: str, *, is_there: bool) -> None:
        """Something is under way with it."""
        self.sure.discard(one)
        self.perhaps.add(one)
        if not is_there:
            self.going.add(one)

    def settled(self, one: str, *, is_there: bool) -> None:
        """It is there, or it is not."""
        if is_there and one in self.going:
            return
        self.going.discard(one)
        self.perhaps.discard(one)
        (self.sure.add if is_there else self.sure.discard)(one)

    def found(self, there: Iterable[str]) -> None:
        """Compare; from now on this is known for sure."""
        found = list(there)
        assert len(found) == len(set(found)), "something is there twice"
        assert self.sure <= set(found), f"lost: {sorted(self.sure - set(found))}"
        assert set(found) <= self.sure | self.perhaps, f"came back: {sorted(set(found) - self.sure - self.perhaps)}"
        self.sure, self.perhaps, self.going = set(found), set(), set()


class History:
    """What the killed process has said."""

    def __init__(self) -> None:
        self.queues = {name: Known() for name in QUEUES}
        self.subscriptions = {key.client_id: Known() for key in KEYS}
        self.in_doubt, self.jobs = Known(), Known()

    def take(self, line: str) -> None:
        """A line of `tests.compat.kahadb_load`."""
        mark, what, *about = line.split()
        is_done = mark == "!"
        match what:
            case "add" | "remove":
                self._tell(self.queues[about[0]], about[1], is_done, is_there=what == "add")
            case "publish":
                for one in self.subscriptions.values():
                    self._tell(one, about[0], is_done, is_there=True)
            case "acknowledge":
                self._tell(self.subscriptions[about[0]], about[1], is_done, is_there=False)
            case "job":
                self._tell(self.jobs, about[0], is_done, is_there=True)
            case "prepare" | "commit" | "rollback":
                xid, name, sent, gone = about
                self._tell(self.in_doubt, xid, is_done, is_there=what == "prepare")
                if what == "commit":
                    self._tell(self.queues[name], sent, is_done, is_there=True)
                elif gone != "None":  # hidden while in doubt
                    if what == "rollback":
                        self.queues[name].going.discard(gone)
                    self._tell(self.queues[name], gone, is_done, is_there=what == "rollback")

    @staticmethod
    def _tell(known: Known, one: str, is_done: bool, *, is_there: bool) -> None:
        if is_done:
            known.settled(one, is_there=is_there)
        else:
            known.asked(one, is_there=is_there)


def killed(url: str, first: int, seconds: float, history: History) -> None:
    """Load, until it is killed so long after it began."""
    command = [sys.executable, "-m", "tests.compat.kahadb_load", url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=Path(__file__).parents[2]) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "! ready\n"
        deadline, lines = time.monotonic() + seconds, 0
        for line in process.stdout:
            if line.endswith("\n"):
                history.take(line)
                lines += 1
            if time.monotonic() > deadline and lines > 300:
                process.kill()
                deadline = float("inf")


def number(body: str) -> str:
    return body.partition("x")[0]


def all_of(
    connection: stomp.Connection12, collector: Collector, destination: str, known: Known, last: int
) -> list[str]:
    """The numbers of what a subscriber is sent: all there is, for a message is sent behind it and waited for.

    It is sent when all that is there for sure has come: what comes to a queue while a Java broker reads more than 400
    others may wait for its next look at what has expired.
    """
    collector.wait_for(len(known.sure))
    connection.send(destination, str(last), headers={"persistent": "true", "receipt": str(last)})
    wait_until(lambda: any(body == b"%d" % last for _, body in collector.messages), f"{destination}: {last} has come")
    numbers = [number(body.decode()) for _, body in collector.messages]
    assert numbers[-1] == str(last)
    return numbers[:-1]


def check_java(activemq: ActiveMQ, history: History, last: int) -> None:
    """What its consumers get, and `last` behind it, which stays there."""
    for name, known in history.queues.items():
        with client(activemq.stomp_port, sends_text=True) as (connection, collector):
            connection.subscribe(f"/queue/{name}", id="1", ack="client-individual")
            known.found(all_of(connection, collector, f"/queue/{name}", known, last))
            known.settled(str(last), is_there=True)
    history.in_doubt.found(activemq.in_doubt())


def check_ours(adapter: PersistenceAdapter, history: History) -> None:
    """What a start of ours finds."""
    assert isinstance(adapter, SupportsTopics)
    assert isinstance(adapter, SupportsTransactions)
    assert isinstance(adapter, SupportsScheduling)
    for name, known in history.queues.items():
        page = adapter.queue_message_store(Queue(name)).recover_next_messages(Cursor(), 10_000, 1 << 28)
        assert not page.unreadable
        known.found(number(str(getattr(one, "text", ""))) for one in page.messages)
    topic = adapter.topic_message_store(TOPIC)
    for key in KEYS:
        page = topic.recover_next_subscription_messages(key, Cursor(), 10_000, 1 << 28)
        history.subscriptions[key.client_id].found(str(getattr(one, "text", "")) for one in page.messages)
    history.in_doubt.found(_shown(one.transaction_id) for one in adapter.transaction_store().prepared_transactions())
    jobs = adapter.job_store().jobs(None, 10_000, 1 << 28).jobs
    history.jobs.found(one.job_id.removeprefix("job:") for one in jobs)


def _shown(xid: XATransactionId) -> str:
    return f"{xid.format_id}:{(xid.global_transaction_id or b'').hex()}:{(xid.branch_qualifier or b'').hex()}"


def work_of_java(activemq: ActiveMQ, history: History, first: int) -> None:
    """It sends, acknowledges, decides about a transaction, and a subscriber receives.

    The subscriber comes first: Java answers what it acknowledges before that is written. It is written when what is
    sent after it is answered.
    """
    history_of = history.subscriptions[KEYS[1].client_id]
    topic = f"/topic/{TOPIC.physical_name}"
    with client(activemq.stomp_port, client_id=KEYS[1].client_id, sends_text=True) as (connection, collector):
        headers = {"activemq.subscriptionName": KEYS[1].subscription_name, "activemq.prefetchSize": "1000"}
        connection.subscribe(topic, id="1", ack="client-individual", headers=headers)
        history_of.found(all_of(connection, collector, topic, history_of, first))
        for known in history.subscriptions.values():
            known.settled(str(first), is_there=True)
        headers, body = collector.messages[0]
        connection.ack(headers["ack"], receipt="acknowledged")
        history_of.settled(body.decode(), is_there=False)
    for name, known in history.queues.items():
        with client(activemq.stomp_port, sends_text=True) as (connection, collector):
            for one in range(first, first + 5):
                connection.send(f"/queue/{name}", str(one), headers={"persistent": "true", "receipt": str(one)})
                known.settled(str(one), is_there=True)
            connection.subscribe(f"/queue/{name}", id="1", ack="client-individual")
            collector.wait_for(len(known.sure))
            for place in (0, 3):
                headers, body = collector.messages[place]
                connection.ack(headers["ack"], receipt=f"acknowledged {place}")
                known.settled(number(body.decode()), is_there=False)


def test_what_a_kill_leaves_is_whole_for_java_and_back(class_path: str, tmp_path: Path) -> None:
    history, chance = History(), random.Random(os.environ.get("JDBCSTORE_TEST_SEED", "1"))
    directory, scheduler = tmp_path / "kahadb", tmp_path / "kahadb" / "scheduler"
    url = f"kahadb:{directory}?{OPTIONS}"
    for turn in range(1, TURNS + 1):
        killed(url, turn * 1_000_000, chance.uniform(0.5, 2), history)
        shutil.copytree(directory, tmp_path / f"killed-{turn}", ignore=shutil.ignore_patterns("lock"))
        kind = {"journal_max_file_length": 65536, "compacts": turn % 2 == 0, "checks_files": turn % 2 == 1}
        with ActiveMQ(class_path, tmp_path, "kahadb", scheduler=scheduler, **kind) as activemq:  # type: ignore[arg-type]
            check_java(activemq, history, turn * 1_000_000 + 800_000)
            work_of_java(activemq, history, turn * 1_000_000 + 900_000)
            if turn % 2:
                activemq.kill()
            else:
                activemq.stop()
        with open_store(url) as adapter:
            check_ours(adapter, history)
