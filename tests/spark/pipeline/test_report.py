"""``report``: its figures are those of the store, and a browser shows them."""

from __future__ import annotations

import re
import subprocess
import time
from pathlib import Path

import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from jdbcstore.config.inspection import looking_into
from jdbcstore.pipeline.report import report
from jdbcstore.pipeline.report.figures import SCHEMAS, Figures
from jdbcstore.pipeline.report.page import page
from jdbcstore.pipeline.report.stores import counted, counting, producers, subscriptions
from tests.spark.pipeline.filling import DLQ, ODD, ORDERS, PRICES, fill
from tests.unit.kahadb.journals import unpack

SECTIONS = [
    "depth", "ages", "sizes", "priorities", "redeliveries", "dead-letters", "subscriptions", "producers",
]  # fmt: skip


def test_what_a_database_counts_by_itself(database_url: str) -> None:
    fill(database_url)
    with counting(database_url) as (connection, statements):
        rows = counted(connection, statements)
        clients = producers(connection, statements)
    assert [(row["destination"], row["depth"], row["expired"], row["prepared"]) for row in rows] == [
        (str(DLQ), 4, 0, 0), (str(ORDERS), 20, 3, 0), (str(ODD), 3, 0, 0), (str(PRICES), 5, 0, 0)
    ]  # fmt: skip
    assert {row["client"] for row in clients} == {f"ID:host-{number}-1700000000000-0" for number in range(3)}
    assert sum(row["messages"] for row in clients) == 32
    assert sum(row["bytes"] for row in clients) == sum(int(str(row["bytes"])) for row in rows)
    with looking_into(database_url) as adapter:
        waiting = subscriptions(adapter, int(time.time() * 1000))
    assert [(row["subscription"], row["pending"]) for row in waiting] == [("slow", 3), ("quick", 1)]
    assert all(row["oldest_s"] > 86_400 for row in waiting)


def test_a_report_says_what_is_in_the_store(spark: SparkSession, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'store.db'}"
    fill(url)
    figures = report(spark, url, tmp_path)
    tables = {name: pq.read_table(tmp_path / "tables" / f"{name}.parquet").to_pylist() for name in figures.tables}
    by_name = {row["destination"]: row for row in tables["destinations"]}
    assert {name: row["depth"] for name, row in by_name.items()} == {
        str(DLQ): 4, str(ODD): 3, str(ORDERS): 20, str(PRICES): 5
    }  # fmt: skip
    assert by_name[str(ORDERS)]["expired"] == 3
    assert 3.9 * 86_400 < by_name[str(ORDERS)]["age_s_p90"] < 4.6 * 86_400
    assert by_name[str(DLQ)]["age_s_p50"] > 39 * 86_400
    assert by_name[str(ORDERS)]["bytes_p50"] < by_name[str(ORDERS)]["bytes_p99"] == by_name[str(ORDERS)]["bytes_max"]
    assert {(row["cause"], row["original_destination"]): row["messages"] for row in tables["dead_letters"]} == {
        ("<i>Exceeded redelivery policy limit</i> 0", str(ODD)): 1,
        ("<i>Exceeded redelivery policy limit</i> 0", str(ORDERS)): 1,
        ("<i>Exceeded redelivery policy limit</i> 1", str(ORDERS)): 1,
        (None, str(ORDERS)): 1,
    }
    assert {(row["subscription"], row["pending"]) for row in tables["subscriptions"]} == {("slow", 3), ("quick", 1)}
    assert {row["priority"] for row in tables["priorities"] if row["destination"] == str(ORDERS)} == set(range(10))
    assert sum(row["messages"] for row in tables["redeliveries"] if row["redeliveries"] == 2) == 6
    for name in ("ages", "sizes", "priorities", "producers"):
        assert sum(row["messages"] for row in tables[name]) == 32
    assert len(tables["producers"]) == 3
    html = (tmp_path / "report.html").read_text()
    assert "<i>Exceeded" not in html
    assert '<b>&"' not in html
    assert shown_by_a_browser(tmp_path / "report.html", tmp_path) == SECTIONS


def test_a_report_on_a_journal_says_what_keeps_its_files(spark: SparkSession, tmp_path: Path) -> None:
    (store,) = [one for one in unpack("pinned", tmp_path)["stores"] if one["kind"] != "scheduler"]
    figures = report(spark, str(tmp_path / store["path"]), tmp_path / "out")
    depths = {row["destination"]: row["depth"] for row in figures.rows("destinations")}
    expected = {name: len(found["messages"]) for name, found in store["replay"]["destinations"].items()}
    assert depths == {name: count for name, count in expected.items() if count}
    assert not figures.rows("dead_letters")
    files = pq.read_table(tmp_path / "out" / "tables" / "files.parquet").to_pylist()
    assert {row["file"] for row in files} == {
        int(path.stem[3:]) for path in (tmp_path / store["path"]).glob("db-*.log")
    }
    by_destination = {name: sum(row["messages"] for row in files if row["destination"] == name) for name in depths}
    assert by_destination == depths
    assert '<section id="files">' in (tmp_path / "out" / "report.html").read_text()


def shown_by_a_browser(file: Path, folder: Path) -> list[str]:
    """The sections with a chart, as a browser without network and without a word of complaint understands the page."""
    command = ["chromium", "--headless", "--no-sandbox", "--disable-gpu", "--enable-logging=stderr", "--v=0"]
    command += [f"--user-data-dir={folder / 'browser'}", "--dump-dom", file.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=90, check=True)
    assert "CONSOLE" not in done.stderr, done.stderr
    assert not re.search('(?:src|href)="(?!#)', done.stdout)
    parts = re.findall(r'<section id="([a-z-]+)">(.*?)</section>', done.stdout, re.DOTALL)
    return [name for name, body in parts if "<svg" in body and "<rect" in body]


def test_an_empty_store(tmp_path: Path) -> None:
    html = page(Figures("sqlite:///x", "now", {name: [] for name in SCHEMAS}))
    assert "The store is empty." in html
