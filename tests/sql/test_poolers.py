"""A pooler between a broker and PostgreSQL: in session mode all is as without it, in transaction mode it is refused."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import psycopg2
from sqlalchemy import make_url

from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.servers.server import ServerMissing, free_port
from tests.waiting import wait_until

NOBODY = 65534  # PgBouncer refuses to run as root


@contextmanager
def pooler(url: str, mode: str) -> Iterator[str]:
    """PgBouncer before a database: the URL by which to go through it."""
    program = shutil.which("pgbouncer", path="/usr/sbin:/usr/bin:/usr/local/bin")
    if program is None:
        raise ServerMissing("pgbouncer is not installed: run scripts/install-test-servers")
    place, port = make_url(url), free_port()
    with tempfile.TemporaryDirectory(prefix="pgbouncer-") as folder:
        Path(folder).chmod(0o755)
        configuration = Path(folder) / "pgbouncer.ini"
        configuration.write_text(
            f"[databases]\n"
            f"{place.database} = host={place.host} port={place.port} user={place.username} password={place.password}\n"
            f"[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\nunix_socket_dir =\nauth_type = any\n"
            f"pool_mode = {mode}\nignore_startup_parameters = extra_float_digits,options\n"
        )
        through = place.set(host="127.0.0.1", port=port)
        as_nobody = ["setpriv", f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
        with (Path(folder) / "log").open("wb") as log:
            process = subprocess.Popen([*as_nobody, program, str(configuration)], stdout=log, stderr=log)
        try:
            wait_until(lambda: serves(port, str(place.database)), "PgBouncer serves")
            yield through.render_as_string(hide_password=False)
        finally:
            process.kill()
            process.wait()


def serves(port: int, database: str) -> bool:
    with suppress(psycopg2.OperationalError):
        psycopg2.connect(host="127.0.0.1", port=port, dbname=database, user="anybody").close()
        return True
    return False


def test_in_session_mode_a_standby_takes_over(postgresql_url: str, tmp_path: Path) -> None:
    with pooler(postgresql_url, "session") as url, BrokerProcess(url, tmp_path) as master:
        standby = BrokerProcess(url, tmp_path)
        standby.start_standby()
        with Client(master.address) as client:
            client.connect()
            client.publish("/queue/A", "kept")
        master.kill()
        standby.wait_for("master")
        with Client(standby.address) as client:
            client.connect()
            assert client.rest_of("/queue/A") == ["kept"]
        assert standby.stop() == 0


def test_a_pooler_that_shares_sessions_is_refused(postgresql_url: str, tmp_path: Path) -> None:
    with pooler(postgresql_url, "transaction") as url:
        broker = BrokerProcess(url, tmp_path)
        broker.launch()
        assert broker.wait() == 1
        assert "a pooler that shares sessions, as PgBouncer in transaction mode" in broker.log().splitlines()[-1]
