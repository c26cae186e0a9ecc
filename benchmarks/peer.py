"""Compare our broker with RabbitMQ and ActiveMQ on this machine: all run at once, and take turns under the same load.

In every round each contestant does each scenario once, one after the other, so that what else the machine does hits
all alike. Each turn begins when the machine is at rest: what one has put off does not burden the next. It lasts long
enough for a contestant to come to what it puts off; ActiveMQ gets a quarter of the messages. And each of our stores is
measured without a broker, one row and one commit at a time. The tables have medians and ranges over the rounds, the
ratio of medians to RabbitMQ's quorum queue and to ActiveMQ on the same store (SQLite: to its KahaDB, MySQL: to its
MariaDB), and the processor time of each message: the broker's, and with it the database server's.

Run ``make benchmark-peer``, or ``python -m benchmarks.peer`` where Debian's rabbitmq-server is installed.
``python -m benchmarks.tables`` writes what ``--json`` has kept into the documentation.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks import limit
from benchmarks.contestants import Contestant, Database, Workshop, database, peak_memory_mib, processor_s, workshop
from benchmarks.load import Figures, Scenario, run
from benchmarks.rabbitmq import RabbitMQ
from benchmarks.rest import wait_for_rest
from tests.servers.server import children

_PEER: Final = "rabbitmq/quorum"
_CLASSIC: Final = "rabbitmq/classic"

#: What each has done when it says "stored".
DURABILITY: Final = {
    _PEER: "confirmed after fdatasync of the write-ahead log, defaults; one node",
    _CLASSIC: "durable queue, persistent messages, confirmed after fsync, defaults; one node",
    "activemq/postgresql": "COMMIT, fsync=on, synchronous_commit=on",
    "activemq/mariadb": "COMMIT, innodb_flush_log_at_trx_commit=1",
    "activemq/kahadb": "journalDiskSyncStrategy=ALWAYS (its default)",
    "jdbcstore/postgresql": "COMMIT, fsync=on, synchronous_commit=on",
    "jdbcstore/mariadb": "COMMIT, innodb_flush_log_at_trx_commit=1",
    "jdbcstore/mysql": "COMMIT, innodb_flush_log_at_trx_commit=1, no binary log",
    "jdbcstore/sqlite": "COMMIT, journal_mode=WAL, synchronous=FULL",
    "jdbcstore/kahadb": "journalDiskSyncStrategy=ALWAYS, fdatasync of each batch",
}

#: Which ActiveMQ ours is compared with.
ACTIVEMQ: Final = {
    "jdbcstore/postgresql": "activemq/postgresql",
    "jdbcstore/mariadb": "activemq/mariadb",
    "jdbcstore/mysql": "activemq/mariadb",
    "jdbcstore/sqlite": "activemq/kahadb",
    "jdbcstore/kahadb": "activemq/kahadb",
}
_LONE: Final = "1 producer x 1 in flight"
#: Runs before the first round: Java compiles what it has done often.
_WARM_UPS: Final = 3
_LIMIT_S: Final = 1.0
#: ActiveMQ takes as long for so many of the messages as the others for all.
_ACTIVEMQ_SHARE: Final = 0.25

#: What is sent in a round is received in it, so every round begins with a queue that is nearly empty.
SCENARIOS: Final = [
    Scenario(_LONE, "send", 1, 1, 6000, 1.2),
    Scenario("1 producer x 100 in flight", "send", 1, 100, 40_000, 1.5),
    Scenario("16 producers x 1 in flight", "send", 16, 1, 1600, 1.2),
    Scenario("16 producers x 50 in flight", "send", 16, 50, 4000, 1.5),
    Scenario("1 consumer", "recv", 1, 1000, 60_000, 1.5),
    Scenario("4 consumers", "recv", 4, 1000, 18_000, 1.5),
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
        limit_url: of an empty store of the same kind, on the same server or disk; None where it is not measured.
    """

    name: str
    port: int
    destination: str
    broker_pid: int
    database_pid: int | None
    limit_url: str | None = None

    def part_of(self, scenario: Scenario) -> Scenario:
        """The same with as many messages as it gets in one turn."""
        if self.name.startswith("activemq/"):
            return replace(scenario, messages=max(1, int(scenario.messages * _ACTIVEMQ_SHARE)))
        return scenario

    def processor_s(self) -> tuple[float, float]:
        """The processor time that the broker has used, and the broker with the database server, in seconds."""
        broker = processor_s(self.broker_pid)
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
    limits: dict[str, list[float]] = {}
    names = only or tuple(DURABILITY)
    with workshop(with_java=any(name.startswith("activemq/") for name in names)) as shop, ExitStack() as stack:
        contenders = list(_started(names, shop, stack))
        for contender in contenders:
            for _ in range(_WARM_UPS):
                run(shop.generator, contender.port, contender.part_of(scenarios[3]), "/queue/WARM", body_bytes)
        for number in range(1, rounds + 1):
            for scenario in scenarios:
                for contender in contenders:
                    with console.status(f"round {number}, {scenario.name}, {contender.name}"):
                        wait_for_rest()
                        turn = _turn(shop.generator, contender, contender.part_of(scenario), body_bytes)
                    turns.setdefault(scenario.name, {}).setdefault(contender.name, []).append(turn)
                    if scenario.name == _LONE and contender.limit_url is not None:
                        wait_for_rest()
                        bound = limit.measure(contender.limit_url, body_bytes, 1, _LIMIT_S)
                        limits.setdefault(contender.name, []).append(bound.rate)
        memory = {contender.name: peak_memory_mib(contender.broker_pid) for contender in contenders}
    found = {s: {name: [asdict(one) for one in some] for name, some in by.items()} for s, by in turns.items()}
    kept = {
        "machine": f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}",
        "rounds": rounds,
        "turns": found,
        "limits": limits,
        "memory_mib": memory,
        "durability": {name: DURABILITY[name] for name in memory},
    }
    _print(kept)
    if json_file is not None:
        json_file.write_text(json.dumps(kept, indent=1))


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
        if owner == "rabbitmq":
            continue
        folder = shop.room(name)
        found = stack.enter_context(database(store, folder))
        contestant = Contestant("jdbcstore" if owner == "jdbcstore" else "activemq", store, None)
        running = stack.enter_context(contestant.serving(folder, shop.class_path, found.url))
        keeper = None if found.server is None else int((found.server.folder / "keeper.pid").read_text())
        url = _limit_url(found, store, folder) if owner == "jdbcstore" else None
        yield Contender(name, running.port, "/queue/BENCH", running.pid, keeper, url)


def _limit_url(found: Database, store: str, folder: Path) -> str:
    """Another store of the same kind, with nothing in it."""
    if found.server is not None:
        found.server.create_database("bound")
        return found.server.url("bound")
    return f"kahadb:{folder / 'bound'}" if store == "kahadb" else f"sqlite:///{folder / 'bound.db'}"


def _turn(generator: Path, contender: Contender, scenario: Scenario, body_bytes: int) -> Turn:
    broker_s, all_s = contender.processor_s()
    figures = run(generator, contender.port, scenario, contender.destination, body_bytes)
    broker_end_s, all_end_s = contender.processor_s()
    messages = scenario.connections * scenario.messages
    return Turn(figures, (broker_end_s - broker_s) / messages * 1e6, (all_end_s - all_s) / messages * 1e6)


def _of_all(pid: int) -> float:
    """Of all processes below this one."""
    seconds = 0.0
    for child in children(pid):
        try:
            seconds += processor_s(child, with_ended=True) + _of_all(child)
        except (FileNotFoundError, ProcessLookupError):  # it has ended, and its parent counts it
            continue
    return seconds


COLUMNS: Final = (
    "broker",
    "msg/s",
    "range",
    "to RabbitMQ",
    "to ActiveMQ",
    "broker µs",
    "+ database µs",
    "p50 ms",
    "p99 ms",
)


def rows_of(kept: dict[str, Any], scenario: str) -> list[list[str]]:
    """The table of one scenario.

    Args:
        kept: what ``--json`` keeps.
        scenario: its name.

    Returns:
        A row for each contestant, a text for each of `COLUMNS`.
    """
    turns = kept["turns"][scenario]
    middle = {name: median(one["figures"]["rate"] for one in some) for name, some in turns.items()}
    rows = []
    for name, some in turns.items():
        rates = [one["figures"]["rate"] for one in some]
        is_ours = name.startswith("jdbcstore")
        rows.append(
            [
                name,
                f"{middle[name]:,.0f}",
                f"{min(rates):,.0f}–{max(rates):,.0f}",
                _ratio(middle, name, _PEER) if is_ours else "",
                _ratio(middle, name, ACTIVEMQ[name]) if is_ours else "",
                f"{median(one['broker_us'] for one in some):.0f}",
                f"{median(one['all_us'] for one in some):.0f}",
                _median_ms([one["figures"]["p50_ms"] for one in some]),
                _median_ms([one["figures"]["p99_ms"] for one in some]),
            ]
        )
    return rows


def limit_rows_of(kept: dict[str, Any]) -> list[list[str]]:
    """One message at a time, beside the store's own limit: broker, its rate, the limit's, the ratio."""
    lone = kept["turns"].get(_LONE, {})
    rows = []
    for name, rates in kept["limits"].items():
        rate, bound = median(one["figures"]["rate"] for one in lone[name]), median(rates)
        rows.append([name, f"{rate:,.0f}", f"{bound:,.0f}", f"{rate / bound:.2f}"])
    return rows


def _ratio(rates: dict[str, float], name: str, peer: str) -> str:
    return f"{rates[name] / rates[peer]:.2f}" if peer in rates else ""


def _print(kept: dict[str, Any]) -> None:
    console.print(f"{kept['machine']}, {kept['rounds']} rounds, medians")
    for scenario in SCENARIOS:
        title = f"{scenario.name} ({scenario.direction}); goal {scenario.goal} of RabbitMQ"
        _print_table(title, COLUMNS, rows_of(kept, scenario.name))
    _print_table(
        "one row and one commit at a time", ("broker", "1 x 1 msg/s", "store alone", "ratio"), limit_rows_of(kept)
    )
    memory = [[name, kept["durability"][name], f"{mib:,.0f}"] for name, mib in kept["memory_mib"].items()]
    _print_table(
        "what each has done when it says stored; peak memory of the broker", ("broker", "durability", "MiB"), memory
    )


def _print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    table = Table(title=title, title_justify="left")
    for column in columns:
        table.add_column(column, justify="left" if column in {"broker", "durability"} else "right")
    for row in rows:
        table.add_row(*row)
    console.print(table)


def _median_ms(times: list[float | None]) -> str:
    known = [time for time in times if time is not None]
    return f"{median(known):.2f}" if known else ""


if __name__ == "__main__":
    main()
