"""How long a broker takes to start on KahaDB when very much is pending: a real ActiveMQ, and ours.

``python -m benchmarks.kahadb_restart [MESSAGES]`` (a million unless told, of 100 bytes) has our store write a journal
and gives each broker a copy of it. Measured, from the start of the process, are the time until it serves and the time
until a consumer has its first message:

* **no index**: the first start; it has to read the whole journal;
* **stopped**: after a clean end;
* **killed**: after ``kill -9`` behind some more messages.

Files are in the operating system's cache. Goal: ours takes no longer than ActiveMQ.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from benchmarks.backlog import QUEUE, receive_one
from benchmarks.contestants import Contestant, Workshop, memory_mib, workshop
from benchmarks.load import Scenario, run
from jdbcstore.config.urls import open_store
from jdbcstore.store.completion import Completion
from jdbcstore.testing import text_message

#: Writes that are under way at once while the journal is filled.
_WINDOW = 2000
_LIMIT_S = 600.0
_MORE = Scenario("more", "send", 4, 50, 500, 0)


@dataclass(frozen=True)
class Start:
    """Seconds since the start of the process, and MiB at the first message."""

    master_s: float
    first_s: float
    memory_mib: float

    def __str__(self) -> str:
        return f"serves after {self.master_s:6.2f} s, first message {self.first_s:6.2f} s, {self.memory_mib:4.0f} MiB"


def fill(folder: Path, messages: int, body_bytes: int) -> None:
    """Write a journal with a queue of so many messages."""
    body = "x" * body_bytes
    with open_store(f"kahadb:{folder}") as adapter:
        store = adapter.queue_message_store(QUEUE)
        under_way: deque[Completion[Any]] = deque()
        for number in range(1, messages + 1):
            under_way.append(store.add_message(text_message(number, body, destination=QUEUE)))
            if len(under_way) == _WINDOW:
                under_way.popleft().result(_LIMIT_S)
        for completion in under_way:
            completion.result(_LIMIT_S)


def start(contestant: Contestant, shop: Workshop, folder: Path, end: Literal["stopped", "killed"]) -> Start:
    """Start a broker on a journal, receive a message, and end it."""
    began_s = time.monotonic()
    with contestant.serving(folder, shop.class_path, f"kahadb:{folder / 'kahadb'}") as running:
        master_s = time.monotonic() - began_s
        receive_one(running.port, QUEUE, _LIMIT_S)
        found = Start(master_s, time.monotonic() - began_s, memory_mib(running.pid))
        if end == "killed":
            run(shop.generator, running.port, _MORE, f"/queue/{QUEUE.physical_name}", 100)
            os.kill(running.pid, signal.SIGKILL)
        elif contestant.broker == "activemq":
            os.kill(running.pid, signal.SIGTERM)  # ours is stopped at the end of the block; ActiveMQ would be killed
            while Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                time.sleep(0.05)
    return found


@click.command(help=__doc__)
@click.argument("messages", default=1_000_000, type=click.IntRange(1))
@click.option("--body-bytes", default=100, show_default=True, help="Bytes of each body.")
def main(messages: int, body_bytes: int) -> None:
    """Measure and print."""
    starts: dict[str, dict[str, Start]] = {}
    with workshop() as shop:
        filled = shop.room("filled")
        began_s = time.monotonic()
        fill(filled, messages, body_bytes)
        rate = messages / (time.monotonic() - began_s)
        print(f"{messages:,} messages of {body_bytes} bytes written at {rate:,.0f}/s", flush=True)
        for contestant in (
            Contestant("activemq", "kahadb", None),
            Contestant("jdbcstore", "kahadb", "activemq/kahadb"),
        ):
            folder = shop.room(contestant.name)
            (folder / "kahadb").mkdir()
            for journal in filled.glob("db-*.log"):
                shutil.copy(journal, folder / "kahadb")
            found = starts[contestant.name] = {}
            for before, end in (("no index", "stopped"), ("stopped", "killed"), ("killed", "stopped")):
                found[before] = start(contestant, shop, folder, "killed" if end == "killed" else "stopped")
                print(f"{contestant.name:<17} {before:<8}: {found[before]}", flush=True)
    theirs, ours = starts["activemq/kahadb"], starts["jdbcstore/kahadb"]
    missed = [before for before in ours if ours[before].first_s > theirs[before].first_s]
    for before in missed:
        print(f"goal missed: {before}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
