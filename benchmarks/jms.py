"""One Java program of JMS against a real ActiveMQ and our broker, on the same store, interleaved.

``python -m benchmarks.jms [--store postgresql] [--rounds 3] [--scale 1.0]`` starts for each store a real ActiveMQ and
our broker beside each other, and lets `JmsLoad.java` run each scenario on one and then on the other, round by round, so
that a noisy machine hits both. A line for each scenario says the median rate of both, their ratio, and the medians of
p50 and p99; then what 1 000 idle connections with a consumer each take of memory.

Both force every commit to the disk: PostgreSQL and MariaDB as they are installed, KahaDB with
``enableJournalDiskSyncs`` (its default) and ours.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import click

from benchmarks.contestants import Contestant, database, memory_mib, workshop
from benchmarks.rest import wait_for_rest
from tests.broker_process import PROGRAM, BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.servers.server import free_port

STORES = ("postgresql", "mariadb", "kahadb")
#: Name of the scenario, clients, messages of each. What is fast has more: the Java program is new in each run, and a
#: short one is mostly its start.
SCENARIOS = (
    ("send", 1, 1500),
    ("send", 16, 3000),
    ("send-async", 1, 10_000),
    ("send-transacted", 1, 10_000),
    ("receive-auto", 1, 5000),
    ("receive-client", 1, 5000),
    ("receive-dups-ok", 1, 5000),
    ("receive-individual", 1, 5000),
    ("receive-transacted", 1, 20_000),
    ("receive-auto", 16, 500),
    ("request-reply", 1, 2000),
    ("connect-send-close", 1, 200),
)
IDLE = 1000
TIMEOUT_S = 600

_LINE = re.compile(
    r"(?P<name>[\w-]+) clients=(?P<clients>\d+) rate=(?P<rate>\d+)/s p50=(?P<p50>[\d.]+)ms p99=(?P<p99>[\d.]+)ms"
)


@dataclass(frozen=True)
class Served:
    """A broker that JMS programs reach: whose it is, its address, its process."""

    broker: str
    url: str
    pid: int


@contextmanager
def serving(broker: str, store: str, folder: Path, class_path: str) -> Iterator[Served]:
    """Start one broker on a store of its own."""
    with database(store, folder) as found:
        if broker == "activemq":
            kind = "kahadb" if store == "kahadb" else JdbcStore(found.url)
            with ActiveMQ(class_path, folder, kind, java_options=["-Xms1g", "-Xmx1g"]) as activemq:  # type: ignore[arg-type]
                yield Served(broker, f"tcp://127.0.0.1:{activemq.openwire_port}", activemq.pid)
        else:
            port = free_port()
            with BrokerProcess(found.url, folder, "--bind", f"openwire://127.0.0.1:{port}", program=PROGRAM) as ours:
                yield Served(broker, f"tcp://127.0.0.1:{port}", ours.pid)


def java(class_path: str, folder: Path) -> list[str]:
    """The command of the load program, compiled."""
    source = Path(__file__).with_name("JmsLoad.java")
    subprocess.run(["javac", "-cp", class_path, "-d", str(folder), str(source)], check=True)
    return ["java", "-Xmx1g", "-cp", os.pathsep.join((str(folder), class_path)), "JmsLoad"]


def measured(command: list[str], served: Served, scenario: str) -> tuple[float, float, float]:
    """Rate, p50 and p99 (ms) of one scenario."""
    done = subprocess.run(
        [*command, served.url, scenario], capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    line = _LINE.search(done.stdout)
    if done.returncode or line is None:
        raise RuntimeError(f"{served.broker} {scenario}: {done.stdout}{done.stderr[-2000:]}")
    return float(line["rate"]), float(line["p50"]), float(line["p99"])


def idle_mib(command: list[str], served: Served) -> float:
    """What so many idle connections add to a broker's memory, in MiB."""
    before = memory_mib(served.pid)
    with subprocess.Popen(
        [*command, served.url, f"idle:{IDLE}:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as load:
        assert load.stdout is not None
        load.stdout.readline()
        added = memory_mib(served.pid) - before
        load.communicate(b"\n", TIMEOUT_S)
    return added


@click.command(help=__doc__)
@click.option("--store", "stores", multiple=True, type=click.Choice(STORES), help="May be repeated. [default: all]")
@click.option("--rounds", default=3, show_default=True)
@click.option("--scale", default=1.0, show_default=True, help="Multiplies the number of messages.")
@click.option("--only", default="", help="Scenarios whose names contain this.")
def main(stores: tuple[str, ...], rounds: int, scale: float, only: str) -> None:
    """Measure and print."""
    with workshop() as shop:
        command = java(shop.class_path, shop.room("load"))
        for store in stores or STORES:
            with ExitStack() as stack:
                both = [
                    stack.enter_context(
                        serving(broker, store, shop.room(Contestant(broker, store, None).name), shop.class_path)
                    )
                    for broker in ("activemq", "jdbcstore")
                ]
                compare(command, store, both, rounds, scale, only)


def compare(command: list[str], store: str, both: list[Served], rounds: int, scale: float, only: str) -> None:
    """Every scenario on both brokers, round by round."""
    for served in both:  # compilers, caches, first pages
        measured(command, served, "send:4:200")
    for name, clients, messages in SCENARIOS:
        if only not in name:
            continue
        found: dict[str, list[tuple[float, float, float]]] = {served.broker: [] for served in both}
        for _ in range(rounds):
            for served in both:
                wait_for_rest()
                scenario = f"{name}:{clients}:{max(100, int(messages * scale))}"
                found[served.broker].append(measured(command, served, scenario))
        theirs, ours = ([median(column) for column in zip(*found[served.broker], strict=True)] for served in both)
        print(
            f"{store:<11}{name:<20}x{clients:<3} activemq {theirs[0]:>8,.0f}/s  ours {ours[0]:>8,.0f}/s"
            f"  ratio {ours[0] / theirs[0]:5.2f}  p50 {theirs[1]:7.2f} {ours[1]:7.2f} ms"
            f"  p99 {theirs[2]:7.2f} {ours[2]:7.2f} ms",
            flush=True,
        )
    if not only:
        for served in both:
            print(
                f"{store:<11}{IDLE} idle connections add {idle_mib(command, served):.0f} MiB to {served.broker}",
                flush=True,
            )


if __name__ == "__main__":
    main()
