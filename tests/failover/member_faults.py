"""What is done to clusters whose members certify commits: Galera, Group Replication.

Brokers begin on different members, and reach all of them, each by a line of its own. Each fault ends when all members
are there again and up to date.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from typing import Final

import pymysql

from tests.failover.cluster import Broker, Cluster
from tests.failover.history import What
from tests.servers.galera import GaleraCluster, GaleraNode
from tests.servers.group_replication import GroupCluster, GroupMember
from tests.servers.proxy import Proxy
from tests.servers.server import ServerFailed

__all__ = ["KINDS"]

#: Of a member that comes back, with a copy of the whole state at worst.
_WHOLE_S: Final = 240.0
#: A row of such a table is found by looking at all: others take seconds to apply what changes them.
_SLOW_ROWS: Final = 4_000
#: How many changes keep a member busy until another broker has taken over; more on a machine that makes that one late.
_SLOW_CHANGES: Final = (1, 3, 6)

Member = GaleraNode | GroupMember


def kill_member(cluster: Cluster, size: float, side: bool) -> None:
    """SIGKILL the member on which the master writes, or stop it cleanly, and start it again late."""
    _, _, member = _writing(cluster)
    member.stop() if side else member.kill()
    time.sleep(size * 2 * cluster.lease_s)
    _wait_until_primary(cluster, member)
    _start(cluster, member)
    _wait_until_whole(cluster)


def kill_other(cluster: Cluster, size: float, side: bool) -> None:
    """SIGKILL a member on which the master does not write, or stop it cleanly."""
    _, _, written = _writing(cluster)
    member = next(other for other in _members(cluster) if other is not written)
    member.stop() if side else member.kill()
    time.sleep(size * 2)
    _start(cluster, member)
    _wait_until_whole(cluster)


def freeze_member(cluster: Cluster, size: float, side: bool) -> None:
    """SIGSTOP the member on which the master writes, shortly, or until senders have receipts of the others.

    It keeps its connections open, so nothing tells the master but its lease.
    """
    _, _, member = _writing(cluster)
    member.pause()
    if side:
        _wait_until_primary(cluster, member)
        gone_on = time.monotonic()
        cluster.wait_for(
            "a sender has a receipt without the member", lambda: cluster.history.last.get(What.RECEIPT, 0.0) > gone_on
        )
    else:
        time.sleep(0.5 + size)
    time.sleep(size)
    member.proceed()
    _wait_until_whole(cluster)


def isolate_member(cluster: Cluster, size: float, side: bool) -> None:
    """Cut the member on which the master writes off from the others; brokers reach it, and on one side only it."""
    master, _, member = _writing(cluster)
    assert isinstance(member, GaleraNode)
    others = [line for line, other in zip(master.lines, _members(cluster), strict=True) if other is not member]
    if side:
        for line in others:
            line.cut()
    member.isolate()
    if side:
        cluster.wait_for("another broker is master", lambda: cluster.master() not in (None, master))
    else:
        time.sleep((1 + size) * cluster.lease_s)
    member.rejoin()
    for line in others:
        line.resume()
    _wait_until_whole(cluster)


def cut_broker(cluster: Cluster, size: float, side: bool) -> None:
    """Cut the master off from the member on which it writes, both ways or only what that answers."""
    _, line, _ = _writing(cluster)
    line.pause_one_way(answers=True) if side else line.cut()
    time.sleep((0.5 + size * 2) * cluster.lease_s)
    line.resume()
    _wait_until_whole(cluster)


def cut_one_way(cluster: Cluster, size: float, side: bool) -> None:
    """Let nothing through one way between a broker and a member: of what the member answers, or of what it is asked.

    The size says which broker, the master or one that waits, which member, the one with most of the master's
    connections or another one, and for how long.
    """
    master, line, _ = _writing(cluster)
    number = master.lines.index(line)
    other = (number + 1) % len(master.lines)
    waiting = next(broker for broker in cluster.brokers if broker is not master)
    between = (line, master.lines[other], waiting.lines[number], waiting.lines[other])
    which, part = divmod(size * len(between), 1)
    between[int(which)].pause_one_way(answers=side)
    time.sleep((0.5 + part * 2) * cluster.lease_s)
    between[int(which)].resume()
    _wait_until_whole(cluster)


def cut_between_members(cluster: Cluster, size: float, side: bool) -> None:
    """Let nothing through one way between the member on which the master writes and another one, or between the others.

    The size says between which two and for how long, the side which way.
    """
    network = cluster.members.network if cluster.members is not None else None
    assert network is not None, "these members have no network of their own"
    master, line, _ = _writing(cluster)
    number, count = master.lines.index(line), len(master.lines)
    first, second = (number + 1) % count, (number + 2) % count
    between = ((number, first), (number, second), (first, second))
    which, part = divmod(size * len(between), 1)
    one, other = between[int(which)]
    network.cut(*((one, other) if side else (other, one)))
    time.sleep((1 + part * 3) * cluster.lease_s)
    network.heal()
    _wait_until_whole(cluster)


def late_on_another_member(cluster: Cluster, size: float, side: bool) -> None:
    """Stop the master until another one, on another member, has taken over; then what it still sends arrives.

    Its own member is so busy that it has not applied the takeover by then. If it has, it gets more to do, up to twice.
    """
    _make_slow_changes_possible(cluster)
    for changes in _SLOW_CHANGES:
        master, _, member = _writing(cluster)
        other = next(broker for broker in cluster.brokers if broker is not master)
        term = _term(member)
        cluster.wait_for(f"{master.name} stops before a commit", master.stop_before_commit())
        time.sleep(cluster.lease_s * 0.5)  # no earlier: it would be done when the lease runs out
        _keep_busy(cluster, member, changes)
        cluster.wait_for(f"{other.name} has the lock", partial(_has_lock, other))
        is_behind = _term(member) == term
        master.proceed()
        _wait_until_whole(cluster)
        if is_behind:
            return


def switch_over(cluster: Cluster, size: float, side: bool) -> None:
    """Make another member the primary."""
    group = cluster.members
    assert isinstance(group, GroupCluster)
    member = next(member for member in group.members if member.role() == "SECONDARY")
    uuid = member.execute("SELECT @@server_uuid")[0][0]
    group.writer().execute(f"SELECT group_replication_set_as_primary('{uuid}')")
    time.sleep(size)
    _wait_until_whole(cluster)


KINDS: Final[Mapping[str, tuple[Callable[[Cluster, float, bool], None], float]]] = {
    "kill_member": (kill_member, 25.0),
    "kill_other": (kill_other, 15.0),
    "freeze_member": (freeze_member, 15.0),
    "cut_broker_of_member": (cut_broker, 6.0),
    "cut_member_one_way": (cut_one_way, 6.0),
    "isolate_member": (isolate_member, 15.0),
    "cut_between_members": (cut_between_members, 12.0),
    "late_on_another_member": (late_on_another_member, 15.0),
    "switch_primary": (switch_over, 8.0),
}


def _members(cluster: Cluster) -> list[GaleraNode] | list[GroupMember]:
    assert cluster.members is not None, "this database is no such cluster"
    return cluster.members.members


def _writing(cluster: Cluster) -> tuple[Broker, Proxy, Member]:
    """The master, and the line and the member that most of its connections go to. It may be another one any time."""
    _wait_until_whole(cluster)
    master, _ = cluster.pair()
    line = max(master.lines, key=lambda line: line.connections)
    return master, line, _members(cluster)[master.lines.index(line)]


def _start(cluster: Cluster, member: Member) -> None:
    try:
        member.start()
    except ServerFailed:
        if not (isinstance(cluster.members, GaleraCluster) and cluster.members.restore_primary()):
            raise
        member.start()
    if isinstance(member, GroupMember):
        # Refused while the others have not yet missed the member that it was (3092): whoever waits lets it join again.
        with suppress(pymysql.OperationalError):
            member.join()


def _is_up(member: Member) -> bool:
    with suppress(OSError, pymysql.Error):
        if isinstance(member, GaleraNode):
            return member.status("wsrep_local_state_comment") == "Synced" and member.status("wsrep_cluster_size") == "3"
        member.rejoin()
        return member.members_online() == 3
    return False


def _wait_until_whole(cluster: Cluster) -> None:
    cluster.wait_for("all members are there", lambda: all(_is_up(member) for member in _members(cluster)), _WHOLE_S)


def _wait_until_primary(cluster: Cluster, former: Member) -> None:
    """Wait until the others take writes."""

    def is_there() -> bool:
        with suppress(OSError, pymysql.Error):
            for member in _members(cluster):
                if member is former:
                    continue
                if isinstance(member, GroupMember) and member.role() == "PRIMARY":
                    return True
                if isinstance(member, GaleraNode) and member.status("wsrep_ready") == "ON":
                    return member.status("wsrep_cluster_size") == "2"
        return False

    cluster.wait_for("the other members go on", is_there, _WHOLE_S)


def _make_slow_changes_possible(cluster: Cluster) -> None:
    """A table whose changes take long to apply, once."""
    assert isinstance(cluster.members, GaleraCluster)
    with cluster.members.session("chaos") as execute:
        if not execute("SHOW TABLES LIKE 'chaos_slow'"):
            execute("CREATE TABLE chaos_slow (a INT) ENGINE=InnoDB")
            execute(f"INSERT INTO chaos_slow SELECT seq FROM seq_1_to_{_SLOW_ROWS}")


def _keep_busy(cluster: Cluster, member: Member, changes: int) -> None:
    """Give a member something to apply that takes it seconds for each change."""
    other = next(other for other in _members(cluster) if other is not member)
    with other.session("chaos") as execute:
        for _ in range(changes):
            execute("UPDATE chaos_slow SET a = a + 100000")


def _has_lock(broker: Broker) -> bool:
    return broker.state in ("recovering", "master")


def _term(member: Member) -> object:
    """The last term that a member knows of."""
    with member.session("chaos") as execute:
        return execute("SELECT TERM FROM JDBCSTORE_TERM WHERE ID = 1")[0][0]
