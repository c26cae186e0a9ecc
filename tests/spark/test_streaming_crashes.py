"""Exactly once into Parquet: writers that commit out of order, and an application that is killed."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from sqlalchemy import Engine

from tests.spark.rows import insert, open_tables
from tests.spark.test_streaming import drained, reading, texts
from tests.waiting import wait_until

SETTLE_S = 6.0
DELAY_MOST_S = 1.5
WRITERS = 10
WAIT_S = 240.0


class Writers:
    """Connections that take numbers from one counter in memory, as a broker's do, and commit them later or never."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._next = 0
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._run, args=(seed,)) for seed in range(WRITERS)]
        self.committed: list[int] = []
        self.overtaken = 0

    @contextmanager
    def at_work(self) -> Iterator[None]:
        for thread in self._threads:
            thread.start()
        try:
            yield
        finally:
            self._stopping.set()
            for thread in self._threads:
                thread.join()

    def _run(self, seed: int) -> None:
        chance = random.Random(seed)
        raw = self._engine.execution_options(isolation_level="READ COMMITTED")
        while not self._stopping.is_set():
            with raw.connect() as connection:
                with self._lock:
                    ids = range(self._next + 1, self._next + 1 + chance.choice((1, 1, 2, 6)))
                    self._next = ids[-1]
                taken_s = time.monotonic()
                pause_s = chance.uniform(0, DELAY_MOST_S) * chance.random()
                before = chance.random() < 0.5
                self._stopping.wait(pause_s if before else 0)
                insert(connection, ids, chance.choice(("queue://A", "queue://B")))
                self._stopping.wait(0 if before else pause_s)
                if chance.random() < 0.07 or time.monotonic() - taken_s > SETTLE_S / 2:
                    connection.rollback()
                    continue
                connection.commit()
                with self._lock:
                    self.overtaken += any(id > ids[-1] for id in self.committed[-50:])
                    self.committed += ids


@contextmanager
def application(folder: Path, **options: object) -> Iterator[subprocess.Popen[bytes]]:
    """The application; killed at the end, with all its processes."""
    given = [f"{name}={value}" for name, value in options.items()]
    with (folder / "log").open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.streaming_app", str(folder), *given],
            stdout=log,
            stderr=log,
            env=os.environ | {"PYSPARK_PYTHON": sys.executable},  # with Spark's own daemon, as users have it
            start_new_session=True,
        )
    try:
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def batches(folder: Path) -> int:
    """How many batches Spark has committed."""
    return len(list((folder / "checkpoint" / "commits").glob("[0-9]*")))


def wait_for_batches(count: int, folder: Path, process: subprocess.Popen[bytes]) -> None:
    """Wait until Spark has committed so many batches, which needs the application alive."""

    def log() -> str:
        return (folder / "log").read_text()[-3000:]

    def are_committed() -> bool:
        assert process.poll() is None, log()
        return batches(folder) >= count

    wait_until(are_committed, lambda: f"there are {count} batches: {log()}", timeout_s=WAIT_S)


def offsets(folder: Path) -> list[dict[str, Any]]:
    """Where the batches end that Spark has planned."""
    files = (folder / "checkpoint" / "offsets").glob("[0-9]*")
    return [json.loads(file.read_text().splitlines()[-1]) for file in files]


@pytest.mark.timeout(600)  # an application takes 10 s to start, on a busy machine much longer
@pytest.mark.parametrize("kills", [1, pytest.param(3, marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_exactly_once_although_the_application_is_killed(
    postgresql_url: str, spark: SparkSession, tmp_path: Path, kills: int
) -> None:
    url = postgresql_url
    engine = open_tables(url)
    writers = Writers(engine)
    options = {
        "subscribe": "queue://A,queue://B",
        "maxOffsetsPerTrigger": 1000,
        "settleDelay": f"{SETTLE_S} s",
        "columns": "offset,text",
    }
    chance = random.Random(1)
    with writers.at_work():
        for _ in range(kills):
            done = batches(tmp_path)
            with application(tmp_path, url=url, **options) as process:
                wait_for_batches(done + 3, tmp_path, process)
                time.sleep(chance.random())  # no event: any moment of a batch will do
        assert any(offset["gaps"] for offset in offsets(tmp_path))
    drained(reading(spark, url, **options), tmp_path)
    assert writers.overtaken > 10
    assert max(offset["rows"] for offset in offsets(tmp_path)) <= 1000
    assert texts(spark, tmp_path) == sorted(writers.committed)
    engine.dispose()
