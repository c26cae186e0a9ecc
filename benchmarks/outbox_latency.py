"""How soon a message of the outbox arrives: from the application's commit to the consumer, one message at a time.

Broker, consumer and application are one program, the application with a connection of its own to the database.
PostgreSQL tells the broker (``NOTIFY``), the others are asked every ``outbox_poll_ms``; so the pauses between messages
are random, and longer than that.

Run ``python -m benchmarks.outbox_latency`` in a checkout with the test servers installed. It takes a minute for each
database.
"""

from __future__ import annotations

import random
import tempfile
import time
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

import jdbcstore
from benchmarks.contestants import DATABASES, database

_TIMEOUT_S: Final = 60.0
_WARM_UP: Final = 20
_SEED: Final = 1

console = Console()


def latencies_ms(url: str, messages: int, poll_ms: int) -> list[float]:
    """Of each message, in milliseconds, the shortest first.

    Args:
        url: of an empty store.
        messages: how many, one after another.
        poll_ms: how often the broker asks a database that does not tell, in milliseconds.
    """
    found: list[float] = []
    engine = create_engine(url)
    pauses = random.Random(_SEED)
    store = f"{url}{'&' if '?' in url else '?'}outbox_poll_ms={poll_ms}"
    with jdbcstore.connect(store) as connection, connection.subscribe("LATENCY") as subscription:
        for number in range(_WARM_UP + messages):
            time.sleep(pauses.uniform(0.05, 0.15))
            with engine.begin() as own:
                jdbcstore.enlist(own).send("LATENCY", str(number))
            committed_s = time.perf_counter()
            message = subscription.receive(timeout_s=_TIMEOUT_S)
            if number >= _WARM_UP:
                found.append((time.perf_counter() - committed_s) * 1000)
            message.acknowledge()
    engine.dispose()
    return sorted(found)


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(DATABASES), help="May be repeated.")
@click.option("--messages", default=300, show_default=True, help="How many, one after another.")
@click.option("--poll-ms", default=50, show_default=True, help="How often the broker asks, in milliseconds.")
def main(only: tuple[str, ...], messages: int, poll_ms: int) -> None:
    """Measure each database and print the table."""
    table = Table("commit to consumer, ms", "median", "p99", "longest")
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as text:
        Path(text).chmod(0o755)  # database servers may run as another user
        for kind in only or DATABASES:
            folder = Path(text) / kind
            folder.mkdir(mode=0o755)
            with console.status(kind), database(kind, folder) as found:
                measured = latencies_ms(found.url, messages, poll_ms)
            median, p99 = (measured[int(len(measured) * share)] for share in (0.5, 0.99))
            table.add_row(kind, *(f"{one:.1f}" for one in (median, p99, measured[-1])))
    console.print(table)


if __name__ == "__main__":
    main()
