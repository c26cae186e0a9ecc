"""The example of docs/embed-the-store.md: a broker of one's own on a store, which is killed."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.servers.server import free_port
from tests.waiting import wait_until

EXAMPLE = Path(__file__).parents[2] / "examples" / "line_broker.py"


@contextmanager
def broker(url: str) -> Iterator[int]:
    """The example in a process of its own, on a port; killed in the end."""
    port = free_port()
    process = subprocess.Popen([sys.executable, str(EXAMPLE), url, str(port)])
    try:
        wait_until(lambda: is_listening(port))
        yield port
    finally:
        process.kill()
        process.wait()


def is_listening(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def client(port: int) -> Iterator[Callable[[str], str]]:
    """Says a line, and gives the answer."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as connection, connection.makefile("rwb") as file:

        def say(line: str) -> str:
            file.write(line.encode() + b"\n")
            file.flush()
            return file.readline().decode().rstrip("\n")

        yield say


def test_what_it_has_said_ok_to_survives_kill_9(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'lines.db'}"
    with broker(url) as port, client(port) as say:
        assert say("PUT ORDERS three apples") == "OK ORDERS/1"
        assert say("PUT ORDERS two pears") == "OK ORDERS/2"
        assert say("GET ORDERS") == "MSG ORDERS/1 three apples"
        assert say("ACK ORDERS/1") == "OK"
        assert say("GET ORDERS") == "MSG ORDERS/2 two pears"
    with broker(url) as port:
        with client(port) as say:
            assert say("GET ORDERS") == "MSG ORDERS/2 two pears"  # it was not acknowledged
            with client(port) as other:
                assert other("GET ORDERS") == "NONE"  # somebody has it
                assert other("ACK ORDERS/2") == "ERROR you do not have ORDERS/2"
            assert say("NONSENSE").startswith("ERROR say PUT")
            assert say("ACK ORDERS/x").startswith("ERROR invalid literal")
        with client(port) as say:
            wait_until(lambda: say("GET ORDERS") == "MSG ORDERS/2 two pears")  # the first one is gone
