"""What test clusters of database servers have in common: members on loopback, each a server of its own."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Final, Generic, Self, TypeVar

from sqlalchemy import URL

from tests.servers.mysql import MySQLServer
from tests.servers.network import Network
from tests.servers.server import PASSWORD, USER
from tests.waiting import wait_until

__all__ = ["MEMBERS", "ServerCluster"]

Member = TypeVar("Member", bound=MySQLServer)
MEMBERS: Final = 3


class ServerCluster(Generic[Member]):
    """Three servers that replicate to each other. Use it as a context manager, or call `start` and `remove`.

    Args:
        guard_pid, folder, is_flushed: as of `DatabaseServer`.
        network: each server is on a host of it; None: all are on this one.
    """

    scheme: ClassVar[str]

    def __init__(
        self,
        guard_pid: int | None = None,
        folder: Path | None = None,
        *,
        is_flushed: bool = True,
        network: Network | None = None,
    ) -> None:
        self.folder = folder or Path(tempfile.mkdtemp(prefix="jdbcstore-cluster-"))
        folders = [self.folder / f"member{number}" for number in range(MEMBERS)]
        self.members = [self.new_member(guard_pid, own, is_flushed=is_flushed) for own in folders]
        self.network = network
        if network is not None:
            for number, member in enumerate(self.members):
                member.address, member.inside = network.addresses[number], network.inside(number, member.user_id())

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.remove()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.remove()

    # what each kind of cluster says

    def new_member(self, guard_pid: int | None, folder: Path, *, is_flushed: bool) -> Member:
        """One of the servers, not started."""
        raise NotImplementedError

    def start_members(self) -> None:
        """Start all servers, and return when each is a member that is up to date."""
        raise NotImplementedError

    def writer(self) -> Member:
        """A member that takes writes."""
        raise NotImplementedError

    # what is the same for all

    def start(self) -> None:
        """Start the cluster; it answers."""
        self.folder.chmod(0o755)  # some servers run as another user when we are root
        for member in self.members:
            member.folder.mkdir(exist_ok=True)
        self.start_members()

    def remove(self) -> None:
        """Kill all servers and remove their folders."""
        for member in self.members:
            member.remove()
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str, ports: Sequence[int] = ()) -> str:
        """SQLAlchemy's URL of a database, with all members, or with these ports of proxies."""
        own = [f"{member.address}:{member.port}" for member in self.members]
        hosts = [f"127.0.0.1:{port}" for port in ports] or own
        url = URL.create(self.scheme, USER, PASSWORD, database=database, query={"host": hosts})
        return url.render_as_string(hide_password=False)

    def create_database(self, name: str) -> None:
        """A new empty database, owned by the ordinary user; all members that are there have it."""
        self.writer().create_database(name)
        for member in self.members:
            if member.port:
                wait_until(lambda member=member: member.execute(f"SHOW DATABASES LIKE '{name}'"))  # type: ignore[misc]

    def drop_database(self, name: str) -> None:
        """Remove a database and end its sessions first, on every member."""
        self.kill_sessions(name)
        self.writer().drop_database(name)

    def kill_sessions(self, database: str | None = None) -> int:
        """End the sessions of one database, or all but our own, on every member."""
        return sum(member.kill_sessions(database) for member in self.members)

    def session(self, database: str) -> AbstractContextManager[Callable[[str], list[tuple[Any, ...]]]]:
        """Run statements in a database as the administrator, on a member that takes writes."""
        return self.writer().session(database)
