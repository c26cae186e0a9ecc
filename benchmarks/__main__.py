"""Compare our broker with a real ActiveMQ on this machine, one after the other, under the same load.

Run ``python -m benchmarks`` in a checkout with the test servers installed; it takes some ten minutes. Absolute rates
are the machine's; the ratios are what counts.
"""

from __future__ import annotations

import json
import platform
from dataclasses import asdict
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

from benchmarks import limit
from benchmarks.contestants import CONTESTANTS, Contestant, database, peak_memory_mib, workshop
from benchmarks.load import SCENARIOS, Figures, Scenario, run

WARM_UP = Scenario("warm-up", "send", 4, 20, 500, 0)

console = Console()


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="A contestant such as jdbcstore/postgresql; may be repeated.")
@click.option("--body-bytes", default=1024, show_default=True, help="Bytes of each body.")
@click.option("--scale", default=1.0, show_default=True, help="Multiplies the number of messages.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(only: tuple[str, ...], body_bytes: int, scale: float, json_file: Path | None) -> None:
    """Run every scenario for every contestant and print the tables."""
    names = [contestant.name for contestant in CONTESTANTS]
    if unknown := set(only) - set(names):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: choose from {', '.join(names)}")
    chosen = [contestant for contestant in CONTESTANTS if not only or contestant.name in only]
    results: dict[str, dict[str, Figures]] = {}
    memory: dict[str, float] = {}
    limits: dict[str, list[limit.Limit]] = {}
    with workshop() as shop:
        for contestant in chosen:
            own = shop.room(contestant.name)
            with console.status(contestant.name), contestant.running(own, shop.class_path) as running:
                results[contestant.name] = _measure(shop.generator, running.port, body_bytes, scale)
                memory[contestant.name] = peak_memory_mib(running.pid)
            if contestant.broker == "jdbcstore":
                limits[contestant.store] = _limits(contestant, own, body_bytes)
    _print(chosen, results, memory, limits)
    if json_file is not None:
        figures = {name: {s: asdict(f) for s, f in found.items()} for name, found in results.items()}
        bounds = {store: [asdict(bound) for bound in found] for store, found in limits.items()}
        json_file.write_text(json.dumps({"figures": figures, "memory_mib": memory, "limits": bounds}, indent=1))


def _measure(generator: Path, port: int, body_bytes: int, scale: float) -> dict[str, Figures]:
    run(generator, port, WARM_UP, "/queue/WARM", body_bytes)
    figures = {}
    for scenario in SCENARIOS:
        sized = Scenario(**{**asdict(scenario), "messages": max(1, int(scenario.messages * scale))})
        figures[scenario.name] = run(generator, port, sized, "/queue/BENCH", body_bytes)
    return figures


def _limits(contestant: Contestant, folder: Path, body_bytes: int) -> list[limit.Limit]:
    with database(contestant.store, folder) as found:
        return [limit.measure(found.url, body_bytes, rows) for rows in (1, 16, 100, 1000)]


def _print(
    chosen: list[Contestant],
    results: dict[str, dict[str, Figures]],
    memory: dict[str, float],
    limits: dict[str, list[limit.Limit]],
) -> None:
    console.print(f"{platform.machine()}, {platform.python_implementation()} {platform.python_version()}")
    for scenario in SCENARIOS:
        table = Table(title=f"{scenario.name} ({scenario.direction})", title_justify="left")
        for column in ("broker/store", "msg/s", "ratio", "goal", "p50 ms", "p99 ms", "max ms"):
            table.add_column(column, justify="left" if column == "broker/store" else "right")
        for contestant in chosen:
            figures = results[contestant.name][scenario.name]
            peer = results.get(contestant.peer or "", {}).get(scenario.name)
            table.add_row(
                contestant.name,
                f"{figures.rate:,.0f}",
                f"{figures.rate / peer.rate:.1f}" if peer else "",
                f"{_goal(contestant, scenario)}" if peer else "",
                *(
                    "" if value is None else f"{value:.2f}"
                    for value in (figures.p50_ms, figures.p99_ms, figures.max_ms)
                ),
            )
        console.print(table)
    table = Table(title="peak memory of the broker", title_justify="left")
    table.add_column("broker/store")
    table.add_column("MiB", justify="right")
    for name, mib in memory.items():
        table.add_row(name, f"{mib:,.0f}")
    console.print(table)
    table = Table(title="the database's own limit: rows/s on one connection, a commit per batch", title_justify="left")
    table.add_column("database")
    for bound in next(iter(limits.values()), []):
        table.add_column(f"batch {bound.batch_rows}", justify="right")
    for store, bounds in limits.items():
        table.add_row(store, *(f"{bound.rate:,.0f}" for bound in bounds))
    console.print(table)


def _goal(contestant: Contestant, scenario: Scenario) -> float:
    if contestant.peer != "activemq/kahadb":
        return scenario.goal
    return 3.0 if scenario.direction == "send" else 1.5


if __name__ == "__main__":
    main()
