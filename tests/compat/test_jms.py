"""What JMS clients see of our broker is what they see of a real one: the same Java program, the same words."""

from __future__ import annotations

import itertools
import re
import subprocess
from collections.abc import Collection
from contextlib import ExitStack
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore, quick_start
from tests.compat.oracle import differences
from tests.examples import sampled
from tests.servers.server import free_port

Told = dict[str, list[str]]

BROKER = "localhost"
pytestmark = pytest.mark.timeout(600)

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"


def checks(class_path: str, url: str, names: Collection[str] = ()) -> Told:
    """What the checks of JmsChecks.java tell, by their names: all, or these."""
    pattern = "|".join(re.escape(name) for name in names) or ".*"
    done = subprocess.run(
        ["java", *quick_start(class_path), QUIET, "-cp", class_path, "JmsChecks", url, pattern],
        capture_output=True,
        text=True,
        timeout=500,
        check=True,
    )
    told: Told = {}
    for line in done.stdout.splitlines():
        if line.startswith("== "):
            lines = told[line[3:]] = []
        else:
            lines.append(line)
    return told


def checks_of_activemq(class_path: str, folder: Path, names: Collection[str] = ()) -> Told:
    """What they tell of a real broker."""
    folder.mkdir()
    with ActiveMQ(class_path, folder, "kahadb", name=BROKER, scheduler=folder / "scheduler") as activemq:
        return checks(class_path, activemq.url, names)


@pytest.fixture(scope="module")
def told_of_activemq(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """What all of them tell of a real broker."""
    told = checks_of_activemq(class_path, tmp_path_factory.mktemp("told") / "activemq")
    assert len(told) > 60
    return told


@pytest.mark.parametrize(
    ("url", "store"),
    # Without failover, on SQLite, there is test_jms_judge.py.
    [
        ("failover:(tcp://{})", "kahadb:{}/k"),
        pytest.param("tcp://{}", "sqlite:///{}/a.db", marks=pytest.mark.exhaustive),
    ],
)
def test_a_jms_client_sees_no_difference(
    told_of_activemq: Told, class_path: str, tmp_path: Path, url: str, store: str
) -> None:
    broker = Broker(
        open_store(store.format(tmp_path)), BrokerOptions(bind="openwire://127.0.0.1:0", broker_name=BROKER)
    )
    with running(broker):
        told = checks(class_path, url.format("{}:{}".format(*broker.address)))
    number = itertools.count()
    found = differences(
        told,
        told_of_activemq,
        lambda names: checks_of_activemq(class_path, tmp_path / f"activemq{next(number)}", names),
        is_answer=lambda lines: not any("HANGS" in line or "FAILED" in line for line in lines),
    )
    assert not found, found


def said_over_kills(
    class_path: str, folder: Path, store: str, program: str, count: int, kills: Collection[str], delays: str
) -> list[str]:
    """What a program says over ``failover:`` while its broker is killed, and starts again, at some of its lines.

    Args:
        class_path: with the program.
        folder: of the broker, and of what `store` names.
        store: a URL, with ``{}`` for the folder.
        program: it gets the broker's address, a queue and `count`.
        count: how much it does.
        kills: the lines.
        delays: options of the client's transport.
    """
    port = free_port()
    bind = f"openwire://127.0.0.1:{port}"
    url = f"failover:(tcp://127.0.0.1:{port})?{delays}"
    said: list[str] = []
    with (
        BrokerProcess(None, folder, "--url", store.format(folder), "--bind", bind) as broker,
        subprocess.Popen(
            ["java", *quick_start(class_path), QUIET, "-cp", class_path, program, url, "Q", str(count)],
            stdout=subprocess.PIPE,
            text=True,
        ) as client,
    ):
        assert client.stdout is not None
        for line in client.stdout:
            said.append(line.strip())
            if said[-1] in kills:
                broker.kill()
                broker.start()
    return said


@pytest.mark.exhaustive
def test_what_failover_clients_send_is_stored_once_and_none_is_lost_when_brokers_are_killed(
    class_path: str, tmp_path: Path
) -> None:
    kills = ("sent 300", "sent 800", "received 300", "received 800")
    delays = "initialReconnectDelay=50&maxReconnectDelay=200"
    said = said_over_kills(class_path, tmp_path, "sqlite:///{}/a.db", "JmsFailover", 600, kills, delays)
    in_doubt = said.count("in doubt")  # a commit without an answer may have taken effect, and its program repeats it
    assert any(f"stored {1200 + 10 * more} of 1200" in said for more in range(in_doubt + 1))
    assert said[-3:] == ["missing 0", "unknown 0", "left 0"]


@pytest.mark.parametrize("store", sampled(["kahadb:{}/k", "sqlite:///{}/a.db"], kept=1))
def test_branches_are_whole_or_not_at_all_when_brokers_are_killed_in_the_middle_of_them(
    class_path: str, tmp_path: Path, store: str
) -> None:
    kills = ("branch 30", "branch 60", "branch 90")
    delays = "initialReconnectDelay=20&maxReconnectDelay=100"
    said = said_over_kills(class_path, tmp_path, store, "XaFailover", 120, kills, delays)
    assert said[-4:] == ["in doubt 0", "missing []", "unexpected []", "twice []"], said


def test_failover_clients_go_from_a_java_broker_to_ours_and_back(
    class_path: str, tmp_path: Path, postgresql_url: str
) -> None:
    """One database: a Java broker is killed while messages are sent, ours while they are received."""
    store = JdbcStore(postgresql_url, lock="lease", lease_ms=6000, renew_ms=2000)
    java = ActiveMQ(class_path, tmp_path, store, name="java")
    port = free_port()
    lease = "?lease_ms=6000&lock_acquire_sleep_interval_ms=200"
    bind = f"openwire://127.0.0.1:{port}"
    ours = BrokerProcess(None, tmp_path, "--url", postgresql_url + lease, "--bind", bind, "--name", "ours")
    url = f"failover:({java.url},tcp://127.0.0.1:{port})?initialReconnectDelay=100&maxReconnectDelay=500"
    with java, ExitStack() as stack:
        ours.start_standby()
        stack.callback(ours.__exit__, None, None, None)
        said: list[str] = []
        with subprocess.Popen(
            ["java", *quick_start(class_path), QUIET, "-cp", class_path, "JmsFailover", url, "Q", "400"],
            stdout=subprocess.PIPE,
            text=True,
        ) as client:
            assert client.stdout is not None
            for line in client.stdout:
                said.append(line.strip())
                if said[-1] == "sent 300":
                    java.kill()
                    ours.wait_for("master")
                elif said[-1] == "received 300":
                    java.start()
                    ours.kill()
    in_doubt = said.count("in doubt")
    stored = [line for line in said if line.startswith("stored")]
    assert stored[0] in [f"stored {800 + 10 * more} of 800" for more in range(in_doubt + 1)]
    assert said[-3:] == ["missing 0", "unknown 0", "left 0"]
