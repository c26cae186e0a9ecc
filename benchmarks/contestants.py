"""Who is compared: a real ActiveMQ and our broker, each with a store of its own, started one after another."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.load import compile_generator
from tests.broker_process import PROGRAM, BrokerProcess
from tests.compat.activemq import ActiveMQ, JdbcStore, compile_java
from tests.servers.mariadb import MariaDBServer
from tests.servers.mysql import MySQLServer
from tests.servers.postgresql import PostgreSQLServer
from tests.servers.server import DatabaseServer

__all__ = [
    "CONTESTANTS",
    "DATABASES",
    "Contestant",
    "Database",
    "Running",
    "Workshop",
    "database",
    "memory_mib",
    "opponents",
    "peak_memory_mib",
    "processor_s",
    "workshop",
]

_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

DATABASES = ("postgresql", "mariadb", "mysql", "sqlite")

_SERVERS: dict[str, Callable[[], DatabaseServer]] = {
    "postgresql": lambda: PostgreSQLServer(15),
    "mariadb": MariaDBServer,
    "mysql": MySQLServer,
}


@dataclass(frozen=True)
class Database:
    """An empty database, and its server unless it is a file."""

    url: str
    server: DatabaseServer | None


@contextmanager
def database(kind: str, folder: Path) -> Iterator[Database]:
    """A fresh database of a kind, on a server that ends with the block; without a server, something in `folder`."""
    if kind == "kahadb":
        yield Database(f"kahadb:{folder / 'kahadb'}", None)  # where a real ActiveMQ has it, too
        return
    if kind not in _SERVERS:
        yield Database(f"sqlite:///{folder / 'store.db'}", None)
        return
    with _SERVERS[kind]() as server:
        server.create_database("benchmark")
        yield Database(server.url("benchmark"), server)


@dataclass(frozen=True)
class Workshop:
    """What every comparison needs.

    Args:
        folder: temporary, readable for database servers that run as another user.
        class_path: of the compiled Java programs.
        generator: the compiled load generator.
    """

    folder: Path
    class_path: str
    generator: Path

    def room(self, name: str) -> Path:
        """A new folder of this name for one contestant."""
        room = self.folder / name.replace("/", "-")
        room.mkdir(mode=0o755)
        return room


@contextmanager
def workshop(*, with_java: bool = True) -> Iterator[Workshop]:
    """Compile and make room; all of it is gone after the block. Without ActiveMQ nothing needs Java."""
    with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as text:
        folder = Path(text)
        folder.chmod(0o755)  # database servers may run as another user
        yield Workshop(folder, compile_java(folder) if with_java else "", compile_generator(folder))


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
        with database(self.store, folder) as found, self.serving(folder, class_path, found.url) as running:
            yield running

    def serving(self, folder: Path, class_path: str, url: str) -> AbstractContextManager[Running]:
        """The same on a database that is there already.

        Args:
            folder, class_path: as for `running`.
            url: of the database; KahaDB has none and ignores it.
        """
        if self.broker == "activemq":
            return _activemq(folder, class_path, None if self.store == "kahadb" else url)
        return _jdbcstore(folder, url)


#: The peer is ActiveMQ on the same store; SQLite is compared with KahaDB, its embedded store.
CONTESTANTS = [
    Contestant("activemq", "postgresql", None),
    Contestant("jdbcstore", "postgresql", "activemq/postgresql"),
    Contestant("activemq", "mariadb", None),
    Contestant("jdbcstore", "mariadb", "activemq/mariadb"),
    Contestant("activemq", "kahadb", None),
    Contestant("jdbcstore", "kahadb", "activemq/kahadb"),
    Contestant("jdbcstore", "sqlite", "activemq/kahadb"),
    Contestant("jdbcstore", "mysql", "activemq/mariadb"),
]


def opponents(databases: Sequence[str]) -> Iterator[Contestant]:
    """For each database ActiveMQ on it (KahaDB for SQLite), then ours."""
    for store in databases or DATABASES:
        peer = Contestant("activemq", "kahadb" if store == "sqlite" else store, None)
        yield from (peer, Contestant("jdbcstore", store, peer.name))


def peak_memory_mib(pid: int) -> float:
    """The most memory that a process has had, in MiB."""
    return _memory_mib(pid, "VmHWM:")


def memory_mib(pid: int) -> float:
    """The memory that a process has now, in MiB."""
    return _memory_mib(pid, "VmRSS:")


def processor_s(pid: int, *, with_ended: bool = False) -> float:
    """The processor time that a process has used, in seconds; with those of its children that have ended if wanted."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11 : 15 if with_ended else 13])) / _TICKS_PER_S


def _memory_mib(pid: int, name: str) -> float:
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(name):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} does not say how much memory it had")


@contextmanager
def _activemq(folder: Path, class_path: str, url: str | None) -> Iterator[Running]:
    store: JdbcStore | Literal["kahadb"] = "kahadb" if url is None else JdbcStore(url)
    with ActiveMQ(class_path, folder, store, java_options=["-Xms1g", "-Xmx1g"]) as broker:
        yield Running(broker.stomp_port, broker.pid, url)


@contextmanager
def _jdbcstore(folder: Path, url: str) -> Iterator[Running]:
    with BrokerProcess(url, folder, program=PROGRAM) as broker:
        yield Running(broker.port, broker.pid, url)
