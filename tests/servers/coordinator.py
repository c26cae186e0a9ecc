"""etcd and ZooKeeper as Patroni's coordinators: clusters of some members on loopback."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import urllib.request
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import ClassVar, Self

from tests.servers.server import DatabaseServer, ServerMissing, free_port
from tests.waiting import wait_until

__all__ = ["Coordinator", "Etcd", "Member", "ZooKeeper"]

_ZOOKEEPER_JAR = Path("/usr/share/java/zookeeper.jar")
_HEALTH_S = 2.0


class Member(DatabaseServer):
    """One process of a coordinator.

    Args:
        number: its own, from 0.
        peers: for each member the port for clients and those between members.
        folder: where the coordinator keeps everything.
    """

    stop_signal = signal.SIGTERM

    def __init__(self, number: int, peers: Sequence[tuple[int, int, int]], folder: Path) -> None:
        self.number = number
        self.peers = peers
        own = folder / f"member{number}"
        own.mkdir()
        super().__init__(folder=own)
        self.port = peers[number][0]

    def ping(self) -> None:
        """Raise unless the port for clients is open; that it can decide anything takes the others."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=_HEALTH_S):
            pass

    def is_leader(self) -> bool:
        """Whether this member leads the others."""
        raise NotImplementedError

    def is_ready(self) -> bool:
        """Whether the members have agreed on how they speak with each other."""
        return True


class _EtcdMember(Member):
    def command(self) -> Sequence[str]:
        client, peer, _ = self.peers[self.number]
        everybody = ",".join(f"m{number}=http://127.0.0.1:{ports[1]}" for number, ports in enumerate(self.peers))
        return [
            shutil.which("etcd") or "etcd",
            f"--name=m{self.number}",
            f"--data-dir={self.folder / 'data'}",
            f"--listen-client-urls=http://127.0.0.1:{client}",
            f"--advertise-client-urls=http://127.0.0.1:{client}",
            f"--listen-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-advertise-peer-urls=http://127.0.0.1:{peer}",
            f"--initial-cluster={everybody}",
            "--heartbeat-interval=100",
            "--election-timeout=1000",
        ]

    def is_leader(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=_HEALTH_S) as answer:
                return b"\netcd_server_is_leader 1\n" in answer.read()
        except OSError:
            return False

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/version", timeout=_HEALTH_S) as answer:
                return bool(json.load(answer)["etcdcluster"] != "not_decided")
        except OSError:  # on a busy machine a member may take longer to answer
            return False


class _ZooKeeperMember(Member):
    def command(self) -> Sequence[str]:
        data = self.folder / "data"
        data.mkdir(exist_ok=True)
        (data / "myid").write_text(f"{self.number + 1}\n")
        settings = {
            "tickTime": 500,
            "initLimit": 20,
            "syncLimit": 8,
            "minSessionTimeout": 1000,
            "dataDir": data,
            "clientPort": self.port,
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
        }
        if len(self.peers) > 1:
            for number, ports in enumerate(self.peers, 1):
                settings[f"server.{number}"] = f"127.0.0.1:{ports[1]}:{ports[2]}"
        (self.folder / "zoo.cfg").write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
        java = [shutil.which("java") or "java", "-Xmx128m", "-XX:TieredStopAtLevel=1", "-cp", str(_ZOOKEEPER_JAR)]
        return [*java, "org.apache.zookeeper.server.quorum.QuorumPeerMain", str(self.folder / "zoo.cfg")]

    def is_leader(self) -> bool:
        try:
            with socket.create_connection(("127.0.0.1", self.port), timeout=_HEALTH_S) as line:
                line.settimeout(_HEALTH_S)
                line.sendall(b"srvr")
                answer = b"".join(iter(lambda: line.recv(4096), b""))
        except OSError:
            return False
        return b"Mode: leader" in answer or b"Mode: standalone" in answer


class Coordinator:
    """Members of one kind. A context manager.

    Args:
        folder: an empty one.
        members: how many.
    """

    kind: ClassVar[type[Member]]
    #: Its section in Patroni's configuration.
    section: ClassVar[str]
    is_installed: ClassVar[bool]

    def __init__(self, folder: Path, members: int = 3) -> None:
        if not self.is_installed:
            raise ServerMissing(type(self).__name__)
        folder.mkdir()
        peers = [(free_port(), free_port(), free_port()) for _ in range(members)]
        self.members = [self.kind(number, peers, folder) for number in range(members)]

    def __enter__(self) -> Self:
        try:
            with ThreadPoolExecutor(len(self.members)) as pool:  # each waits for the others
                list(pool.map(lambda member: member.start(), self.members))
            wait_until(lambda: all(member.is_ready() for member in self.members))
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    def remove(self) -> None:
        """Kill all members and remove their folders."""
        for member in self.members:
            member.remove()

    @property
    def ports(self) -> list[int]:
        """Of the members, for clients."""
        return [member.port for member in self.members]

    def leader(self) -> Member | None:
        """Who leads, None while nobody does."""
        return next((member for member in self.members if member.is_leader()), None)


class Etcd(Coordinator):
    """etcd, by its API of version 3."""

    kind = _EtcdMember
    section = "etcd3"
    is_installed = shutil.which("etcd") is not None


class ZooKeeper(Coordinator):
    """ZooKeeper."""

    kind = _ZooKeeperMember
    section = "zookeeper"
    is_installed = _ZOOKEEPER_JAR.exists() and os.access(_ZOOKEEPER_JAR, os.R_OK)
