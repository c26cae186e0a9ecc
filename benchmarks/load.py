"""The load: what is sent and received, by a neutral generator in C that treats every broker alike."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

__all__ = ["SCENARIOS", "TIMEOUT_S", "Figures", "Scenario", "compile_generator", "fan_out", "run"]

_LINE = re.compile(r"rate=(?P<rate>\d+)/s(?: p50=(?P<p50>[\d.]+)ms p99=(?P<p99>[\d.]+)ms max=(?P<max>[\d.]+)ms)?")
#: How long one run of the generator may take.
TIMEOUT_S = 600.0


@dataclass(frozen=True)
class Scenario:
    """One measurement.

    Args:
        name: as in the tables.
        direction: durable sends with a receipt each, receiving with an acknowledgement each, or transactions of sends.
        connections: how many at once.
        window: sends in flight, prefetched messages, or sends in each transaction, of each connection.
        messages: of each connection; transactions for "tx".
        goal: the ratio to the peer that we want at least, with a JDBC store.
    """

    name: str
    direction: Literal["send", "recv", "tx"]
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
    """Messages (transactions for "tx") a second; times in ms to the receipt or delivery, where they were measured."""

    rate: float
    p50_ms: float | None = None
    p99_ms: float | None = None
    max_ms: float | None = None

    @property
    def described(self) -> str:
        """For a line of text."""
        times = "" if self.p50_ms is None else f"  p50 {self.p50_ms:8.2f}  p99 {self.p99_ms:8.2f} ms"
        return f"{self.rate:>7,.0f}/s{times}"


def compile_generator(folder: Path) -> Path:
    """Compile the generator; returns the program."""
    program = folder / "stompbench"
    source = Path(__file__).with_name("stompbench.c")
    subprocess.run(["gcc", "-O2", "-w", "-pthread", "-o", program, source], check=True)
    return program


def run(
    generator: Path,
    port: int,
    scenario: Scenario,
    destination: str,
    body_bytes: int,
    *,
    client_id: str | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Figures:
    """Run one scenario against a broker on loopback.

    Args:
        generator: what `compile_generator` answered.
        port: of the broker.
        scenario: what to do.
        destination: as STOMP names it.
        body_bytes: of each message sent.
        client_id: receive from the durable subscription "bench" of the client of this name and the connection's number.
        timeout_s: for all of it.

    Raises:
        subprocess.TimeoutExpired: the time is over.
    """
    numbers = (scenario.connections, scenario.messages, body_bytes, scenario.window)
    more = [] if client_id is None else ["client-individual", client_id]
    return _generate(generator, scenario.direction, port, destination, numbers, more, timeout_s)[0]


def fan_out(
    generator: Path, port: int, topic: str, scenario: Scenario, body_bytes: int, ack: str, client_id: str
) -> tuple[Figures, Figures]:
    """One producer, and as many durable subscribers as the scenario has connections; how it sent, how they received.

    Args:
        generator, port, topic, body_bytes: as for `run`; the body says when it was sent, so it has 20 bytes at least.
        scenario: its window is the producer's; each subscriber receives all messages.
        ack: of the subscriptions.
        client_id: of the subscribers, each adds its number.
    """
    numbers = (scenario.connections, scenario.messages, body_bytes, scenario.window)
    sent, delivered = _generate(generator, "fan", port, topic, numbers, [ack, client_id], TIMEOUT_S)
    return sent, delivered


def _generate(
    generator: Path,
    mode: str,
    port: int,
    destination: str,
    numbers: tuple[int, ...],
    more: list[str],
    timeout_s: float,
) -> list[Figures]:
    command = [str(generator), mode, "127.0.0.1", str(port), destination, *map(str, numbers), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=timeout_s, check=False)
    found = list(_LINE.finditer(done.stdout))
    if done.returncode or not found:
        raise RuntimeError(f"{mode} {destination}: {done.stdout} {done.stderr}")
    return [Figures(float(line["rate"]), *map(_number, line.group("p50", "p99", "max"))) for line in found]


def _number(text: str | None) -> float | None:
    return None if text is None else float(text)
