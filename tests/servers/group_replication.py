"""MySQL Group Replication: three servers that agree on every commit, on loopback."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar

import pymysql

from tests.servers.cluster import ServerCluster
from tests.servers.mysql import MySQLServer, mysql_folder
from tests.servers.network import Network
from tests.servers.server import free_port
from tests.waiting import wait_until

__all__ = ["GroupCluster", "GroupMember"]

_REPLICATOR = "replicator"


class GroupMember(MySQLServer):
    """One member. The cluster says whom it joins."""

    start_timeout_s: ClassVar[float] = 120.0
    #: It waits for a minute for what is about to be certified.
    stop_timeout_s: ClassVar[float] = 180.0

    def __init__(self, guard_pid: int | None = None, folder: Path | None = None, *, is_flushed: bool = True) -> None:
        super().__init__(guard_pid, folder, is_flushed=is_flushed)
        self.group_port = 0
        self.group = ""
        self.number = 0
        #: All members, address and port.
        self.peers: Sequence[str] = ()
        self.is_single_primary = True

    def command(self) -> Sequence[str]:
        """mysqld with a binary log and the plug-in."""
        # Members log in to each other by TLS.
        left_out = ("--skip-log-bin", "--performance-schema=OFF", "--tls-version=")
        plugins = next((mysql_folder() / "root").rglob("group_replication.so")).parent
        return [
            *(argument for argument in super().command() if argument not in left_out),
            "--performance-schema-instrument=%=OFF",
            f"--plugin-dir={plugins}",
            "--plugin-load-add=group_replication.so",
            f"--server-id={self.number + 1}",
            "--replica-parallel-workers=1",
            "--gtid-mode=ON",
            "--enforce-gtid-consistency=ON",
            f"--report-host={self.address}",
            "--log-bin-trust-function-creators=ON",  # who watches a test makes triggers
            f"--loose-group-replication-group-name={self.group}",
            f"--loose-group-replication-local-address={self.address}:{self.group_port}",
            f"--loose-group-replication-group-seeds={','.join(self.peers)}",
            f"--loose-group-replication-single-primary-mode={'ON' if self.is_single_primary else 'OFF'}",
            f"--loose-group-replication-enforce-update-everywhere-checks={'OFF' if self.is_single_primary else 'ON'}",
            "--loose-group-replication-start-on-boot=OFF",
            "--loose-group-replication-recovery-get-public-key=ON",
            "--loose-group-replication-member-expel-timeout=0",
            "--loose-group-replication-unreachable-majority-timeout=4",
        ]

    def prepare(self) -> None:
        """Nothing: users come when the member is in the group."""

    def create_users(self) -> None:
        """The ordinary user, and the one by which members get what they lack; once in a group."""
        super().prepare()
        self.execute(f"CREATE USER {_REPLICATOR}@'%' IDENTIFIED BY '{_REPLICATOR}'")
        self.execute(f"GRANT REPLICATION SLAVE, CONNECTION_ADMIN, BACKUP_ADMIN ON *.* TO {_REPLICATOR}@'%'")

    def join(self, *, begin: bool = False) -> None:
        """Become a member of the group, or begin a new one; returns when the member is up to date."""
        self.execute(f"SET GLOBAL group_replication_bootstrap_group = {'ON' if begin else 'OFF'}")
        self.execute(f"START GROUP_REPLICATION USER='{_REPLICATOR}', PASSWORD='{_REPLICATOR}'")
        wait_until(lambda: self.state() == "ONLINE", timeout_s=self.start_timeout_s)
        if begin:
            self.execute("SET GLOBAL group_replication_bootstrap_group = OFF")

    def leave(self) -> None:
        """Leave the group; the server goes on alone, and takes no writes."""
        self.execute("STOP GROUP_REPLICATION")

    def state(self) -> str:
        """What this member takes itself for, such as ``ONLINE``; ``OFFLINE`` when it is in no group."""
        return self._of_group("MEMBER_STATE") or "OFFLINE"

    def members_online(self) -> int:
        """How many members this one takes for members that are up to date."""
        question = "SELECT COUNT(*) FROM performance_schema.replication_group_members WHERE MEMBER_STATE = 'ONLINE'"
        return int(str(self.execute(question)[0][0]))

    def rejoin(self) -> None:
        """Come back if the others have expelled it, which nobody else tells it to."""
        if self.state() in ("ERROR", "OFFLINE"):
            self.leave()
            self.join()

    def role(self) -> str:
        """``PRIMARY`` or ``SECONDARY``, empty outside of a group."""
        return self._of_group("MEMBER_ROLE")

    def _of_group(self, column: str) -> str:
        rows = self.execute(
            f"SELECT {column} FROM performance_schema.replication_group_members WHERE MEMBER_ID = @@server_uuid"
        )
        return str(rows[0][0]) if rows else ""


class GroupCluster(ServerCluster[GroupMember]):
    """Three members of a group.

    Args:
        guard_pid, folder, is_flushed, network: as of `ServerCluster`.
        is_single_primary: one member takes writes; else all do.
    """

    scheme = "mysql+pymysql"

    def __init__(
        self,
        guard_pid: int | None = None,
        folder: Path | None = None,
        *,
        is_flushed: bool = True,
        network: Network | None = None,
        is_single_primary: bool = True,
    ) -> None:
        self._is_single_primary = is_single_primary
        super().__init__(guard_pid, folder, is_flushed=is_flushed, network=network)

    def new_member(self, guard_pid: int | None, folder: Path, *, is_flushed: bool) -> GroupMember:
        """One member."""
        return GroupMember(guard_pid, folder, is_flushed=is_flushed)

    def start_members(self) -> None:
        """The first begins the group, the others get from it what they lack."""
        group, ports = str(uuid.uuid4()), [free_port() for _ in self.members]
        peers = [f"{member.address}:{port}" for member, port in zip(self.members, ports, strict=True)]
        for number, member in enumerate(self.members):
            member.group, member.number, member.peers = group, number, peers
            member.group_port, member.is_single_primary = ports[number], self._is_single_primary
            member.start()
            member.join(begin=not number)
            if not number:
                member.create_users()

    def writer(self) -> GroupMember:
        """The primary, or a member that takes writes."""
        for member in self.members:
            with suppress(OSError, pymysql.Error):
                if (member.state(), member.role()) == ("ONLINE", "PRIMARY"):
                    return member
        raise ConnectionError("no member of the group takes writes")
