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
from tests.broker.conftest import OpenClient, StartBroker

PACKAGE = Path(jdbcstore.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "path-of-a-message.md"


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

    files = set.intersection(*(tracer.passed(send_and_acknowledge) for _ in range(4)))  # without what a timer does
    assert {"transport/listener.py", "broker/queue.py", "store/jdbc/dialect/sqlite/write.py"} <= files
    named = set(re.findall(r"[a-z_0-9]+\.py", PAGE.read_text()))
    assert [file for file in sorted(files) if Path(file).name not in named] == []
