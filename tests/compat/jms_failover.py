"""What a client with the failover transport hears when its connection fails: the same of a real ActiveMQ and of ours.

``make jms-failover`` runs it; it takes a while, and some of its checks depend on how the client's threads race when the
machine is busy, so it is not part of ``make test``. The environment variable JDBCSTORE_TEST_FAULTS says what fails:
``cut,unnoticed,killed`` (FailoverJudge.java says what these are).
"""

from __future__ import annotations

import itertools
import json
import os
import re
import socket
import threading
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, quick_start
from tests.compat.oracle import differences
from tests.compat.test_jms_judge import changed
from tests.compat.virtual_machine import run_program
from tests.servers.server import free_port

FAULTS = os.environ.get("JDBCSTORE_TEST_FAULTS", "cut")

ROLLED_BACK = "throws javax.jms.TransactionRolledBackException"

#: What ours answers otherwise, by the check and by the place in its answer.
OTHERWISE: dict[str, dict[str, object]] = {
    # One that was committed is not unknown when its client asks again.
    "XA commit, answer lost": {"5": "commit: done"},
    "XA commit, answer lost, and its messages are consumed": {"5": "commit: done"},
    "XA commit, request lost": {"5": "commit: done"},
    # A scheduled message is one job, however often its client sends it, and one that is removed is not there.
    "a send for later and again, answer lost": {"1": ["1"] * 3},
    "a send for later is taken back, request lost": {"1": ["3"]},
    "a send for later is taken back, answer lost": {"1": ["3"]},
    # Who commits hears by its class that nothing of it was stored.
    **{
        f"a commit of what was refused {when} the fault, jms.useAsyncSend=true": {"1": ROLLED_BACK}
        for when in ("before", "after")
    },
    # Messages of a producer that is closed already belong to their transaction all the same.
    "a commit after its producer was closed, trackTransactionProducers=false": {"0": "done", "1": ["1", "2", "3"]},
}

QUIET = "-Dorg.slf4j.simpleLogger.defaultLogLevel=off"
pytestmark = pytest.mark.timeout(1200)


@contextmanager
def control(kill: Callable[[], object], start: Callable[[], object]) -> Iterator[int]:
    """The port where FailoverJudge.java asks for its broker to be killed, and for the next one."""
    is_over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection, connection.makefile("rw") as lines:
                for line in lines:
                    {"kill": kill, "start": start}[line.strip()]()
                    lines.write("done\n")
                    lines.flush()
            is_over.wait()  # what a thread has started may end with it

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield server.getsockname()[1]
        finally:
            is_over.set()


def judged(
    class_path: str, port: int, brokers: Sequence[str], names: Collection[str] = (), faults: str = FAULTS
) -> dict[str, Any]:
    """What FailoverJudge.java has heard, by the check: all of them, or those that have the titles of these."""
    command = ["java", *quick_start(class_path), QUIET, "-cp", class_path]
    pattern = "|".join(re.escape(_title(name)) for name in names) or ".*"
    printed = run_program(command, "FailoverJudge", [str(port), ",".join(brokers), faults, pattern], timeout_s=500)
    return {line["name"]: line["result"] for line in map(json.loads, printed.splitlines())}


def judged_real(class_path: str, folder: Path, names: Collection[str] = ()) -> dict[str, Any]:
    """A real ActiveMQ is killed, and started again on its store."""
    folder.mkdir()
    with ActiveMQ(class_path, folder, "kahadb", scheduler=folder / "scheduler") as activemq:

        def start() -> None:
            activemq.start()
            activemq.wait_until_started()

        with control(activemq.kill, start) as port:
            return judged(class_path, port, [f"127.0.0.1:{activemq.openwire_port}"], names)


def judged_ours(class_path: str, folder: Path) -> dict[str, Any]:
    """Ours is killed, and its standby takes over."""
    folder.mkdir()
    ports = free_port(), free_port()
    master, standby = (
        BrokerProcess(
            None,
            folder,
            "--url",
            f"sqlite:///{folder}/a.db",
            "--bind",
            f"openwire://127.0.0.1:{one}",
            "--name",
            str(one),
        )
        for one in ports
    )
    with master, ExitStack() as stack:
        standby.start_standby()
        stack.push(standby)
        with control(master.kill, lambda: standby.wait_for("master")) as port:
            return judged(class_path, port, [f"127.0.0.1:{one}" for one in ports])


def test_a_client_hears_the_same_of_both_when_its_connection_fails(class_path: str, tmp_path: Path) -> None:
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(judged_real, class_path, tmp_path / "real")
        ours = judged_ours(class_path, tmp_path / "ours")
        real = expected(asked.result())
    number = itertools.count()
    different = differences(
        ours,
        real,
        lambda names: expected(judged_real(class_path, tmp_path / f"real{next(number)}", names)),
        is_answer=lambda result: "check ended" not in str(result),
    )
    assert not different, json.dumps(different, indent=1)


def expected(real: Mapping[str, object]) -> dict[str, object]:
    """What ours has to answer when a real one answers so."""
    return {name: changed(_title(name), result, OTHERWISE) for name, result in real.items()}


def _title(name: str) -> str:
    """The check's title, without the fault."""
    return name.partition(": ")[2]
