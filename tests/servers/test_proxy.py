"""The proxy breaks connections the way it says."""

from __future__ import annotations

import contextlib
import socket
import socketserver
import threading
import time
from collections.abc import Iterator

import pytest
from sqlalchemy import NullPool, create_engine, exc, text

from tests.servers.postgresql import PostgreSQLServer
from tests.servers.proxy import Proxy

WAIT_S = 60.0


class Echo(socketserver.StreamRequestHandler):
    """Answers every line with itself."""

    def heard(self, line: bytes) -> None:
        """A line came: for tests that look."""

    def handle(self) -> None:
        try:
            for line in self.rfile:
                self.heard(line)
                self.wfile.write(line)
        except ConnectionResetError:
            pass  # the proxy cut us off: what the test is about


@pytest.fixture
def proxy() -> Iterator[Proxy]:
    """A proxy before an echo server."""
    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Echo) as server:
        server.daemon_threads = True
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        with Proxy(server.server_address[1]) as running:
            yield running
        server.shutdown()
        thread.join()


def connect(proxy: Proxy) -> socket.socket:
    return socket.create_connection(("127.0.0.1", proxy.port), timeout=WAIT_S)


def ask(line: socket.socket, request: bytes) -> bytes:
    line.sendall(request)
    return line.recv(100)


def is_reset(line: socket.socket) -> bool:
    try:
        return line.recv(1) == b""
    except ConnectionResetError:
        return True


def test_bytes_pass_both_ways(proxy: Proxy) -> None:
    with connect(proxy) as line:
        assert ask(line, b"hello\n") == b"hello\n"
        assert proxy.connections == 1


def test_cut_resets_and_refuses_until_resumed(proxy: Proxy) -> None:
    with connect(proxy) as line:
        ask(line, b"hello\n")
        proxy.cut()
        assert is_reset(line)
    with pytest.raises(ConnectionRefusedError):
        connect(proxy)
    proxy.resume()
    with connect(proxy) as line:
        assert ask(line, b"again\n") == b"again\n"


def test_dropped_connections_can_come_back(proxy: Proxy) -> None:
    with connect(proxy) as line:
        ask(line, b"hello\n")
        proxy.drop_connections()
        assert is_reset(line)
    with connect(proxy) as line:
        assert ask(line, b"again\n") == b"again\n"


def test_refused_are_the_new_ones_only(proxy: Proxy) -> None:
    with connect(proxy) as line:
        ask(line, b"hello\n")
        proxy.refuse()
        assert ask(line, b"still\n") == b"still\n"
        with pytest.raises(ConnectionRefusedError):
            connect(proxy)
        proxy.resume()
        with connect(proxy) as other:
            assert ask(other, b"again\n") == b"again\n"


@pytest.mark.parametrize("answers", [False, True])
def test_a_line_is_cut_after_so_many_bytes_of_one_direction(proxy: Proxy, answers: bool) -> None:
    with connect(proxy) as line:
        cut = proxy.cut_after(9, answers=answers)
        assert ask(line, b"hello\n") == b"hello\n"
        assert not cut.is_set()
        line.sendall(b"more\n")
        assert cut.wait(WAIT_S)
        with contextlib.suppress(ConnectionResetError):
            while line.recv(100):  # what was let through may come first
                pass
    with connect(proxy) as line:
        assert ask(line, b"again\n") == b"again\n"


def test_paused_bytes_arrive_after_resume(proxy: Proxy) -> None:
    with connect(proxy) as line:
        ask(line, b"hello\n")
        proxy.pause()
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            ask(line, b"held\n")
        proxy.resume()
        line.settimeout(WAIT_S)
        assert line.recv(100) == b"held\n"


def test_bytes_that_are_held_arrive_after_resume_and_other_lines_go_on(proxy: Proxy) -> None:
    with connect(proxy) as line, connect(proxy) as other:
        held = proxy.hold_at(b"stop here")
        assert ask(line, b"go on\n") == b"go on\n"
        assert not held.is_set()
        line.settimeout(0.1)
        with pytest.raises(TimeoutError):
            ask(line, b"stop here\n")
        assert held.wait(WAIT_S)
        assert ask(other, b"stop here\n") == b"stop here\n"
        proxy.resume()
        line.settimeout(WAIT_S)
        assert line.recv(100) == b"stop here\n"


def test_held_bytes_arrive_although_the_client_has_gone(proxy: Proxy) -> None:
    with connect(proxy) as line:
        held = proxy.hold_at(b"stop here")
        line.sendall(b"stop here\n")
        assert held.wait(WAIT_S)
    received = threading.Event()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Echo, "heard", lambda self, line: received.set() if line == b"stop here\n" else None)
        proxy.resume()
        assert received.wait(WAIT_S)


def test_slow_delays_each_way(proxy: Proxy) -> None:
    with connect(proxy) as line:
        ask(line, b"hello\n")
        proxy.slow(50)
        before = time.monotonic()
        assert ask(line, b"late\n") == b"late\n"
        assert time.monotonic() - before >= 0.1


@pytest.mark.parametrize("deliver", [True, False])
def test_a_commit_is_cut_before_or_after_the_server_has_it(postgresql: PostgreSQLServer, deliver: bool) -> None:
    name = f"proxy_{deliver}".lower()
    postgresql.create_database(name)
    with Proxy(postgresql.port) as proxy:
        engine = create_engine(proxy.url(postgresql.url(name)), poolclass=NullPool)
        with engine.begin() as connection:
            connection.execute(text("CREATE TABLE kept (id INTEGER)"))
        cut = proxy.cut_at(b"COMMIT", deliver=deliver)
        with pytest.raises(exc.OperationalError), engine.begin() as connection:
            connection.execute(text("INSERT INTO kept VALUES (1)"))
        assert cut.is_set()
        with engine.connect() as connection:
            count = text("LOCK TABLE kept; SELECT count(*) FROM kept")  # waits for the cut-off transaction
            assert connection.execute(count).scalar_one() == int(deliver)
    postgresql.drop_database(name)
