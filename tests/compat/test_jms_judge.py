"""One Java program asks what JMS 1.1 promises of a real ActiveMQ and of ours, and hears the same."""

from __future__ import annotations

import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.destination import Queue, Topic
from tests.compat.activemq import ActiveMQ, quick_start
from tests.compat.virtual_machine import run_program

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
pytestmark = pytest.mark.timeout(600)


def judged(class_path: str, program: str, url: str) -> dict[str, Any]:
    """What a program has found out about a broker, by the check."""
    command = ["java", *quick_start(class_path), QUIET, "-cp", class_path]
    printed = run_program(command, program, [url], timeout_s=250)
    return {line["name"]: line["result"] for line in map(json.loads, printed.splitlines())}


#: What ours answers otherwise, and says so in docs/openwire.md.
OTHERWISE: dict[str, dict[str, object]] = {
    "selectors": {"XPATH '//a'": "throws javax.jms.InvalidSelectorException"},
    "names that are none": {"4": "throws javax.jms.JMSException"},  # nobody sends to a wildcard
}


#: What ActiveMq.java asks for.
ADVISING = [
    DestinationPolicy(
        pattern=pattern,
        advisory_for_delivery=True,
        advisory_for_consumed=True,
        advisory_for_slow_consumers=True,
        send_advisory_if_no_consumers=True,
        include_body_for_advisory=not pattern.is_queue,
    )
    for pattern in (Queue("ADVISED.>"), Topic("ADVISED.>"))
]


def changed(name: str, result: object) -> object:
    """What ours is expected to answer where a real ActiveMQ answers so."""
    for place, other in OTHERWISE.get(name, {}).items():
        if isinstance(result, dict):
            result = {**result, place: other}
        elif isinstance(result, list):
            result = [other if str(number) == place else one for number, one in enumerate(result)]
    return result


@pytest.fixture(scope="module")
def urls(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Where a real ActiveMQ is, and where ours."""
    folder = tmp_path_factory.mktemp("judged")
    options = BrokerOptions(bind="openwire://127.0.0.1:0", broker_name="activemq", statistics_support=True)
    with (
        ActiveMQ(class_path, folder, "kahadb") as activemq,
        running(Broker(open_store(f"sqlite:///{folder}/store.db"), options, policies=ADVISING)) as (host, port),
    ):
        yield activemq.url, f"tcp://{host}:{port}"


@pytest.mark.parametrize("program", ["AdvisoryJudge", "JmsJudge", "ClientJudge", "UsageJudge"])
def test_a_java_program_hears_the_same_of_both(class_path: str, urls: tuple[str, str], program: str) -> None:
    with ThreadPoolExecutor() as pool:
        real, ours = pool.map(lambda url: judged(class_path, program, url), urls)
    assert ours.keys() == real.keys()
    expected = {name: changed(name, result) for name, result in real.items()}
    assert {name: (result, expected[name]) for name, result in ours.items() if result != expected[name]} == {}
    assert not [name for name, result in real.items() if "check ended" in str(result)]
