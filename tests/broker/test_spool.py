"""The store for non-persistent messages that do not fit into memory fails, or is removed, and comes back."""

from __future__ import annotations

import shutil
import tempfile
import threading
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.config.urls import open_spool
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.memory import MemoryPersistenceAdapter
from tests.broker.client import Client
from tests.broker.conftest import OpenClient
from tests.waiting import wait_until

OPTIONS = BrokerOptions(bind="127.0.0.1:0", window_messages_max=10, page_messages_max=5)


def send(client: Client, first: int, last: int) -> None:
    for number in range(first, last):
        client.done("SEND", {"destination": "/queue/a"}, str(number))


def receive(client: Client, first: int, last: int) -> None:
    assert [client.message().text for _ in range(first, last)] == [str(number) for number in range(first, last)]


def test_who_needs_a_spool_that_cannot_be_opened_is_told_and_the_next_one_tries_again(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with running(Broker(MemoryPersistenceAdapter(), OPTIONS, open_spool)) as address:
        client = open_client(address)
        kept = 0
        for _ in range(2):
            # Some stay in memory while it is being opened.
            while (answer := client.request("SEND", {"destination": "/queue/a"}, str(kept))).command == "RECEIPT":
                kept += 1
            assert "does not fit into memory" in answer.text + answer.headers["message"]
            client = open_client(address)
        assert kept >= 10
        assert [record.levelname for record in caplog.records if record.name == "jdbcstore.broker.spool"] == ["WARNING"]
        (tmp_path / "gone").mkdir()
        # Who needs it next may hear of the last attempt, nobody hears of it later.
        if client.request("SEND", {"destination": "/queue/a"}, str(kept)).command == "RECEIPT":
            kept += 1
        else:
            client = open_client(address)
        send(client, kept, kept + 30)
        client.subscribe("/queue/a")
        receive(client, 0, kept + 30)


@pytest.mark.parametrize("destination", ["/queue/a,/queue/b", "/topic/VirtualTopic.a"])
def test_who_sends_to_several_is_told_of_the_first_message_that_is_lost(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch, destination: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    with running(Broker(MemoryPersistenceAdapter(), OPTIONS, open_spool)) as address:
        client, other = open_client(address), open_client(address)
        name = "a" if "queue" in destination else "Consumer.a.VirtualTopic.a"
        other.subscribe(f"/queue/{name}", "client-individual", activemq_prefetchSize="1")
        sent = 0
        while (answer := client.request("SEND", {"destination": destination}, str(sent))).command == "RECEIPT":
            sent += 1
            assert sent < 1000, "there is no room for so many"
        assert "does not fit into memory" in answer.headers["message"]
        for number in range(sent):
            got = other.message()
            assert got.text == str(number), "who had a receipt has lost nothing"
            other.ack(got)


def test_the_spool_is_opened_before_it_is_needed_and_who_needs_it_hears_of_no_attempt_before(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "gone"))
    opened, made = threading.Event(), threading.Semaphore(0)

    def made_and_told() -> PersistenceAdapter:
        made.release()
        store = open_spool()
        opened.set()
        return store

    options = BrokerOptions(bind="127.0.0.1:0", memory_bytes_max=4 << 20)
    body = "x" * 100_000  # ten of them are half of what messages may take
    broker = Broker(MemoryPersistenceAdapter(), options, made_and_told)
    with running(broker) as address:
        client = open_client(address)
        for _ in range(12):
            client.done("SEND", {"destination": "/queue/a"}, body)
        assert made.acquire(timeout=60)
        wait_until(lambda: broker._spool._opening is None)  # the attempt that has failed is over
        client.done("SEND", {"destination": "/queue/a"}, body)
        assert not made.acquire(blocking=False)
        (tmp_path / "gone").mkdir()
        for _ in range(30):
            client.done("SEND", {"destination": "/queue/a"}, body)
        assert opened.is_set()
        client.subscribe("/queue/a")
        assert [len(client.message().body) for _ in range(43)] == [100_000] * 43


def test_a_spool_whose_folder_was_tidied_up_loses_nothing_and_is_followed_by_a_new_one(
    tmp_path: Path, open_client: OpenClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr("jdbcstore.broker.master_service._SWEEP_S", 0.05)
    stores: list[PersistenceAdapter] = []
    started, stopped = threading.Event(), threading.Event()

    def made() -> PersistenceAdapter:
        store = open_spool()
        start, stop = store.start, store.stop

        def start_and_tell() -> None:
            start()
            started.set()

        def stop_and_tell() -> None:
            stop()
            stopped.set()

        monkeypatch.setattr(store, "start", start_and_tell)
        monkeypatch.setattr(store, "stop", stop_and_tell)
        stores.append(store)
        return store

    with running(Broker(MemoryPersistenceAdapter(), OPTIONS, made)) as address:
        client = open_client(address)
        send(client, 0, 20)  # stay in memory while it is being opened
        assert started.wait(60)
        send(client, 20, 150)
        (folder,) = tmp_path.iterdir()
        assert {path.stat().st_mode & 0o777 for path in [folder]} == {0o700}
        assert {path.stat().st_mode & 0o777 for path in folder.iterdir()} == {0o600}
        shutil.rmtree(folder)
        send(client, 150, 170)
        client.subscribe("/queue/a")
        receive(client, 0, 170)
        client.done("UNSUBSCRIBE", {"id": "1"})
        assert stopped.wait(60)
        started.clear()
        send(client, 170, 190)
        assert started.wait(60)
        send(client, 190, 320)
        client.subscribe("/queue/a")
        receive(client, 170, 320)
    assert len(stores) == 2
    assert "somebody removed the files of the spool" in caplog.text
    assert list(tmp_path.iterdir()) == []


def test_nobody_else_waits_while_the_spool_is_opened_and_memory_is_full(open_client: OpenClient) -> None:
    opening, may_open = threading.Event(), threading.Event()

    def made() -> PersistenceAdapter:
        opening.set()
        assert may_open.wait(100)
        return MemoryPersistenceAdapter()

    options = BrokerOptions(bind="127.0.0.1:0", memory_bytes_max=1 << 20)
    broker = Broker(MemoryPersistenceAdapter(), options, made)
    with running(broker) as address:
        try:
            client, other = open_client(address), open_client(address)
            for number in range(200):
                client.send("SEND", {"destination": f"/queue/{number % 3}"}, f"{number}".ljust(10_000))
            client.send("SEND", {"destination": "/queue/end", "receipt": "end"}, "end")
            assert opening.wait(60)
            for number in range(20):
                other.done("SEND", {"destination": "/queue/other", "persistent": "true"}, str(number))
            assert client.is_silent()
            assert broker.memory.used <= broker.memory.messages_max + 12_000
        finally:
            may_open.set()
        assert client.frame().headers["receipt-id"] == "end"
        for number in range(3):
            other.subscribe(f"/queue/{number}", id=str(number))
        found = sorted(int(other.message().text) for _ in range(200))
    assert found == list(range(200))
