"""What an open console costs, and how long its pages take, while messages pass.

``python -m benchmarks.console [--store sqlite]`` starts a broker with its console and lets messages pass in turns, as
fast as they do: with the console closed, open, open, closed, so that what else the machine does hits both alike. Open
is what a browser does that shows the overview and the list of queues: it asks again for each page every few seconds, in
requests that come at once, on connections that it keeps; each of the other pages is asked for now and then. A page's
time is that from its first request to its last answer, with the decoding of the JSON.

Two numbers count: 95 % of the pages take less than 100 ms, and the rate falls by less than 3 %. The exit code is 1 if
one of them is missed. Let nothing else run on the machine. The broker's processor time for a message is told as well:
on a machine with few cores the rate also falls by what the visitor takes, who in life has a machine of his own.
"""

from __future__ import annotations

import json
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.client import HTTPConnection, RemoteDisconnected
from itertools import cycle
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import click

from benchmarks.contestants import database, processor_s
from benchmarks.load import Scenario, compile_generator, run
from tests.broker.client import Client
from tests.broker_process import PROGRAM, BrokerProcess
from tests.servers.server import free_port

_GOAL_MS: Final = 100.0
_GOAL_PART: Final = 0.03
_QUEUES: Final = 200
_BODY_BYTES: Final = 1024

#: The pages of the console, by name: what each asks for. The first two stay open.
PAGES: Final = {
    "overview": (
        "broker",
        "history",
        "slow-consumers?count=10",
        "destinations?kind=queue&sort=depth&descending=true&count=10",
    ),
    "destinations": ("destinations?sort=name&count=100",),
    "a destination": ("destination?destination=queue://BUSY", "messages?destination=queue://BUSY&count=100"),
    "connections": ("connections?count=100",),
    "subscriptions": ("subscriptions?count=100",),
    "store": ("store",),
    "log": ("log?count=300", "audit?count=100"),
}
_STAY_OPEN: Final = ("overview", "destinations")


class Visitor:
    """A browser with the console, in a thread; `times` are of its pages, seconds.

    Args:
        address: host and port of the console.
        again_s: how often the pages that stay open ask again.
    """

    def __init__(self, address: tuple[str, int], again_s: float) -> None:
        self.times: dict[str, list[float]] = defaultdict(list)
        self._address = address
        self._lines = threading.local()
        #: When the newest sample of the history was taken; the console asks for newer ones.
        self._newest_ms = 0
        self._again_s = again_s
        self._is_open = threading.Event()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._look, name="visitor")

    @contextmanager
    def running(self) -> Iterator[None]:
        """It is there, but shows nothing until it is `open`."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._is_open.set()
            self._thread.join()

    def open(self, *, is_on: bool) -> None:
        """Show the console, or close it."""
        if is_on:
            self._is_open.set()
        else:
            self._is_open.clear()

    def _look(self) -> None:
        others = cycle([name for name in PAGES if name not in _STAY_OPEN])
        with ThreadPoolExecutor(6) as pool:  # as many connections as a browser has to one host
            while self._is_open.wait() and not self._is_over.is_set():
                for name in (*_STAY_OPEN, next(others)):
                    began_s = time.perf_counter()
                    list(pool.map(self._ask, ("session", *PAGES[name])))
                    self.times[name].append(time.perf_counter() - began_s)
                self._is_over.wait(self._again_s)

    def _ask(self, what: str) -> None:
        if what == "history" and self._newest_ms:
            what = f"history?after_ms={self._newest_ms}"
        told = json.loads(self._answer(f"/api/v1/{what}"))
        if what.startswith("history") and told:
            self._newest_ms = told[-1]["at_ms"]

    def _answer(self, path: str) -> bytes:
        """Ask on the connection that this thread has; one that was idle for long may be gone."""
        for _ in range(2):
            if not hasattr(self._lines, "line"):
                self._lines.line = HTTPConnection(*self._address, timeout=60)
            try:
                self._lines.line.request("GET", path)
                answer = self._lines.line.getresponse()
            except (RemoteDisconnected, ConnectionError):
                del self._lines.line
                continue
            body: bytes = answer.read()
            if answer.status != 200:
                raise RuntimeError(f"{path}: {answer.status} {body!r}")
            return body
        raise RuntimeError(f"{path}: the broker ends each connection")


@click.command(help=__doc__)
@click.option(
    "--store", "kind", default="sqlite", show_default=True, help="sqlite, postgresql, mariadb, mysql, kahadb."
)
@click.option("--rounds", default=8, show_default=True, help="Turns with the console open, and as many without.")
@click.option("--messages", default=100_000, show_default=True, help="That pass in each turn.")
@click.option("--again-s", default=5.0, show_default=True, help="How often an open page asks again.")
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the figures here as well.")
def main(kind: str, rounds: int, messages: int, again_s: float, json_file: Path | None) -> None:
    """Measure, print, and say whether the goals are met."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    costs: dict[bool, list[float]] = {False: [], True: []}
    with tempfile.TemporaryDirectory(prefix="jdbcstore-console-") as text, database(kind, Path(text)) as found:
        folder = Path(text)
        folder.chmod(0o755)  # database servers may run as another user
        generator = compile_generator(folder)
        web = f"127.0.0.1:{free_port()}"
        with BrokerProcess(found.url, folder, "--web-bind", web, program=PROGRAM) as broker:
            host, _, port = web.partition(":")
            visitor = Visitor((host, int(port)), again_s)
            _fill(broker.port)
            _pass(generator, broker.port, messages // 10)
            with visitor.running():
                for turn in [False, True, True, False] * (-(-rounds // 2)):
                    visitor.open(is_on=turn)
                    began_s = processor_s(broker.pid)
                    rates[turn].append(_pass(generator, broker.port, messages))
                    costs[turn].append((processor_s(broker.pid) - began_s) / (messages // 8 * 8))
                    shown = (
                        f"{rates[turn][-1]:>8,.0f} messages/s, {1e6 * costs[turn][-1]:.1f} µs of the broker for each"
                    )
                    click.echo(f"{'open  ' if turn else 'closed'} {shown}")
    _report(rates, costs, visitor.times, json_file)


def _fill(port: int) -> None:
    """Let there be queues to be shown."""
    with Client(("127.0.0.1", port)) as client:
        client.connect()
        for number in range(_QUEUES):
            client.publish(f"/queue/STILL.{number}", "x" * _BODY_BYTES)


def _pass(generator: Path, port: int, messages: int) -> float:
    """Let messages pass: sent, stored, delivered, acknowledged, all at the same time. How many a second."""
    sending = Scenario("send", "send", 8, 50, messages // 8, 0)
    receiving = Scenario("receive", "recv", 2, 1000, messages // 8 * 8 // 2, 0)
    began_s = time.perf_counter()
    with ThreadPoolExecutor(2) as pool:
        for figures in [
            pool.submit(run, generator, port, one, "/queue/BUSY", _BODY_BYTES) for one in (receiving, sending)
        ]:
            figures.result()
    return messages // 8 * 8 / (time.perf_counter() - began_s)


def _report(
    rates: dict[bool, list[float]],
    costs: dict[bool, list[float]],
    times: dict[str, list[float]],
    json_file: Path | None,
) -> None:
    closed, opened = median(rates[False]), median(rates[True])
    fall = 1 - opened / closed
    every = [time_s for of_page in times.values() for time_s in of_page]
    click.echo(f"\nrate, medians of {len(rates[True])}: closed {closed:,.0f}/s, open {opened:,.0f}/s, {fall:+.1%} less")
    cost, more = 1e6 * median(costs[False]), median(costs[True]) / median(costs[False]) - 1
    click.echo(f"processor time of the broker for a message: closed {cost:.1f} µs, open {more:+.1%}")
    for name, of_page in {**times, "all pages": every}.items():
        shown = f"half {1000 * median(of_page):6.1f} ms, 95 % {_most_ms(of_page):6.1f} ms"
        click.echo(f"{name:<14} {len(of_page):>4} times, {shown}")
    if json_file is not None:
        figures = {
            "closed": rates[False],
            "open": rates[True],
            "closed_s": costs[False],
            "open_s": costs[True],
            "pages_s": times,
        }
        json_file.write_text(json.dumps(figures, indent=1), "utf-8")
    missed = [f"pages {_most_ms(every):.0f} ms, {_GOAL_MS:.0f} wanted"] if _most_ms(every) > _GOAL_MS else []
    if fall > _GOAL_PART:
        missed.append(f"the rate falls by {fall:.1%}, {_GOAL_PART:.0%} at most wanted")
    if missed:
        sys.exit(f"missed: {'; '.join(missed)}")
    click.echo("both goals are met")


def _most_ms(times_s: Sequence[float]) -> float:
    """What 95 % of them are not above, ms."""
    return 1000 * (quantiles(times_s, n=20)[-1] if len(times_s) > 1 else max(times_s, default=0.0))


if __name__ == "__main__":
    main()
