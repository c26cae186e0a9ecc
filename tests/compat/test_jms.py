"""What JMS clients see of our broker is what they see of a real one: the same Java program, the same words."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from tests.compat.activemq import ActiveMQ, quick_start

Told = dict[str, list[str]]

BROKER = "localhost"


def checks(class_path: str, url: str) -> Told:
    """What the checks of JmsChecks.java tell, by their names."""
    done = subprocess.run(
        ["java", *quick_start(class_path), "-cp", class_path, "JmsChecks", url],
        capture_output=True,
        text=True,
        timeout=300,
        check=True,
    )
    told: Told = {}
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            lines = told[line[3:]] = []
        else:
            lines.append(line)
    return told


@pytest.fixture(scope="module")
def told_of_activemq(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What a real broker does."""
    folder = tmp_path_factory.mktemp("activemq")
    with ActiveMQ(class_path, folder, "kahadb", name=BROKER, scheduler=folder / "scheduler") as activemq:
        told = checks(class_path, activemq.url)
    assert len(told) > 60
    assert not [lines for lines in told.values() if any("HANGS" in line or "FAILED" in line for line in lines)]
    return told


@pytest.mark.parametrize(("url", "store"), [("tcp://{}", "sqlite:///{}/a.db"), ("failover:(tcp://{})", "kahadb:{}/k")])
def test_a_jms_client_sees_no_difference(
    told_of_activemq: Told, class_path: str, tmp_path: Path, url: str, store: str
) -> None:
    broker = Broker(
        open_store(store.format(tmp_path)), BrokerOptions(bind="openwire://127.0.0.1:0", broker_name=BROKER)
    )
    with running(broker):
        told = checks(class_path, url.format("{}:{}".format(*broker.address)))
    assert told == told_of_activemq
