"""Celery's tasks a second over our broker, beside kombu's transports for databases (SQLAlchemy, pgmq) and RabbitMQ.

Each contestant does the same, one after the other, with publisher confirms and late acknowledgements:

* **published**: four threads of one program call `apply_async`;
* **consumed**: one kombu consumer, prefetch 100, acknowledges each message;
* **run**: one Celery worker (``-P solo``) runs tasks that do nothing, from its first to its last;
* **both**: tasks a second if each is first published and then run: what the two take together.

Every contestant has its turn in each round; the medians of the rounds are told, with the range of the last column.

RabbitMQ is Debian's, with a durable classic queue, started on a free port. pgmq is not the extension of PostgreSQL,
which is in no Debian package, but the same functions in SQL, which its package for Python brings.

Run ``python -m benchmarks.celery_tasks`` in a checkout with the test servers installed; ``scripts/install-rabbitmq``
and ``pip install 'kombu[pgmq]'`` are for those two. A round takes a minute or two. Absolute rates are the machine's;
the ratios are what counts.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from importlib import import_module
from pathlib import Path
from statistics import median
from typing import Any, Final

import click
from celery import Celery
from rich.console import Console
from rich.table import Table
from sqlalchemy import create_engine

from benchmarks.contestants import database
from tests.broker_process import PROGRAM, BrokerProcess
from tests.servers.server import CHECKOUT, free_port
from tests.waiting import wait_until

THREADS: Final = 4
PREFETCH: Final = 100
_TRANSPORT_OPTIONS: Final = {
    "amqp": {"confirm_publish": True},
    "pgmq": {"init_extension": False},
}
_RABBITMQ: Final = Path("/usr/lib/rabbitmq/bin")

console = Console()


@dataclass
class Rates:
    """Of one contestant, per second."""

    published: float
    consumed: float
    run: float

    @property
    def both(self) -> float:
        """Tasks that are published, and then run."""
        return 1 / (1 / self.published + 1 / self.run)


def application(url: str) -> Celery:
    """What programs and workers are made of."""
    app = Celery("benchmark", broker=url)
    app.conf.update(task_acks_late=True, task_ignore_result=True, worker_prefetch_multiplier=PREFETCH)
    app.conf.broker_transport_options = _TRANSPORT_OPTIONS.get(url.partition("://")[0], {})

    @app.task(name="nothing", shared=False)
    def nothing(n: int) -> None:
        pass

    @app.task(name="note", shared=False)
    def note(path: str) -> None:
        with Path(path).open("a") as file:
            file.write(f"{time.time()}\n")

    return app


if "BENCHMARK_BROKER" in os.environ:  # in a worker
    worker_app = application(os.environ["BENCHMARK_BROKER"])


def measured(url: str, tasks: int, folder: Path) -> Rates:
    """The rates of a contestant whose broker runs.

    Args:
        url: for kombu.
        tasks: how many.
        folder: for the worker's log.
    """
    app = application(url)
    app.tasks["nothing"].apply_async((0,))  # connects, and makes what has to be made
    published = tasks / _took(lambda: _publish(app, tasks))
    consumed = tasks / _took(lambda: _consume(app, tasks + 1))
    notes = folder / "notes"
    app.tasks["note"].apply_async((str(notes),))
    _publish(app, tasks)
    app.tasks["note"].apply_async((str(notes),))
    began_s, ended_s = _run(url, notes, folder)
    app.close()
    return Rates(published, consumed, tasks / (ended_s - began_s))


def _took(work: Callable[[], object]) -> float:
    began_s = time.perf_counter()
    work()
    return time.perf_counter() - began_s


def _publish(app: Celery, tasks: int) -> None:
    def send(count: int) -> None:
        for n in range(count):
            app.tasks["nothing"].apply_async((n,))

    with ThreadPoolExecutor(THREADS) as threads:
        for sent in [threads.submit(send, tasks // THREADS) for _ in range(THREADS)]:
            sent.result()  # else what failed to be sent would be waited for as long as patience lasts


def _consume(app: Celery, tasks: int) -> None:
    seen = 0

    def seen_one(body: object, message: Any) -> None:
        nonlocal seen
        message.ack()
        seen += 1

    with app.connection_for_read() as connection:
        consumer = app.amqp.TaskConsumer(connection.default_channel, callbacks=[seen_one], accept=["json"])
        consumer.qos(prefetch_count=PREFETCH)
        with consumer:
            while seen < tasks:
                connection.drain_events(timeout=60)


def _run(url: str, notes: Path, folder: Path) -> tuple[float, float]:
    command = [sys.executable, "-W", "ignore", "-m", "celery", "-A", "benchmarks.celery_tasks:worker_app", "worker"]
    command += ["-P", "solo", "-l", "WARNING", "--without-gossip", "--without-mingle"]
    path = os.pathsep.join([str(CHECKOUT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)])
    environment = {**os.environ, "BENCHMARK_BROKER": url, "PYTHONPATH": path}
    with (folder / "worker.log").open("wb") as log:
        worker = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
    try:
        deadline_s = time.monotonic() + 300
        while not notes.exists() or len(lines := notes.read_text().split()) < 2:
            if worker.poll() is not None or time.monotonic() > deadline_s:
                raise RuntimeError(f"the worker did not run all tasks\n{(folder / 'worker.log').read_text()[-4000:]}")
            time.sleep(0.05)
    finally:
        worker.send_signal(signal.SIGTERM)
        worker.wait(60)
    return float(lines[0]), float(lines[1])


# -- who is compared ----------------------------------------------------------------------------------------------


@contextmanager
def jdbcstore(kind: str, folder: Path) -> Iterator[str]:
    """Our broker on a database."""
    with database(kind, folder) as found, BrokerProcess(found.url, folder, program=PROGRAM) as broker:
        yield f"jdbcstore://127.0.0.1:{broker.port}/"


@contextmanager
def sqlalchemy(kind: str, folder: Path) -> Iterator[str]:
    """kombu's own transport on a database."""
    with database(kind, folder) as found:
        yield f"sqla+{found.url}"


@contextmanager
def pgmq(kind: str, folder: Path) -> Iterator[str]:
    """kombu's transport on PostgreSQL with pgmq's functions."""
    try:
        sql: str = import_module("pgmq.install").get_embedded_install_sql()
    except ImportError:
        raise click.ClickException("pgmq is not installed: pip install 'kombu[pgmq]'") from None
    with database(kind, folder) as found:
        engine = create_engine(found.url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection, closing(connection.connection.cursor()) as cursor:
            cursor.execute(sql)
        place = engine.url.set(drivername="pgmq").render_as_string(hide_password=False)
        engine.dispose()
        yield place


@contextmanager
def rabbitmq(kind: str, folder: Path) -> Iterator[str]:
    """Debian's RabbitMQ, in the folder, with its Erlang port mapper."""
    if not _RABBITMQ.exists():
        raise click.ClickException("RabbitMQ is not installed: scripts/install-rabbitmq")
    port = free_port()
    ports = {"RABBITMQ_NODE_PORT": port, "RABBITMQ_DIST_PORT": free_port(), "ERL_EPMD_PORT": free_port()}
    (folder / "rabbitmq.conf").write_text("loopback_users = none\n")
    environment: Mapping[str, str] = {
        **os.environ,
        **{name: str(number) for name, number in ports.items()},
        "RABBITMQ_NODENAME": "benchmark@localhost",
        "RABBITMQ_MNESIA_BASE": str(folder),
        "RABBITMQ_LOG_BASE": str(folder),
        "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
        "HOME": str(folder),
    }
    with (folder / "server.log").open("wb") as log:
        server = subprocess.Popen(
            [_RABBITMQ / "rabbitmq-server"], env=environment, stdout=log, stderr=log, start_new_session=True
        )
    try:
        wait_until(lambda: "completed with" in (folder / "server.log").read_text(), "RabbitMQ is up", timeout_s=120)
        yield f"amqp://guest:guest@127.0.0.1:{port}//"
    finally:
        os.killpg(server.pid, signal.SIGTERM)
        server.wait(60)
        if mapper := shutil.which("epmd"):
            subprocess.run([mapper, "-kill"], env=environment, capture_output=True, timeout=30, check=False)


CONTESTANTS: Final = {
    "jdbcstore/sqlite": (jdbcstore, "sqlite", 1.0),
    "jdbcstore/postgresql": (jdbcstore, "postgresql", 1.0),
    "sqlalchemy/sqlite": (sqlalchemy, "sqlite", 0.25),
    "sqlalchemy/postgresql": (sqlalchemy, "postgresql", 0.25),
    "pgmq/postgresql": (pgmq, "postgresql", 0.25),
    "rabbitmq": (rabbitmq, "", 1.0),
}


@click.command(help=__doc__)
@click.option("--only", multiple=True, type=click.Choice(list(CONTESTANTS)), help="May be repeated.")
@click.option("--tasks", default=4000, show_default=True, help="Tasks of each measurement; slow ones get fewer.")
@click.option("--rounds", default=3, show_default=True)
@click.option("--json", "json_file", type=click.Path(path_type=Path), help="Write the rates here as well.")
def main(only: tuple[str, ...], tasks: int, rounds: int, json_file: Path | None) -> None:
    """Measure each and print the table."""
    rates: dict[str, list[Rates]] = defaultdict(list)
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as text:
        Path(text).chmod(0o755)
        for turn in range(rounds):
            for name in only or CONTESTANTS:
                start, kind, share = CONTESTANTS[name]
                folder = Path(text) / f"{name.replace('/', '-')}-{turn}"
                folder.mkdir(mode=0o755)
                with console.status(f"{name} {turn + 1}"), start(kind, folder) as url:
                    rates[name].append(measured(url, int(tasks * share) // THREADS * THREADS, folder))
    table = Table("tasks a second", "published", "consumed", "run", "both", "range")
    for name, found in rates.items():
        columns = [[getattr(one, column) for one in found] for column in ("published", "consumed", "run", "both")]
        both = columns[-1]
        table.add_row(name, *(f"{median(column):,.0f}" for column in columns), f"{min(both):,.0f}–{max(both):,.0f}")
    console.print(table)
    if json_file is not None:
        found_json = {name: [asdict(one) for one in found] for name, found in rates.items()}
        json_file.write_text(json.dumps(found_json, indent=1))


if __name__ == "__main__":
    main()
