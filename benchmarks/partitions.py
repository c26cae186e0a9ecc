"""Several brokers on one database server, each master of its own tables: what more cores give.

One broker has all destinations, then two share them out: each has a ``table_prefix``, a lease and a term of its own in
the same database. The load is the same in both cases and runs in turns; the generators for the partitions run at once.
The ratio tells something about cores only where the machine has more of them than brokers, database and generators
need, so give the cores to be used: ``--broker-cores 0,1`` pins the first broker to core 0, the second to core 1, and
everything else to the rest, if there is a rest. Processor time of each message is printed as well: that is the same on
every machine, more or less, and says what more cores could give.
"""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, replace
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import Contestant, Workshop, database, processor_s, workshop
from benchmarks.load import Scenario, run
from benchmarks.rest import wait_for_rest

_SCENARIOS: Final = (
    Scenario("16 producers x 50 in flight", "send", 16, 50, 1000, 1.6),
    Scenario("4 consumers", "recv", 4, 1000, 4000, 1.6),
)

console = Console()


@dataclass(frozen=True)
class Partition:
    """A broker that has some of the destinations."""

    port: int
    pid: int


@click.command(help=__doc__)
@click.option("--store", default="postgresql", type=click.Choice(["postgresql", "mariadb", "mysql"]))
@click.option("--partitions", default=2, show_default=True, help="Brokers that share the destinations.")
@click.option("--rounds", default=5, show_default=True, help="How often each has its turn.")
@click.option("--scale", default=1.0, show_default=True, help="Multiplies the number of messages.")
@click.option("--broker-cores", help="Cores of the brokers, one each, with commas between.")
def main(store: str, partitions: int, rounds: int, scale: float, broker_cores: str | None) -> None:
    """Run all rounds and print the table."""
    cores = [int(core) for core in broker_cores.split(",")] if broker_cores else []
    if cores and len(cores) < partitions:
        raise click.BadParameter(f"{partitions} brokers want as many cores")
    if cores and (rest := os.sched_getaffinity(0) - set(cores)):
        os.sched_setaffinity(0, rest)  # servers and generators inherit it
    scenarios = [replace(one, messages=max(1, int(one.messages * scale))) for one in _SCENARIOS]
    rates: dict[tuple[str, int], list[float]] = {}
    times: dict[tuple[str, int], list[float]] = {}
    with workshop(with_java=False) as shop, ExitStack() as stack:
        whole = _started(store, 1, cores, shop, stack)
        divided = _started(store, partitions, cores, shop, stack)
        for _ in range(rounds):
            for scenario in scenarios:
                for brokers in (whole, divided):
                    wait_for_rest()
                    rate, broker_us = _turn(shop, scenario, brokers)
                    rates.setdefault((scenario.name, len(brokers)), []).append(rate)
                    times.setdefault((scenario.name, len(brokers)), []).append(broker_us)
    table = Table(title=f"{store}, {os.cpu_count()} cores, {rounds} rounds, medians", title_justify="left")
    for column in ("load", "brokers", "msg/s", "ratio", "broker µs"):
        table.add_column(column)
    for (name, count), some in rates.items():
        ratio = median(some) / median(rates[name, 1])
        table.add_row(name, str(count), f"{median(some):,.0f}", f"{ratio:.2f}", f"{median(times[name, count]):.0f}")
    console.print(table)


def _started(store: str, count: int, cores: list[int], shop: Workshop, stack: ExitStack) -> list[Partition]:
    """Brokers on one database of a server of their own."""
    folder = shop.room(f"{store}-{count}")
    found = stack.enter_context(database(store, folder))
    partitions = []
    for number in range(count):
        url = f"{found.url}{'&' if '?' in found.url else '?'}table_prefix=P{number}_"
        running = stack.enter_context(Contestant("jdbcstore", store, None).serving(folder, "", url))
        if cores:
            os.sched_setaffinity(running.pid, {cores[number]})
        partitions.append(Partition(running.port, running.pid))
    return partitions


def _turn(shop: Workshop, scenario: Scenario, partitions: list[Partition]) -> tuple[float, float]:
    """Messages a second of all together, and the processor time of each in µs. The load is shared out."""
    share = replace(scenario, connections=scenario.connections // len(partitions))
    before_s = sum(processor_s(one.pid) for one in partitions)
    began_s = time.perf_counter()
    with ThreadPoolExecutor(len(partitions)) as pool:
        list(pool.map(lambda one: run(shop.generator, one.port, share, "/queue/BENCH", 1024), partitions))
    elapsed_s = time.perf_counter() - began_s
    messages = share.connections * share.messages * len(partitions)
    used_s = sum(processor_s(one.pid) for one in partitions) - before_s
    return messages / elapsed_s, used_s / messages * 1e6


if __name__ == "__main__":
    main()
