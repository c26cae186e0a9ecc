"""How long nobody serves when the database fails over: PostgreSQL with Patroni, two brokers, one client.

Each event is done to the primary; two times are told, both from the event: when another server took writes, which is
the cluster's own time, and when the client got its first receipt. What a broker adds is the difference.

* **switchover**: in good order;
* **PostgreSQL killed**: its Patroni sees it and gives up the leader's key;
* **node killed**: nobody sees it, the key runs out (Patroni's ttl, 20 s at least);
* **node frozen**: SIGSTOP of everything, which also keeps connections open.
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.failover import Pair, Producer
from tests.servers.patroni import PatroniCluster, PatroniNode, PatroniSettings

_POLL_S: Final = 0.02

console = Console()


def switch_over(cluster: PatroniCluster, primary: PatroniNode) -> None:
    """In good order."""
    cluster.switch_over()


EVENTS: Final[Mapping[str, tuple[Callable[[PatroniCluster, PatroniNode], object], Callable[[PatroniNode], object]]]] = {
    "switchover": (switch_over, lambda node: None),
    "PostgreSQL killed": (lambda cluster, node: node.kill_postgresql(), lambda node: None),
    "node killed": (lambda cluster, node: node.kill(), PatroniNode.start),
    "node frozen": (lambda cluster, node: node.pause(), PatroniNode.proceed),
}


def takes_writes(node: PatroniNode) -> bool:
    """Whether a node is primary by its own word."""
    status = node.status()
    return status.get("role") in ("primary", "master") and status.get("state") == "running"


def once(cluster: PatroniCluster, producer: Producer, event: str) -> tuple[float, float]:
    """Do it; seconds until another node is primary, and until the first receipt after that."""
    cluster.wait_for(cluster.is_whole)
    former = cluster.primary()
    assert former is not None
    do, heal = EVENTS[event]
    producer.first_receipt(time.monotonic())
    began_s = time.monotonic()
    do(cluster, former)
    others = [node for node in cluster.nodes if node is not former]
    cluster.wait_for(lambda: any(map(takes_writes, others)))
    primary_s = time.monotonic()
    served_s = producer.first_receipt(primary_s - _POLL_S)
    heal(former)
    return primary_s - began_s, served_s - began_s


@click.command(help=__doc__)
@click.option("--event", "events", multiple=True, type=click.Choice(list(EVENTS)), help="May be repeated.")
@click.option("--runs", default=20, show_default=True, help="Of each.")
@click.option("--lease-ms", default=10_000, show_default=True)
def main(events: tuple[str, ...], runs: int, lease_ms: int) -> None:
    """Measure and print the table."""
    table = Table(title=f"seconds after the event, lease {lease_ms / 1000:g} s", title_justify="left")
    for column in ("event", "runs", "primary p50", "max", "receipt p50", "max", "difference p50", "max"):
        table.add_column(column, justify="left" if column == "event" else "right")
    with tempfile.TemporaryDirectory() as folder, PatroniCluster(PatroniSettings(synchronous_mode="on")) as cluster:
        cluster.create_database("failover")
        url = f"{cluster.url('failover')}&lease_ms={lease_ms}&require_replication=quorum"
        with Pair(url, Path(folder)) as pair:
            producer = Producer(pair.addresses)
            with producer:
                for event in events or EVENTS:
                    found = [once(cluster, producer, event) for _ in range(runs)]
                    columns = [list(values) for values in zip(*found, strict=True)]
                    columns.append([served - primary for primary, served in found])
                    console.print(f"{event}: {' '.join(f'{p:.1f}/{s:.1f}' for p, s in found)}", highlight=False)
                    cells = [f"{f(values):.1f}" for values in columns for f in (statistics.median, max)]
                    table.add_row(event, str(runs), *cells)
    console.print(table)


if __name__ == "__main__":
    main()
