"""What Prometheus scrapes."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families as open_metrics
from prometheus_client.parser import text_string_to_metric_families

from jdbcstore import open_store
from tests.broker.client import Client
from tests.management.test_web import send, served
from tests.management.web import Site
from tests.waiting import wait_until

MONITORING = Path(__file__).parents[2] / "monitoring"


def numbers(site: Site) -> dict[tuple[str, str], float]:
    """Values by name and by the labels' values."""
    families = text_string_to_metric_families(site.get("/metrics").body.decode())
    return {
        (sample.name, " ".join(sample.labels.values())): sample.value
        for family in families
        for sample in family.samples
    }


def test_a_queue_has_its_depth_and_the_store_its_commits(tmp_path: Path) -> None:
    with served(open_store(f"sqlite:///{tmp_path / 'b.db'}"), broker_name="b1") as broker:
        send(broker, "BAR", 3)
        with Client(broker.address) as client:
            client.connect()
            client.subscribe("/queue/BAR", ack="client-individual")
            client.done("ACK", client.named(client.message()))
            site = broker.visitor
            wait_until(lambda: numbers(site).get(("jdbcstore_destination_depth", "queue://BAR")) == 2)
            wait_until(lambda: numbers(site).get(("jdbcstore_time_in_queue_seconds_count", "")) == 3)
            seen = numbers(site)
        assert seen["jdbcstore_destination_enqueued_total", "queue://BAR"] == 3
        assert seen["jdbcstore_destination_dequeued_total", "queue://BAR"] == 1
        assert seen["jdbcstore_destination_consumers", "queue://BAR"] == 1
        assert seen["jdbcstore_state", "master"] == 1
        assert seen["jdbcstore_master", ""] == 1
        assert seen["jdbcstore_commit_seconds_count", ""] >= 4
        assert seen["jdbcstore_commit_writes_sum", ""] >= 4
        assert seen["jdbcstore_send_to_receipt_seconds_count", ""] == 3
        assert seen["jdbcstore_time_in_queue_seconds_count", ""] == 3
        assert seen["jdbcstore_lease_left_seconds", ""] > 0
        assert seen["jdbcstore_term", ""] == 1
        assert seen["jdbcstore_memory_limit_bytes", "messages"] > 0


def test_openmetrics_is_spoken_to_those_who_ask_for_it() -> None:
    with served() as broker:
        answer = broker.visitor.get("/metrics", Accept="application/openmetrics-text; version=1.0.0")
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        families = open_metrics(answer.body.decode())  # type: ignore[no-untyped-call]
        assert {family.name for family in families} >= {"jdbcstore_build", "jdbcstore_depth"}


def test_promtool_finds_nothing_wrong_with_the_names() -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.fail("promtool is missing: scripts/install-test-servers installs it")
    with served() as broker:
        send(broker, "A", 1)
        body = broker.visitor.get("/metrics").body
    checked = subprocess.run([promtool, "check", "metrics"], input=body, capture_output=True, timeout=100, check=False)
    assert (checked.returncode, checked.stderr) == (0, b""), checked


def test_the_health_address_is_scraped_too() -> None:
    with served(health_bind="127.0.0.1:0") as broker:
        health = broker.broker.health_address
        answer = Site(health).get("/metrics")
        assert answer.status == 200
        assert b"jdbcstore_master 1.0" in answer.body
        assert Site(health).get("/live").json["state"] == "master"


def test_alerts_do_what_they_say() -> None:
    promtool = shutil.which("promtool")
    assert promtool is not None, "promtool is missing: scripts/install-test-servers installs it"
    tests = MONITORING / "prometheus" / "jdbcstore.rules.test.yml"
    tested = subprocess.run([promtool, "test", "rules", str(tests)], capture_output=True, timeout=100, check=False)
    assert tested.returncode == 0, tested


def test_dashboard_alerts_and_page_name_metrics_that_there_are(tmp_path: Path) -> None:
    with served(open_store(f"sqlite:///{tmp_path / 'b.db'}")) as broker:
        send(broker, "A", 1)
        wait_until(lambda: ("jdbcstore_destination_depth", "queue://A") in numbers(broker.visitor))
        text = broker.visitor.get("/metrics").body.decode()
    families = set(re.findall(r"^# TYPE (\S+)", text, re.MULTILINE))
    known = {*families, *re.findall(r"^(jdbcstore_\w+)", text, re.MULTILINE)}
    known |= {name + ending for name in known for ending in ("_bucket", "_sum", "_count")}
    for file in (MONITORING / "grafana" / "jdbcstore.json", MONITORING / "prometheus" / "jdbcstore.rules.yml"):
        assert set(re.findall(r"\bjdbcstore_[a-z_]+[a-z]", file.read_text("utf-8"))) - known == set()
    page = (MONITORING.parent / "docs" / "metrics.md").read_text("utf-8")
    shown = set(re.findall(r"`(jdbcstore_[a-z_]+[a-z])`", page))
    assert shown - known == set()
    shown |= {f"jdbcstore_destination{ending}" for ending in re.findall(r"`(_[a-z_]+[a-z])`", page)}
    assert families - shown == set()
