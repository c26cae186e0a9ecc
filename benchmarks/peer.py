"""Compare our broker with RabbitMQ on this machine: all run at once, and take turns under the same load.

In every round each contestant does each scenario once, one after the other, so that what else the machine does hits
all alike. The tables have medians and ranges over the rounds, the ratio of medians to RabbitMQ's quorum queue, and the
processor time of each message: the broker's, and with it the database server's. Run ``make benchmark-peer``, or
``python -m benchmarks.peer`` where Debian's rabbitmq-server is installed.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import Contestant, Workshop, database, peak_memory_mib, workshop
from benchmarks.load import Figures, Scenario, run
from benchmarks.rabbitmq import RabbitMQ
from tests.servers.server import children

_PEER: Final = "rabbitmq/quorum"
_CLASSIC: Final = "rabbitmq/classic"
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")

#: What each has done when it says "stored".
DURABILITY: Final = {
    _PEER: "confirmed after fdatasync of the write-ahead log, defaults; one node",
    _CLASSIC: "durable queue, persistent messages, confirmed after fsync, defaults; one node",
    "jdbcstore/postgresql": "COMMIT, fsync=on, synchronous_commit=on",
    "jdbcstore/mariadb": "COMMIT, innodb_flush_log_at_trx_commit=1",
    "jdbcstore/mysql": "COMMIT, innodb_flush_log_at_trx_commit=1, no binary log",
    "jdbcstore/sqlite": "COMMIT, journal_mode=WAL, synchronous=FULL",
    "jdbcstore/kahadb": "journalDiskSyncStrategy=ALWAYS, fdatasync of each batch",
}

#: What is sent in a round is received in it, so every round begins with a queue that is nearly empty.
SCENARIOS: Final = [
    Scenario("1 producer x 1 in flight", "send", 1, 1, 1500, 1.2),
    Scenario("1 producer x 100 in flight", "send", 1, 100, 10_000, 1.5),
    Scenario("16 producers x 1 in flight", "send", 16, 1, 400, 1.2),
    Scenario("16 producers x 50 in flight", "send", 16, 50, 1000, 1.5),
    Scenario("1 consumer", "recv", 1, 1000, 15_000, 1.5),
    Scenario("4 consumers", "recv", 4, 1000, 4500, 1.5),
]

console = Console(width=140)


@dataclass(frozen=True)
class Contender:
    """One that is running.

    Args:
        name: as in the tables.
        port: its STOMP port.
        destination: the queue that is used.
        broker_pid: its process.
        database_pid: the process whose children are the database server, None without one.
    """

    name: str
    port: int
    destination: str
    broker_pid: int
    database_pid: int | None

    def processor_s(self) -> tuple[float, float]:
        """The processor time that the broker has used, and the broker with the database server, in seconds."""
        broker = _processor_s(self.broker_pid)
        return broker, broker if self.database_pid is None else broker + _of_all(self.database_pid)


@dataclass(frozen=True)
class Turn:
    """One contestant in one scenario in one round; times in µs for each message."""

    figures: Figures
    broker_us: float
    all_us: float


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(DURABILITY)), help="A contestant; may be repeated.")
@click.option("--rounds", default=5, show_default=True, help="How often each has its turn.")
@click.option("--body-bytes", default=1024, show_default=True, help="Bytes of each body.")
@click.option("--scale", default=1.0, show_default=True, help="Multiplies the number of messages.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(only: tuple[str, ...], rounds: int, body_bytes: int, scale: float, json_file: Path | None) -> None:
    """Run all rounds and print the tables."""
    scenarios = [replace(one, messages=max(1, int(one.messages * scale))) for one in SCENARIOS]
    turns: dict[str, dict[str, list[Turn]]] = {}
    with workshop() as shop, ExitStack() as stack:
        contenders = list(_started(only or tuple(DURABILITY), shop, stack))
        for contender in contenders:
            run(shop.generator, contender.port, replace(scenarios[3], name="warm-up"), "/queue/WARM", body_bytes)
        for number in range(1, rounds + 1):
            for scenario in scenarios:
                for contender in contenders:
                    with console.status(f"round {number}, {scenario.name}, {contender.name}"):
                        turn = _turn(shop.generator, contender, scenario, body_bytes)
                    turns.setdefault(scenario.name, {}).setdefault(contender.name, []).append(turn)
        memory = {contender.name: peak_memory_mib(contender.broker_pid) for contender in contenders}
    _print(scenarios, turns, memory, rounds)
    if json_file is not None:
        found = {s: {name: [asdict(one) for one in some] for name, some in by.items()} for s, by in turns.items()}
        json_file.write_text(json.dumps({"turns": found, "memory_mib": memory, "durability": DURABILITY}, indent=1))


def _started(names: tuple[str, ...], shop: Workshop, stack: ExitStack) -> Iterator[Contender]:
    """Start those that are wanted; two of RabbitMQ are one node with two queues."""
    if _PEER in names or _CLASSIC in names:
        rabbit = stack.enter_context(RabbitMQ(shop.room("rabbitmq")))
        if _PEER in names:
            yield Contender(_PEER, rabbit.stomp_port, rabbit.declare_quorum_queue("QUORUM"), rabbit.pid, None)
        if _CLASSIC in names:
            yield Contender(_CLASSIC, rabbit.stomp_port, "/queue/CLASSIC", rabbit.pid, None)
    for name in names:
        owner, _, store = name.partition("/")
        if owner != "jdbcstore":
            continue
        folder = shop.room(name)
        found = stack.enter_context(database(store, folder))
        running = stack.enter_context(Contestant("jdbcstore", store, None).serving(folder, shop.class_path, found.url))
        keeper = None if found.server is None else int((found.server.folder / "keeper.pid").read_text())
        yield Contender(name, running.port, "/queue/BENCH", running.pid, keeper)


def _turn(generator: Path, contender: Contender, scenario: Scenario, body_bytes: int) -> Turn:
    broker_s, all_s = contender.processor_s()
    figures = run(generator, contender.port, scenario, contender.destination, body_bytes)
    broker_end_s, all_end_s = contender.processor_s()
    messages = scenario.connections * scenario.messages
    return Turn(figures, (broker_end_s - broker_s) / messages * 1e6, (all_end_s - all_s) / messages * 1e6)


def _processor_s(pid: int, *, with_ended: bool = False) -> float:
    """Of one process, with those of its children that have ended if that is wanted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS_PER_S


def _of_all(pid: int) -> float:
    """Of all processes below this one."""
    seconds = 0.0
    for child in children(pid):
        try:
            seconds += _processor_s(child, with_ended=True) + _of_all(child)
        except (FileNotFoundError, ProcessLookupError):  # it has ended, and its parent counts it
            continue
    return seconds


def _print(
    scenarios: list[Scenario], turns: dict[str, dict[str, list[Turn]]], memory: dict[str, float], rounds: int
) -> None:
    console.print(
        f"{platform.machine()}, {os.cpu_count()} cores, {platform.python_version()}, {rounds} rounds, medians"
    )
    for scenario in scenarios:
        table = Table(title=f"{scenario.name} ({scenario.direction})", title_justify="left")
        for column in ("broker", "msg/s", "range", "ratio", "goal", "broker µs", "+ database µs", "p50 ms", "p99 ms"):
            table.add_column(column, justify="left" if column == "broker" else "right")
        peer = turns[scenario.name].get(_PEER)
        for name, some in turns[scenario.name].items():
            rates = [one.figures.rate for one in some]
            ratio = "" if peer is None else f"{median(rates) / median(one.figures.rate for one in peer):.2f}"
            table.add_row(
                name,
                f"{median(rates):,.0f}",
                f"{min(rates):,.0f}–{max(rates):,.0f}",
                ratio,
                f"{scenario.goal}" if name.startswith("jdbcstore") else "",
                f"{median(one.broker_us for one in some):.0f}",
                f"{median(one.all_us for one in some):.0f}",
                _median_ms([one.figures.p50_ms for one in some]),
                _median_ms([one.figures.p99_ms for one in some]),
            )
        console.print(table)
    table = Table(title="what each has done when it says stored; peak memory of the broker", title_justify="left")
    for column in ("broker", "durability", "MiB"):
        table.add_column(column)
    for name, mib in memory.items():
        table.add_row(name, DURABILITY[name], f"{mib:,.0f}")
    console.print(table)


def _median_ms(times: list[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{median(known):.2f}" if known else ""


if __name__ == "__main__":
    main()
