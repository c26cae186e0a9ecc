"""How long a start takes, and how fast and with how much memory a consumer is served, when very much is stored.

``python -m benchmarks.backlog [ROWS]… [--database postgresql] [--durable-rows 1000000]`` fills for each number of
rows (10 000, 1 000 000 and 5 000 000 unless told) a database with a queue of so many messages of 100 bytes, and for
``--durable-rows`` one with a topic and a durable subscription that has received none of them. The messages are real
ones and go into the tables by the driver's bulk statements; five million take some minutes. The database server is
then started anew, so that its own cache is empty (that of the operating system is not), and measured are:

* **master**: from the start of the broker's process until it says that it serves;
* **first message**: from the start of the process until a consumer has its first message. Goal: 5 s;
* **dispatch**: the rate at which one consumer takes 50 000 messages and acknowledges each, while all the rows of the
  measurement lie behind these. The table therefore has 50 001 rows more than its number says;
* **memory**: of the process, at the first message and at most. Goal: rate and memory within 20 % over all the queues.

The same is done with a real ActiveMQ, before ours, on the same tables with the same indexes (ours, which are more
than its own). It has 60 s to start and ``--limit-s`` for the first message and again for the dispatching; what it
does not do in this time is said. Exits with 1 when our broker misses a goal.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import click
from sqlalchemy import text

from benchmarks.contestants import (
    DATABASES,
    Contestant,
    Workshop,
    database,
    memory_mib,
    opponents,
    peak_memory_mib,
    workshop,
)
from benchmarks.load import Scenario, run
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.openwire import marshal
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.dialect import raw_connection
from jdbcstore.store.jdbc.rows import MessageRow
from jdbcstore.store.jdbc.writes import Batch, Write
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing import text_message
from jdbcstore.testing.messages import PRODUCER
from tests.broker.client import Client
from tests.servers.server import ServerFailed

ROWS: Final = (10_000, 1_000_000, 5_000_000)
QUEUE, TOPIC = Queue("BACKLOG"), Topic("BACKLOG")
#: Of the durable subscription: its client (the generator adds the number of the connection), and its name.
CLIENT_ID: Final = "backlog"
SUBSCRIPTION: Final = SubscriptionKey(f"{CLIENT_ID}0", "bench")
START_GOAL_S: Final = 5.0
SPREAD_GOAL: Final = 0.2
WAIT_S: Final = 60.0
#: What makes a database know what is in it, as its own housekeeping would have done long ago.
SETTLE: Final = {
    "postgresql": ("VACUUM ANALYZE activemq_msgs",),
    "mysql": ("ANALYZE TABLE ACTIVEMQ_MSGS",),
    "mariadb": ("ANALYZE TABLE ACTIVEMQ_MSGS",),
    "sqlite": (),
}


@dataclass(frozen=True)
class Backlog:
    """What is stored before the start.

    Args:
        destination: a queue, or a topic with one durable subscription.
        rows: behind those that are taken.
        body_bytes: of each message.
    """

    destination: Destination
    rows: int
    body_bytes: int

    @property
    def name(self) -> str:
        """As in the lines."""
        return f"{self.rows:>9,} rows of a {'queue' if self.destination == QUEUE else 'durable subscription'}"


@dataclass(frozen=True)
class Found:
    """Seconds since the start of the process, MiB, messages a second."""

    master_s: float
    first_s: float
    start_mib: float
    rate: float
    peak_mib: float

    def __str__(self) -> str:
        start = f"master {self.master_s:.2f} s, first message {self.first_s:.2f} s"
        return f"{start}, dispatch {self.rate:,.0f}/s, memory {self.start_mib:.0f} MiB, at most {self.peak_mib:.0f} MiB"


# -- filling -----------------------------------------------------------------------------------------------------------


def fill(url: str, backlog: Backlog, more: int) -> None:
    """Write the rows of a backlog, and some more before them, into an empty database."""
    adapter = open_store(url)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        if isinstance(backlog.destination, Topic):
            info = SubscriptionInfo(SUBSCRIPTION, backlog.destination, backlog.destination)
            adapter.topic_message_store(backlog.destination).add_subscription(info).result(WAIT_S)
        with adapter.reading() as connection:
            adapter.dialect.connected(connection)
            raw = raw_connection(connection)
            for rows in batches(backlog, backlog.rows + more):
                adapter.dialect.write(raw, Batch([Write.of_rows(rows)]))
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        for statement in SETTLE[connection.dialect.name]:
            connection.execute(text(statement))
    engine.dispose()


def batches(backlog: Backlog, count: int, size: int = 5000) -> Iterator[list[MessageRow]]:
    """Rows as the broker writes them, from the id 1 on."""
    producer, container, body = str(PRODUCER), backlog.destination.qualified_name, "x" * backlog.body_bytes
    for first in range(1, count + 1, size):
        ids = range(first, min(first + size, count + 1))
        messages = (text_message(id, body, destination=backlog.destination) for id in ids)
        yield [(id, producer, id, container, 0, 0, marshal(one)) for id, one in zip(ids, messages, strict=True)]


# -- measuring ---------------------------------------------------------------------------------------------------------


def measure(contestant: Contestant, shop: Workshop, backlog: Backlog, take: int, limit_s: float) -> Found:
    """Fill a database, start the broker on it, take messages.

    Raises:
        ServerFailed: the broker did not start.
        TimeoutError, subprocess.TimeoutExpired: a message, or all of them, did not come within the limit.
    """
    folder = shop.room(f"{contestant.name}-{backlog.destination}-{backlog.rows}".replace(":", "-"))
    with database(contestant.store, folder) as found:
        began_s = time.monotonic()
        fill(found.url, backlog, take + 1)
        print(f"{contestant.name:<21} {backlog.name}: filled in {time.monotonic() - began_s:.0f} s", flush=True)
        if found.server is not None:
            found.server.restart()
        began_s = time.monotonic()
        with contestant.serving(folder, shop.class_path, found.url) as running:
            master_s = time.monotonic() - began_s
            receive_one(running.port, backlog.destination, limit_s)
            first_s, start_mib = time.monotonic() - began_s, memory_mib(running.pid)
            scenario = Scenario("backlog", "recv", 1, 1000, take, 0)
            figures = run(
                shop.generator,
                running.port,
                scenario,
                stomp_name(backlog.destination),
                backlog.body_bytes,
                client_id=CLIENT_ID if backlog.destination == TOPIC else None,
                timeout_s=limit_s,
            )
            return Found(master_s, first_s, start_mib, figures.rate, peak_memory_mib(running.pid))


def receive_one(port: int, destination: Destination, limit_s: float) -> None:
    """Receive the first message and acknowledge it."""
    durable = destination == TOPIC
    client_id = {"client-id": SUBSCRIPTION.client_id} if durable else {}
    name = {"activemq.subscriptionName": SUBSCRIPTION.subscription_name} if durable else {}
    with Client(("127.0.0.1", port), timeout_s=limit_s) as client:
        client.connect(**client_id)
        prefetch = {"activemq.prefetchSize": "1"}
        client.send(
            "SUBSCRIBE",
            {"id": "1", "destination": stomp_name(destination), "ack": "client-individual", **prefetch, **name},
        )
        client.done("ACK", client.named(client.message()))
        client.done("DISCONNECT")


def stomp_name(destination: Destination) -> str:
    """The destination as STOMP clients write it."""
    return f"/{'queue' if destination == QUEUE else 'topic'}/BACKLOG"


def missed(kind: str, found: dict[Backlog, Found]) -> list[str]:
    """The goals that our broker missed on one database."""
    slow = [f"{backlog.name}: {one.first_s:.1f} s" for backlog, one in found.items() if one.first_s > START_GOAL_S]
    problems = [f"{kind}: first message after more than {START_GOAL_S:g} s: {each}" for each in slow]
    of_queues = [one for backlog, one in found.items() if backlog.destination == QUEUE]
    for what, values in (
        ("dispatch rates", [one.rate for one in of_queues]),
        ("most memory", [one.peak_mib for one in of_queues]),
    ):
        if values and (spread := 1 - min(values) / max(values)) > SPREAD_GOAL:
            problems.append(f"{kind}: {what} differ by {spread:.0%}")
    return problems


@click.command(help=__doc__)
@click.argument("rows", nargs=-1, type=click.IntRange(1))
@click.option("--database", "databases", multiple=True, type=click.Choice(DATABASES), help="May be repeated.")
@click.option("--durable-rows", multiple=True, type=click.IntRange(1), help="May be repeated. [default: 1000000]")
@click.option("--only", type=click.Choice(["activemq", "jdbcstore"]), help="One of the two brokers.")
@click.option("--take", default=50_000, show_default=True, help="Messages that the consumer takes.")
@click.option("--body-bytes", default=100, show_default=True, help="Bytes of each body.")
@click.option("--limit-s", default=300.0, show_default=True, help="How long ActiveMQ may take.")
def main(
    rows: tuple[int, ...],
    databases: tuple[str, ...],
    durable_rows: tuple[int, ...],
    only: str | None,
    take: int,
    body_bytes: int,
    limit_s: float,
) -> None:
    """Measure and print."""
    backlogs = [Backlog(QUEUE, number, body_bytes) for number in rows or (() if durable_rows else ROWS)]
    backlogs += [Backlog(TOPIC, number, body_bytes) for number in durable_rows or (() if rows else (1_000_000,))]
    problems: list[str] = []
    with workshop() as shop:
        for contestant in opponents(databases):
            if contestant.store == "kahadb" or (only and contestant.broker != only):
                continue  # nobody but ActiveMQ can fill KahaDB's journal
            found: dict[Backlog, Found] = {}
            for backlog in backlogs:
                try:
                    one = found[backlog] = measure(contestant, shop, backlog, take, limit_s)
                except (ServerFailed, TimeoutError, subprocess.TimeoutExpired) as error:
                    if contestant.broker == "jdbcstore":
                        raise
                    why = str(error).partition("\n")[0] if isinstance(error, ServerFailed) else f"limit {limit_s:g} s"
                    print(f"{contestant.name:<21} {backlog.name}: gave up, {why}", flush=True)
                    continue
                print(f"{contestant.name:<21} {backlog.name}: {one}", flush=True)
            if contestant.broker == "jdbcstore":
                problems += missed(contestant.store, found)
    for problem in problems:
        print(f"goal missed: {problem}")
    sys.exit(1 if problems else 0)


if __name__ == "__main__":
    main()
