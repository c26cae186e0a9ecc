"""What is done to brokers and their database: a plan by a seed, and how each fault is done.

A fault begins, ends, and then there is time until service has resumed: one broker serves, all others wait, and a
message sent after the end of the fault has its receipt. Only then comes the next one.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from tests.failover import cluster_faults, member_faults
from tests.failover.clients import Clients
from tests.failover.cluster import WHOLE, Broker, Cluster, Failed
from tests.failover.history import What
from tests.servers.proxy import ADDS, Proxy
from tests.servers.server import DatabaseServer

__all__ = ["KINDS", "Fault", "Nemesis", "kinds_for", "plan"]

#: IDs that the next master must have gone past, or be away from, before an old batch arrives: had it the same IDs as
#: rows that are there, it would be refused for that alone.
_AWAY_ROWS: Final = 600


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing to do.

    Args:
        kind: a key of `KINDS`.
        size: between 0 and 1, what it means is the kind's matter: mostly how long.
        side: likewise, for kinds that have two ways.
        rest_s: normal life after it.
    """

    kind: str
    size: float
    side: bool
    rest_s: float

    def __str__(self) -> str:
        return f"{self.kind}(size={self.size:.2f}, side={int(self.side)}), then rest {self.rest_s:.1f} s"


def plan(seed: int, seconds: float, kinds: Sequence[str]) -> list[Fault]:
    """Faults for about so long a run: each kind once in an order by chance, and again; the same for the same seed."""
    chance = random.Random(seed)
    found: list[Fault] = []
    left_s = seconds
    while True:
        for kind in chance.sample(kinds, len(kinds)):
            fault = Fault(kind, chance.random(), chance.random() < 0.5, chance.uniform(0.3, 1.5))
            left_s -= KINDS[kind].usual_s + fault.rest_s
            if left_s < 0 and found:
                return found
            found.append(fault)


class Nemesis:
    """Does faults.

    Args:
        cluster: to whom.
        clients: who are at work.
        tell: called with a line for each fault.
    """

    def __init__(self, cluster: Cluster, clients: Clients, tell: Callable[[str], object] = lambda line: None) -> None:
        self.cluster = self._cluster = cluster
        self._clients = clients
        self._history = cluster.history
        self._tell = tell
        self._lease_s = cluster.lease_s

    def do(self, fault: Fault) -> None:
        """Do one, wait until service has resumed, and rest.

        Raises:
            Failed: service does not resume.
        """
        self._cluster.wait_for(WHOLE, self._cluster.is_whole)
        began = self._history.record(What.FAULT, text=fault.kind)
        self._tell(f"{fault}")
        KINDS[fault.kind].do(self, fault)
        healed = self._history.record(What.HEALED, text=fault.kind)
        self.wait_for_service()
        resumed = self._history.record(What.RESUMED, text=fault.kind)
        self._tell(f"  took {healed - began:.1f} s, service was whole again {resumed - healed:.1f} s later")
        time.sleep(fault.rest_s)  # load goes on; nothing waits for this

    def wait_for_service(self) -> None:
        """Wait until a message is sent, receipted, delivered and acknowledged, and every broker is there."""
        for what in (What.SEND, What.RECEIPT, What.DELIVERED, What.ACKED):
            self._wait_for_event(what)
        self._cluster.wait_for(WHOLE, self._cluster.is_whole)

    def _wait_for_event(self, what: What) -> None:
        now, last = time.monotonic(), self._history.last
        self._cluster.wait_for(f"a client tells something new as {what}", lambda: last.get(what, 0.0) > now)

    # -- who -------------------------------------------------------------------------------------------------------

    def _master(self) -> Broker:
        self._cluster.wait_for("there is a master", self._cluster.master)
        master = self._cluster.master()
        return master if master is not None else self._master()

    def _standby(self) -> Broker:
        self._cluster.wait_for("there is a standby", self._cluster.standbys)
        return self._cluster.standbys()[0]

    def _wait_for_successor(self, former: Broker) -> Broker:
        def successor() -> Broker | None:
            master = self._cluster.master()
            return None if master is former else master

        self._cluster.wait_for(f"another broker than {former.name} is master", successor)
        return self._master()

    def _is_replaced(self, former: Broker) -> bool:
        """Whether another one becomes master in time."""
        try:
            self._cluster.wait_for("another one is master", self._cluster.master, 5 * self._lease_s)
        except Failed:
            return False
        return self._cluster.master() is not former

    def _server(self) -> DatabaseServer:
        assert self._cluster.server is not None, "this database has no server"
        return self._cluster.server

    def _proxy(self, broker: Broker) -> Proxy:
        assert broker.proxy is not None, "this database has no network"
        return broker.proxy

    # -- processes -------------------------------------------------------------------------------------------------

    def kill_master(self, fault: Fault) -> None:
        """SIGKILL the master; it is back early, as a rival, or late."""
        master = self._master()
        master.kill()
        time.sleep(fault.size * 2 * self._lease_s)
        master.launch()

    def kill_standby(self, fault: Fault) -> None:
        """SIGKILL a standby."""
        standby = self._standby()
        standby.kill()
        time.sleep(fault.size)
        standby.launch()

    def kill_both(self, fault: Fault) -> None:
        """SIGKILL the master and, when it is about to take over, a standby."""
        master, standby = self._cluster.pair()
        master.kill()
        time.sleep(fault.size * 1.5 * self._lease_s)
        standby.kill()
        for broker in (master, standby):
            broker.launch()

    def stop_master(self, fault: Fault) -> None:
        """SIGTERM the master: a clean hand-over."""
        master = self._master()
        master.stop()
        time.sleep(fault.size)
        master.launch()

    def rolling_restart(self, fault: Fault) -> None:
        """Restart every broker, the standbys first, one after the other."""
        master = self._master()
        for broker in sorted(self._cluster.brokers, key=lambda broker: broker is master):
            broker.stop()
            broker.launch()
            self._cluster.wait_for(WHOLE, self._cluster.is_whole)

    def pause_master(self, fault: Fault) -> None:
        """SIGSTOP the master for at least twice the lease."""
        master = self._master()
        master.pause()
        time.sleep((2 + fault.size) * self._lease_s)
        master.proceed()

    def pause_shortly(self, fault: Fault) -> None:
        """SIGSTOP the master several times, for less than the lease."""
        master = self._master()
        for _ in range(4):
            master.pause()
            time.sleep(fault.size * 0.7 * self._lease_s)
            master.proceed()
            time.sleep(0.2)

    def pause_before_commit(self, fault: Fault) -> None:
        """Stop the master when it is about to send a batch, until its successor has served for a while.

        The batch adds rows, or, on the other side, may be one that only removes rows.
        """
        master = self._master()
        for _ in range(3):
            with self._only_sends(fault.side):
                self._cluster.wait_for(f"{master.name} stops before a commit", master.stop_before_commit())
            if self._cluster.server is not None or self._is_replaced(master):
                self._wait_until_old_rows_fit(master)
                master.proceed()
                return
            # On SQLite another of its threads may have been in a transaction: then nobody can take over until now.
            master.proceed()
            self.wait_for_service()
            if self._master() is not master:
                return
        raise Failed(f"nobody has replaced {master.name}")

    def skew_clock(self, fault: Fault) -> None:
        """Start a standby whose wall clock is an hour off, and make it master. It stays so until its next restart."""
        _, skewed = self._cluster.pair()
        skewed.kill()
        skewed.launch(clock_s=3600 if fault.side else -3600)
        master, _ = self._cluster.pair()
        if master is not skewed:  # else the other one has lost its lease meanwhile
            master.stop()
            self._wait_for_successor(master)
            self._wait_for_event(What.RECEIPT)
            master.launch()

    # -- the network -----------------------------------------------------------------------------------------------

    def cut_master(self, fault: Fault) -> None:
        """Cut the master off from the database, for some time or until another one serves."""
        master = self._master()
        self._proxy(master).cut()
        if fault.side:
            self._wait_for_successor(master)
        else:
            time.sleep(fault.size * 1.5 * self._lease_s)
        self._proxy(master).resume()

    def drop_connections(self, fault: Fault) -> None:
        """Reset the connections between the master and the database, several times; new ones are welcome."""
        proxy = self._proxy(self._master())
        for _ in range(3):
            proxy.drop_connections()
            time.sleep(fault.size)

    def slow_master(self, fault: Fault) -> None:
        """Delay every byte between the master and the database."""
        proxy = self._proxy(self._master())
        proxy.slow(10 + fault.size * 200)
        time.sleep(2 * self._lease_s)
        proxy.resume()

    def hold_line(self, fault: Fault) -> None:
        """Let nothing through between the master and the database for some time; it all arrives afterwards."""
        proxy = self._proxy(self._master())
        proxy.pause()
        time.sleep(fault.size * 2 * self._lease_s)
        proxy.resume()

    def late_statements(self, fault: Fault) -> None:
        """The same, until a successor has served for a while: statements of the old term arrive in the new one.

        They add rows, or, on the other side, may only remove some.
        """
        with self._only_sends(fault.side):
            master = self._trapped(lambda proxy: proxy.hold_at(ADDS)) if fault.side else self._master()
            self._proxy(master).pause()
        self._wait_until_old_rows_fit(master)
        self._proxy(master).resume()

    def hold_statement(self, fault: Fault) -> None:
        """Hold up one connection where the master sends rows, until it has gone on by another; then they arrive.

        It still is master, perhaps, so no fence keeps them out.
        """
        master = self._trapped(lambda proxy: proxy.hold_at(ADDS))
        for _ in range(1 + int(fault.size * 200)):
            self._wait_for_event(What.RECEIPT)
        self._proxy(master).resume()

    def freeze_database(self, fault: Fault) -> None:
        """No broker hears from the database for some time; whatever they sent arrives afterwards."""
        proxies = [self._proxy(broker) for broker in self._cluster.brokers]
        for proxy in proxies:
            proxy.pause()
        time.sleep(fault.size * 2 * self._lease_s)
        for proxy in proxies:
            proxy.resume()

    def cut_in_commit(self, fault: Fault) -> None:
        """Cut the connection in which the master is sending rows; the database gets them or does not."""
        for _ in range(3):
            self._trapped(lambda proxy: proxy.cut_at(ADDS, deliver=fault.side))

    def _trapped(self, lay: Callable[[Proxy], threading.Event]) -> Broker:
        """Lay a trap in the line of the master, and wait until it has sprung; returns whose line it was.

        A master that is replaced meanwhile sends nothing more: then in the line of the next one.
        """
        while True:
            master = self._master()
            sprung = lay(self._proxy(master))

            def is_over(sprung: threading.Event = sprung, master: Broker = master) -> bool:
                return sprung.is_set() or self._cluster.master() is not master

            self._cluster.wait_for("the master sends rows", is_over)
            if sprung.is_set():
                return master
            self._proxy(master).resume()

    @contextmanager
    def _only_sends(self, is_wanted: bool) -> Iterator[None]:
        """What the master writes meanwhile is rows that it adds, a few: a statement that needs no answer to go on."""
        if is_wanted:
            self._clients.calm(True)
            self._cluster.wait_for("little is under way", lambda: self._clients.is_calm)
        yield
        self._clients.calm(False)

    def _wait_until_old_rows_fit(self, former: Broker) -> None:
        """Wait until a successor serves whose IDs are not those that the former master's next batch has."""

        def is_away() -> bool:
            old, new = self._cluster.last_rows(former)
            return new is not None and not old - _AWAY_ROWS < new < old + _AWAY_ROWS

        self._wait_for_successor(former)
        self._cluster.wait_for("the IDs of the old term are free", is_away)

    # -- the database ----------------------------------------------------------------------------------------------

    def restart_database(self, fault: Fault) -> None:
        """Stop the database cleanly and start it again."""
        server = self._server()
        server.stop()
        time.sleep(fault.size * 1.5 * self._lease_s)
        server.start()

    def kill_database(self, fault: Fault) -> None:
        """SIGKILL the database and start it again."""
        server = self._server()
        server.kill()
        time.sleep(fault.size * 1.5 * self._lease_s)
        server.start()

    def power_failure(self, fault: Fault) -> None:
        """SIGKILL the database and all brokers."""
        brokers = list(self._cluster.brokers)
        self._server().kill()
        for broker in brokers:
            broker.kill()
        self._server().start()
        for broker in brokers:
            broker.launch()

    def kill_sessions(self, fault: Fault) -> None:
        """End every session on the server, several times."""
        for _ in range(3):
            self._server().kill_sessions("chaos")
            time.sleep(fault.size)


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of fault.

    Args:
        do: how it is done.
        usual_s: how long it usually takes until service has resumed.
        needs_server: whether it is for databases with a server and a network.
        needs_cluster: whether it is for databases of several nodes.
    """

    do: Callable[[Nemesis, Fault], None]
    usual_s: float
    needs_server: bool = False
    needs_cluster: bool = False


def _on_cluster(do: Callable[[Cluster, float, bool], None]) -> Callable[[Nemesis, Fault], None]:
    return lambda nemesis, fault: do(nemesis.cluster, fault.size, fault.side)


KINDS: Final[Mapping[str, Kind]] = {
    "kill_master": Kind(Nemesis.kill_master, 4.5),
    "kill_standby": Kind(Nemesis.kill_standby, 2.5),
    "kill_both": Kind(Nemesis.kill_both, 5.0),
    "stop_master": Kind(Nemesis.stop_master, 3.0),
    "rolling_restart": Kind(Nemesis.rolling_restart, 5.0),
    "pause_shortly": Kind(Nemesis.pause_shortly, 4.0),
    "pause_before_commit": Kind(Nemesis.pause_before_commit, 7.0),
    "pause_master": Kind(Nemesis.pause_master, 6.0, needs_server=True),
    "skew_clock": Kind(Nemesis.skew_clock, 5.0, needs_server=True),
    "cut_master": Kind(Nemesis.cut_master, 4.0, needs_server=True),
    "drop_connections": Kind(Nemesis.drop_connections, 3.0, needs_server=True),
    "slow_master": Kind(Nemesis.slow_master, 5.0, needs_server=True),
    "hold_line": Kind(Nemesis.hold_line, 5.0, needs_server=True),
    "late_statements": Kind(Nemesis.late_statements, 7.0, needs_server=True),
    "cut_in_commit": Kind(Nemesis.cut_in_commit, 3.0, needs_server=True),
    "hold_statement": Kind(Nemesis.hold_statement, 6.0, needs_server=True),
    "freeze_database": Kind(Nemesis.freeze_database, 4.0, needs_server=True),
    "restart_database": Kind(Nemesis.restart_database, 6.0, needs_server=True),
    "kill_database": Kind(Nemesis.kill_database, 6.0, needs_server=True),
    "kill_sessions": Kind(Nemesis.kill_sessions, 4.0, needs_server=True),
    "power_failure": Kind(Nemesis.power_failure, 5.0, needs_server=True),
    **{
        name: Kind(_on_cluster(do), usual_s, needs_cluster=True)
        for name, (do, usual_s) in {**cluster_faults.KINDS, **member_faults.KINDS}.items()
    },
}
#: Faults of members that a kind of cluster cannot have: Group Replication has no way to cut a member off, and its
#: members that take no writes take no writes late. Lines between members can be cut on a network of their own.
_NOT_ON: Final[Mapping[str, Sequence[str]]] = {
    "galera": ("switch_primary", "cut_between_members"),
    "group": ("isolate_member", "late_on_another_member", "cut_between_members"),
    "galera-network": ("switch_primary",),
    "group-network": ("isolate_member", "late_on_another_member"),
}
#: What is done to brokers whose database is a cluster.
_ON_CLUSTERS: Final = (
    "kill_master",
    "kill_standby",
    "kill_both",
    "stop_master",
    "pause_master",
    "pause_before_commit",
    "skew_clock",
)


def kinds_for(database: str) -> list[str]:
    """The kinds that a database can have.

    SQLite has no server and no network; the clock of its lease is that of the process; and nothing is promised about a
    process that is stopped inside a transaction for long: it keeps the file locked. Nor has KahaDB a server, and who is
    stopped there keeps the lock: nobody takes over.
    """
    if database.startswith("patroni"):
        of_cluster = list(cluster_faults.KINDS)
        # Where nobody waits for standbys messages are lost whoever does it; what may not come again is a term.
        return ["lose_term"] if database == "patroni-async" else [*_ON_CLUSTERS, *of_cluster[:-1]]
    if database in _NOT_ON:
        return [*_ON_CLUSTERS, *(name for name in member_faults.KINDS if name not in _NOT_ON[database])]
    if database == "kahadb":
        of_processes = [name for name, kind in KINDS.items() if not (kind.needs_server or kind.needs_cluster)]
        return [*(name for name in of_processes if name != "pause_before_commit"), "pause_master", "skew_clock"]
    possible = {name: kind for name, kind in KINDS.items() if not kind.needs_cluster}
    return [name for name, kind in possible.items() if database != "sqlite" or not kind.needs_server]
