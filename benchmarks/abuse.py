"""Attacks on a broker: what each costs it in memory, and what a bystander feels meanwhile.

``python -m benchmarks.abuse [--only NAME] [--scale 0.1]`` starts a broker on SQLite for each attack, lets a client
measure its own round trips (a message to itself) beside it, and prints

* **peak**: the most resident memory of the broker's process (VmHWM) above what it had when it was idle;
* **round trips** of the bystander during the attack.
"""

from __future__ import annotations

import multiprocessing
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path

import click

from benchmarks.attacks import Attack, Target
from benchmarks.contestants import memory_mib, peak_memory_mib
from benchmarks.loop_attacks import LOOP_ATTACKS
from benchmarks.memory_attacks import MEMORY_ATTACKS
from benchmarks.openwire_attacks import OPENWIRE_ATTACKS
from tests.broker.client import Address, Client
from tests.broker_process import PROGRAM, BrokerProcess
from tests.servers.server import free_port

__all__ = ["Outcome", "attack"]

#: How long the bystander measures at least.
_LEAST_S = 0.5


@dataclass(frozen=True)
class Outcome:
    """What an attack did: MiB of the broker's peak above its idle memory, and the bystander's round trips in ms."""

    peak_mib: float
    round_trips_ms: Sequence[float]

    def percentile_ms(self, percent: float) -> float:
        """The round trip that so many are not slower than."""
        times = sorted(self.round_trips_ms)
        return times[min(len(times) - 1, int(len(times) * percent / 100))]


def attack(
    attack: Attack,
    folder: Path,
    *,
    scale: float = 1.0,
    options: Mapping[str, str] | None = None,
    program: Sequence[str] | None = PROGRAM,
) -> Outcome:
    """Attack a broker of its own.

    Args:
        attack: what to do.
        folder: for its database and log; empty.
        scale: multiplies how often it is done.
        options: of the broker, beside those of the attack.
        program: how to run the broker; None to fork it, which is cheaper and measures memory a little less exactly.

    Raises:
        RuntimeError: the bystander was not served, or the broker did not survive.
    """
    database = folder / "store.db"
    environment = {**attack.options, **(options or {})}
    # An attack may keep the broker from its database for longer than a lease lives.
    openwire = ("127.0.0.1", free_port())
    arguments = ("--bind", f"openwire://{openwire[0]}:{openwire[1]}")
    url = f"sqlite:///{database}?locker=none"
    with BrokerProcess(url, folder, *arguments, program=program, environment=environment) as broker:
        target = Target(broker.address, openwire, database, scale)
        _warm_up(broker.address)
        idle_mib = memory_mib(broker.pid)
        with _Bystander(broker.address) as bystander:
            try:
                attack.run(target)
            finally:
                target.close()
            round_trips_ms = bystander.finish()
        return Outcome(peak_memory_mib(broker.pid) - idle_mib, round_trips_ms)


def _warm_up(address: Address) -> None:
    with Client(address) as client:
        client.connect()
        client.subscribe("/queue/abuse.warm-up")
        client.publish("/queue/abuse.warm-up", "x" * 1000)
        client.message()


class _Bystander:
    """A process of its own, so that the attacker's work is not in its figures."""

    def __init__(self, address: Address) -> None:
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload([__name__])
        self._wire, theirs = context.Pipe()
        self._process = context.Process(target=_measure, args=(address, theirs), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> _Bystander:
        self._wire.recv()  # it is at work
        return self

    def __exit__(self, *_: object) -> None:
        self._wire.close()
        self._process.join()

    def finish(self) -> Sequence[float]:
        """Its round trips in ms."""
        self._wire.send(None)
        trouble, times_ms = self._wire.recv() or self._wire.recv()  # who fails says at first that it is at work
        if trouble:
            raise RuntimeError(f"the bystander was not served: {trouble}")
        return list(times_ms)


def _measure(address: Address, wire: Connection) -> None:
    """Send messages to oneself, one after another, until told to stop."""
    times_ms: list[float] = []
    try:
        with Client(address) as client:
            client.connect()
            client.subscribe("/queue/abuse.bystander")
            client.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.send(None)
            began_s = time.perf_counter()
            while not wire.poll() or time.perf_counter() - began_s < _LEAST_S:
                sent_s = time.perf_counter()
                client.send("SEND", {"destination": "/queue/abuse.bystander"}, "x" * 100)
                client.message()
                times_ms.append((time.perf_counter() - sent_s) * 1000)
                time.sleep(0.002)
    except (OSError, AssertionError) as error:
        wire.send(None)  # `__enter__` may still wait
        wire.send((repr(error), []))
    else:
        wire.send(("", times_ms))


@click.command(help=__doc__)
@click.option("--only", multiple=True, help="An attack; may be repeated.")
@click.option("--scale", default=1.0, show_default=True, help="Multiplies how often each attack does its worst.")
def main(only: tuple[str, ...], scale: float) -> None:
    """Run the attacks and print a line for each."""
    attacks = [*MEMORY_ATTACKS, *LOOP_ATTACKS, *OPENWIRE_ATTACKS]
    names = [known.name for known in attacks]
    if unknown := set(only) - set(names):
        raise click.BadParameter(f"{', '.join(sorted(unknown))}: choose from {', '.join(names)}")
    print(f"{'attack':<28} {'peak MiB':>9} {'p50 ms':>8} {'p99 ms':>8} {'p99.9 ms':>9} {'max ms':>8}")
    for known in attacks:
        if only and known.name not in only:
            continue
        with tempfile.TemporaryDirectory(prefix="jdbcstore-abuse-") as folder:
            outcome = attack(known, Path(folder), scale=scale)
        p50, p99, p999, most = (outcome.percentile_ms(percent) for percent in (50, 99, 99.9, 100))
        print(f"{known.name:<28} {outcome.peak_mib:9,.0f} {p50:8.2f} {p99:8.2f} {p999:9.2f} {most:8.1f}", flush=True)


if __name__ == "__main__":
    main()
