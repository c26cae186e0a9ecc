"""Who is compared: a real ActiveMQ and our broker, each with a store of its own, started one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tests.broker_process import BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer

__all__ = ["CONTESTANTS", "Contestant", "Running", "peak_memory_mib"]

_SERVERS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": lambda: PostgreSQLServer(15),
    "mariadb": MariaDBServer,
    "mysql": MySQLServer,
}


@dataclass(frozen=True)
class Running:
    """A broker that answers: its STOMP port, its process, and the URL of its database if it has one."""

    port: int
    pid: int
    database_url: str | None


@dataclass(frozen=True)
class Contestant:
    """A broker with a store.

    Args:
        broker: whose.
        store: what it keeps messages in.
        peer: the contestant that its figures are divided by, None for a peer itself.
    """

    broker: Literal["activemq", "jdbcstore"]
    store: str
    peer: str | None

    @property
    def name(self) -> str:
        """As in the tables."""
        return f"{self.broker}/{self.store}"

    @contextmanager
    def running(self, folder: Path, class_path: str) -> Iterator[Running]:
        """Start it, with a fresh database, and stop both in the end.

        Args:
            folder: for data and logs.
            class_path: of the compiled Java programs.
        """
        with self.database(folder) as url, self._broker(folder, class_path, url) as running:
            yield running

    @contextmanager
    def database(self, folder: Path) -> Iterator[str]:
        """The URL of a fresh database of its kind; its server ends with the block."""
        if self.store not in _SERVERS:
            yield f"sqlite:///{folder / 'store.db'}"
            return
        with _SERVERS[self.store]() as server:
            server.create_database("benchmark")
            yield server.url("benchmark")

    def _broker(self, folder: Path, class_path: str, url: str) -> AbstractContextManager[Running]:
        if self.broker == "activemq":
            return _activemq(folder, class_path, None if self.store == "kahadb" else url)
        return _jdbcstore(folder, url)


#: The peer is ActiveMQ's JDBC store on the same database; SQLite is compared with KahaDB, its embedded store.
CONTESTANTS = [
    Contestant("activemq", "postgresql", None),
    Contestant("jdbcstore", "postgresql", "activemq/postgresql"),
    Contestant("activemq", "mariadb", None),
    Contestant("jdbcstore", "mariadb", "activemq/mariadb"),
    Contestant("activemq", "kahadb", None),
    Contestant("jdbcstore", "sqlite", "activemq/kahadb"),
    Contestant("jdbcstore", "mysql", "activemq/mariadb"),
]


def peak_memory_mib(pid: int) -> float:
    """The most memory that a process has had, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} does not say how much memory it had")


@contextmanager
def _activemq(folder: Path, class_path: str, url: str | None) -> Iterator[Running]:
    store: JdbcStore | Literal["kahadb"] = "kahadb" if url is None else JdbcStore(url)
    with ActiveMQ(class_path, folder, store, java_options=["-Xms1g", "-Xmx1g"]) as broker:
        yield Running(broker.stomp_port, broker.pid, url)


@contextmanager
def _jdbcstore(folder: Path, url: str) -> Iterator[Running]:
    with BrokerProcess(url, folder) as broker:
        yield Running(broker.port, broker.pid, url)
