"""docs/path-of-a-message.md names every file that a message passes."""

from __future__ import annotations

import re
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

import pytest

import jdbcstore
from jdbcstore import PersistenceAdapter
from jdbcstore.destination import Destination, Queue, Topic
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient

PACKAGE = Path(jdbcstore.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "path-of-a-message.md"
NAMED = set(re.findall(r"[a-z_0-9]+\.py", PAGE.read_text()))


class Tracer:
    """Takes note of the files whose functions are called in threads that begin while it is there."""

    def __init__(self) -> None:
        self.files: set[Path] = set()
        self.is_on = False

    def __call__(self, frame: FrameType, event: str, argument: object) -> None:
        if self.is_on and event == "call":
            self.files.add(Path(frame.f_code.co_filename))

    def passed(self, act: Callable[[], object]) -> set[str]:
        """The files of the package that somebody was in meanwhile, from the package on."""
        self.files.clear()
        self.is_on = True
        act()
        self.is_on = False
        return {str(file.relative_to(PACKAGE)) for file in set(self.files) if file.is_relative_to(PACKAGE)}


def passed_each_time(tracer: Tracer, act: Callable[[], object]) -> set[str]:
    """The files that somebody was in each time, so without what a timer does.

    On a busy machine a timer may go off each of a few times. A file that is not named is so often looked for again.
    """
    files = set.intersection(*(tracer.passed(act) for _ in range(4)))
    for _ in range(50):
        if not unnamed(files):
            break
        files &= tracer.passed(act)
    return files


def unnamed(files: set[str]) -> list[str]:
    """Those that the page does not name."""
    return [file for file in sorted(files) if Path(file).name not in NAMED]


@pytest.fixture
def tracer() -> Iterator[Tracer]:
    tracer, before = Tracer(), sys.getprofile()
    threading.setprofile(tracer)
    yield tracer
    threading.setprofile(before)


@pytest.mark.parametrize(
    ("destination", "headers"), [("/queue/A", {}), ("/topic/A", {"activemq_subscriptionName": "s"})]
)
def test_the_page_names_every_file_of_a_send_and_an_ack(
    tracer: Tracer,
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    destination: str,
    headers: dict[str, str],
) -> None:
    client = open_client(start_broker(sqlite_store), client_id="till")
    client.subscribe(destination, "client-individual", **headers)

    def send_and_acknowledge() -> None:
        client.publish(destination, "x")
        client.done("ACK", client.named(client.message()))

    files = passed_each_time(tracer, send_and_acknowledge)
    assert {"transport/stomp/session.py", "broker/queue.py", "store/jdbc/dialect/sqlite/write.py"} <= files
    assert unnamed(files) == []


@pytest.mark.parametrize("destination", [Queue("A"), Topic("A")], ids=str)
def test_the_page_names_every_file_of_an_openwire_message_and_its_acknowledgement(
    tracer: Tracer, start_broker: StartBroker, sqlite_store: PersistenceAdapter, destination: Destination
) -> None:
    with OpenWireClient(start_broker(sqlite_store, bind="openwire://127.0.0.1:0")) as client:
        client.subscribe(destination, subscription_name="s" if destination.is_topic else None)

        def send_and_acknowledge() -> None:
            client.send(destination, "x")
            dispatch = client.dispatch()
            client.acknowledge(dispatch, dispatch)

        files = passed_each_time(tracer, send_and_acknowledge)
    assert {"transport/openwire/session.py", "broker/queue.py", "store/jdbc/dialect/sqlite/write.py"} <= files
    assert unnamed(files) == []


def test_the_page_names_no_file_that_is_not_there() -> None:
    there = {path.name for path in PACKAGE.rglob("*.py")}
    assert sorted(NAMED.difference(there)) == []
