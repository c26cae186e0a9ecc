"""MariaDB: the distribution's server."""

from __future__ import annotations

import getpass
import shutil
import subprocess
from collections.abc import Sequence

from tests.servers.mysql import MySQLServer
from tests.servers.server import ServerFailed, ServerMissing


class MariaDBServer(MySQLServer):
    """A private MariaDB server."""

    scheme = "mariadb+pymysql"
    unflushed = (*MySQLServer.unflushed, "--debug-no-sync")  # also of what is not InnoDB's: the log of changed tables

    def initialise(self) -> None:
        """Run mariadb-install-db."""
        done = subprocess.run(
            [
                program("mariadb-install-db"),
                "--no-defaults",
                f"--user={getpass.getuser()}",
                f"--datadir={self.folder / 'data'}",
                "--auth-root-authentication-method=normal",
                "--skip-test-db",
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise ServerFailed(f"mariadb-install-db failed: {done.stdout}{done.stderr}")

    def command(self) -> Sequence[str]:
        """mariadbd on loopback and on a socket in the folder."""
        return [program("mariadbd"), "--no-defaults", f"--user={getpass.getuser()}", *self.settings()]


def program(name: str) -> str:
    """The path of one of MariaDB's programs."""
    found = shutil.which(name) or shutil.which(name, path="/usr/sbin:/usr/bin")
    if found is None:
        raise ServerMissing("MariaDB")
    return found
