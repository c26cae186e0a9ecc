"""Distributed transactions of Java clients: what is in doubt survives kill -9, and is decided after it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from click.testing import CliRunner

from jdbcstore.cli import cli
from tests.broker_process import BrokerProcess
from tests.compat.activemq import JmsClients
from tests.compat.test_durable import kahadb_url
from tests.servers.server import ServerFailed, free_port

pytestmark = pytest.mark.timeout(300)

WORK, ACKS, BACK, LATER = "55:0a01ff:62", "55:0a02:62", "-7:0a03:", "55:0a04:62"
COUNT = 12


@pytest.fixture
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A fresh store."""
    if request.param == "kahadb":
        return kahadb_url(tmp_path)
    found: str = request.getfixturevalue(request.param)
    return found


class Ours(JmsClients):
    """Our broker, in a process, with Java clients."""

    def __init__(self, class_path: str, url: str, folder: Path) -> None:
        port = free_port()
        super().__init__(class_path, f"tcp://127.0.0.1:{port}")
        self.process = BrokerProcess(url, folder, "--bind", f"openwire://127.0.0.1:{port}")

    def log(self) -> str:
        return self.process.log()


@pytest.fixture
def broker(url: str, class_path: str, tmp_path: Path) -> Iterator[Ours]:
    """It runs."""
    ours = Ours(class_path, url, tmp_path)
    with ours.process:
        yield ours


def numbers_in(broker: JmsClients, queue: str = "Q") -> list[int]:
    return [message["properties"]["number"][1] for message in broker.consume(queue)]


def listed(url: str) -> dict[str, dict[str, object]]:
    done = CliRunner().invoke(cli, ["transactions", "list", url, "--json"])
    assert done.exit_code == 0, done.output
    return {found["xid"]: found for found in json.loads(done.output)}


@pytest.mark.parametrize("url", ["kahadb", pytest.param("postgresql_url", marks=pytest.mark.exhaustive)], indirect=True)
def test_what_is_prepared_is_in_doubt_until_it_is_decided_whatever_happens_to_the_broker(
    broker: Ours, url: str
) -> None:
    broker.subscribe_durably("PRICES", "ann", "news")
    broker.publish("PRICES", 0, 6)
    broker.send_numbers("queue://Q", 0, COUNT)
    sends = ("send", "queue://Q", "100", "3", "send", "topic://PRICES", "200", "2")
    taken = broker.prepare(WORK, *sends, "receive", "queue://Q", "2")
    given_back = broker.prepare(BACK, "send", "queue://Q", "300", "1", "receive", "queue://Q", "1")
    acknowledged = broker.prepare(ACKS, "consume", "topic://PRICES", "news", "3", client_id="ann")
    assert (taken, given_back, acknowledged) == ([0, 1], [2], [0, 1, 2])
    assert broker.in_doubt() == {WORK, ACKS, BACK}
    with pytest.raises(ServerFailed, match="nothing to prepare"):
        broker.prepare(LATER)

    broker.process.kill()
    found = listed(url)
    assert {xid: one["removes"] for xid, one in found.items()} == {
        WORK: {"queue://Q": 2},
        BACK: {"queue://Q": 1},
        ACKS: {},
    }
    assert found[WORK]["adds"] == {"queue://Q": 3, "topic://PRICES": 2}
    broker.process.start()

    assert broker.in_doubt() == {WORK, ACKS, BACK}
    broker.decide(WORK, commits=True)
    broker.decide(ACKS, commits=True)
    broker.decide(BACK, commits=False)
    assert broker.in_doubt() == set()
    assert sorted(numbers_in(broker)) == [*range(2, COUNT), 100, 101, 102]
    assert broker.consume_durably("PRICES", "ann", "news") == [3, 4, 5, 200, 201]
    assert listed(url) == {}


@pytest.mark.parametrize("url", ["postgresql_url", pytest.param("kahadb", marks=pytest.mark.exhaustive)], indirect=True)
def test_what_is_decided_at_once_is_seen_at_once(broker: Ours) -> None:
    broker.send_numbers("queue://Q", 0, 4)
    broker.prepare(WORK, "send", "queue://Q", "100", "2", "receive", "queue://Q", "1")
    broker.prepare(BACK, "send", "queue://Q", "300", "1", "receive", "queue://Q", "1")
    assert numbers_in(broker) == [2, 3], "what is prepared is not seen, and what it takes is gone"
    broker.decide(BACK, commits=False)
    broker.decide(WORK, commits=True)
    assert numbers_in(broker) == [1, 100, 101]
    with pytest.raises(ServerFailed, match="not in doubt"):
        broker.decide(WORK, commits=True)


def test_what_one_broker_has_prepared_the_next_one_decides(
    postgresql_url: str, class_path: str, tmp_path: Path
) -> None:
    first, second = (Ours(class_path, postgresql_url, tmp_path) for _ in range(2))
    both = JmsClients(class_path, f"failover:({first.url},{second.url})?randomize=false")
    with first.process, ExitStack() as stack:
        stack.push(second.process)
        second.process.start_standby()
        both.send_numbers("queue://Q", 0, 4)
        taken = both.prepare(WORK, "send", "queue://Q", "100", "2", "receive", "queue://Q", "2")
        both.prepare(BACK, "send", "queue://Q", "300", "1", "receive", "queue://Q", "1")
        assert taken == [0, 1]
        first.process.kill()
        second.process.wait_for("master")
        assert both.in_doubt() == {WORK, BACK}
        both.decide(WORK, commits=True)
        both.decide(BACK, commits=False)
        assert sorted(numbers_in(both)) == [2, 3, 100, 101]
