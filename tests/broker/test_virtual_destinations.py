"""Composites by configuration, declared virtual topics and mirrored queues, with all that holds for what is sent."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from typing import cast

import pytest

from jdbcstore import Broker, PersistenceAdapter
from jdbcstore.broker import slices
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.interceptors import Interceptors
from jdbcstore.broker.prepared import PREPARED_LEAST
from jdbcstore.broker.route import Route
from jdbcstore.broker.security.authorization import AuthorizationEntry, AuthorizationMap
from jdbcstore.broker.virtual_destinations import (
    CompositeDestination,
    ForwardTo,
    MirroredQueue,
    VirtualDestinations,
    VirtualTopic,
)
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire.commands import TransactionInfo
from jdbcstore.selector import Selector
from tests.broker.client import Address, Client
from tests.broker.conftest import OpenClient, StartBroker
from tests.broker.openwire_client import OpenWireClient
from tests.broker.test_virtual_topics import known
from tests.broker_process import BrokerProcess
from tests.servers.server import free_port

SENT = "/queue/SENT"
EVERYTHING = Selector.parse("TRUE")
PERSISTENT = {"destination": SENT, "persistent": "true"}


def composite(name: Destination, *targets: Destination | ForwardTo, stays: bool = False) -> CompositeDestination:
    forward_to = [to if isinstance(to, ForwardTo) else ForwardTo(destination=to) for to in targets]
    return CompositeDestination(name=name, forward_to=tuple(forward_to), forward_only=not stays)


DECLARED = VirtualDestinations(composites=(composite(Queue("SENT"), Queue("A"), Queue("B"), Topic("T")),))


@pytest.fixture(params=["memory", "sqlite"])
def address(request: pytest.FixtureRequest, start_broker: StartBroker) -> Address:
    """A broker with a composite queue, over each of the quick stores."""
    store = None if request.param == "memory" else request.getfixturevalue("sqlite_store")
    return start_broker(store, virtual=DECLARED)


def rest(client: Client, *queues: str) -> list[list[str]]:
    found = []
    for queue in queues:
        found.append(client.rest_of(f"/queue/{queue}"))
        client.done("UNSUBSCRIBE", {"id": "1"})
    return found


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_each_place_gets_it_and_nothing_stays(address: Address, open_client: OpenClient, persistent: str) -> None:
    client = open_client(address)
    client.subscribe("/topic/T", id="t")
    client.publish(SENT, "1", persistent=persistent)
    assert client.message().headers["original-destination"] == SENT
    assert rest(client, "A", "B") == [["1"], ["1"]]
    client.subscribe(SENT)
    assert client.is_silent(0.1)


def test_transactions_have_the_copies_or_not(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    for end in ("ABORT", "COMMIT"):
        client.done("BEGIN", {"transaction": "t"})
        for persistent in ("true", "false"):
            client.done("SEND", {**PERSISTENT, "persistent": persistent, "transaction": "t"}, f"{end} {persistent}")
        client.done(end, {"transaction": "t"})
    assert rest(client, "A", "B") == [["COMMIT true", "COMMIT false"]] * 2


@pytest.mark.parametrize("end", ["commit", "rollback"])
def test_a_branch_that_is_prepared_has_the_copies(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter, end: str
) -> None:
    address = start_broker(sqlite_store, virtual=DECLARED, bind="auto://127.0.0.1:0")
    xid = XATransactionId(1, b"global", b"branch")
    steps = {"prepare": 1, "commit": 3, "rollback": 4}
    with OpenWireClient(address) as jms:
        jms.ask(TransactionInfo(transaction_id=xid, type=0))
        for is_persistent in (True, False):
            message = jms.message(Queue("SENT"), str(is_persistent))
            message.persistent, message.transaction_id = is_persistent, xid
            jms.ask(message)
        client = open_client(address)
        assert rest(client, "A", "B") == [[], []]
        for step in ("prepare", end):
            jms.ask(TransactionInfo(transaction_id=xid, type=steps[step]))
    left = [sorted(texts) for texts in rest(client, "A", "B")]
    assert left == [["False", "True"] if end == "commit" else []] * 2


def test_what_is_sent_again_is_stored_once(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    for _ in range(2):
        client.publish(SENT, "once", producer_id="till", producer_sequence="1")
    assert rest(client, "A", "B") == [["once"]] * 2


def test_messages_that_arrive_at_once_are_all_copied(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    sends = "".join(f"SEND\ndestination:{SENT}\npersistent:true\n\n{number}\0" for number in range(40))
    client.write(sends.encode())
    assert rest(client, "A", "B") == [[str(number) for number in range(40)]] * 2


def test_what_is_scheduled_is_copied_when_it_is_due(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    client.subscribe("/queue/A", id="a")
    client.done("SEND", {**PERSISTENT, "AMQ_SCHEDULED_DELAY": "200"}, "later")
    assert client.is_silent(0.05)
    assert client.message().text == "later"
    assert rest(client, "B") == [["later"]]


def test_what_has_expired_is_a_dead_letter_for_each(address: Address, open_client: OpenClient) -> None:
    client = open_client(address)
    client.publish(SENT, "late", expires=str(int(time.time() * 1000) - 60_000))
    assert rest(client, "A", "B", "ActiveMQ.DLQ") == [[], [], ["late"] * 3]


def test_copies_keep_their_group(address: Address, open_client: OpenClient) -> None:
    client, other = open_client(address), open_client(address)
    client.subscribe("/queue/A")
    other.subscribe("/queue/A")
    for number in range(3):
        client.publish(SENT, str(number), JMSXGroupID="g")
    first = client if client.has_come() else other
    assert [first.message().text for _ in range(3)] == ["0", "1", "2"]


def test_a_durable_subscriber_of_a_target_gets_it(start_broker: StartBroker, sqlite_store: PersistenceAdapter) -> None:
    address = start_broker(sqlite_store, virtual=DECLARED)
    for expected in ([], ["1"]):
        with Client(address) as client:
            client.connect(client_id="ann")
            client.subscribe("/topic/T", id="d", **{"activemq.subscriptionName": "news"})
            assert [client.message().text for _ in expected] == expected
        with Client(address) as sender:
            sender.connect()
            sender.publish(SENT, "1")


def test_the_copies_are_one_commit(start_broker: StartBroker, open_client: OpenClient, tmp_path: Path) -> None:
    """What the store refuses for one place no other has."""
    declared = VirtualDestinations(composites=(composite(Queue("SENT"), Queue("A"), Queue("jdbcstore.Pauses")),))
    client = open_client(start_broker(virtual=declared))
    assert "use another name" in client.request("SEND", PERSISTENT, "1").headers["message"]
    client = open_client(start_broker(virtual=declared))
    assert rest(client, "A") == [[]]


def test_a_target_that_is_reached_by_two_ways_gets_it_once(start_broker: StartBroker, open_client: OpenClient) -> None:
    declared = VirtualDestinations(
        composites=(
            composite(Queue("SENT"), Queue("A"), Queue("IN"), ForwardTo(destination=Queue("A"), selector=EVERYTHING)),
            composite(Queue("IN"), Queue("A"), stays=True),
        )
    )
    client = open_client(start_broker(virtual=declared))
    for persistent in ("true", "false"):
        client.publish(SENT, persistent, persistent=persistent)
    assert rest(client, "A", "IN") == [["true", "false"]] * 2


def test_copies_are_limited(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(virtual=DECLARED, transaction_messages_max=2))
    assert "There are 3 copies" in client.request("SEND", PERSISTENT, "x").headers["message"]


def test_a_transaction_with_too_many_copies_is_rolled_back(start_broker: StartBroker, open_client: OpenClient) -> None:
    address = start_broker(virtual=DECLARED, transaction_messages_max=5)
    client = open_client(address)
    client.done("BEGIN", {"transaction": "t"})
    for _ in range(2):
        client.done("SEND", {**PERSISTENT, "transaction": "t"}, "x")
    told = client.request("COMMIT", {"transaction": "t"}).headers["message"]
    assert "Transaction t is rolled back: There are 6 copies" in told
    assert rest(open_client(address), "A", "B") == [[], []]


AWARE = VirtualDestinations(virtual_topics=(VirtualTopic(name=Topic("NEWS"), prefix="V.*.", selector_aware=True),))
NEWS = "/topic/NEWS"


def test_limits_count_the_copies_that_are_made(start_broker: StartBroker, open_client: OpenClient) -> None:
    client = open_client(start_broker(virtual=AWARE, transaction_messages_max=1))
    for name, colour in (("A", "red"), ("B", "green")):
        client.subscribe(f"/queue/V.{name}.NEWS", id=name, selector=f"colour = '{colour}'")
    client.publish(NEWS, "1", colour="red")
    assert client.message().headers["subscription"] == "A"
    for colour in ("red", "green"):
        client.done("BEGIN", {"transaction": colour})
        client.done("SEND", {"destination": NEWS, "persistent": "true", "transaction": colour, "colour": colour}, "2")
        client.done("COMMIT", {"transaction": colour})
        assert client.message().text == "2"
    for name in ("A", "B"):
        client.subscribe(f"/queue/V.{name}.NEWS", id=f"all {name}")
    client.send("SEND", {"destination": NEWS, "persistent": "true"}, "3")
    assert "There are 2 copies" in client.error().headers["message"]


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_a_queue_that_comes_before_the_commit_gets_what_that_sends(
    address: Address, open_client: OpenClient, persistent: str
) -> None:
    client = open_client(address)
    client.done("BEGIN", {"transaction": "t"})
    headers = {"destination": "/topic/VirtualTopic.X", "persistent": persistent, "transaction": "t"}
    client.done("SEND", headers, "x")
    known(client, "/queue/Consumer.A.VirtualTopic.X")
    client.done("COMMIT", {"transaction": "t"})
    assert rest(client, "Consumer.A.VirtualTopic.X") == [["x"]]


def test_a_branch_goes_where_its_first_phase_has_found(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    """Persistent or not: who wanted it may be gone, and who came afterwards gets none of it."""
    address = start_broker(sqlite_store, virtual=AWARE, bind="auto://127.0.0.1:0")
    xid = XATransactionId(1, b"global", b"branch")
    client = open_client(address)
    client.subscribe("/queue/V.A.NEWS", id="a")
    with OpenWireClient(address) as jms:
        jms.ask(TransactionInfo(transaction_id=xid, type=0))
        for is_persistent in (True, False):
            message = jms.message(Topic("NEWS"), str(is_persistent))
            message.persistent, message.transaction_id = is_persistent, xid
            jms.ask(message)
        jms.ask(TransactionInfo(transaction_id=xid, type=1))
        client.done("UNSUBSCRIBE", {"id": "a"})
        client.subscribe("/queue/V.B.NEWS", id="b")
        jms.ask(TransactionInfo(transaction_id=xid, type=3))
    assert client.is_silent(0.1)
    assert sorted(client.rest_of("/queue/V.A.NEWS")) == ["False", "True"]


def test_a_message_that_is_made_ready_in_slices_goes_where_it_was_to_go_then(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    brokers: list[Broker],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who wanted the messages of a transaction goes in between: those that were made ready are for him."""
    monkeypatch.setattr(slices, "SLICE_S", 0.0)
    client, reader = (open_client(address) for address in [start_broker(sqlite_store, virtual=AWARE)] * 2)
    reader.subscribe("/queue/V.A.NEWS")
    client.done("BEGIN", {"transaction": "t"})
    for number in range(PREPARED_LEAST):
        client.send("SEND", {"destination": NEWS, "persistent": "true", "transaction": "t"}, str(number))
    client.done("BEGIN", {"transaction": "all are there"})
    go_on, parked = slices.Slices._go_on, SimpleQueue[Callable[[], None]]()
    turns = count()

    def parking(self: slices.Slices, job: Iterator[None], done: Callable[[], object]) -> None:
        if next(turns) == PREPARED_LEAST // 2:
            parked.put(partial(go_on, self, job, done))
        else:
            go_on(self, job, done)

    monkeypatch.setattr(slices.Slices, "_go_on", parking)
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    rest_of_job = parked.get(timeout=60)
    reader.done("UNSUBSCRIBE", {"id": "1"})
    brokers[0].loop.call_soon_threadsafe(rest_of_job)
    assert client.frame().headers["receipt-id"] == "committed"
    assert brokers[0].memory.uncommitted == 0
    made_ready = client.rest_of("/queue/V.A.NEWS")
    assert 0 < len(made_ready) < PREPARED_LEAST
    assert made_ready == [str(number) for number in range(len(made_ready))]


WAYS = {
    "persistent": {"persistent": "true"},
    "not persistent": {},
    "numbered": {"persistent": "true", "producer-id": "till", "producer-sequence": "1"},
    "in a transaction": {"persistent": "true", "transaction": "t"},
    "in a transaction, not persistent": {"transaction": "t"},
    "scheduled": {"persistent": "true", "AMQ_SCHEDULED_DELAY": "1"},
    "expired": {"persistent": "true", "expires": "1"},
}


@pytest.mark.parametrize("destination", [NEWS, f"{NEWS},/queue/SENT"])
@pytest.mark.parametrize("way", WAYS)
def test_where_a_message_goes_is_found_once(
    start_broker: StartBroker,
    open_client: OpenClient,
    sqlite_store: PersistenceAdapter,
    monkeypatch: pytest.MonkeyPatch,
    way: str,
    destination: str,
) -> None:
    """Whatever its limits, its size, its topics that are not there yet, its copies and its commit want to know."""
    found: Counter[Destination | None] = Counter()
    find = Interceptors.route

    def counted(self: Interceptors, message: Message) -> Route:
        found[message.destination] += 1
        return find(self, message)

    address = start_broker(sqlite_store, virtual=replace(AWARE, composites=DECLARED.composites))
    monkeypatch.setattr(Interceptors, "route", counted)
    client = open_client(address)
    client.subscribe("/queue/V.A.NEWS", selector="TRUE")
    client.subscribe("/queue/ActiveMQ.DLQ", id="dead")
    if "transaction" in WAYS[way]:
        client.done("BEGIN", {"transaction": "t"})
    client.done("SEND", {"destination": destination, **WAYS[way]}, "x")
    if "transaction" in WAYS[way]:
        client.done("COMMIT", {"transaction": "t"})
    assert client.message().text == "x"
    sent = {name: count for name, count in found.items() if name != Queue("ActiveMQ.DLQ") and not _is_advisory(name)}
    assert sent == dict.fromkeys([Topic("NEWS"), Queue("SENT")][: len(destination.split(","))], 1)


def _is_advisory(destination: Destination | None) -> bool:
    return destination is not None and destination.is_advisory


def test_who_may_send_to_a_composite_needs_no_right_to_create_it(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    authorization = AuthorizationMap(
        entries=(AuthorizationEntry(pattern=Queue("SENT"), write=frozenset({"sellers"})),), default=None, temporary=None
    )
    users = {"users": {"bob": "b"}, "groups": {"sellers": "bob"}}
    client = open_client(
        start_broker(virtual=DECLARED, authorization=authorization, **users), login="bob", passcode="b"
    )
    client.publish(SENT, "1")
    assert "not authorized" in client.request("SEND", {"destination": "/queue/A"}, "x").headers["message"]


def test_advisories_go_to_composites_and_not_to_virtual_topics(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    declared = VirtualDestinations(
        virtual_topics=(VirtualTopic(name=Topic(">"), prefix="V.*."),),
        composites=(composite(Topic("ActiveMQ.Advisory.Queue"), Queue("ADVISED"), stays=True),),
    )
    client, advised = (open_client(address) for address in [start_broker(virtual=declared)] * 2)
    known(client, "/queue/V.A.ActiveMQ.Advisory.Queue")
    known(client, "/queue/V.A.NEWS")
    client.publish("/queue/NEW", "1")
    client.publish("/topic/NEWS", "2")
    advised.subscribe("/queue/ADVISED")
    assert advised.message().headers["original-destination"] == "/topic/ActiveMQ.Advisory.Queue"
    assert rest(client, "V.A.ActiveMQ.Advisory.Queue", "V.A.NEWS") == [[], ["2"]]


def test_an_advisory_that_is_forwarded_tells_nothing_of_itself(
    start_broker: StartBroker, open_client: OpenClient, brokers: list[Broker]
) -> None:
    """Otherwise each of those who cannot keep up with what they are told makes the others lose more, and so on."""
    policy = DestinationPolicy(
        pending_limit="constant",
        pending_messages_max=1,
        advisory_for_discarding_messages=True,
        advisory_for_delivery=True,
        send_advisory_if_no_consumers=True,
    )
    told = composite(Topic("ActiveMQ.Advisory.>"), Topic("AUDIT"))
    client = open_client(start_broker(virtual=VirtualDestinations(composites=(told,)), policies=[policy]))
    for number in range(6):
        client.subscribe("/topic/AUDIT", "client", id=str(number), **{"activemq.prefetchSize": "1"})
    published = brokers[0].topics[Topic("AUDIT")].published
    for number in range(5):
        client.publish("/topic/T", str(number), persistent="false")
    client.done("SEND", {"destination": "/topic/AUDIT", "persistent": "false"})
    assert brokers[0].topics[Topic("AUDIT")].published - published < 100


def test_a_wildcard_makes_queues_of_declared_virtual_topics_known(
    start_broker: StartBroker, open_client: OpenClient
) -> None:
    news = VirtualTopic(name=Topic("NEWS.*"), prefix="V.*.for.", postfix=".Q")
    declared = VirtualDestinations(virtual_topics=(news,))
    client, consumer = (open_client(address) for address in [start_broker(virtual=declared)] * 2)
    consumer.subscribe("/queue/V.A.for.>")
    for pattern in ("V.*.for.>", "V.>", "W.A.for.>"):
        known(client, f"/queue/{pattern}")
    client.publish("/topic/NEWS.x", "1")
    assert consumer.message().headers["destination"] == "/queue/V.A.for.NEWS.x.Q"
    client.publish("/topic/VirtualTopic.x", "the default stays")
    assert consumer.is_silent(0.1)


def test_every_queue_has_a_mirror(start_broker: StartBroker, open_client: OpenClient) -> None:
    declared = VirtualDestinations(mirrored_queue=MirroredQueue(use_temp_mirrored_queues=False))
    client = open_client(start_broker(virtual=declared))
    known(client, "/queue/Consumer.A.VirtualTopic.Mirror.Q")
    client.publish("/queue/Q", "1")
    client.subscribe("/temp-queue/x", id="t")
    client.publish("/temp-queue/x", "2")
    assert client.message().text == "2"
    assert rest(client, "Q", "Consumer.A.VirtualTopic.Mirror.Q") == [["1"]] * 2
    client.publish(f"/queue/{'x' * 240}", "a topic of that name cannot be")


TOML = """
[broker]
bind = "127.0.0.1:{port}"
[store]
url = "sqlite:///{folder}/store.db"
[virtual_topics."ORDERS.>"]
prefix = "V.*."
[composites."queue://SENT"]
forward_to = ["queue://A", {{ destination = "queue://B", selector = "size = 'large'" }}]
"""


def test_an_empty_queue_of_a_declared_virtual_topic_is_known_after_a_restart(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "broker.toml").write_text(TOML.format(port=port, folder=tmp_path))
    broker = BrokerProcess(None, tmp_path, "--config", str(tmp_path / "broker.toml"))
    with broker, Client(("127.0.0.1", port)) as client:
        client.connect()
        known(client, "/queue/V.A.ORDERS.x")
    with broker, Client(("127.0.0.1", port)) as client:
        client.connect()
        client.publish("/topic/ORDERS.x", "1")
        client.publish(SENT, "2", size="large")
        client.publish(SENT, "3", size="small")
        assert rest(client, "V.A.ORDERS.x", "A", "B") == [["1"], ["2", "3"], ["2"]]


@pytest.mark.parametrize(
    "composites",
    [
        (composite(Queue("A"), Queue("A"), stays=True),),
        (composite(Queue("A.>"), Queue("A.b")),),
        (composite(Queue("A"), Queue("B")), composite(Queue("B"), Topic("C")), composite(Topic("*"), Queue("A"))),
    ],
)
def test_composites_do_not_forward_in_a_circle(composites: tuple[CompositeDestination, ...]) -> None:
    with pytest.raises(ConfigurationError, match="in a circle: from"):
        VirtualDestinations(composites=composites)


class Slow:
    """A selector that takes its time."""

    def matches(self, message: Message) -> bool:
        """Take some milliseconds."""
        time.sleep(0.005)
        return True


@pytest.mark.parametrize("persistent", ["true", "false"])
def test_nobody_waits_while_selectors_are_asked_for_a_transaction(
    start_broker: StartBroker, open_client: OpenClient, persistent: str
) -> None:
    slow = ForwardTo(destination=Queue("A"), selector=cast(Selector, Slow()))
    address = start_broker(virtual=VirtualDestinations(composites=(composite(Queue("SENT"), slow),)))
    client, other = open_client(address), open_client(address)
    client.done("BEGIN", {"transaction": "t"})
    for _ in range(100):
        client.send("SEND", {"destination": SENT, "persistent": persistent, "transaction": "t"})
    client.done("BEGIN", {"transaction": "all are there"})
    client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
    waits_s = []
    while not client.has_frame():
        began_s = time.monotonic()
        other.publish("/queue/B", "x")
        waits_s.append(time.monotonic() - began_s)
        if client.has_come():
            client.take_in()
    assert client.frame().headers["receipt-id"] == "committed"
    assert len(waits_s) > 10
    assert max(waits_s) < 0.3  # not the half of a second that all of them take
    assert len(client.rest_of("/queue/A")) == 100


def test_nobody_waits_while_selectors_are_asked_for_a_branch(
    start_broker: StartBroker, open_client: OpenClient, sqlite_store: PersistenceAdapter
) -> None:
    slow = ForwardTo(destination=Queue("A"), selector=cast(Selector, Slow()))
    virtual = VirtualDestinations(composites=(composite(Queue("SENT"), slow),))
    address = start_broker(sqlite_store, virtual=virtual, bind="auto://127.0.0.1:0")
    xid, other, waits_s = XATransactionId(1, b"global", b"branch"), open_client(address), list[float]()
    with OpenWireClient(address) as jms, ThreadPoolExecutor(1) as pool:
        jms.ask(TransactionInfo(transaction_id=xid, type=0))
        for number in range(100):
            message = jms.message(Queue("SENT"), str(number))
            message.transaction_id = xid
            jms.ask(message)
        prepared = pool.submit(jms.ask, TransactionInfo(transaction_id=xid, type=1))
        while not prepared.done():
            began_s = time.monotonic()
            other.publish("/queue/B", "x")
            waits_s.append(time.monotonic() - began_s)
        prepared.result()
        jms.ask(TransactionInfo(transaction_id=xid, type=3))
    assert len(waits_s) > 10
    assert max(waits_s) < 0.3  # not the half of a second that all of them take
    assert other.rest_of("/queue/A") == [str(number) for number in range(100)]


@pytest.mark.parametrize("order", [1, -1])
def test_a_message_is_not_forwarded_for_ever(start_broker: StartBroker, open_client: OpenClient, order: int) -> None:
    composites = [composite(Queue(f"Q.{number}"), Queue(f"Q.{number + 1}")) for number in range(1001)][::order]
    with pytest.raises(ConfigurationError, match="forward to one another more than 100 times"):
        VirtualDestinations(composites=tuple(composites))
    allowed = [one for one in composites if one.name in {Queue(f"Q.{number}") for number in range(100)}]
    client = open_client(start_broker(virtual=VirtualDestinations(composites=tuple(allowed))))
    client.publish("/queue/Q.0", "1")
    assert client.rest_of("/queue/Q.100") == ["1"]


@pytest.mark.parametrize(("prefix", "postfix"), [("A.*", ""), (">.", ""), ("", "*.A"), ("A,B.", "")])
def test_a_virtual_topic_has_queues_of_possible_names(prefix: str, postfix: str) -> None:
    with pytest.raises(ConfigurationError, match=r"of the virtual topic topic://T is '"):
        VirtualTopic(name=Topic("T"), prefix=prefix, postfix=postfix)


def test_what_cannot_be_declared_is_told() -> None:
    for target in (Queue("A,B"), Queue("A.>")):
        with pytest.raises(ConfigurationError, match="cannot be forwarded to"):
            ForwardTo(destination=target)
    with pytest.raises(ConfigurationError, match="forwards nowhere"):
        CompositeDestination(name=Queue("A"), forward_to=())
    with pytest.raises(ConfigurationError, match="cannot be declared"):
        composite(Queue("A,B"), Queue("C"))
    with pytest.raises(ConfigurationError, match="no topic can be"):
        MirroredQueue(prefix="A,")


def test_no_mirror_or_copy_is_counted_where_there_is_none(start_broker: StartBroker, brokers: list[Broker]) -> None:
    start_broker()
    assert brokers[0].interceptors.is_idle
