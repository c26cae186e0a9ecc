"""What is done to a cluster of databases: its nodes, its coordinator, the lines between all of them.

Each fault ends when the cluster is whole again: one primary from which all others stream. What brokers make of it is
the matter of `tests.failover.nemesis`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

import psycopg2

from tests.failover.cluster import Cluster
from tests.failover.history import What
from tests.servers.patroni import PatroniCluster, PatroniNode

__all__ = ["KINDS"]

#: Of a failover with all that belongs to it: Patroni's ttl, a rewind, a copy at worst.
_WHOLE_S: Final = 240.0
_WAITING: Final = "FROM pg_stat_activity WHERE datname = 'chaos' AND wait_event = 'SyncRep'"
#: What clients had just said or heard when a line was cut may have been under way.
_UNDER_WAY_S: Final = 0.2
#: For so many leases waits are ended again and again, at most.
_CANCELLING_LEASES: Final = 1.5


def kill_primary(cluster: Cluster, size: float, side: bool) -> None:
    """SIGKILL the primary's PostgreSQL, or its Patroni too, and start it again late."""
    primary = _primary(cluster)
    if side:
        primary.kill_postgresql()
        _wait_for_another(cluster, primary)
    else:
        primary.kill()
        _wait_for_another(cluster, primary)
        time.sleep(size)
        primary.start()
    _wait_until_whole(cluster)


def freeze_primary(cluster: Cluster, size: float, side: bool) -> None:
    """SIGSTOP the primary's node, shortly or until another one is primary; then it goes on as if nothing had been."""
    primary = _primary(cluster)
    primary.pause()
    if side:
        _wait_for_another(cluster, primary)
    else:
        time.sleep(1 + size * 5)
    primary.proceed()
    _wait_until_whole(cluster)


def restart_primary(cluster: Cluster, size: float, side: bool) -> None:
    """Stop the primary's node cleanly and start it again."""
    primary = _primary(cluster)
    primary.stop()
    time.sleep(size * 2)
    primary.start()
    _wait_until_whole(cluster)


def kill_replica(cluster: Cluster, size: float, side: bool) -> None:
    """SIGKILL a standby's node, the synchronous one first, or restart it cleanly."""
    standby = _standby(cluster)
    standby.stop() if side else standby.kill()
    time.sleep(size * 3)
    standby.start()
    _wait_until_whole(cluster)


def freeze_replica(cluster: Cluster, size: float, side: bool) -> None:
    """SIGSTOP the synchronous standby's node: commits wait until another one is chosen, or it goes on."""
    standby = _standby(cluster)
    standby.pause()
    time.sleep(2 + size * 8)
    standby.proceed()
    _wait_until_whole(cluster)


def break_coordinator(cluster: Cluster, size: float, side: bool) -> None:
    """SIGKILL, or SIGSTOP, the leader of the coordinator, and bring it back."""
    coordinator = _nodes(cluster).coordinator
    cluster.wait_for("the coordinator has a leader", coordinator.leader)
    leader = coordinator.leader()
    assert leader is not None
    leader.pause() if side else leader.kill()
    time.sleep(2 + size * 6)
    leader.proceed() if side else leader.start()
    _wait_until_whole(cluster)


def cut_coordinator(cluster: Cluster, size: float, side: bool) -> None:
    """Cut the primary's node off from the coordinator, both ways or only what that answers, until it is replaced."""
    nodes, primary = _nodes(cluster), _primary(cluster)
    lines = nodes.coordinator_lines[nodes.nodes.index(primary)]
    for line in lines:
        line.pause_one_way(answers=True) if side else line.cut()
    _wait_for_another(cluster, primary)
    time.sleep(size)
    for line in lines:
        line.resume()
    _wait_until_whole(cluster)


def cut_replication(cluster: Cluster, size: float, side: bool) -> None:
    """Cut the standbys off from the primary, both ways or only what they send: commits wait."""
    nodes, primary = _nodes(cluster), _primary(cluster)
    line = nodes.replication_lines[nodes.nodes.index(primary)]
    line.pause_one_way(answers=False) if side else line.cut()
    time.sleep(1 + size * 6)
    line.resume()
    _wait_until_whole(cluster)


def cut_broker(cluster: Cluster, size: float, side: bool) -> None:
    """Cut the master off from the primary alone, both ways or only what that answers; it reaches the standbys."""
    nodes, primary = _nodes(cluster), _primary(cluster)
    master, _ = cluster.pair()
    line = master.lines[nodes.nodes.index(primary)]
    line.pause_one_way(answers=True) if side else line.cut()
    time.sleep((0.5 + size * 2) * cluster.lease_s)
    line.resume()
    _wait_until_whole(cluster)


def cut_one_way(cluster: Cluster, size: float, side: bool) -> None:
    """Let nothing through one way between two of broker, standby broker, primary, standby and coordinator.

    The size says which two and for how long, the side which way: what the second of them answers, or what it is told.
    """
    nodes, primary, standby = _nodes(cluster), _primary(cluster), _standby(cluster)
    number, other = nodes.nodes.index(primary), nodes.nodes.index(standby)
    master, waiting = cluster.pair()
    between = (
        [master.lines[number]],
        [master.lines[other]],
        [waiting.lines[number]],
        [nodes.replication_lines[number]],
        nodes.coordinator_lines[number],
        nodes.coordinator_lines[other],
    )
    which, part = divmod(size * len(between), 1)
    for line in between[int(which)]:
        line.pause_one_way(answers=side)
    time.sleep(2 + part * 8)
    for line in between[int(which)]:
        line.resume()
    _wait_until_whole(cluster)


def isolate_primary(cluster: Cluster, size: float, side: bool) -> None:
    """Leave the primary alone with the brokers, which reach its successor, too: for a moment there are two."""
    nodes, primary = _nodes(cluster), _primary(cluster)
    number = nodes.nodes.index(primary)
    lines = [*nodes.coordinator_lines[number], nodes.replication_lines[number]]
    if side:  # it does not even notice that it is none any more
        primary.pause_patroni()
    for line in lines:
        line.cut()
    _wait_for_another(cluster, primary)
    time.sleep(size * 3)
    for line in lines:
        line.resume()
    if side:
        primary.proceed()
    _wait_until_whole(cluster)


def switch_over(cluster: Cluster, size: float, side: bool) -> None:
    """Let another node be primary, in good order."""
    primary = _primary(cluster)
    _nodes(cluster).switch_over()
    _wait_for_another(cluster, primary)
    _wait_until_whole(cluster)


def cancel_commits(cluster: Cluster, size: float, side: bool) -> None:
    """End the waits of commits for a standby that does not have them; then the primary dies, and with it what it had.

    The waits are cancelled, or end with their sessions. It goes on until an acknowledgement has a receipt whose message
    came before, and comes again if the standbys do not have it, or until no lease runs any more.
    """
    nodes, primary = _nodes(cluster), _primary(cluster)
    line = nodes.replication_lines[nodes.nodes.index(primary)]
    primary.pause_patroni()  # it would choose another standby, or none, and that be the one to replace it
    events = cluster.history.events
    came = {event.mark for event in events if event.what is What.DELIVERED}
    line.cut()
    known, cut = len(events), time.monotonic()
    cluster.wait_for("a commit waits", lambda: primary.execute(f"SELECT 1 {_WAITING}"))
    end = "pg_terminate_backend" if side else "pg_cancel_backend"
    until = time.monotonic() + _CANCELLING_LEASES * cluster.lease_s

    def is_done() -> bool:
        later = (event for event in events[known:] if event.at > cut + _UNDER_WAY_S)
        return any(event.what is What.ACKED and event.mark in came for event in later)

    while time.monotonic() < until and not is_done():
        primary.execute(f"SELECT {end}(pid) {_WAITING} AND query NOT LIKE '%pg_logical_emit_message%'")
        time.sleep(0.05)
    primary.kill()
    line.resume()
    _wait_for_another(cluster, primary)
    primary.start()
    _wait_until_whole(cluster)


def lose_term(cluster: Cluster, size: float, side: bool) -> None:
    """Let a broker take over on a primary that dies before a standby has the new term; another broker comes next."""
    nodes, primary = _nodes(cluster), _primary(cluster)
    line = nodes.replication_lines[nodes.nodes.index(primary)]
    former, successor = cluster.pair()
    line.cut()
    former.kill()
    cluster.wait_for("the standby is master", lambda: successor.state == "master")
    successor.kill()
    primary.kill()
    line.resume()
    _wait_for_another(cluster, primary)
    former.launch()
    cluster.wait_for("there is a master", cluster.master)
    successor.launch()
    primary.start()
    _wait_until_whole(cluster)


KINDS: Final[Mapping[str, tuple[Callable[[Cluster, float, bool], None], float]]] = {
    "kill_primary": (kill_primary, 25.0),
    "freeze_primary": (freeze_primary, 20.0),
    "restart_primary": (restart_primary, 8.0),
    "kill_replica": (kill_replica, 8.0),
    "freeze_replica": (freeze_replica, 10.0),
    "break_coordinator": (break_coordinator, 8.0),
    "cut_coordinator": (cut_coordinator, 25.0),
    "cut_replication": (cut_replication, 8.0),
    "cut_broker": (cut_broker, 5.0),
    "cut_one_way": (cut_one_way, 12.0),
    "isolate_primary": (isolate_primary, 30.0),
    "switch_over": (switch_over, 8.0),
    "cancel_commits": (cancel_commits, 35.0),
    "lose_term": (lose_term, 40.0),
}


def _nodes(cluster: Cluster) -> PatroniCluster:
    assert cluster.nodes is not None, "this database is no cluster"
    return cluster.nodes


def _primary(cluster: Cluster) -> PatroniNode:
    nodes = _nodes(cluster)
    _wait_until_whole(cluster)
    primary = nodes.primary()
    return primary if primary is not None else _primary(cluster)


def _standby(cluster: Cluster) -> PatroniNode:
    _wait_until_whole(cluster)
    standbys = _nodes(cluster).standbys()
    return standbys[0] if standbys else _standby(cluster)


def _wait_for_another(cluster: Cluster, former: PatroniNode) -> None:
    """Wait until another node takes writes."""

    def is_there() -> bool:
        with suppress(psycopg2.Error):
            return any(
                node.execute("SELECT pg_is_in_recovery()") == [(False,)]
                for node in _nodes(cluster).nodes
                if node is not former and node.status().get("role") in ("primary", "master")
            )
        return False

    cluster.wait_for(f"another node than {former.name} is primary", is_there, _WHOLE_S)


def _wait_until_whole(cluster: Cluster) -> None:
    cluster.wait_for("the database cluster is whole", _nodes(cluster).is_whole, _WHOLE_S)
