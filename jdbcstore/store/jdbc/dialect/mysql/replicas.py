"""What MySQL and MariaDB say of their replicas: Galera, Group Replication, semi-synchronous replication.

Galera and Group Replication are *clusters*: a commit is answered when its write set has a place in an order that all
members share, and no write set before it that its session had not seen has written one of its rows. Row locks, named
locks and session ids are matters of one member. Semi-synchronous replication has one server that writes; a commit waits
until a replica has received it, and no longer than a timeout, after which nobody waits any more and no client is told.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Any, Final

from sqlalchemy import Connection

from jdbcstore.store.jdbc.replication import Level, Replication

__all__ = ["ClusterKind", "ClusterState", "history", "is_semi_synchronous", "replication"]

#: From here on a timeout of semi-synchronous replication outlasts every patience with a commit.
_NEVER_MS: Final = 3_600_000
#: How semi-synchronous settings call the two sides: MySQL 8.0.26 renamed master and slave, MariaDB did not.
_SIDES: Final = (("source", "replica"), ("master", "slave"))
_VARIABLES: Final = (
    "wsrep_on",
    "group_replication_group_name",
    "group_replication_single_primary_mode",
    "read_only",
    "super_read_only",
)
_SETTINGS: Final = (*_VARIABLES, "innodb_flush_log_at_trx_commit", "sync_binlog", "log_bin")
_SEMI_SYNCHRONOUS: Final = "rpl_semi_sync_%"
#: What tells a server from others: MariaDB has no UUID.
_SERVER: Final = ("server_uuid", "server_id", "hostname", "port")
_MEMBERS: Final = "performance_schema.replication_group_members"


class ClusterKind(StrEnum):
    """Which cluster a server belongs to."""

    NONE = ""
    GALERA = "Galera"
    GROUP = "Group Replication"


class ClusterState:
    """What decides about a new session, asked of the driver's connection itself, before anybody else has it.

    Args:
        raw: the driver's connection, just opened.

    Attributes:
        kind: of the cluster.
        has_one_writer: whether all sessions that write meet on one server, so that locks tell.
        takes_writes: whether the server lets this session write now.
    """

    def __init__(self, raw: Any) -> None:
        enabled = [f"rpl_semi_sync_{side}_enabled" for side, _ in _SIDES]
        found = _asked(raw, f"SHOW VARIABLES WHERE Variable_name IN ({_list([*_VARIABLES, *enabled])})")
        self._sides = _sides(found)
        self.kind = _kind(found)
        self.has_one_writer = self.kind is not ClusterKind.GALERA and _is_on(
            found.get("group_replication_single_primary_mode", "ON")
        )
        self.takes_writes = not (_is_on(found.get("read_only")) or _is_on(found.get("super_read_only")))
        if self.kind is ClusterKind.GALERA:
            self.takes_writes &= _is_on(_asked(raw, "SHOW STATUS LIKE 'wsrep_ready'").get("wsrep_ready"))

    @property
    def waiting(self) -> str:
        """What is true while commits wait for a replica; empty on a server that cannot do that."""
        if self.kind is not ClusterKind.NONE or self._sides is None:
            return ""
        side, other = self._sides
        name = f"@@GLOBAL.rpl_semi_sync_{side}"
        return f"{name}_enabled AND {name}_wait_no_{other} AND {name}_timeout>={_NEVER_MS}"

    @property
    def reading(self) -> str:
        """What a session is told that must see all that was committed on any member; empty where it does anyway."""
        if self.kind is ClusterKind.GALERA:
            return "SET SESSION wsrep_sync_wait = 1"
        if self.kind is ClusterKind.GROUP:
            level = "BEFORE_ON_PRIMARY_FAILOVER" if self.has_one_writer else "BEFORE"
            return f"SET SESSION group_replication_consistency = '{level}'"
        return ""

    @property
    def writing(self) -> str:
        """What the writer's session is told after its first question: it sees its own commits, and waits for none."""
        if self.kind is ClusterKind.GALERA:
            return "SET SESSION wsrep_sync_wait = 0"
        if self.kind is ClusterKind.GROUP:
            return "SET SESSION group_replication_consistency = 'BEFORE_ON_PRIMARY_FAILOVER'"
        return ""


def replication(connection: Connection) -> Replication:
    """As `Dialect.replication`."""
    found = _variables(connection, (*_SETTINGS, _SEMI_SYNCHRONOUS))
    takes_writes = not (_is_on(found.get("read_only")) or _is_on(found.get("super_read_only")))
    kind = _kind(found)
    if kind is ClusterKind.GALERA:
        return _galera(connection, found, takes_writes=takes_writes)
    if kind is ClusterKind.GROUP:
        return _group(connection, found, takes_writes=takes_writes)
    return _semi_synchronous(connection, found, takes_writes=takes_writes)


def is_semi_synchronous(connection: Connection) -> bool:
    """Whether a commit waits until a replica has it; when the wait is ended its rows are there all the same."""
    return any(map(_is_on, _variables(connection, ("rpl_semi_sync_%_enabled",)).values()))


def history(connection: Connection) -> str:
    """As `Dialect.history`.

    Members of Galera have one history, whichever of them a session meets, and sessions that read wait until theirs has
    it. A primary that took over has what the group had; sessions on the former one would see what that still has.
    """
    found = _variables(connection, (*_VARIABLES, *_SERVER))  # at once: a server collects all it has for each question
    kind = _kind(found)
    if kind is ClusterKind.GALERA:
        return _status(connection, "wsrep_cluster_state_uuid")["wsrep_cluster_state_uuid"]
    if kind is ClusterKind.GROUP and not _is_on(found.get("group_replication_single_primary_mode")):
        return found["group_replication_group_name"]
    return found.get("server_uuid") or "{server_id}@{hostname}:{port}".format_map(found)


def _galera(connection: Connection, found: Mapping[str, str], *, takes_writes: bool) -> Replication:
    state = _status(connection, "wsrep_cluster_size", "wsrep_cluster_status", "wsrep_ready")
    size = int(state.get("wsrep_cluster_size", "0") or 0)
    weaknesses = _unflushed(found, of_all="the nodes answer before it is on their disks")
    is_primary = state.get("wsrep_cluster_status") == "Primary" and _is_on(state.get("wsrep_ready"))
    if size < 2:
        weaknesses = ("this node is alone", *weaknesses)
    if not is_primary:
        weaknesses = ("this node is cut off from the others", *weaknesses)
    level = Level.QUORUM if is_primary and size > 1 else Level.NONE
    return Replication(level, f"Galera, {size} nodes", weaknesses, takes_writes and is_primary)


def _group(connection: Connection, found: Mapping[str, str], *, takes_writes: bool) -> Replication:
    rows = connection.exec_driver_sql(f"SELECT MEMBER_STATE, COUNT(*) FROM {_MEMBERS} GROUP BY MEMBER_STATE").all()
    states = {str(state): int(count) for state, count in rows}
    members, online = sum(states.values()), states.get("ONLINE", 0)
    mode = "one primary" if _is_on(found.get("group_replication_single_primary_mode")) else "several primaries"
    weaknesses = _unflushed(found, of_all="the members answer before it is on their disks")
    if online < 2:
        weaknesses = ("no other member of the group is there", *weaknesses)
    level = Level.QUORUM if 2 * online > members and online > 1 else Level.NONE
    told = f"Group Replication with {mode}, {online} of {members} members online"
    return Replication(level, told, weaknesses, takes_writes)


def _semi_synchronous(connection: Connection, found: Mapping[str, str], *, takes_writes: bool) -> Replication:
    sides = _sides(found)
    unflushed = _unflushed(found, of_all="the server answers before it is on the disk")
    if sides is None or not _is_on(found[f"rpl_semi_sync_{sides[0]}_enabled"]):
        return Replication(Level.NONE, "one server" if takes_writes else "a replica", unflushed, takes_writes)
    word, other = sides
    status = _status(connection, "Rpl_semi_sync_%")
    clients, unacknowledged = (int(status.get(f"Rpl_semi_sync_{word}_{name}", "0")) for name in ("clients", "no_tx"))
    timeout_ms = int(found[f"rpl_semi_sync_{word}_timeout"])
    weaknesses = [*unflushed]
    if not _is_on(status.get(f"Rpl_semi_sync_{word}_status")):
        weaknesses.insert(0, "it has fallen back to asynchronous replication: no commit waits for a replica")
    if found[f"rpl_semi_sync_{word}_wait_point"] != "AFTER_SYNC":
        weaknesses.append(f"rpl_semi_sync_{word}_wait_point = AFTER_COMMIT shows what no replica has yet")
    if not _is_on(found[f"rpl_semi_sync_{word}_wait_no_{other}"]):
        setting = f"rpl_semi_sync_{word}_wait_no_{other} = OFF"
        weaknesses.append(f"a commit waits for nobody while too few replicas are connected ({setting})")
    if timeout_ms < _NEVER_MS:
        weaknesses.append(
            f"a commit that waits for {timeout_ms} ms is answered although no replica has it"
            f" (rpl_semi_sync_{word}_timeout; from {_NEVER_MS} on it counts as never)"
        )
    level = Level.ANY if weaknesses == [*unflushed] else Level.NONE
    if unacknowledged:
        weaknesses.append(f"{unacknowledged} commits since the server's start waited for no replica")
    return Replication(level, f"semi-synchronous, {clients} replicas", tuple(weaknesses), takes_writes)


def _unflushed(found: Mapping[str, str], of_all: str) -> tuple[str, ...]:
    """What a commit is not, when settings let disks lag behind."""
    names = ["innodb_flush_log_at_trx_commit", *(["sync_binlog"] if _is_on(found.get("log_bin")) else [])]
    lagging = [f"{name} = {found[name]}" for name in names if found.get(name, "1") != "1"]
    if not lagging:
        return ()
    return (f"{of_all} ({', '.join(lagging)}): a loss of power loses commits",)


def _sides(found: Mapping[str, str]) -> tuple[str, str] | None:
    """By which names a server knows semi-synchronous replication."""
    return next((sides for sides in _SIDES if f"rpl_semi_sync_{sides[0]}_enabled" in found), None)


def _kind(found: Mapping[str, str]) -> ClusterKind:
    if _is_on(found.get("wsrep_on")):
        return ClusterKind.GALERA
    return ClusterKind.GROUP if found.get("group_replication_group_name") else ClusterKind.NONE


def _is_on(value: str | None) -> bool:
    return value is not None and value.upper() in ("ON", "1", "TRUE")


def _list(names: Sequence[str]) -> str:
    return ",".join(f"'{name}'" for name in names)


def _variables(connection: Connection, names: Sequence[str]) -> dict[str, str]:
    condition = " OR ".join(f"Variable_name LIKE '{name}'" for name in names)
    return _pairs(connection.exec_driver_sql(f"SHOW GLOBAL VARIABLES WHERE {condition}".replace("%", "%%")).all())


def _status(connection: Connection, *names: str) -> dict[str, str]:
    condition = " OR ".join(f"Variable_name LIKE '{name}'" for name in names)
    return _pairs(connection.exec_driver_sql(f"SHOW GLOBAL STATUS WHERE {condition}".replace("%", "%%")).all())


def _asked(raw: Any, question: str) -> dict[str, str]:
    cursor = raw.cursor()
    cursor.execute(question)
    return _pairs(cursor.fetchall())


def _pairs(rows: Sequence[Any]) -> dict[str, str]:
    return {str(name): str(value) for name, value in rows}
