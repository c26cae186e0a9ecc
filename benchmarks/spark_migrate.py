"""From what size on Spark pays: a KahaDB directory into PostgreSQL, by the job and by one process without Spark.

``python -m benchmarks.spark_migrate [MESSAGES…] [--database postgresql]`` makes journals with so many live messages of
1 KiB (10 000, 100 000 and 1 000 000 unless told), and brings each into an empty database:

* **pipeline migrate**: ``jdbcstore pipeline migrate DIRECTORY URL`` as a user runs it, from the start of the process to
  its end: the start of Spark, replay, copy in parallel, indexes, and the comparison of both sides;
* **one process**: this project's reader and store, without Spark: replay, then ``add_message`` with group commit. It
  compares nothing.

Printed are seconds, messages per second and the most memory of any of the Python processes.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Final

import click

from benchmarks.contestants import database
from benchmarks.kahadb_journal import commands
from benchmarks.spark_read import Watch
from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.store.completion import Completion
from jdbcstore.store.journal.commands import AddMessage
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay
from tests.unit.kahadb.journals import END, batch

FILE_BYTES: Final = 32 << 20
RECORDS_PER_BATCH: Final = 64
#: So many messages may be under way to the database.
WINDOW: Final = 2000


def write_journal(folder: Path, count: int) -> None:
    """A journal whose messages are all live."""
    adds = (command for command in commands() if isinstance(command, AddMessage))
    left, number, data = count, 1, bytearray()
    while left:
        size = min(left, RECORDS_PER_BATCH)
        data += batch(*(next(adds) for _ in range(size)))
        left -= size
        if len(data) > FILE_BYTES or not left:
            (folder / f"db-{number}.log").write_bytes(data + END)
            number, data = number + 1, bytearray()


def by_job(folder: Path, url: str) -> None:
    """The command."""
    command = [sys.executable, "-m", "jdbcstore", "pipeline", "migrate", str(folder), url, "--quiet"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)


def by_one_process(folder: Path, url: str) -> None:
    """Reader and store of this project, and nothing else."""
    journal = Journal(folder)
    state = replay(journal)
    with open_store(url) as store:
        under_way: list[Completion[int]] = []
        for destination, stored in state.destinations.items():
            assert isinstance(destination, Queue)
            queue = store.queue_message_store(destination)
            for message in stored.messages():
                under_way.append(queue.add_message(journal.message(message.location)))
                if len(under_way) == WINDOW:
                    for completion in under_way:
                        completion.result()
                    under_way.clear()
        for completion in under_way:
            completion.result()


@click.command(help=__doc__)
@click.argument("messages", type=int, nargs=-1)
@click.option("--database", "kind", default="postgresql", show_default=True)
def main(messages: tuple[int, ...], kind: str) -> None:
    """Measure and print."""
    for count in messages or (10_000, 100_000, 1_000_000):
        with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as name:
            folder = Path(name)
            journal = folder / "kahadb"
            journal.mkdir()
            write_journal(journal, count)
            for what, bring in (("one process", by_one_process), ("pipeline migrate", by_job)):
                with database(kind, folder) as target, Watch() as watch:
                    began = time.perf_counter()
                    bring(journal, target.url)
                    seconds = time.perf_counter() - began
                click.echo(
                    f"{kind} {count:>9,} messages  {what:<17} {seconds:7.1f} s {count / seconds:>9,.0f}/s"
                    f"  Python at most {watch.worker_mib:,.0f} MiB"
                )
    click.echo(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
