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

ROOT = Path(__file__).parents[2]
COUNT = 1000


#: For short runs: executors that do not optimise what they are going to run once.
DEFAULTS = """
spark.executor.extraJavaOptions -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
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


@pytest.mark.timeout(900)
def test_what_runs_here_runs_on_two_workers(postgresql_url: str, tmp_path: Path) -> None:
    with open_store(postgresql_url) as store:
        queue = store.queue_message_store(Queue("A"))
        for number in range(COUNT):
            message = TextMessage(message_id=MessageId.parse(f"ID:a-1:1:1:1:{number + 1}"), destination=Queue("A"))
            message.text, message.priority = f"text {number}", number % 10
            last = queue.add_message(message)
        last.result()
    marker, meeting, archive = tmp_path / "second attempt", tmp_path / "meeting", tmp_path / "archive"
    meeting.mkdir()
    (tmp_path / "spark-defaults.conf").write_text(DEFAULTS)
    with cluster(tmp_path) as master:
        told = json.loads(run(tmp_path, "tests.spark.application", master, postgresql_url, str(marker), str(meeting)))
        command = ("jdbcstore", "pipeline", "archive", postgresql_url, "--output", str(archive), "--json")
        one_executor = ("--set", "spark.cores.max=1")  # what two do together was seen
        archived = json.loads(run(tmp_path, *command, *one_executor, "--quiet", "--master", master))
    assert marker.exists()  # of a task that was slow
    assert archived["messages"] == 2 * COUNT
    assert pq.read_table(archive / "runs").num_rows == 2 * COUNT
    assert told["copied"] == COUNT
    assert sum(count for _, count in told["read"]) == COUNT
    assert len({folder for folder, _ in told["read"]}) == 2  # both took part
    with open_store(postgresql_url) as store:
        copies = list(store.queue_message_store(Queue("B")).recover())
    assert all(isinstance(copy, TextMessage) for copy in copies)
    assert sorted((copy.text, copy.priority) for copy in copies if isinstance(copy, TextMessage)) == sorted(
        (f"text {number}", number % 10) for number in range(COUNT)
    )
