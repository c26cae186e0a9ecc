"""How fast Spark reads a store, and with how much memory, compared with Spark's own JDBC source on the same table.

``python -m benchmarks.spark_read [MESSAGES] [--database postgresql] [--body-bytes 1024]`` fills a database with so
many real messages (2 000 000 unless told) and reads them with ``local[2]`` into Spark's ``noop`` sink, in turns, so
that what else goes on on the machine meets all alike:

* **envelope**: topic, offset, messageId, priority and expiration, for which no message is read;
* **undecoded**: these and the message as it is stored. Goal: at least as fast as JDBC;
* **decoded**: every column. Goal: at least half as fast as JDBC reads undecoded;
* **jdbc envelope**, **jdbc undecoded**: Spark's JDBC source, the same columns in the same ranges of ids;
* **plain**: no Spark: ``psql`` with a binary COPY, ``mysql --quick`` with a SELECT, two processes with half of the ids
  each, to /dev/null.

Printed are seconds of each round, the rate of the median, its ratio to JDBC and the most memory of the Python workers
(goal: each below 1 GiB) and of the JVM. Exits with 1 when a goal is missed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Final

import click
from pyspark.sql import DataFrame, SparkSession
from sqlalchemy import make_url, text

from benchmarks.contestants import database
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.openwire import marshal
from jdbcstore.spark import register
from jdbcstore.spark.columns import COLUMNS
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import text_message
from tests.sql.loading import load

ENVELOPE: Final = ("topic", "offset", "messageId", "rowPriority", "expiration")
RAW: Final = ("CONTAINER", "ID", "MSGID_PROD", "MSGID_SEQ", "PRIORITY", "EXPIRATION")
JARS: Final = "/usr/share/java/postgresql.jar,/usr/share/java/mariadb-java-client.jar"
#: Spark quotes names as ANSI does; to a URL of jdbc:mariadb: that means texts, and no row is found. The server of
#: MySQL has a certificate, and PyMySQL encrypts where that is possible.
JDBC: Final = {
    "postgresql": ("jdbc:postgresql", "org.postgresql.Driver", "?"),
    "mariadb": ("jdbc:mariadb", "org.mariadb.jdbc.Driver", "?sessionVariables=sql_mode=ANSI_QUOTES&"),
    "mysql": (
        "jdbc:mariadb",
        "org.mariadb.jdbc.Driver",
        "?sessionVariables=sql_mode=ANSI_QUOTES&useSsl=true&trustServerCertificate=true&",
    ),
}
SETTLE: Final = {
    "postgresql": "VACUUM ANALYZE activemq_msgs",
    "mariadb": "ANALYZE TABLE ACTIVEMQ_MSGS",
    "mysql": "ANALYZE TABLE ACTIVEMQ_MSGS",
}
FILL_ROWS: Final = 100_000
JDBC_GOAL: Final = {"undecoded": 1.0, "decoded": 0.5}
WORKER_MIB_GOAL: Final = 1024


@dataclass
class Found:
    """Of one way to read: seconds of each round, and the most MiB of one Python worker and of the JVM."""

    seconds: list[float] = field(default_factory=list)
    worker_mib: float = 0
    jvm_mib: float = 0


def fill(url: str, count: int, body_bytes: int) -> None:
    """Messages with ids from 1 on."""
    with open_store(url):
        pass  # makes the tables
    engine = open_engine(url)
    with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
        tables = Tables.on(connection, "")
        blob = marshal(text_message(1, "x" * body_bytes))
        for first in range(1, count + 1, FILL_ROWS):
            load(connection, tables, min(FILL_ROWS, count + 1 - first), first, MSG=blob)
        connection.execute(text(SETTLE[make_url(url).get_backend_name()]))
    engine.dispose()


def session(folder: Path) -> SparkSession:
    """Two cores, as the machine of the goals has."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    built = (
        SparkSession.builder.master("local[2]")
        .appName("benchmark")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "2g")
        .config("spark.jars", JARS)
        .config("spark.local.dir", str(folder))
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    built.sparkContext.setLogLevel("ERROR")
    return register(built)


def ours(spark: SparkSession, url: str, columns: tuple[str, ...], partitions: int) -> DataFrame:
    """Our source."""
    reader = spark.read.format("activemq").option("url", url).option("numPartitions", partitions)
    return reader.option("columns", ",".join(columns)).load()


def jdbc(spark: SparkSession, url: str, columns: tuple[str, ...], partitions: int, count: int) -> DataFrame:
    """Spark's own source."""
    where = make_url(url)
    scheme, driver, parameters = JDBC[where.get_backend_name()]
    is_postgresql = where.get_backend_name() == "postgresql"
    named = [name.lower() if is_postgresql else name for name in columns]
    return (
        spark.read.format("jdbc")
        .option("url", f"{scheme}://{where.host}:{where.port}/{where.database}{parameters}user={where.username}")
        .option("password", where.password or "")
        .option("driver", driver)
        .option("dbtable", "activemq_msgs" if is_postgresql else "ACTIVEMQ_MSGS")
        .option("partitionColumn", "id" if is_postgresql else "ID")
        .option("lowerBound", 1)
        .option("upperBound", count + 1)
        .option("numPartitions", partitions)
        .option("fetchsize", 1000)
        .load()
        .select(*named)
    )


def plain(url: str, count: int) -> None:
    """Two client programs, no Spark."""
    where = make_url(url)
    columns = ", ".join((*RAW, "MSG"))
    programs = []
    for first, last in ((1, count // 2), (count // 2 + 1, count)):
        select = f"SELECT {columns} FROM ACTIVEMQ_MSGS WHERE ID BETWEEN {first} AND {last}"
        if where.get_backend_name() == "postgresql":
            address = where.set(drivername="postgresql").render_as_string(hide_password=False)
            command = ["psql", "-q", "-c", f"COPY ({select}) TO STDOUT (FORMAT BINARY)", address]
        else:
            server = [f"-h{where.host}", f"-P{where.port}", f"-u{where.username}", f"-p{where.password}"]
            command = ["mysql", "--no-defaults", "--quick", *server, str(where.database), "-e", select]
        programs.append(subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL))
    codes = [program.wait() for program in programs]
    if any(codes):
        raise SystemExit("a client program failed")


class Watch:
    """The most memory of the JVM and of any Python worker below it, looked at all the time."""

    def __init__(self) -> None:
        self.jvm_mib = self.worker_mib = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Watch:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._is_over.wait(0.05):
            for pid in below(os.getpid()):
                name, mib = size_of(pid)
                if name == "java":
                    self.jvm_mib = max(self.jvm_mib, mib)
                elif name.startswith("python"):
                    self.worker_mib = max(self.worker_mib, mib)


def below(pid: int) -> list[int]:
    """All processes that a process has started, and those that these have."""
    try:
        threads = list(Path(f"/proc/{pid}/task").iterdir())
        children = [int(one) for thread in threads for one in (thread / "children").read_text().split()]
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [each for child in children for each in (child, *below(child))]


def size_of(pid: int) -> tuple[str, float]:
    """The name of a process, and its memory in MiB."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (FileNotFoundError, ProcessLookupError):
        return "", 0
    status = dict(line.split(":", 1) for line in lines if ":" in line)
    return status["Name"].strip(), int(status.get("VmRSS", "0 kB").split()[0]) / 1024


def measure(spark: SparkSession, url: str, count: int, partitions: int, rounds: int) -> dict[str, Found]:
    """All ways in turns; a first round that warms up does not count."""
    everything = tuple(name for name, column in COLUMNS.items() if column.shown)

    def sink(frame: DataFrame) -> None:
        frame.write.format("noop").mode("overwrite").save()

    ways: dict[str, Callable[[], None]] = {
        "plain": lambda: plain(url, count),
        "jdbc envelope": lambda: sink(jdbc(spark, url, RAW, partitions, count)),
        "envelope": lambda: sink(ours(spark, url, ENVELOPE, partitions)),
        "jdbc undecoded": lambda: sink(jdbc(spark, url, (*RAW, "MSG"), partitions, count)),
        "undecoded": lambda: sink(ours(spark, url, (*ENVELOPE, "message"), partitions)),
        "decoded": lambda: sink(ours(spark, url, everything, partitions)),
    }
    assert jdbc(spark, url, RAW, partitions, count).count() == count
    assert ours(spark, url, ENVELOPE, partitions).count() == count
    found = {name: Found() for name in ways}
    for turn in range(rounds + 1):
        for name, way in ways.items():
            with Watch() as watch:
                began_s = time.perf_counter()
                way()
                took_s = time.perf_counter() - began_s
            if turn:
                found[name].seconds.append(took_s)
            found[name].worker_mib = max(found[name].worker_mib, watch.worker_mib)
            found[name].jvm_mib = max(found[name].jvm_mib, watch.jvm_mib)
    return found


@click.command(help=__doc__)
@click.argument("messages", default=2_000_000, type=click.IntRange(1))
@click.option("--database", "databases", multiple=True, type=click.Choice(list(JDBC)), help="May be repeated.")
@click.option("--body-bytes", default=1024, show_default=True, help="Bytes of each body.")
@click.option("--partitions", default=8, show_default=True, help="Ranges of ids.")
@click.option("--rounds", default=3, show_default=True, help="Rounds that count.")
def main(messages: int, databases: tuple[str, ...], body_bytes: int, partitions: int, rounds: int) -> None:
    """Measure and print."""
    missed = []
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as name:
        folder = Path(name)
        folder.chmod(0o755)  # database servers may run as another user
        spark = session(folder)
        for kind in databases or tuple(JDBC):
            with database(kind, folder) as store:
                began_s = time.perf_counter()
                fill(store.url, messages, body_bytes)
                print(f"{kind}: {messages:,} messages filled in {time.perf_counter() - began_s:.0f} s", flush=True)
                found = measure(spark, store.url, messages, partitions, rounds)
            for way, one in found.items():
                middle = median(one.seconds)
                base = median(found["jdbc envelope" if way.endswith("envelope") else "jdbc undecoded"].seconds)
                took = " ".join(f"{seconds:6.2f}" for seconds in one.seconds)
                print(
                    f"{kind} {way:<15} {took} s  {messages / middle:>9,.0f}/s  {base / middle:4.2f} x jdbc"
                    f"  worker {one.worker_mib:4.0f} MiB  JVM {one.jvm_mib:4.0f} MiB",
                    flush=True,
                )
                if way in JDBC_GOAL and base / middle < JDBC_GOAL[way]:
                    missed.append(f"{kind} {way}: {base / middle:.2f} of JDBC's speed, {JDBC_GOAL[way]:g} wanted")
                if one.worker_mib > WORKER_MIB_GOAL:
                    missed.append(f"{kind} {way}: a worker took {one.worker_mib:.0f} MiB")
        print(f"load of the machine at the end: {os.getloadavg()[0]:.1f}")
        spark.stop()
    for problem in missed:
        print(f"goal missed: {problem}")
    sys.exit(1 if missed else 0)


if __name__ == "__main__":
    main()
