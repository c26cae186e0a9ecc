"""One Java program asks what JMS 1.1 promises of a real ActiveMQ and of ours, and hears the same."""

from __future__ import annotations

import itertools
import json
from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.destination import Queue, Topic
from tests.compat.activemq import ActiveMQ, quick_start
from tests.compat.oracle import differences
from tests.compat.virtual_machine import run_program
from tests.examples import sampled

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
pytestmark = pytest.mark.timeout(600)


def judged(class_path: str, program: str, url: str, *titles: str) -> dict[str, Any]:
    """What a program has found out about a broker, by the check: all of its checks, or those of these titles."""
    command = ["java", *quick_start(class_path), QUIET, "-cp", class_path]
    printed = run_program(command, program, [url, *titles], timeout_s=250)
    return {line["name"]: line["result"] for line in map(json.loads, printed.splitlines())}


#: What ours answers otherwise, and says so in docs/openwire.md.
OTHERWISE: dict[str, dict[str, object]] = {
    "selectors": {"XPATH '//a'": "throws javax.jms.InvalidSelectorException"},
    "a durable subscriber that rolls back and closes": {  # a real one forgets how often it was closed before
        "3": ["1 again 3", "2 again 3"],
        "4": ["1 again 4"],
        "5": ["2 again 4", "3"],
    },
    "names that are none": {"4": "throws javax.jms.JMSException"},  # nobody sends to a wildcard
}


#: What ActiveMq.java asks for.
RECOVERING = [
    DestinationPolicy(pattern=Topic("RECOVERED.COUNT.>"), subscription_recovery="fixed_count", recovery_messages_max=2),
    DestinationPolicy(pattern=Topic("RECOVERED.SIZE.>"), subscription_recovery="fixed_size", recovery_bytes_max=10_000),
    DestinationPolicy(pattern=Topic("RECOVERED.IMAGE.>"), subscription_recovery="last_image"),
    DestinationPolicy(pattern=Topic("RECOVERED.TIME.>"), subscription_recovery="timed"),
    DestinationPolicy(pattern=Topic("RECOVERED.ALWAYS.>"), subscription_recovery="last_image", always_retroactive=True),
]
DISPATCHING = [
    DestinationPolicy(pattern=Queue("ASKED.>"), queue_prefetch=0),
    DestinationPolicy(pattern=Queue("STARTED.COUNT.>"), consumers_before_dispatch_starts=2),
    DestinationPolicy(pattern=Queue("STARTED.TIME.>"), time_before_dispatch_starts_ms=800),
    DestinationPolicy(
        pattern=Queue("STARTED.BOTH.>"), consumers_before_dispatch_starts=2, time_before_dispatch_starts_ms=60_000
    ),
]
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


def changed(name: str, result: object, otherwise: Mapping[str, Mapping[str, object]]) -> object:
    """What ours is expected to answer where a real ActiveMQ answers so.

    Args:
        name: the check's.
        result: the real one's answer.
        otherwise: what is different, by the check and by the place in its answer: a key, or a number from 0.
    """
    for place, other in otherwise.get(name, {}).items():
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
        running(
            Broker(open_store(f"sqlite:///{folder}/store.db"), options, policies=[*ADVISING, *RECOVERING, *DISPATCHING])
        ) as (
            host,
            port,
        ),
    ):
        yield activemq.url, f"tcp://{host}:{port}"


def disagreements(
    class_path: str, program: str, urls: tuple[str, str], folder: Path, *, has_scheduler: bool = False
) -> dict[str, Any]:
    """What ours answers and a real one never did, by the check.

    Args:
        class_path: Java's.
        program: asks them.
        urls: where a real one is, and where ours.
        folder: for others that are asked again.
        has_scheduler: whether these keep messages for later.
    """

    def expected(real: Mapping[str, object]) -> dict[str, object]:
        return {name: changed(name, result, OTHERWISE) for name, result in real.items()}

    number = itertools.count()

    def ask_again(titles: Collection[str]) -> Mapping[str, object]:
        place = folder / str(next(number))
        place.mkdir()
        scheduler = place / "scheduler" if has_scheduler else None
        with ActiveMQ(class_path, place, "kahadb", scheduler=scheduler) as activemq:
            return expected(judged(class_path, program, activemq.url, *titles))

    with ThreadPoolExecutor() as pool:
        real, ours = pool.map(lambda url: judged(class_path, program, url), urls)
    return differences(ours, expected(real), ask_again, is_answer=lambda result: "check ended" not in str(result))


@pytest.mark.parametrize(
    "program",
    [
        *sampled(["JmsJudge", "AdvisoryJudge", "MatrixJudge", "ClientJudge", "UsageJudge", "SuiteJudge"], kept=2),
        "SpringJudge",
    ],
)
def test_a_java_program_hears_the_same_of_both(
    class_path: str, urls: tuple[str, str], tmp_path: Path, program: str
) -> None:
    found = disagreements(class_path, program, urls, tmp_path)
    assert not found, json.dumps(found, indent=1)


@pytest.mark.exhaustive
def test_a_java_program_hears_the_same_of_both_schedulers(
    class_path: str, urls: tuple[str, str], tmp_path: Path
) -> None:
    with ActiveMQ(class_path, tmp_path, "kahadb", scheduler=tmp_path / "scheduler") as activemq:
        found = disagreements(class_path, "SchedulerJudge", (activemq.url, urls[1]), tmp_path, has_scheduler=True)
    assert not found, json.dumps(found, indent=1)
