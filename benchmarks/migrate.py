"""From a store to another, in one process: ``jdbcstore migrate``.

``python -m benchmarks.migrate [MESSAGES] --from KIND --to KIND`` fills a store with so many messages of 1 KiB (200 000
unless told) and migrates them to an empty one, as a user runs the command: from the start of the process to its end,
the comparison of both sides included. A kind is sqlite, kahadb, postgresql, mysql or mariadb; servers are started.

Printed are seconds, messages per second, seconds of copying and of comparing, and the most memory of the process.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from benchmarks.contestants import database
from benchmarks.spark_migrate import write_journal
from jdbcstore.migration import migrate

KINDS = ("sqlite", "kahadb", "postgresql", "mysql", "mariadb")


@contextmanager
def store(kind: str, folder: Path) -> Iterator[str]:
    """The URL of an empty store."""
    folder.mkdir(mode=0o755)
    with database(kind, folder) as found:
        yield found.url


@click.command(help=__doc__)
@click.argument("messages", type=int, default=200_000)
@click.option("--from", "source", type=click.Choice(KINDS), default="kahadb", show_default=True)
@click.option("--to", "target", type=click.Choice(KINDS), default="postgresql", show_default=True)
def main(messages: int, source: str, target: str) -> None:
    """Measure and print."""
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as name:
        folder = Path(name)
        folder.chmod(0o755)
        journal = folder / "journal"
        journal.mkdir()
        write_journal(journal, messages)
        with store(source, folder / "source") as first, store(target, folder / "target") as last:
            if source == "kahadb":
                first = f"kahadb:{journal}"
            else:
                migrate(f"kahadb:{journal}", first)
            began = time.perf_counter()
            command = [sys.executable, "-m", "jdbcstore", "migrate", first, last]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
            seconds = time.perf_counter() - began
        steps = ", ".join(line.replace(" done in", "") for line in told.stderr.splitlines() if "done in" in line)
        memory_mib = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10
        click.echo(
            f"{source} to {target} {messages:,} messages: {seconds:.1f} s, {messages / seconds:,.0f}/s ({steps});"
            f" {memory_mib:,} MiB; load of the machine at the end: {os.getloadavg()[0]:.1f}"
        )


if __name__ == "__main__":
    main()
