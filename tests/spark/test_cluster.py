"""On a real cluster of two worker processes everything is as it is in one process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from jdbcstore import Queue, TextMessage, open_store
from jdbcstore.identifiers import MessageId
from tests.spark.cluster import cluster
from tests.spark.java_options import BRIEF_LIFE

ROOT = Path(__file__).parents[2]
COUNT = 1000

DEFAULTS = f"""
spark.executor.extraJavaOptions {BRIEF_LIFE}
spark.sql.shuffle.partitions 4
"""


def run(configuration: Path, *arguments: str) -> str:
    """What a Python program says that runs where the workers find everything.

    Args:
        configuration: the folder with the defaults of Spark.
        arguments: module, and what it is given.
    """
    environment = os.environ | {
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(configuration),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }
    done = subprocess.run(
        [sys.executable, "-m", *arguments],
        env=environment, cwd=ROOT, capture_output=True, text=True, timeout=500, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout


@pytest.fixture
def url(postgresql_url: str) -> str:
    """A store with messages on queue://A."""
    with open_store(postgresql_url) as store:
        queue = store.queue_message_store(Queue("A"))
        for number in range(COUNT):
            message = TextMessage(message_id=MessageId.parse(f"ID:a-1:1:1:1:{number + 1}"), destination=Queue("A"))
            message.text, message.priority = f"text {number}", number % 10
            last = queue.add_message(message)
        last.result()
    return postgresql_url


@pytest.fixture
def configuration(tmp_path: Path) -> Path:
    """The folder with the defaults of Spark."""
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    return tmp_path


@pytest.mark.exhaustive  # a cluster of its own; all that it runs is run in one process by the others
@pytest.mark.timeout(900)
def test_what_runs_here_runs_on_two_workers(url: str, configuration: Path, tmp_path: Path) -> None:
    marker, meeting = tmp_path / "second attempt", tmp_path / "meeting"
    meeting.mkdir()
    with cluster(tmp_path) as master:
        told = json.loads(run(configuration, "tests.spark.application", master, url, str(marker), str(meeting)))
    assert marker.exists()  # of a task that was slow
    assert told["copied"] == COUNT
    assert sum(count for _, count in told["read"]) == COUNT
    assert len({folder for folder, _ in told["read"]}) == 2  # both took part
    with open_store(url) as store:
        copies = list(store.queue_message_store(Queue("B")).recover())
    assert all(isinstance(copy, TextMessage) for copy in copies)
    assert sorted((copy.text, copy.priority) for copy in copies if isinstance(copy, TextMessage)) == sorted(
        (f"text {number}", number % 10) for number in range(COUNT)
    )


@pytest.mark.exhaustive  # a cluster once more: `test_commands.py` runs the same command in one process
@pytest.mark.timeout(900)
def test_a_command_runs_on_a_worker(url: str, configuration: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    with cluster(tmp_path, workers=1) as master:
        command = ("jdbcstore", "pipeline", "archive", url, "--output", str(archive), "--json")
        archived = json.loads(run(configuration, *command, "--quiet", "--master", master))
    assert archived["messages"] == COUNT
    assert pq.read_table(archive / "runs").num_rows == COUNT
