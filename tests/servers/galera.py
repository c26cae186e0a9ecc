"""Galera: three MariaDB servers that certify each other's commits, on loopback."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import ClassVar, Final

import pymysql

from tests.servers.cluster import ServerCluster
from tests.servers.mariadb import MariaDBServer
from tests.servers.postgresql import NOBODY
from tests.servers.server import ServerMissing, free_port

__all__ = ["GaleraCluster", "GaleraNode"]

PROVIDERS: Final = (
    "/usr/lib/galera/libgalera_smm.so",
    "/usr/lib/libgalera_smm.so",
    "/usr/lib64/galera-4/libgalera_smm.so",
)
#: Small, and soon sure that a node is gone: tests wait for both.
OPTIONS: Final = {
    "gcache.size": "32M",
    "evs.keepalive_period": "PT0.3S",
    "evs.suspect_timeout": "PT2S",
    "evs.inactive_timeout": "PT4S",
    "evs.inactive_check_period": "PT0.3S",
    "evs.install_timeout": "PT4S",
    "pc.recovery": "false",
}


class GaleraNode(MariaDBServer):
    """One node. The cluster says whom it joins."""

    start_timeout_s: ClassVar[float] = 120.0

    def __init__(self, guard_pid: int | None = None, folder: Path | None = None, *, is_flushed: bool = True) -> None:
        super().__init__(guard_pid, folder, is_flushed=is_flushed)
        self.group_port = self.transfer_port = self.increment_port = 0
        #: Those that it looks for, address and port; none to begin a new cluster.
        self.peers: Sequence[str] = ()

    @property
    def group_address(self) -> str:
        """Where the other nodes find it."""
        return f"{self.address}:{self.group_port}"

    def user_id(self) -> int | None:
        """Nobody, when we are root: the program that copies the state gives up root's rights, and then may not."""
        return NOBODY if os.geteuid() == 0 else None

    def initialise(self) -> None:
        """Make the data directory; one that joins gets the state of the others."""
        self.group_port, self.transfer_port, self.increment_port = free_port(), free_port(), free_port()
        if self.peers:
            (self.folder / "data").mkdir()
        else:
            super().initialise()
        if (user := self.user_id()) is not None:
            for path in (self.folder, *self.folder.rglob("*")):
                shutil.chown(path, user, user)

    def command(self) -> Sequence[str]:
        """mariadbd with the replication of Galera."""
        options = {
            **OPTIONS,
            "gmcast.listen_addr": f"tcp://{self.address}:{self.group_port}",
            "ist.recv_addr": f"{self.address}:{self.increment_port}",
        }
        return [
            *super().command(),
            "--wsrep-on=ON",
            f"--wsrep-provider={provider()}",
            f"--wsrep-cluster-address=gcomm://{','.join(self.peers)}",
            "--wsrep-cluster-name=tests",
            f"--wsrep-node-name={self.folder.name}",
            f"--wsrep-node-address={self.address}",
            "--wsrep-sst-method=rsync",
            f"--wsrep-sst-receive-address={self.address}:{self.transfer_port}",
            f"--wsrep-provider-options={';'.join(f'{name}={value}' for name, value in options.items())}",
            "--wsrep-slave-threads=1",
            "--binlog-format=ROW",
            "--log-bin-trust-function-creators=ON",  # who watches a test makes triggers
            "--innodb-autoinc-lock-mode=2",
        ]

    def prepare(self) -> None:
        """Create the users on the first node; the others have them with its state."""
        if not self.peers:
            super().prepare()

    def ping(self) -> None:
        """Raise unless the node takes statements."""
        super().ping()
        if (state := self.status("wsrep_local_state_comment")) != "Synced":
            raise ConnectionError(f"the node is {state}")

    def status(self, name: str) -> str:
        """A status variable, such as ``wsrep_local_state_comment``."""
        return str(self.execute(f"SHOW GLOBAL STATUS LIKE '{name}'")[0][1])

    def isolate(self) -> None:
        """Cut it off from all other nodes, both ways, until `rejoin`."""
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=1'")

    def rejoin(self) -> None:
        """End `isolate`."""
        self.execute("SET GLOBAL wsrep_provider_options = 'gmcast.isolate=0'")


class GaleraCluster(ServerCluster[GaleraNode]):
    """Three nodes of Galera, each of which takes writes."""

    scheme = "mariadb+pymysql"

    def new_member(self, guard_pid: int | None, folder: Path, *, is_flushed: bool) -> GaleraNode:
        """One node."""
        return GaleraNode(guard_pid, folder, is_flushed=is_flushed)

    def start_members(self) -> None:
        """The first begins the cluster, the others get its state from it."""
        first, *others = self.members
        first.start()
        for node in others:
            node.peers = [first.group_address]
            node.start()
        for node in self.members:
            node.peers = [other.group_address for other in self.members if other is not node]

    def writer(self) -> GaleraNode:
        """A node that is up to date."""
        for node in self.members:
            try:
                node.ping()
            except (OSError, pymysql.Error):
                continue
            return node
        raise ConnectionError("no node of the cluster takes statements")

    def restore_primary(self) -> bool:
        """Do what an operator does when no node is in the primary component: the node with most begins a new one.

        A node that is killed and started again before the others have missed it leaves a cluster so now and then.

        Returns:
            Whether it was needed.
        """
        written: dict[int, GaleraNode] = {}
        for node in self.members:
            with suppress(OSError, pymysql.Error):
                if node.status("wsrep_cluster_status") == "Primary":
                    return False
                written[int(node.status("wsrep_last_committed"))] = node
        if not written:
            return False
        written[max(written)].execute("SET GLOBAL wsrep_provider_options = 'pc.bootstrap=YES'")
        return True


def provider() -> str:
    """The library that replicates.

    Raises:
        ServerMissing: it is not installed.
    """
    for path in PROVIDERS:
        if Path(path).exists():
            return path
    raise ServerMissing("Galera")
