"""How long nobody serves: after a crash, a clean stop, a restart of the database, and in a rolling restart under load.

Two brokers share a database. A client sends persistent messages one after the other and, whenever its connection ends,
tries both addresses in turn without a pause worth mentioning. What counts is the time from the event to the first
receipt that it gets afterwards:

* **crash, seen**: SIGKILL of the master; the standby runs on the same machine and sees that the process has ended;
* **crash, unseen**: the same, but the standby knows nothing of it, as on another machine, and waits for the lease;
* **clean stop**: SIGTERM of the master;
* **database restart**: from the server answering again to the next receipt, from whichever broker;
* **long outage**: the same after the database was away for longer than the lease;
* **rolling restart**: both brokers are stopped and started in turn while producers and consumers work; the longest time
  in which no producer got a receipt. Every message with a receipt must reach a consumer, or the program ends with 1.
"""

from __future__ import annotations

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from typing import Final

import click
from rich.console import Console
from rich.table import Table

from benchmarks.contestants import DATABASES, database
from tests.broker.client import Address, Client
from tests.broker_process import PROGRAM, BrokerProcess
from tests.servers.server import DatabaseServer

#: Between two attempts of a client to connect.
RECONNECT_S: Final = 0.005
#: A client that hears nothing for so long tries the other address.
SILENCE_S: Final = 30.0
PATIENCE_S: Final = 120.0
PRODUCERS: Final = 4
CONSUMERS: Final = 2
#: What is sent while nobody listens, and what is consumed.
UNHEARD, HEARD = "/queue/UNHEARD", "/queue/HEARD"

console = Console()


@dataclass
class Measure:
    """What was measured, in seconds, and what it should be."""

    database: str
    name: str
    goal_s: float
    times_s: list[float] = field(default_factory=list)

    @property
    def is_met(self) -> bool:
        """Whether the worst time is within the goal."""
        return max(self.times_s) <= self.goal_s


# -- clients -----------------------------------------------------------------------------------------------------------


class Persistent:
    """A client in a thread that connects again whenever it has to. Subclasses say what it does while connected."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        self.stopping = threading.Event()
        self._addresses = cycle(addresses)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Persistent:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.stopping.set()
        self._thread.join(SILENCE_S)

    def work(self, client: Client, port: int) -> None:
        """Do something until `stopping`, or until the connection ends with OSError."""
        raise NotImplementedError

    def _run(self) -> None:
        while not self.stopping.is_set():
            address = next(self._addresses)
            with suppress(OSError), Client(address, timeout_s=SILENCE_S) as client:
                if client.connect().command == "CONNECTED":
                    self.work(client, address[1])
            self.stopping.wait(RECONNECT_S)


class Producer(Persistent):
    """Sends one message after the other; one without a receipt is sent again."""

    def __init__(self, addresses: Sequence[Address], name: str = "p", queue: str = UNHEARD) -> None:
        super().__init__(addresses)
        self.name = name
        self.queue = queue
        #: Time, port and body of each receipt.
        self.receipts: list[tuple[float, int, str]] = []

    def work(self, client: Client, port: int) -> None:
        while not self.stopping.is_set():
            body = f"{self.name}.{len(self.receipts)}"
            if client.request("SEND", {"destination": self.queue, "persistent": "true"}, body).command != "RECEIPT":
                return
            self.receipts.append((time.monotonic(), port, body))

    def first_receipt(self, after_s: float, not_from: int | None = None) -> float:
        """Wait for the first receipt after a time, from another port; returns when it came."""
        deadline_s = time.monotonic() + PATIENCE_S
        seen = len(self.receipts)
        while seen and self.receipts[seen - 1][0] > after_s:
            seen -= 1
        while time.monotonic() < deadline_s:
            while seen < len(self.receipts):
                at_s, port, _ = self.receipts[seen]
                seen += 1
                if at_s > after_s and port != not_from:
                    return at_s
            time.sleep(0.002)
        raise TimeoutError(f"no receipt for {PATIENCE_S:.0f} s")


class Consumer(Persistent):
    """Receives and acknowledges."""

    def __init__(self, addresses: Sequence[Address]) -> None:
        super().__init__(addresses)
        self.got: list[str] = []

    def work(self, client: Client, port: int) -> None:
        client.subscribe(HEARD, "client-individual", **{"activemq.prefetchSize": "100"})
        client.socket.settimeout(0.5)
        quiet_s = time.monotonic() + SILENCE_S
        while not self.stopping.is_set() and time.monotonic() < quiet_s:
            with suppress(TimeoutError):
                frame = client.frame()
                if frame.command != "MESSAGE":
                    return
                self.got.append(frame.text)
                client.ack(frame)
                quiet_s = time.monotonic() + SILENCE_S


# -- brokers -----------------------------------------------------------------------------------------------------------


class Pair:
    """Two brokers on one database, one of them master.

    Args:
        url: of the store.
        folder: for their logs.
    """

    def __init__(self, url: str, folder: Path) -> None:
        self.brokers = [BrokerProcess(url, folder, "--name", f"node-{n}", program=PROGRAM) for n in (1, 2)]
        self.addresses: list[Address] = [("127.0.0.1", broker.port) for broker in self.brokers]

    def __enter__(self) -> Pair:
        self.brokers[0].start(PATIENCE_S)
        self.brokers[1].start_standby(PATIENCE_S)
        return self

    def __exit__(self, *exc: object) -> None:
        for broker in self.brokers:
            if broker.is_running:
                broker.kill()

    @property
    def master(self) -> BrokerProcess:
        """Who serves."""
        deadline_s = time.monotonic() + PATIENCE_S
        while time.monotonic() < deadline_s:
            for broker in self.brokers:
                if broker.is_running and broker.state() == "master":
                    return broker
            time.sleep(0.02)
        raise TimeoutError("nobody is master")

    @property
    def standby(self) -> BrokerProcess:
        """The other one."""
        master = self.master
        return next(broker for broker in self.brokers if broker is not master)

    def failover(self, producer: Producer, end: Callable[[BrokerProcess], object]) -> float:
        """End the master, wait for the first receipt of the other, start the one that was ended; returns the time."""
        master = self.master
        producer.first_receipt(time.monotonic())
        began_s = time.monotonic()
        ending = threading.Thread(target=end, args=(master,))
        ending.start()
        took_s = producer.first_receipt(began_s, not_from=master.port) - began_s
        ending.join()
        master.start_standby()
        return took_s


# -- what is measured --------------------------------------------------------------------------------------------------


def measure_failovers(url: str, folder: Path, runs: int, end: Callable[[BrokerProcess], object]) -> list[float]:
    """Times from ending the master to the first receipt of the next one."""
    with Pair(url, folder) as pair:
        producer = Producer(pair.addresses)
        with producer:
            return [pair.failover(producer, end) for _ in range(runs)]


def measure_outages(url: str, folder: Path, server: DatabaseServer, runs: int, away_s: float) -> list[float]:
    """Times from the server answering again to the next receipt."""
    times_s = []
    with Pair(url, folder) as pair:
        producer = Producer(pair.addresses)
        with producer:
            for _ in range(runs):
                producer.first_receipt(time.monotonic())
                server.stop()
                stopped_s = time.monotonic()
                time.sleep(away_s)
                server.start()
                accepts_s = time.monotonic()
                times_s.append(max(0.0, producer.first_receipt(stopped_s) - accepts_s))
                pair.standby.wait_for("standby")
    return times_s


def measure_rolling_restarts(url: str, folder: Path, runs: int) -> list[float]:
    """The longest time without any receipt in each rolling restart.

    Raises:
        SystemExit: a message that had its receipt was lost.
    """
    pauses_s = []
    with ExitStack() as stack:
        pair = stack.enter_context(Pair(url, folder))
        consumers = [Consumer(pair.addresses) for _ in range(CONSUMERS)]
        producers = [Producer(pair.addresses, f"p{n}", HEARD) for n in range(PRODUCERS)]
        for consumer in consumers:
            stack.enter_context(consumer)
        with ExitStack() as sending:
            for producer in producers:
                sending.enter_context(producer)
            for _ in range(runs):
                time.sleep(1)
                began_s = time.monotonic()
                for broker in (pair.standby, pair.master):
                    if code := broker.stop():
                        raise SystemExit(f"a broker ended with {code}\n{broker.log()}")
                    broker.start_standby()
                    time.sleep(1)
                pauses_s.append(longest_pause(producers, began_s))
        check_nothing_is_lost(producers, consumers)
    return pauses_s


def longest_pause(producers: Sequence[Producer], began_s: float) -> float:
    """The longest time since then in which none of the producers got a receipt."""
    times = sorted(at_s for producer in producers for at_s, _, _ in list(producer.receipts) if at_s > began_s)
    return max(later - earlier for earlier, later in pairwise([began_s, *times, time.monotonic()]))


def check_nothing_is_lost(producers: Sequence[Producer], consumers: Sequence[Consumer]) -> None:
    """Wait until every message with a receipt has been consumed. Raises SystemExit if some never are."""
    receipted = {body for producer in producers for _, _, body in producer.receipts}
    deadline_s = time.monotonic() + PATIENCE_S
    while missing := receipted - {body for consumer in consumers for body in list(consumer.got)}:
        if time.monotonic() > deadline_s:
            raise SystemExit(f"{len(missing)} of {len(receipted)} messages are lost: {', '.join(sorted(missing)[:10])}")
        time.sleep(0.1)
    got = [body for consumer in consumers for body in consumer.got]
    console.print(f"{len(receipted)} messages with a receipt, none lost, {len(got) - len(set(got))} delivered twice")


def measure(kind: str, runs: int, lease_ms: int) -> Iterator[Measure]:
    """Everything about one kind of database."""
    lease_s = lease_ms / 1000
    with tempfile.TemporaryDirectory(prefix="jdbcstore-failover-") as text:
        folder = Path(text)
        folder.chmod(0o755)
        with database(kind, folder) as found:
            near = f"{found.url}?lease_ms={lease_ms}"
            far = f"{near}&detect_dead_holder=false"
            crash_s = lease_s + 1
            yield Measure(kind, "crash, seen", crash_s, measure_failovers(near, folder, runs, BrokerProcess.kill))
            yield Measure(kind, "crash, unseen", crash_s, measure_failovers(far, folder, runs, BrokerProcess.kill))
            yield Measure(kind, "clean stop", 1.0, measure_failovers(far, folder, runs, BrokerProcess.stop))
            if found.server is not None:
                yield Measure(kind, "database restart", 5.0, measure_outages(near, folder, found.server, runs, 0))
                away_s = lease_s + 1
                yield Measure(
                    kind, "long outage", 5.0, measure_outages(near, folder, found.server, max(1, runs // 4), away_s)
                )
            yield Measure(kind, "rolling restart", 1.0, measure_rolling_restarts(near, folder, max(1, runs // 4)))


@click.command(help=__doc__)
@click.option("--database", "kinds", multiple=True, type=click.Choice(DATABASES), help="May be repeated.")
@click.option("--runs", default=20, show_default=True, help="Of each; a quarter of them of what takes long.")
@click.option("--lease-ms", default=10_000, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(kinds: tuple[str, ...], runs: int, lease_ms: int, json_file: Path | None) -> None:
    """Measure and print the table."""
    found: list[Measure] = []
    for kind in kinds or DATABASES:
        for each in measure(kind, runs, lease_ms):
            found.append(each)
            console.print(
                f"{kind:<11} {each.name:<17} {' '.join(f'{time_s:.2f}' for time_s in each.times_s)}", highlight=False
            )
    table = Table(title=f"seconds until the first receipt, lease {lease_ms / 1000:g} s", title_justify="left")
    for column in ("database", "event", "runs", "p50", "max", "goal", "met"):
        table.add_column(column, justify="left" if column in ("database", "event", "met") else "right")
    for each in found:
        middle, most = statistics.median(each.times_s), max(each.times_s)
        numbers = (f"{len(each.times_s)}", f"{middle:.2f}", f"{most:.2f}", f"{each.goal_s:g}")
        table.add_row(each.database, each.name, *numbers, "yes" if each.is_met else "NO")
    console.print(table)
    if json_file is not None:
        json_file.write_text(json.dumps([asdict(each) for each in found], indent=1))
    sys.exit(0 if all(each.is_met for each in found) else 1)


if __name__ == "__main__":
    main()
