"""Brokers on one database, and everything that can be done to them.

Each broker is a process of its own on a port of its own and reaches the database through a proxy of its own. Whatever
is done is written into the history.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Self
from urllib.parse import urlencode

from sqlalchemy import Engine, NullPool, create_engine, make_url, text

from jdbcstore.config.urls import open_store
from jdbcstore.destination import Queue
from jdbcstore.message import TextMessage
from jdbcstore.store.jdbc.schema import create_tables
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.replay import replay
from tests.broker_process import BrokerProcess
from tests.certificates import Authority, Identity
from tests.failover import witness
from tests.failover.history import Event, History, Left, What
from tests.failover.observed import waited_s
from tests.failover.users import Users
from tests.servers.cluster import MEMBERS
from tests.servers.coordinator import Etcd, ZooKeeper
from tests.servers.galera import GaleraCluster
from tests.servers.group_replication import GroupCluster
from tests.servers.network import Network
from tests.servers.patroni import PatroniCluster, PatroniSettings
from tests.servers.proxy import Proxy
from tests.servers.server import DatabaseServer, ServerMissing
from tests.servers.shared import KINDS

__all__ = ["DATABASES", "PATIENCE_S", "WHOLE", "Broker", "Cluster", "Failed", "faked_clock"]

#: What `Cluster` runs on, by the name that a user gives: the kind of server, None for what has none.
DATABASES = {
    "postgresql": "postgresql15",
    "postgresql18": "postgresql18",
    "mariadb": "mariadb",
    "mysql": "mysql",
    "sqlite": None,
    "kahadb": None,
    "patroni": "patroni",
    "patroni-async": "patroni",
    "galera": "galera",
    "group": "group",
    "galera-network": "galera",
    "group-network": "group",
    "patroni-zookeeper": "patroni",
}
#: Clusters whose members certify commits; on a network of their own their lines to each other can be cut.
_MEMBERS: dict[str, type[GaleraCluster] | type[GroupCluster]] = {
    "galera": GaleraCluster,
    "galera-network": GaleraCluster,
    "group": GroupCluster,
    "group-network": GroupCluster,
}
#: Clusters by that name: what they agree upon, and what brokers are told to require of them.
_PATRONI = {
    "patroni": (PatroniSettings(), "quorum", Etcd),
    "patroni-zookeeper": (PatroniSettings(synchronous_mode="quorum"), "quorum", ZooKeeper),
    "patroni-async": (PatroniSettings(synchronous_mode="off", synchronous_mode_strict=False), "none", Etcd),
}
#: Small, so that files come and go.
_JOURNAL = {"journalMaxFileLength": "1mb", "cleanupInterval": "500", "checkpointInterval": "250"}
OBSERVED = Path(__file__).with_name("observed.py")
#: No wait of the harness takes as long, unless something is wrong, or brokers are given no processor: that time does
#: not count.
PATIENCE_S = 300.0
#: By how much of itself a wait may be longer for that reason.
_STARVED_PART_MOST = 2.0


#: What most faults begin and end with.
WHOLE = "there is a master and all others wait"


class Failed(Exception):
    """Something that had to happen did not: a broker ended by itself, or service did not resume."""


class Broker:
    """One broker: a process now and then, always on the same port.

    Args:
        name: such as ``b0``.
        url: of the store, through the broker's proxy.
        folder: for its log and what `tests.failover.observed` reads and writes.
        history: where everything is written down.
        proxy: between it and the database; None where there is no network.
        environment: variables of the process.
        identity: its certificate, if clients are to connect with TLS.
    """

    def __init__(
        self,
        name: str,
        url: str,
        folder: Path,
        history: History,
        proxy: Proxy | None,
        environment: dict[str, str],
        identity: Identity | None = None,
    ) -> None:
        self.name = name
        self.folder = folder
        self.proxy = proxy
        #: Between it and each node of a cluster.
        self.lines: Sequence[Proxy] = ()
        self.is_wanted = self.is_paused = False
        folder.mkdir()
        self._history = history
        arguments = ["--name", name]
        if identity is not None:
            arguments += ["--tls-certificate", str(identity.certificate), "--tls-key", str(identity.key)]
        self._process = BrokerProcess(
            url, folder, *arguments, script=(OBSERVED, folder), environment=environment, is_tls=identity is not None
        )

    @property
    def address(self) -> tuple[str, int]:
        """Where clients connect."""
        return "127.0.0.1", self._process.port

    def launch(self, clock_s: int = 0) -> None:
        """Start a process.

        Args:
            clock_s: how far its wall clock is off, in seconds.
        """
        clock = self.folder / "clock_s"
        clock.unlink(missing_ok=True)
        if clock_s:
            clock.write_text(f"{clock_s} {faked_clock()}")
        (self.folder / "stop_before_commit").unlink(missing_ok=True)
        self._process.launch()
        self.is_wanted = True
        text = f"clock {clock_s:+d} s" if clock_s else ""
        self._history.record(What.LAUNCHED, broker=self.name, mark=str(self._process.pid), text=text)

    def kill(self) -> None:
        """``kill -9``."""
        self.is_wanted = self.is_paused = False
        self._process.kill()
        self._history.record(What.GONE, broker=self.name, text="SIGKILL")

    def stop(self) -> None:
        """SIGTERM, and wait for the clean end.

        Raises:
            Failed: the end was not clean.
        """
        self.is_wanted = False
        code = self._process.stop()
        self._history.record(What.GONE, broker=self.name, text=f"SIGTERM, exit {code}")
        if code != 0:
            raise Failed(f"{self.name} ended with {code} after SIGTERM\n{self.log_tail()}")

    def pause(self) -> None:
        """SIGSTOP."""
        self._history.record(What.PAUSED, broker=self.name)
        self.is_paused = True
        self._process.pause(anywhere=True)

    def proceed(self) -> None:
        """SIGCONT."""
        waited = waited_s(self._process.pid)
        self._process.proceed()
        self.is_paused = False
        self._history.record(What.PROCEEDS, broker=self.name, waited_s=waited)

    def stop_before_commit(self) -> Callable[[], bool]:
        """Let the process stop itself before its next commit. Returns what says whether it has."""
        order = self.folder / "stop_before_commit"
        order.touch()
        status = Path(f"/proc/{self._process.pid}/stat")

        def has_stopped() -> bool:
            if order.exists() or status.read_text().rpartition(")")[2].split()[0] != "T":
                return False
            self._history.record(What.PAUSED, broker=self.name, text="before a commit")
            self.is_paused = True
            return True

        return has_stopped

    # -- what it tells -------------------------------------------------------------------------------------------

    @property
    def waited_s(self) -> float:
        """For how long the event loop of its process has waited for a processor, 0 while there is none."""
        try:
            return waited_s(self._process.pid) if self._process.is_running else 0.0
        except (FileNotFoundError, ProcessLookupError):  # it has just ended
            return 0.0

    @property
    def state(self) -> str:
        """What it said last: a state of `jdbcstore.broker.lifecycle`, or ``gone``."""
        if not self._process.is_running:
            return "gone"
        said = self._said()
        return said[-1].text if said and said[-1].mark == str(self._process.pid) else "starting"

    def tell(self) -> None:
        """Write its states into the history. Once, at the end."""
        for event in self._said():
            self._history.add(event)

    def log_tail(self) -> str:
        """The end of its log."""
        return "\n".join(self._process.log().splitlines()[-12:])

    def _said(self) -> Sequence[Event]:
        states = self.folder / "states"
        if not states.exists():
            return []
        lines = [line.split() for line in states.read_text().split("\n")[:-1]]
        return [
            Event(float(at), What.STATE, self.name, mark=pid, text=state, term=int(term), waited_s=float(waited))
            for at, pid, state, term, waited in lines
        ]


class Cluster:
    """Brokers, their database, their proxies. A context manager.

    Args:
        database: a key of `DATABASES`.
        folder: an empty one, for logs and SQLite's file.
        brokers: how many.
        lease_ms: the lease of all of them.
        is_fenced: False lets commits prove nothing.
        is_tls: clients have to connect with TLS.
        users: who may log in; None lets everybody in.
        without: protections that are switched off; see `tests.failover.observed`.
    """

    def __init__(
        self,
        database: str,
        folder: Path,
        *,
        brokers: int = 2,
        lease_ms: int = 2000,
        is_fenced: bool = True,
        is_tls: bool = False,
        users: Users | None = None,
        without: Sequence[str] = (),
    ) -> None:
        self.lease_s = lease_ms / 1000
        self.history = History(names_sessions=is_fenced and DATABASES[database] is not None)
        self.server: DatabaseServer | None = None
        #: The database's nodes, where it is a cluster.
        self.nodes: PatroniCluster | None = None
        self.members: GaleraCluster | GroupCluster | None = None
        self.brokers: list[Broker] = []
        authority = Authority(folder) if is_tls else None
        #: What clients connect with; None without TLS.
        self.tls = None if authority is None else ssl.create_default_context(cafile=str(authority.certificate))
        self._identity = None if authority is None else authority.identity("broker")
        self._database = database
        self._folder = folder
        self._size = brokers
        self._is_journal = database == "kahadb"
        self._options = {
            "lease_ms": str(lease_ms),
            "lock_acquire_sleep_interval_ms": "200",
            "query_timeout_s": "5",  # for how long a master waits for an answer that got lost
        }
        if self._is_journal:
            self._options = {"lockAcquireSleepInterval": "200", **_JOURNAL}
        if DATABASES[database] in ("mysql", "group"):
            self._options["ssl_disabled"] = "true"  # a proxy looks for bytes to cut a connection at
        # A cluster of databases may be without a primary for longer than a broker waits that has just been started.
        self._environment = {"JDBCSTORE_START_TIMEOUT_S": f"{PATIENCE_S:.0f}"}
        if database in _MEMBERS:
            self._options["require_replication"] = "quorum"
        if database in _PATRONI:
            self._options["require_replication"] = _PATRONI[database][1]
        if not is_fenced:
            self._environment["_JDBCSTORE_UNFENCED"] = "1"
        if without:
            self._environment["_CHAOS_WITHOUT"] = " ".join(without)
        if users is not None:
            self._environment["JDBCSTORE_CONFIG"] = str(users.write(folder))
        self._url = ""
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            self._stack = stack
            self._url = stack.enter_context(self._new_database())
            if not self._is_journal:
                with self._engine() as engine:
                    create_tables(engine)
                    witness.install(engine)
            for number in range(self._size):
                self.brokers.append(self._broker(f"b{number}"))
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for broker in self.brokers:
            if broker.is_wanted:
                broker.kill()
        self._stack.close()

    @contextmanager
    def _new_database(self) -> Iterator[str]:
        kind = DATABASES[self._database]
        if kind is None:
            yield f"kahadb:{self._journals}" if self._is_journal else f"sqlite:///{self._folder / 'store.db'}"
            return
        if self._database in _PATRONI:
            settings, _, coordinator = _PATRONI[self._database]
            with PatroniCluster(settings, coordinator, members=3) as self.nodes:
                self.nodes.create_database("chaos")
                yield f"{self.nodes.url('chaos')}&target_session_attrs=read-write"
            return
        if self._database in _MEMBERS:
            network = Network(MEMBERS) if self._database.endswith("-network") else None
            with network or nullcontext(), _MEMBERS[self._database](network=network) as self.members:
                self.members.create_database("chaos")
                yield self.members.url("chaos")
            return
        with KINDS[kind](None, None) as self.server:
            self.server.create_database("chaos")
            yield self.server.url("chaos")

    def _broker(self, name: str) -> Broker:
        url, proxy, lines = self._url, None, list[Proxy]()
        if self.nodes is not None:
            lines = [self._stack.enter_context(Proxy(node.port)) for node in self.nodes.nodes]
            url = self.nodes.url("chaos", [line.port for line in lines])
        if self.members is not None:
            lines = [self._stack.enter_context(Proxy(member.port, member.address)) for member in self.members.members]
            ports = [line.port for line in lines]
            first = len(self.brokers) % len(ports)  # another one for each broker
            url = self.members.url("chaos", [*ports[first:], *ports[:first]])
        if self.server is not None:
            proxy = self._stack.enter_context(Proxy(self.server.port))
            url = proxy.url(url)
        if self._is_journal:
            url = f"{url}?{urlencode(self._options)}"
        else:
            url = make_url(url).update_query_dict(self._options).render_as_string(hide_password=False)
        broker = Broker(name, url, self._folder / name, self.history, proxy, self._environment, self._identity)
        broker.lines = lines
        return broker

    @property
    def _journals(self) -> Path:
        return self._folder / "kahadb"

    @contextmanager
    def _engine(self) -> Iterator[Engine]:
        """The database itself, past all proxies."""
        url = self._url if self.members is None else self.members.writer().url("chaos")
        engine = create_engine(url, poolclass=NullPool)
        yield engine
        engine.dispose()

    # -- looking on ------------------------------------------------------------------------------------------------

    def master(self) -> Broker | None:
        """Who serves, as far as is known."""
        return next((b for b in self.brokers if b.state == "master" and not b.is_paused), None)

    def standbys(self) -> list[Broker]:
        """Who waits."""
        return [broker for broker in self.brokers if broker.state == "standby"]

    def is_whole(self) -> bool:
        """Whether one broker serves and all others wait."""
        return self._in_order() is not None

    def pair(self) -> tuple[Broker, Broker]:
        """The master and a standby, of one moment in which one broker serves and all others wait.

        Raises:
            Failed: there is no such moment.
        """
        found: list[Broker] = []

        def is_whole() -> bool:
            found[:] = self._in_order() or []
            return bool(found)

        self.wait_for(WHOLE, is_whole)
        return found[0], found[1]

    def _in_order(self) -> list[Broker] | None:
        """The master and the standbys; None unless that is what they all are."""
        by_state = sorted((broker.state, broker.name, broker) for broker in self.brokers)
        is_whole = [state for state, _, _ in by_state] == ["master"] + ["standby"] * (len(by_state) - 1)
        return [broker for _, _, broker in by_state] if is_whole else None

    def wait_for(self, what: str, condition: Callable[[], object], timeout_s: float = PATIENCE_S) -> None:
        """Wait until a condition holds.

        A broker that is given no processor cannot do what is waited for, nor keep a lease: that time does not count,
        within limits.

        Raises:
            Failed: it never does, or a broker ended by itself meanwhile.
        """
        began = time.monotonic()
        before = {broker: broker.waited_s for broker in self.brokers}
        while not condition():
            for broker in self.brokers:
                if broker.is_wanted and broker.state == "gone":
                    broker.is_wanted = False
                    self.history.record(What.GONE, broker=broker.name, text="by itself")
                    raise Failed(f"{broker.name} ended by itself\n{broker.log_tail()}")
            took_s = time.monotonic() - began
            if took_s > timeout_s:
                starved_s = max((broker.waited_s - before[broker] for broker in self.brokers), default=0.0)
                if took_s > timeout_s + min(starved_s, _STARVED_PART_MOST * timeout_s):
                    raise Failed(self._in_vain(what, took_s, starved_s))
            time.sleep(0.02)

    def _in_vain(self, what: str, took_s: float, starved_s: float) -> str:
        states = ", ".join(f"{broker.name} {broker.state}" for broker in self.brokers)
        logs = "\n".join(f"--- the log of {broker.name} ends\n{broker.log_tail()}" for broker in self.brokers)
        starved = f"for {starved_s:.0f} s of which a broker waited for a processor"
        return f"waited {took_s:.0f} s, {starved}, in vain until {what}; {states}\n{logs}"

    def stored(self) -> int:
        """How many messages are in the store."""
        if self._is_journal:
            return sum(map(len, replay(Journal(self._journals)).destinations.values()))
        return self._ask("SELECT COUNT(*) FROM ACTIVEMQ_MSGS") or 0

    def last_rows(self, former: Broker) -> tuple[int, int | None]:
        """The highest ID that a broker added in its last term, and the highest in terms after that; None for none."""
        mine = f"SELECT MAX(term) FROM chaos_writes WHERE writer LIKE '{former.name}/%'"
        last = "SELECT MAX(row_id) FROM chaos_writes WHERE op = '+' AND term"
        return self._ask(f"{last} = ({mine})") or 0, self._ask(f"{last} > ({mine})")

    def _ask(self, question: str) -> int | None:
        with self._engine() as engine, engine.connect() as connection:
            answer = connection.execute(text(question)).scalar_one()
        return None if answer is None else int(answer)

    def conclude(self) -> History:
        """The history, with what the database knows. All brokers have ended."""
        for broker in self.brokers:
            broker.tell()
        if not self._is_journal:
            with self._engine() as engine:
                witness.witnessed(engine, self.history)
        with open_store(self._url, locker="none") as adapter:
            for destination in adapter.destinations():
                store = adapter.queue_message_store(Queue.decoded(destination.physical_name))
                for message in store.recover():
                    body = message.text or "" if isinstance(message, TextMessage) else ""
                    queue = f"/queue/{destination.physical_name}"
                    self.history.left.append(Left(witness.message_of(body), str(message.message_id), queue))
        self.history.sort()
        return self.history

    def require_sound_journal(self) -> None:
        """Two who write a journal would write over each other. Nothing is looked at in a database. All have ended.

        Raises:
            Failed: something is not as a master leaves it.
        """
        if not self._is_journal:
            return
        damages = replay(Journal(self._journals)).damages
        if damages:
            raise Failed(f"the journal is damaged: {damages[0]}")


def faked_clock() -> Path:
    """libfaketime, as Debian installs it.

    Raises:
        ServerMissing: it is not installed.
    """
    found = sorted(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"))
    if not found:
        raise ServerMissing("libfaketime")
    return found[0]
