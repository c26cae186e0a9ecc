"""Writing with Spark against raw parallel loading of the same rows: ``python -m benchmarks.spark_write 1000000``.

Both write into the same table with the same indexes, one after the other, some rounds in one run. Raw loading is two
processes that COPY files made beforehand (PostgreSQL), or two that send INSERTs of a megabyte made beforehand (MariaDB,
MySQL). Absolute figures are the machine's; the ratio is what counts.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import click
import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as sf
from sqlalchemy import create_engine, text

from jdbcstore.config.urls import store_options, store_url
from jdbcstore.spark import register
from jdbcstore.spark.encoder import Encoder
from jdbcstore.spark.options import WriteOptions
from jdbcstore.store.jdbc.dialect.base.bulk import row_by_row
from jdbcstore.store.jdbc.dialect.base.load_block import LoadBlock, LoadRow
from jdbcstore.store.jdbc.dialect.postgresql.bulk import packed_for_copy
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.schema import upgrade_schema
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer

_SERVERS = {"postgresql": PostgreSQLServer, "mariadb": MariaDBServer, "mysql": MySQLServer}
_COPY = "COPY activemq_msgs (ID,MSGID_SEQ,EXPIRATION,PRIORITY,CONTAINER,MSGID_PROD,MSG) FROM STDIN BINARY"
_PARTS = 8
_BATCH = 10_000


@click.command(help=__doc__)
@click.argument("messages", type=click.IntRange(min=1000))
@click.option("--database", type=click.Choice(list(_SERVERS)), default="postgresql", show_default=True)
@click.option("--body-bytes", default=1024, show_default=True)
@click.option("--rounds", default=3, show_default=True)
def main(messages: int, database: str, body_bytes: int, rounds: int) -> None:
    """Measure and print."""
    with (
        _SERVERS[database]() as server,
        tempfile.TemporaryDirectory() as folder,
        ProcessPoolExecutor(2, get_context("spawn")) as pool,
    ):
        server.create_database("benchmark")
        url = server.url("benchmark")
        parsed, options = store_options(url)
        engine = engine_for(parsed, options)
        upgrade_schema(engine)
        engine.dispose()
        files = [_prepare(database, Path(folder), part, messages // 2, body_bytes, url) for part in range(2)]
        spark = _session(Path(folder))
        frame = _frame(spark, messages, body_bytes)
        frame.write.format("noop").mode("overwrite").save()  # warm
        list(pool.map(_load, [database] * 2, files, [url] * 2))  # likewise
        found: dict[str, list[float]] = {"raw, indexes kept": [], "Spark, indexes kept": [], "Spark": []}
        for _ in range(rounds):
            for name, seconds in found.items():
                _empty(server, url)
                began = time.perf_counter()
                if name.startswith("raw"):
                    list(pool.map(_load, [database] * 2, files, [url] * 2))
                else:
                    writer = frame.write.format("activemq").option("url", url).mode("append")
                    writer.option("indexes", "keep" if "kept" in name else "auto").save()
                seconds.append(time.perf_counter() - began)
                _check(url, messages)
        spark.stop()
    raw = statistics.median(found["raw, indexes kept"])
    for name, seconds in found.items():
        median = statistics.median(seconds)
        told = " ".join(f"{one:.1f}" for one in seconds)
        click.echo(f"{name:20} {told} s, median {messages / median:,.0f} messages/s, {raw / median:.2f} of raw")


def _frame(spark: SparkSession, messages: int, body_bytes: int) -> DataFrame:
    body = sf.lit("x" * max(0, body_bytes - 12))
    return spark.range(0, messages, 1, _PARTS).select(
        sf.lit("queue://BENCHMARK").alias("topic"), sf.concat(body, sf.lpad(sf.col("id"), 12, "0")).alias("text")
    )


def _rows(part: int, messages: int, body_bytes: int, url: str) -> Iterator[LoadRow | LoadBlock]:
    encoder = Encoder(WriteOptions.of({"url": url, "topic": "queue://BENCHMARK"}), "raw", part)
    pad = "x" * max(0, body_bytes - 12)
    for first in range(0, messages, _BATCH):
        texts = [f"{pad}{number:012}" for number in range(first, min(first + _BATCH, messages))]
        yield from encoder.rows([pa.RecordBatch.from_pydict({"text": texts})])


def _prepare(database: str, folder: Path, part: int, messages: int, body_bytes: int, url: str) -> Path:
    """A file with half of the rows as they are sent."""
    path = folder / f"part{part}"
    first = 1 + part * (1 << 32)
    rows = _rows(part, messages, body_bytes, url)
    with path.open("wb") as file:
        if database == "postgresql":
            file.writelines(packed_for_copy(rows, first))
            return path
        values: list[bytes] = []
        for number, (producer, sequence, container, expiration, priority, blob) in enumerate(row_by_row(rows), first):
            head = f"({number},'{producer}',{sequence},'{container}',{expiration},{priority},".encode()
            values.append(head + b"0x" + blob.hex().encode() + b")")
            if len(values) == 400:
                file.write(b",".join(values) + b"\n")
                values = []
        if values:
            file.write(b",".join(values) + b"\n")
    return path


def _load(database: str, path: Path, url: str) -> None:
    connection = create_engine(store_url(url)).raw_connection()
    raw = connection.driver_connection
    assert raw is not None
    if database == "postgresql":
        with path.open("rb") as file:
            raw.cursor().copy_expert(_COPY, file, 1 << 20)
    else:
        head = b"INSERT INTO ACTIVEMQ_MSGS (ID,MSGID_PROD,MSGID_SEQ,CONTAINER,EXPIRATION,PRIORITY,MSG) VALUES "
        with path.open("rb") as file:
            for line in file:
                raw.query(head + line.rstrip(b"\n"))
    raw.commit()
    connection.close()


def _empty(server: DatabaseServer, url: str) -> None:
    engine = create_engine(store_url(url), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text("TRUNCATE TABLE ACTIVEMQ_MSGS"))
    engine.dispose()


def _check(url: str, messages: int) -> None:
    engine = create_engine(store_url(url))
    with engine.connect() as connection:
        there = connection.execute(text("SELECT COUNT(*) FROM ACTIVEMQ_MSGS")).scalar_one()
    engine.dispose()
    if there != messages // 2 * 2 and there != messages:
        raise click.ClickException(f"{there} messages are there instead of {messages}")


def _session(folder: Path) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    session = builder.config("spark.local.dir", str(folder)).config("spark.driver.memory", "1g").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    return register(session)


if __name__ == "__main__":
    main()
