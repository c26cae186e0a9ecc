"""The console in a browser, against a real broker."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import open_store
from jdbcstore.destination import Queue
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import SupportsTransactions
from jdbcstore.testing.messages import text_message
from tests.broker.client import Client
from tests.management.chromium import Page, chromium
from tests.management.desk import beside
from tests.management.test_operations import fill
from tests.management.test_web import Served, send, served
from tests.servers.prepared import PreparedFile
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(300)


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Page]:
    with chromium(tmp_path_factory.mktemp("chromium") / "profile") as page:
        yield page


@pytest.fixture
def broker(tmp_path: Path, prepared_file: PreparedFile) -> Iterator[Served]:
    store = open_store(prepared_file.url(tmp_path / "b.db"))
    with served(store, broker_name="b1") as broker, Client(broker.address) as client:
        client.connect(client_id="c1")
        fill(client, "/queue/ORDERS", 3)
        client.subscribe("/queue/ORDERS", ack="client-individual")
        client.done("NACK", client.named(client.message()))
        client.done("UNSUBSCRIBE", {"id": "1"})
        client.publish("/queue/ORDERS", '<img src=x onerror="document.title=1">{"a": 1}')
        wait_until(lambda: broker.operator.get("/api/v1/destinations?text=DLQ").json["total"] == 1)
        yield broker


def base(broker: Served) -> str:
    host, port = broker.operator.address
    return f"http://{host}:{port}"


def log_in(page: Page, broker: Served) -> None:
    assert broker.broker.web is not None
    page.click("Log in", "#who")
    page.fill("token", broker.broker.web.token or "")
    page.click("Log in", "#dialog")
    page.wait_for("Log out")


def test_every_page_is_shown_and_asks_nobody_else(page: Page, broker: Served) -> None:
    page.size(1200, 800)
    page.problems.clear()
    page.requests.clear()
    for path, text in (
        ("/", "Fullest queues"),
        ("/destinations", "queue://ORDERS"),
        ("/destination?name=queue://ORDERS", "m1"),
        ("/dead-letters", "queue://ActiveMQ.DLQ"),
        ("/connections", "c1"),
        ("/subscriptions", "Subscriptions"),
        ("/store", "sqlite"),
        ("/scheduled", "There are none."),
        ("/transactions", "There are none."),
        ("/operations", "Nothing was done"),
        ("/log", "Last lines"),
        ("/send", "Log in to send"),
    ):
        page.open(base(broker) + path, text)
        # What is shown is drawn anew every other second.
        wait_until(lambda: page.evaluate("document.querySelectorAll('h1').length") == 1)
        assert page.evaluate("document.querySelector('[aria-current=page]') !== null") == ("?" not in path)
    assert page.problems == []
    assert {url.partition("?")[0] for url in page.requests if not url.startswith(base(broker))} == set()


def test_a_page_that_nobody_sees_asks_for_nothing(page: Page, broker: Served) -> None:
    page.open(base(broker) + "/operations", "Nothing was done")
    count = "let asked = 0; const ask = fetch; window.fetch = (...given) => { asked += 1; return ask(...given); };"
    page.evaluate(
        count + "let isHidden = false, later = null; window.setTimeout = (work) => { later = work; return 0; };"
    )
    page.evaluate("Object.defineProperty(document, 'hidden', { get: () => isHidden })")
    page.click("Operations", "#nav")
    wait_until(lambda: page.evaluate("later !== null"))
    assert page.evaluate("isHidden = true; asked = 0; later(); asked") == 0
    assert page.evaluate("isHidden = false; document.dispatchEvent(new Event('visibilitychange')); asked") > 0


def test_dead_letters_are_retried_after_a_count(page: Page, broker: Served) -> None:
    page.open(base(broker) + "/dead-letters", "Log in to group them")
    log_in(page, broker)
    page.wait_for("refused by a consumer")
    page.click("Retry …", "#main")
    page.wait_for("Retry: 1 messages")
    page.click("Retry: 1 messages", "#dialog")
    page.wait_for("1 messages done")
    page.click("Close", "#dialog")
    page.wait_for("0 messages, 0 B")
    wait_until(lambda: broker.operator.get("/api/v1/audit").json[0]["action"] == "retry")


def test_messages_that_match_are_moved_and_what_they_say_is_only_text(page: Page, broker: Served) -> None:
    page.open(base(broker) + "/destination?name=queue://ORDERS", "<img src=x")
    assert page.evaluate("document.querySelectorAll('main img').length") == 0
    log_in(page, broker)
    page.open(base(broker) + "/destination?name=queue://ORDERS&selector=n%20%3D%20'2'", "1 shown")
    page.click("Move …", "#main")
    page.fill("target", "queue://B")
    page.click("Count", "#dialog")
    page.click("Move: 1 messages", "#dialog")
    page.wait_for("1 messages done")
    assert len(broker.operator.get("/api/v1/messages?destination=queue://B").json["messages"]) == 1


def test_a_message_is_sent_and_shown_in_full(page: Page, broker: Served) -> None:
    page.open(base(broker) + "/send", "Send a message")
    log_in(page, broker)
    page.fill("destination", "queue://NEW")
    page.fill("body", '{"order": 7}')
    page.fill("properties", '{"colour": "red"}')
    page.click("Send", "#main")
    page.wait_for("Stored as")
    page.click("ID:", "#main")
    page.wait_for("Headers")
    page.wait_for('"order": 7')
    page.click("Hex", "#main")
    page.wait_for("6f 72 64 65 72")


def test_a_phone_shows_everything_without_scrolling_sideways(page: Page, broker: Served) -> None:
    page.size(390, 800, is_dark=True)
    page.open(base(broker) + "/send", "Send a message")
    log_in(page, broker)
    for path, text in (
        ("/send", "Send a message"),
        ("/connections", "c1"),
        ("/dead-letters", "Retry all"),
        ("/", "Fullest queues"),
        ("/destinations", "queue://ORDERS"),
    ):
        page.open(base(broker) + path, text)
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.evaluate(
            "[...document.querySelectorAll('.table')].every((one) => one.scrollWidth <= one.clientWidth)"
        )
        # No word of a button is broken: each is one line.
        assert page.evaluate("[...document.querySelectorAll('button, .badge')].every((one) => one.offsetHeight < 50)")
    page.click("Name", "#main")  # still sorts
    page.wait_for("▴")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") != "rgb(246, 247, 249)"


def test_a_standby_shows_who_is_master(page: Page, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    page.size(1200, 800)
    with served(open_store(url), broker_name="first"):
        from jdbcstore import Broker, BrokerOptions

        standby = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0", web_bind="127.0.0.1:0"))
        with beside(standby):
            assert standby.web is not None
            page.open(standby.web.url, "This broker is standby")
            page.wait_for("is master")


def test_each_field_and_button_has_a_name(page: Page, broker: Served) -> None:
    nameless = """[...document.querySelectorAll("input, select, textarea, button, a")].filter((one) =>
        !(one.innerText || "").trim() && !one.getAttribute("aria-label") && !one.labels?.length).length"""
    for path, text in (("/", "Fullest queues"), ("/destinations", "queue://ORDERS"), ("/send", "Send a message")):
        page.open(base(broker) + path, text)
        assert page.evaluate(nameless) == 0


def test_the_store_page_of_kahadb_shows_what_keeps_its_files(page: Page, tmp_path: Path) -> None:
    page.size(1200, 800)
    with served(open_store(f"kahadb:{tmp_path / 'kahadb'}")) as broker:
        send(broker, "ORDERS", 20)
        page.open(base(broker) + "/store", "Files of the journal")
        page.click("What keeps the files?", "#main")
        page.wait_for("queue://ORDERS")
        wait_until(lambda: page.evaluate("document.querySelector('main img')?.naturalWidth > 100") is True)
        assert page.problems == []


def test_a_transaction_in_doubt_is_decided(page: Page, tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'b.db'}"
    with open_store(url) as store:
        assert isinstance(store, SupportsTransactions)
        transaction = store.transaction_store().begin(XATransactionId(55, b"GLOBAL", b"BRANCH"))
        transaction.add_message(store.queue_message_store(Queue("A")), text_message(1, destination=Queue("A")))
        transaction.prepare().result(30)
    page.size(1200, 800)
    with served(open_store(url)) as broker:
        page.open(base(broker) + "/transactions", "globalId=")
        assert "Commit" not in page.evaluate("document.getElementById('main').innerText")
        log_in(page, broker)
        page.click("Commit …", "#main")
        page.wait_for("Its transaction manager must not decide otherwise")
        page.click("Commit", "#dialog")
        page.wait_for("There are none.")
        (message,) = broker.operator.get("/api/v1/messages?destination=queue://A").json["messages"]
        assert message["body"] == "message 1"
