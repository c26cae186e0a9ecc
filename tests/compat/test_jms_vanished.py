"""JMS clients that are gone without a word: killed or stopped in the middle of a transaction and of their prefetch."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Queue
from jdbcstore.message import TextMessage
from tests.broker.openwire_client import OpenWireClient
from tests.compat.activemq import quick_start

WORK, OTHER = Queue("WORK"), Queue("OTHER")
COUNT, RECEIVED = 20, 5
QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
pytestmark = pytest.mark.timeout(300)


@contextmanager
def holder(class_path: str, url: str) -> Iterator[subprocess.Popen[str]]:
    """A client in the middle of a transaction."""
    options = [*quick_start(class_path), QUIET, "-cp", class_path]
    arguments = [url, WORK.physical_name, str(RECEIVED), OTHER.physical_name]
    with subprocess.Popen(
        ["java", *options, "JmsHolder", *arguments], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline().strip() == "holding"
            yield process
        finally:
            process.kill()


@pytest.mark.parametrize("ends_by", [signal.SIGKILL, signal.SIGSTOP])
def test_what_a_client_that_vanishes_had_is_for_others_and_what_it_did_has_not_been(
    class_path: str, tmp_path: Path, ends_by: signal.Signals
) -> None:
    broker = Broker(open_store(f"sqlite:///{tmp_path}/a.db"), BrokerOptions(bind="openwire://127.0.0.1:0"))
    with running(broker) as (host, port), OpenWireClient((host, port)) as other:
        for number in range(COUNT):
            other.send(WORK, str(number))
        # Who is stopped has to be missed. Who is not must not be, although a busy machine may stand still for seconds.
        silence_ms = 6000 if ends_by is signal.SIGSTOP else 30_000
        silence = "&".join(f"wireFormat.maxInactivityDuration{name}={silence_ms}" for name in ("", "InitalDelay"))
        with holder(class_path, f"tcp://{host}:{port}?{silence}") as process:
            process.send_signal(ends_by)
            other.subscribe(WORK, prefetch=COUNT)
            got = [other.dispatch() for _ in range(COUNT)]
            texts = [d.message.text for d in got if isinstance(d.message, TextMessage)]
            assert texts == list(map(str, range(COUNT)))
            other.acknowledge(got[0], got[-1], count=COUNT)
            if ends_by is signal.SIGSTOP:  # it comes back, and hears that it is too late
                process.send_signal(signal.SIGCONT)
                assert process.stdin is not None
                process.stdin.write("go on\n")
                process.stdin.close()
                assert process.stdout is not None
                said = process.stdout.read().split()
                assert "committed" not in said
                assert "refused" in said
        other.send(OTHER, "last")
        other.subscribe(OTHER, number=2)
        assert other.text() == "last"
    with open_store(f"sqlite:///{tmp_path}/a.db") as store:
        assert store.queue_message_store(WORK).message_count == 0
