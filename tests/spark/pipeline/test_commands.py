"""``jdbcstore pipeline`` as a process: what it says, what it returns, and one line for everything that is wrong."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner
from pyspark.sql import SparkSession

from jdbcstore.cli import cli, run
from jdbcstore.config.urls import open_store
from tests.servers.server import free_port
from tests.spark.pipeline.filling import ORDERS, fill, message


def test_commands_one_after_the_other(spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """In the session that is there, as from a notebook."""
    url, other, folder = f"sqlite:///{tmp_path / 'store.db'}", f"sqlite:///{tmp_path / 'other.db'}", tmp_path / "out"
    fill(url)

    def output(*arguments: str) -> list[str]:
        capfd.readouterr()
        assert run(["pipeline", *arguments]) == 0
        told = capfd.readouterr()
        assert "Traceback" not in told.err
        return told.out.splitlines()

    asked = ["--dead-letter-queue", "ORD*.>", "--dead-letter-queue", "ORDERS"]
    assert output("report", url, "--output", str(folder), *asked) == [
        f"32 messages in 4 destinations: {folder}/report.html"
    ]
    dead = pq.read_table(folder / "tables" / "dead_letters.parquet").to_pylist()
    counts: Counter[str] = Counter()
    for row in dead:
        counts[row["destination"]] += row["messages"]
    # Of those in the usual queue the three with a cause.
    assert counts == {"queue://ORDERS": 20, "queue://ActiveMQ.DLQ": 3}
    archive = str(tmp_path / "archive")
    dry = output("archive", url, "--output", archive, "--dry-run", "--quiet")
    assert dry[-1].startswith("32 messages of ")
    assert any(line.split() == ["queue://ORDERS", "20"] for line in dry)
    (line,) = output("archive", url, "--output", archive, "--what", "dead", "--json")
    assert json.loads(line)["destinations"] == {"queue://ActiveMQ.DLQ": 4}
    assert output("archive", url, "--output", archive, "--what", "dead") == ["nothing new"]
    modes = {(path.is_dir(), path.stat().st_mode & 0o777) for path in Path(archive).rglob("*")}
    assert modes == {(True, 0o700), (False, 0o600)}
    assert output("migrate", url, other)[-1] == f"32 messages migrated to {other}; both stores are alike"
    assert output("replay", archive, other, "--destination", "BACK")[-1].startswith("4 messages replayed in ")
    with open_store(other) as adapter:
        assert len(list(adapter.queue_message_store(ORDERS).recover())) == 20
    (tmp_path / "empty.db").touch()
    capfd.readouterr()
    assert run(["pipeline", "report", f"sqlite:///{tmp_path / 'empty.db'}", "--output", str(folder), "--quiet"]) == 1
    told = capfd.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1), told
    assert "jdbcstore schema" in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "sqlite:////nowhere/x.db", "--output", "out"], "there is no file"),
        (["report", "oracle://u:secret@db/x", "--output", "out"], "no store for oracle"),
        (["migrate", "/nowhere", "sqlite:///store.db"], "neither a directory with a journal nor"),
    ],
)
def test_what_is_wrong_is_found_out_before_spark_is_started(
    capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    assert run(["pipeline", *arguments]) == 2
    told = capfd.readouterr()
    assert (told.out, told.err.count("\n")) == ("", 1)
    assert said in told.err
    assert "secret" not in told.err


@pytest.mark.timeout(240)  # a start of Spark
def test_a_process_says_in_one_line_what_is_wrong(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url)
    output = ["--output", str(tmp_path / "out")]

    def told(code: int, *arguments: str, **environment: str) -> str:
        command = [sys.executable, "-m", "jdbcstore", "pipeline", *arguments]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, check=False, env=os.environ | environment
        )
        assert done.returncode == code, done.stderr
        assert done.stdout == ""
        assert done.stderr.count("\n") == 1, done.stderr
        assert "secret" not in done.stderr
        return done.stderr

    # Found out before Spark is started.
    assert "there is none in JAVA_HOME=/nowhere" in told(2, "report", url, *output, JAVA_HOME="/nowhere")
    assert "--set takes a setting of Spark" in told(2, "report", url, *output, "--set", "x=1")
    # And after.
    away = f"postgresql://me:secret@127.0.0.1:{free_port()}/x"
    assert "Connection refused" in told(1, "archive", away, *output, "--quiet")


def test_help_needs_no_spark() -> None:
    code = "import sys; from jdbcstore.cli import run; run(sys.argv[1:]); assert 'pyspark' not in sys.modules"
    for command in ("report", "archive", "replay", "migrate"):
        shown = CliRunner().invoke(cli, ["pipeline", command, "--help"])
        assert shown.exit_code == 0
        assert "Examples:" in shown.output
    subprocess.run([sys.executable, "-c", code, "pipeline", "migrate", "--help"], check=True, capture_output=True)


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    with open_store(url) as adapter:
        adapter.queue_message_store(ORDERS).add_message(message(ORDERS)).result()
    hidden = tmp_path / "hidden"
    hidden.mkdir()
    (hidden / "pyspark.py").write_text("raise ImportError('no', name='pyspark')")
    command = [sys.executable, "-m", "jdbcstore", "pipeline", "report", url, "--output", str(tmp_path)]
    path = os.pathsep.join([str(hidden), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | {"PYTHONPATH": path})
    assert (done.returncode, done.stderr) == (
        2, "jdbcstore: the pipeline needs pyspark: pip install 'jdbcstore[spark]'\n"
    )  # fmt: skip
