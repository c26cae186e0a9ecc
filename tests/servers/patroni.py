"""PostgreSQL in a cluster: three nodes with Patroni, which asks a coordinator who is primary.

Each node is a process of Patroni with its PostgreSQL, on ports of its own. Others reach it at other ports, those of
proxies, so that any line can be cut: node to node (replication), node to coordinator.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

import psycopg2

from tests.servers.coordinator import Coordinator, Etcd
from tests.servers.mysql import FOLDER_VARIABLE
from tests.servers.postgresql import NOBODY, is_open_to_others, programs
from tests.servers.proxy import Proxy
from tests.servers.server import (
    CHECKOUT,
    PASSWORD,
    USER,
    DatabaseServer,
    ServerFailed,
    ServerMissing,
    children,
    free_port,
)

__all__ = ["PatroniCluster", "PatroniNode", "PatroniSettings"]

_PYTHON: Final = "/usr/bin/python3"
_API_S: Final = 2.0
_STARTED_S: Final = 120.0


@dataclass(frozen=True, slots=True)
class PatroniSettings:
    """What the cluster agrees upon, by Patroni's names.

    Args:
        synchronous_mode: ``off``, ``on`` or ``quorum``.
        synchronous_mode_strict: block commits rather than go on without a standby.
        ttl, loop_wait, retry_timeout: in seconds. Patroni takes no ttl below 20.
        primary_start_timeout: how long a primary that crashed may take to start before another one is chosen, in
            seconds; 0 is at once.
        parameters: of PostgreSQL.
    """

    synchronous_mode: str = "on"
    synchronous_mode_strict: bool = True
    ttl: int = 20
    loop_wait: int = 1
    retry_timeout: int = 5
    primary_start_timeout: int = 0
    parameters: Mapping[str, object] = field(default_factory=dict)

    def document(self) -> dict[str, object]:
        """As Patroni keeps them in its coordinator."""
        mode: object = {"on": True, "off": False}.get(self.synchronous_mode, self.synchronous_mode)
        parameters = {
            "max_connections": 200,
            "max_wal_size": "256MB",
            "wal_keep_size": "64MB",
            "wal_sender_timeout": "5s",
            "wal_receiver_timeout": "5s",
            **self.parameters,
        }
        return {
            "ttl": self.ttl,
            "loop_wait": self.loop_wait,
            "retry_timeout": self.retry_timeout,
            "maximum_lag_on_failover": 64 << 20,
            "primary_start_timeout": self.primary_start_timeout,
            "synchronous_mode": mode,
            "synchronous_mode_strict": self.synchronous_mode_strict,
            "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": parameters},
        }


class PatroniNode(DatabaseServer):
    """One node: Patroni and its PostgreSQL.

    Args:
        name: in the cluster.
        folder: of the cluster; the node has its own in it.
        settings: of the cluster.
        coordinator: its section in the configuration, and the ports at which this node finds the members.
        ports: of PostgreSQL, as others find it; of Patroni's API.
    """

    scheme = "postgresql+psycopg2"
    stop_signal = signal.SIGTERM
    start_timeout_s = _STARTED_S

    def __init__(
        self,
        name: str,
        folder: Path,
        settings: PatroniSettings,
        coordinator: tuple[str, Sequence[int]],
        own_port: int,
        advertised_port: int,
    ) -> None:
        self.name = name
        self._settings = settings
        self._coordinator = coordinator
        self._packages = _packages(folder)
        self._api_port = free_port()
        self._advertised_port = advertised_port
        own = folder / name
        own.mkdir()
        super().__init__(folder=own)
        self.port = own_port

    def user_id(self) -> int | None:
        """Nobody, when we are root."""
        return NOBODY if os.geteuid() == 0 else None

    def command(self) -> Sequence[str]:
        """Patroni, in the foreground."""
        configuration = self.folder / "patroni.json"  # JSON is YAML
        configuration.write_text(json.dumps(self._configuration(), indent=1))
        if (user_id := self.user_id()) is not None:
            os.chown(self.folder, user_id, user_id)
        environment = [f"PYTHONPATH={self._packages}", f"HOME={self.folder}", "PYTHONDONTWRITEBYTECODE=1"]
        return ["/usr/bin/env", *environment, _PYTHON, "-m", "patroni", str(configuration)]

    def _configuration(self) -> dict[str, object]:
        section, ports = self._coordinator
        superuser = {"username": "postgres", "password": PASSWORD}
        return {
            "scope": "jdbcstore",
            "name": self.name,
            "restapi": {
                "listen": f"127.0.0.1:{self._api_port}",
                "connect_address": f"127.0.0.1:{self._api_port}",
            },
            # Members are reached by the lines that can be cut, not by the addresses that they tell of themselves.
            section: {
                "hosts": [f"127.0.0.1:{port}" for port in ports],
                **({"use_proxies": True} if section == Etcd.section else {}),
            },
            "bootstrap": {
                "dcs": self._settings.document(),
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}, "no-sync"],
            },
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}",
                "connect_address": f"127.0.0.1:{self._advertised_port}",
                "data_dir": str(self.folder / "data"),
                "bin_dir": str(programs(15)),
                "pgpass": str(self.folder / "pgpass"),
                "authentication": {"superuser": superuser, "replication": superuser, "rewind": superuser},
                "parameters": {"unix_socket_directories": str(self.folder)},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all all trust"],
            },
        }

    def ping(self) -> None:
        """Raise unless Patroni answers and its PostgreSQL runs."""
        if self.status().get("state") != "running":
            raise ServerFailed(f"{self.name} is not running yet")

    def status(self) -> dict[str, Any]:
        """What Patroni says of this node; empty when it does not answer."""
        request = urllib.request.Request(f"http://127.0.0.1:{self._api_port}/patroni")
        try:
            with urllib.request.urlopen(request, timeout=_API_S) as answer:
                found: dict[str, Any] = json.loads(answer.read())
        except urllib.error.HTTPError as error:  # 503 while it does not run, with the same document
            return dict(json.loads(error.read()))
        except OSError:
            return {}
        return found

    def order(self, path: str, document: Mapping[str, object], method: str = "POST") -> str:
        """Tell Patroni something, such as ``/switchover``; returns its answer."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self._api_port}{path}",
            json.dumps(document).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        with urllib.request.urlopen(request, timeout=60) as answer:
            return str(answer.read().decode())

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """Run one statement as the superuser on this node, in autocommit; the rows it answers."""
        with closing(
            psycopg2.connect(host=str(self.folder), port=self.port, user="postgres", dbname=database, connect_timeout=5)
        ) as connection:
            connection.autocommit = True
            with connection.cursor() as cursor:
                cursor.execute(statement)
                return cursor.fetchall() if cursor.description else []

    def kill_postgresql(self) -> None:
        """``kill -9`` PostgreSQL; Patroni lives."""
        os.kill(self._postmaster(), signal.SIGKILL)

    def pause_patroni(self) -> None:
        """SIGSTOP Patroni; PostgreSQL goes on. `proceed` ends it."""
        keeper = int((self.folder / "keeper.pid").read_text())
        for child in children(keeper):
            if child != self._postmaster():
                os.kill(child, signal.SIGSTOP)

    def _postmaster(self) -> int:
        return int((self.folder / "data" / "postmaster.pid").read_text().split()[0])


class PatroniCluster:
    """Three nodes on one coordinator. A context manager.

    Args:
        settings: what they agree upon.
        coordinator: its kind.
        nodes: how many.
        members: of the coordinator.
    """

    def __init__(
        self,
        settings: PatroniSettings | None = None,
        coordinator: type[Coordinator] = Etcd,
        nodes: int = 3,
        members: int = 1,
    ) -> None:
        self.settings = settings or PatroniSettings()
        self.folder = Path(tempfile.mkdtemp(prefix="jdbcstore-cluster-"))
        self.folder.chmod(0o755)
        self.nodes: list[PatroniNode] = []
        #: In front of each node, for what other nodes send; and between each node and each member.
        self.replication_lines: list[Proxy] = []
        self.coordinator_lines: list[list[Proxy]] = []
        self._size = nodes
        self._stack = ExitStack()
        try:
            self.coordinator = coordinator(self.folder / "coordinator", members)
        except BaseException:
            shutil.rmtree(self.folder, ignore_errors=True)
            raise

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            stack.callback(shutil.rmtree, self.folder, ignore_errors=True)
            stack.enter_context(self.coordinator)
            for number in range(self._size):
                port = free_port()
                to_node = stack.enter_context(Proxy(port))
                to_members = [stack.enter_context(Proxy(member)) for member in self.coordinator.ports]
                hosts = (self.coordinator.section, [line.port for line in to_members])
                node = PatroniNode(f"n{number}", self.folder, self.settings, hosts, port, to_node.port)
                stack.callback(node.remove)
                self.nodes.append(node)
                self.replication_lines.append(to_node)
                self.coordinator_lines.append(to_members)
            self.nodes[0].start()  # it becomes the primary, and the others copy from it
            with ThreadPoolExecutor(self._size) as pool:
                list(pool.map(lambda node: node.start(), self.nodes[1:]))
            self.wait_for(self.is_whole)
            primary = self.primary()
            assert primary is not None
            primary.execute(f"CREATE ROLE {USER} LOGIN PASSWORD '{PASSWORD}'")
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def create_database(self, name: str) -> None:
        """A new empty database, owned by the ordinary role."""
        primary = self.primary()
        assert primary is not None
        primary.execute(f"CREATE DATABASE {name} OWNER {USER}")

    def url(self, database: str, ports: Iterable[int] = ()) -> str:
        """SQLAlchemy's URL with all nodes, or what leads to them, for the ordinary user."""
        hosts = "&".join(f"host=127.0.0.1:{port}" for port in (ports or [node.port for node in self.nodes]))
        return f"postgresql+psycopg2://{USER}:{PASSWORD}@/{database}?{hosts}"

    # -- who -------------------------------------------------------------------------------------------------------

    def primary(self) -> PatroniNode | None:
        """Who takes writes, as Patroni says; None while nobody does."""
        return next((node for node in self.nodes if _is_primary(node.status())), None)

    def standbys(self) -> list[PatroniNode]:
        """Who streams from the primary, the synchronous ones first."""
        streaming = [
            (node, status)
            for node in self.nodes
            if (status := node.status()).get("role") == "replica" and status.get("replication_state") == "streaming"
        ]
        streaming.sort(key=lambda found: not _is_synchronous(found[1]))
        return [node for node, _ in streaming]

    def is_whole(self) -> bool:
        """Whether there is one primary, all others stream from it, and one is synchronous if that is wanted."""
        statuses = [node.status() for node in self.nodes]
        primaries = sum(map(_is_primary, statuses))
        streaming = sum(status.get("replication_state") == "streaming" for status in statuses)
        is_synchronous = self.settings.synchronous_mode == "off" or any(map(_is_synchronous, statuses))
        return primaries == 1 and streaming == len(self.nodes) - 1 and is_synchronous

    def wait_for(self, condition: Callable[[], object], timeout_s: float = _STARTED_S) -> None:
        """Wait until a condition holds. Raises `ServerFailed` when it never does."""
        deadline = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline:
                told = "\n".join(f"{node.name}: {node.status()}\n{node.log_tail()}" for node in self.nodes)
                raise ServerFailed(f"the cluster is not as it should be after {timeout_s:g} s\n{told}")
            time.sleep(0.1)

    def switch_over(self) -> None:
        """Let another node be primary, in good order."""
        primary = self.primary()
        assert primary is not None
        primary.order("/switchover", {"leader": primary.name})


def _is_primary(status: Mapping[str, Any]) -> bool:
    return status.get("role") in ("primary", "master") and status.get("state") == "running"


def _is_synchronous(status: Mapping[str, Any]) -> bool:
    return bool(status.get("sync_standby") or status.get("quorum_standby"))


def _packages(folder: Path) -> Path:
    """Where Patroni is, for a user with no rights of his own."""
    installed = Path(os.environ.get(FOLDER_VARIABLE) or CHECKOUT / ".test-servers") / "patroni"
    found = sorted(installed.glob("lib/python3*/site-packages/patroni"))
    if not found:
        raise ServerMissing("Patroni")
    packages = found[0].parent.resolve()
    if is_open_to_others(packages):
        return packages
    copy = folder / "packages"
    if not copy.exists():
        shutil.copytree(packages, copy, ignore=shutil.ignore_patterns("pip*", "setuptools*"))
    return copy
