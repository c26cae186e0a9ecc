"""PostgreSQL's standbys: who waits for them, how many there are, and which history the data has.

``synchronous_standby_names`` names those that a commit may have to wait for, and how many of them; whether it does is
``synchronous_commit``, a matter of each session. That nobody of those named is there does not make a commit less: it
waits. A failover begins a new timeline, with a larger number, from wherever the new primary was.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sqlalchemy import Connection

from jdbcstore.store.jdbc.replication import Level, Replication

__all__ = ["HISTORY", "NEXT_TERM", "Waiting", "replication", "waiting_for"]

#: The timeline that is written to, from the name of the log's file: that of the last checkpoint may be the old one.
_TIMELINE: Final = "CAST(CAST('x' || LEFT(pg_walfile_name(pg_current_wal_insert_lsn()), 8) AS bit(32)) AS bigint)"
HISTORY: Final = (
    "SELECT CASE WHEN pg_is_in_recovery() THEN '' ELSE"
    f" (SELECT system_identifier FROM pg_control_system()) || '/' || {_TIMELINE} END"
)

#: Each timeline has a million terms, the first one those below a million.
_TERMS: Final = 1_000_000
_TIMELINES: Final = 10_000
_BLOCK: Final = f"TERM / {_TERMS}"
_IS: Final = f"(({_TIMELINE} - 1) % {_TIMELINES})"
#: A term tells its timeline, so that what a failover has taken back is not given out again. The next one with the right
#: timeline, if the last has another; a cluster that was made anew may be on timeline 1 again.
NEXT_TERM: Final = (
    f"CASE ({_BLOCK}) % {_TIMELINES} WHEN {_IS} THEN TERM + 1 ELSE"
    f" ({_BLOCK} + ({_IS} - ({_BLOCK}) % {_TIMELINES} + {_TIMELINES}) % {_TIMELINES}) * {_TERMS} + 1 END"
)

_SETTINGS: Final = (
    "synchronous_commit",
    "synchronous_standby_names",
    "fsync",
    "full_page_writes",
)
#: Without rights to see more, only that a sender is there; what a backup or an archive streams is no standby.
_QUESTION: Final = (
    "SELECT pg_is_in_recovery(), CASE WHEN pg_last_wal_receive_lsn() IS DISTINCT FROM pg_last_wal_replay_lsn()"
    " THEN EXTRACT(EPOCH FROM clock_timestamp() - pg_last_xact_replay_timestamp()) END, "
    + ", ".join(f"current_setting('{name}')" for name in _SETTINGS)
    + ", (SELECT COUNT(*) FROM pg_stat_get_wal_senders() s WHERE COALESCE(s.state, 'streaming') <> 'backup')"
)
_NAMES: Final = re.compile(r"\s*(?:(?:(FIRST|ANY)\s+)?(\d+)\s*\((.*)\)|(.*))\s*", re.IGNORECASE | re.DOTALL)
_NAME: Final = re.compile(r'"(?:[^"]|"")*"|[^\s,]+')


class Waiting(NamedTuple):
    """What a commit waits for: so many `replicas` `of` so many, which is None for ``*``, any that are there."""

    replicas: int
    of: int | None


def waiting_for(names: str) -> Waiting:
    """Read ``synchronous_standby_names``: ``s1``, ``FIRST 2 (s1, s2, s3)``, ``ANY 1 (s1, s2)``, ``2 (*)``."""
    found = _NAMES.fullmatch(names)
    assert found is not None, names
    _, count, several, plain = found.groups()
    listed = _NAME.findall(several if plain is None else plain)
    if not listed:
        return Waiting(0, 0)
    return Waiting(int(count or 1), None if "*" in listed or '"*"' in listed else len(set(listed)))


def replication(connection: Connection) -> Replication:
    """See `Dialect.replication`."""
    is_standby, behind_s, commit, names, fsync, pages, senders = connection.exec_driver_sql(_QUESTION).one()
    if is_standby:
        since = "has replayed all that it has received" if behind_s is None else f"is {behind_s:.1f} s behind"
        return Replication(Level.NONE, f"a standby that {since}", takes_writes=False)
    waiting = waiting_for(names)
    weaknesses = tuple(_weaknesses(commit, waiting, fsync, pages, int(senders)))
    told = f"synchronous_commit = {commit}, synchronous_standby_names = '{names}', {senders} standbys connected"
    return Replication(_level(commit, waiting, fsync, pages, int(senders)), told, weaknesses)


def _level(commit: str, waiting: Waiting, fsync: str, pages: str, senders: int) -> Level:
    if fsync == "off" or pages == "off" or commit in ("off", "local") or not waiting.replicas:
        return Level.NONE
    # A standby that is named and not connected may be back, and be the one that is promoted.
    standbys = max(senders, waiting.of or 0, waiting.replicas)
    has_most = 2 * (1 + waiting.replicas) > 1 + standbys
    return Level.QUORUM if has_most and commit != "remote_write" else Level.ANY


def _weaknesses(commit: str, waiting: Waiting, fsync: str, pages: str, senders: int) -> list[str]:
    found = []
    if fsync == "off":
        found.append("fsync = off: what is answered may be gone, and the data damaged, after a power failure")
    if pages == "off":
        found.append("full_page_writes = off: the data may be damaged after a power failure")
    if commit == "off":
        found.append("synchronous_commit = off: what is answered within about the last second is gone after a crash")
    elif commit == "local" and waiting.replicas:
        found.append("synchronous_commit = local: commits do not wait for the synchronous standbys")
    elif commit == "remote_write" and waiting.replicas:
        found.append("synchronous_commit = remote_write: standbys answer before it is on their disks")
    if not waiting.replicas and senders:
        found.append(
            f"the {senders} standbys are asynchronous (synchronous_standby_names is empty): what is answered may be"
            " gone after a failover"
        )
    return found
