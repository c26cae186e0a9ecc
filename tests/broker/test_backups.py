"""Backups of a broker at work, by the commands of ``docs/operating.md``: nothing is missing, nothing comes back."""

from __future__ import annotations

import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.conftest import server
from tests.servers.server import DatabaseServer
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)

PAGE = Path(__file__).parents[2] / "docs" / "operating.md"
#: Messages that were answered before the backup begins, and while it is made or after it.
BEFORE, AFTER = 300, 100


def script(kind: str, store: str) -> str:
    """The commands of the page, backup or restore, for a kind of store."""
    found = re.findall(rf"^```sh {kind} {store}\n(.*?)^```", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    assert len(found) == 1, f"{PAGE.name} has {len(found)} blocks '{kind} {store}'"
    return str(found[0])


class Work:
    """A producer that sends to two queues, and a consumer of one of them: what each has an answer for."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._address = address
        self._is_over = threading.Event()
        self.receipted: set[str] = set()
        self.acknowledged: set[str] = set()

    @contextmanager
    def at_work(self) -> Iterator[None]:
        threads = [threading.Thread(target=target) for target in (self._produce, self._consume)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            for thread in threads:
                thread.join()

    def _produce(self) -> None:
        with Client(self._address, timeout_s=60) as client:
            client.connect()
            number = 0
            while not self._is_over.is_set():
                for queue in ("KEPT", "TAKEN"):
                    body = f"{queue}.{number}"
                    client.done("SEND", {"destination": f"/queue/{queue}", "persistent": "true"}, body)
                    self.receipted.add(body)
                number += 1
            client.done("SEND", {"destination": "/queue/TAKEN"}, "the consumer may stop waiting")

    def _consume(self) -> None:
        with Client(self._address, timeout_s=60) as client:
            client.connect()
            client.subscribe("/queue/TAKEN", ack="client-individual", **{"activemq.prefetchSize": "1"})
            while not self._is_over.is_set():
                message = client.message()
                client.done("ACK", client.named(message))
                self.acknowledged.add(message.text)


def run(text: str, folder: Path) -> None:
    finished = subprocess.run(
        ["bash", "-euc", text], cwd=folder, capture_output=True, text=True, timeout=200, check=False
    )
    assert finished.returncode == 0, f"{text}\n{finished.stdout}{finished.stderr}"


def prove(url: str, restored_url: str, folder: Path, *, backup: str, restore: str) -> None:
    """Back up a broker under load, lose it, restore, and hold what is there against what clients were told."""
    with BrokerProcess(url, folder) as broker:
        work = Work(broker.address)
        with work.at_work():
            wait_until(lambda: len(work.receipted) >= BEFORE and len(work.acknowledged) >= 50, "there is work done")
            receipted, acknowledged = set(work.receipted), set(work.acknowledged)
            run(backup, folder)
            so_far = len(work.receipted)
            wait_until(lambda: len(work.receipted) >= so_far + AFTER, "the broker has gone on")
        broker.kill()
    run(restore, folder)
    with BrokerProcess(restored_url, folder) as broker, Client(broker.address, timeout_s=60) as client:
        client.connect()
        there = client.rest_of("/queue/KEPT")
        rest = Client(broker.address, timeout_s=60)
        with rest:
            rest.connect()
            there += rest.rest_of("/queue/TAKEN")
    assert len(there) == len(set(there)), "a message is there twice"
    assert receipted - work.acknowledged <= set(there), "a message with a receipt is missing"
    assert acknowledged.isdisjoint(there), "a message whose acknowledgement has a receipt came again"


def on_files(text: str, folder: Path) -> str:
    return text.replace("/var/lib/jdbcstore", str(folder)).replace("/backup", str(folder / "backup"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "backup").mkdir()
    (tmp_path / "data").mkdir()
    return tmp_path


@pytest.mark.parametrize(
    ("store", "url", "restored"),
    [
        ("sqlite", "sqlite:///{}/data/jdbcstore.db", "sqlite:///{}/restored/jdbcstore.db"),
        ("kahadb", "kahadb:{}/kahadb?journalMaxFileLength=64kb&cleanupInterval=300", "kahadb:{}/restored"),
    ],
)
def test_files_of_a_broker_at_work(store: str, url: str, restored: str, folder: Path) -> None:
    scripts = {kind: on_files(script(kind, store), folder) for kind in ("backup", "restore")}
    prove(url.format(folder), restored.format(folder), folder, **scripts)


@pytest.mark.parametrize(("store", "kind"), [("postgresql", "postgresql15"), ("mariadb", "mariadb")])
@pytest.mark.usefixtures("postgresql", "mariadb")
def test_a_database_of_a_broker_at_work(store: str, kind: str, folder: Path, pytestconfig: pytest.Config) -> None:
    its: DatabaseServer = server(pytestconfig, kind)
    names = {"activemq": f"backed_up_{folder.name[-40:]}", "restored": f"restored_{folder.name[-40:]}"}
    place = make_url(its.url("activemq"))
    assert place.username is not None
    assert place.password is not None

    def here(text: str) -> str:
        for word, name in names.items():
            text = re.sub(rf"(?<=db/){word}\b|\b{word}(?= [<>])", name, text)
        text = text.replace("activemq:secret@db/", f"{place.username}:{place.password}@127.0.0.1:{place.port}/")
        text = text.replace("--host=db", f"--host=127.0.0.1 --port={place.port} --skip-ssl")
        text = text.replace("--user=activemq", f"--user={place.username}")
        return text.replace("--password=secret", f"--password={place.password}").replace(
            "/backup", str(folder / "backup")
        )

    for name in names.values():
        its.create_database(name)
    try:
        scripts = {what: here(script(what, store)) for what in ("backup", "restore")}
        prove(its.url(names["activemq"]), its.url(names["restored"]), folder, **scripts)
    finally:
        for name in names.values():
            its.drop_database(name)
