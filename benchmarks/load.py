"""The load: what is sent and received, by a neutral generator in C that treats every broker alike."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["SCENARIOS", "Figures", "Scenario", "compile_generator", "run"]

_LINE = re.compile(r"rate=(?P<rate>\d+)/s(?: p50=(?P<p50>[\d.]+)ms p99=(?P<p99>[\d.]+)ms max=(?P<max>[\d.]+)ms)?")
_TIMEOUT_S = 600


@dataclass(frozen=True)
class Scenario:
    """One measurement.

    Args:
        name: as in the tables.
        direction: durable sends with a receipt each, or receiving with an acknowledgement each.
        connections: how many at once.
        window: sends in flight, or prefetched messages, of each connection.
        messages: of each connection.
        goal: the ratio to the peer that we want at least, with a JDBC store.
    """

    name: str
    direction: Literal["send", "recv"]
    connections: int
    window: int
    messages: int
    goal: float


#: The sends come first: what they leave is received afterwards, so the queue is long enough for both drains.
SCENARIOS = [
    Scenario("16 producers x 50 in flight", "send", 16, 50, 2000, 5.0),
    Scenario("1 producer x 100 in flight", "send", 1, 100, 10_000, 8.0),
    Scenario("1 producer x 1 in flight", "send", 1, 1, 2000, 1.0),
    Scenario("16 producers x 1 in flight", "send", 16, 1, 500, 2.5),
    Scenario("1 consumer", "recv", 1, 1000, 10_000, 5.0),
    Scenario("4 consumers", "recv", 4, 1000, 5000, 5.0),
]


@dataclass(frozen=True)
class Figures:
    """Messages a second; for sends also the time to the receipt in ms."""

    rate: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None


def compile_generator(folder: Path) -> Path:
    """Compile the generator; returns the program."""
    program = folder / "stompbench"
    source = Path(__file__).with_name("stompbench.c")
    subprocess.run(["gcc", "-O2", "-w", "-pthread", "-o", program, source], check=True)
    return program


def run(generator: Path, port: int, scenario: Scenario, queue: str, body_bytes: int) -> Figures:
    """Run one scenario against a broker on loopback."""
    numbers = (scenario.connections, scenario.messages, body_bytes, scenario.window)
    command = [generator, scenario.direction, "127.0.0.1", str(port), queue, *map(str, numbers)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_TIMEOUT_S, check=False)
    found = _LINE.search(done.stdout)
    if done.returncode or found is None:
        raise RuntimeError(f"{scenario.name}: {done.stdout} {done.stderr}")
    latencies = [None if value is None else float(value) for value in found.group("p50", "p99", "max")]
    return Figures(float(found["rate"]), *latencies)
