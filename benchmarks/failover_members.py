"""How long nobody serves when a member of a cluster goes: Galera or Group Replication, two brokers, one client.

Each event is done to the member on which the master writes; two times are told, both from the event: when another
member has committed a write, which is the cluster's own time, and when the client got its first receipt after the
event. Both clusters here take a silent member for gone after 2 s (Galera) and 5 s (Group Replication).
"""

from __future__ import annotations

import statistics
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Final

import click
import pymysql
from rich.console import Console
from rich.table import Table

from benchmarks.failover import Pair, Producer
from tests.servers.galera import GaleraCluster, GaleraNode
from tests.servers.group_replication import GroupCluster, GroupMember
from tests.waiting import wait_until

Cluster = GaleraCluster | GroupCluster
Member = GaleraNode | GroupMember

CLUSTERS: Final[Mapping[str, type[GaleraCluster] | type[GroupCluster]]] = {
    "galera": GaleraCluster,
    "group": GroupCluster,
}

console = Console()


def come_back(member: Member) -> None:
    """Start it again, and let it join."""
    member.start()
    if isinstance(member, GroupMember):
        member.join()


EVENTS: Final[Mapping[str, tuple[Callable[[Member], object], Callable[[Member], object]]]] = {
    "member killed": (lambda member: member.kill(), come_back),
    "member frozen": (lambda member: member.pause(), lambda member: member.proceed()),
}


def is_whole(cluster: Cluster) -> bool:
    """Whether all members are there."""
    with suppress(OSError, pymysql.Error):
        if isinstance(cluster, GroupCluster):
            for member in cluster.members:
                member.rejoin()
            return all(member.members_online() == len(cluster.members) for member in cluster.members)
        return all(
            node.status("wsrep_local_state_comment") == "Synced" and node.status("wsrep_cluster_size") == "3"
            for node in cluster.members
        )
    return False


def written(cluster: Cluster, database: str) -> Member:
    """The member on which the master's sessions are."""
    question = f"SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE DB = '{database}'"
    members: list[Member] = [*cluster.members]
    return max(members, key=lambda member: int(str(member.execute(question)[0][0])))


def takes_writes(member: Member, database: str) -> bool:
    """Whether a write is committed there."""
    with suppress(OSError, pymysql.Error):
        member.execute(f"REPLACE INTO {database}.pulse VALUES (1, UUID())")
        return True
    return False


def once(cluster: Cluster, producer: Producer, event: str) -> tuple[float, float]:
    """Do it; seconds until another member has committed something, and until the first receipt after the event."""
    wait_until(lambda: is_whole(cluster), "the cluster is whole", timeout_s=240)
    do, heal = EVENTS[event]
    member = written(cluster, "failover")
    producer.first_receipt(time.monotonic())
    began_s = time.monotonic()
    do(member)
    done_s = time.monotonic()
    others = [other for other in cluster.members if other is not member]
    wait_until(lambda: any(takes_writes(other, "failover") for other in others), timeout_s=240)
    taken_s = time.monotonic()
    served_s = producer.first_receipt(done_s)
    heal(member)
    return taken_s - began_s, served_s - began_s


@click.command(help=__doc__)
@click.option("--cluster", "kind", type=click.Choice(list(CLUSTERS)), default="galera", show_default=True)
@click.option("--event", "events", multiple=True, type=click.Choice(list(EVENTS)), help="May be repeated.")
@click.option("--runs", default=20, show_default=True, help="Of each.")
@click.option("--lease-ms", default=10_000, show_default=True)
def main(kind: str, events: tuple[str, ...], runs: int, lease_ms: int) -> None:
    """Measure and print the table."""
    table = Table(title=f"{kind}: seconds after the event, lease {lease_ms / 1000:g} s", title_justify="left")
    for column in ("event", "runs", "written p50", "max", "receipt p50", "max"):
        table.add_column(column, justify="left" if column == "event" else "right")
    with tempfile.TemporaryDirectory() as folder, CLUSTERS[kind]() as cluster:
        cluster.create_database("failover")
        cluster.writer().execute("CREATE TABLE failover.pulse (id INT PRIMARY KEY, mark CHAR(36))")
        url = f"{cluster.url('failover')}&lease_ms={lease_ms}&require_replication=quorum"
        with Pair(url, Path(folder)) as pair, Producer(pair.addresses) as producer:
            assert isinstance(producer, Producer)
            for event in events or EVENTS:
                found = [once(cluster, producer, event) for _ in range(runs)]
                console.print(f"{event}: {' '.join(f'{p:.1f}/{s:.1f}' for p, s in found)}", highlight=False)
                cells = [f"{f(values):.1f}" for values in zip(*found, strict=True) for f in (statistics.median, max)]
                table.add_row(event, str(runs), *cells)
    console.print(table)


if __name__ == "__main__":
    main()
