"""Whatever a SEND says: if it is accepted, it is delivered, to all kinds of consumers, and after a restart."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from typing import NamedTuple

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st

from jdbcstore import Broker, BrokerOptions, open_store, running
from tests.broker.client import Address, Client, Frame
from tests.broker.test_dead_letters import DLQ, browsed
from tests.broker.test_scheduling import Wall, job_store
from tests.examples import examples
from tests.waiting import wait_until

A, T = "/queue/A", "/topic/T"
YEAR_MS = 366 * 86_400_000
INT, LONG = 1 << 31, 1 << 63
#: Everything of a message is looked at.
EVERYTHING = (
    "n IS NOT NULL AND (JMSPriority >= 0) AND (JMSTimestamp <> 0.5) AND (x IS NULL OR x = x OR x * 2 > 0 OR x LIKE '%')"
    " AND (JMSCorrelationID IS NULL OR JMSCorrelationID LIKE '%') AND (JMSType IS NULL OR JMSType <> 'no such')"
    " AND (JMSXGroupSeq IS NULL OR JMSXGroupSeq BETWEEN -2147483648 AND 2147483647)"
)


class Sent(NamedTuple):
    """What a SEND says, besides where it goes."""

    headers: dict[str, str]
    body: bytes
    is_counted: bool

    @property
    def is_persistent(self) -> bool:
        mode = self.headers.get("JMSDeliveryMode")
        return mode is None or mode in ("2", "PERSISTENT", "true")

    @property
    def is_scheduled(self) -> bool:
        asks = any(name.startswith("AMQ_SCHEDULED_") and name in SCHEDULED for name in self.headers)
        return asks and "scheduledJobId" not in self.headers

    def is_expired(self, sent_ms: int = 0, began_ms: int = 0) -> bool:
        """Whether its time is over when it is sent at this time, having been scheduled at that one."""
        expires = int(self.headers.get("expires", self.headers.get("JMSExpiration", "0")))
        timestamp = int(self.headers.get("timestamp", self.headers.get("JMSTimestamp", str(began_ms))))
        if expires > 0 and 0 < timestamp < sent_ms:
            expires += sent_ms - timestamp
        return 0 < expires < Broker.now_ms()


# -- what may be said ------------------------------------------------------------------------------------------------

SCHEDULED = ("AMQ_SCHEDULED_DELAY", "AMQ_SCHEDULED_PERIOD", "AMQ_SCHEDULED_REPEAT", "AMQ_SCHEDULED_CRON")
NUMBERS = st.sampled_from([0, 1, 4, 9, INT - 1, INT, 10 * YEAR_MS, LONG - 1, LONG]).flatmap(
    lambda number: st.sampled_from(
        [f"{number}", f"-{number}", f"-{number + 1}", f"+{number}", f"0{number}", f"{number}0000"]
    )
)
TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
LONG_TEXTS = st.sampled_from(
    ["x" * 9000, "\N{GRINNING FACE}" * 2000, "\t", " ", "true", "TRUE", "\\", "\\n:\r", "1e400"]
)
NAMES = st.sampled_from(
    [part for name in ["a", "topic://", "queue://b", "", "?x", " ", "*", ">", "temp-queue://t", "Q" * 300, ","]
     for part in (name, f"/queue/{name}", f"/topic/{name}", f"/temp-queue/{name}", f"/remote-temp-queue/{name}")]
)  # fmt: skip
DESTINATIONS = st.lists(NAMES, min_size=1, max_size=3).map(",".join)
MODES = st.sampled_from(["1", "2", "PERSISTENT", "NON_PERSISTENT", "true", ""])
FORMS = ["jms-map-json", "jms-map-xml", "jms-json", "jms-xml", "jms-object-json", "jms-byte", "x"]
CRONS = st.sampled_from(["* * * * *", "0 0 29 2 *", "*/5 1-3 * * 1,2", "60 * * * *", "* * 31 2 *", "x", ""])
VALUES = {
    **dict.fromkeys(("expires", "JMSExpiration", "timestamp", "JMSTimestamp", "priority", "JMSPriority"), NUMBERS),
    **dict.fromkeys(("JMSXGroupSeq", "JMSXDeliveryCount", *SCHEDULED[:3]), NUMBERS),
    **dict.fromkeys(("reply-to", "JMSReplyTo", "original-destination"), DESTINATIONS | TEXTS),
    **dict.fromkeys(("correlation-id", "JMSCorrelationID", "type", "JMSType", "JMSXGroupID"), TEXTS | LONG_TEXTS),
    **dict.fromkeys(
        ("JMSRedelivered", "redelivered", "JMSXUserID", "x", "ack", "subscription", "id"), TEXTS | NUMBERS | LONG_TEXTS
    ),
    **dict.fromkeys(("message-id", "scheduledJobId", "selector", "content-type", "transformation-error"), TEXTS),
    "JMSDeliveryMode": MODES,
    "AMQ_SCHEDULED_CRON": CRONS,
    "amq-msg-type": st.sampled_from(["text", "bytes", "TEXT", "map"]),
    "transformation": st.sampled_from(FORMS),
}
KNOWN = st.sampled_from(sorted(VALUES)).flatmap(lambda name: st.tuples(st.just(name), VALUES[name]))
OTHERS = st.tuples(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r\n:"), min_size=1, max_size=20),
    TEXTS | LONG_TEXTS,
)
#: Not headers of a message: they would change what the frame asks for, or what the client here takes it for.
NOT_SAID = {"destination", "persistent", "receipt", "transaction", "content-length", "producer-id", "browser", "n"}
HEADERS = st.lists(KNOWN | OTHERS, max_size=6).map(
    lambda pairs: {name: value for name, value in dict(pairs).items() if name not in NOT_SAID}
)
MAPS = st.sampled_from(
    [
        b'{"map":{"entry":[{"string":"a","int":3},{"string":["b","\\u0000"]}]}}',
        b'{"map":' * 200 + b'""' + b"}" * 200,
        b"<map><entry><string>a</string><double>NaN</double></entry></map>",
        b"<map>" + b"<entry><string>a</string><list>" * 120,
    ]
)
BODIES = st.binary(max_size=200) | TEXTS.map(str.encode) | MAPS
SENT = st.builds(Sent, HEADERS, BODIES, st.booleans()).map(
    lambda sent: sent if sent.is_counted else sent._replace(body=sent.body.replace(b"\0", b""))
)


# -- the test ----------------------------------------------------------------------------------------------------------


# What fails names the messages; to find a smaller example would take minutes of starting brokers.
@settings(
    max_examples=examples(2),
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(
    sent=st.lists(SENT, min_size=40, max_size=80),
    version=st.sampled_from(["1.0", "1.1", "1.2"]),
    form=st.sampled_from([None, *FORMS]),
)
@example(
    sent=[
        Sent({"reply-to": "/queue/topic://,/queue/b"}, b"", is_counted=False),
        Sent({"JMSReplyTo": "A,topic://"}, b"", is_counted=False),
        Sent({"AMQ_SCHEDULED_DELAY": "1", "expires": str(LONG - 1)}, b"", is_counted=False),
        Sent({"JMSXDeliveryCount": str(INT - 1)}, b"", is_counted=False),
    ],
    version="1.2",
    form=None,
)
@pytest.mark.filterwarnings("ignore:Generating overly large repr")
@pytest.mark.parametrize("kind", ["sqlite", "kahadb", "amq"])
def test_what_is_accepted_is_delivered(
    kind: str, tmp_path_factory: pytest.TempPathFactory, sent: list[Sent], version: str, form: str | None
) -> None:
    folder = tmp_path_factory.mktemp(kind)
    url = f"sqlite:///{folder / 'broker.db'}" if kind == "sqlite" else f"{kind}:{folder / 'broker'}"
    asked = {} if form is None else {"transformation": form}
    with serving(url) as (_, address), consumers(address, version, asked) as clients:
        began_ms = Broker.now_ms()
        accepted = publish(address, sent)
        now = {name for name, one in accepted.items() if not (one.is_scheduled or one.is_expired())}
        later = {name for name, one in accepted.items() if one.is_scheduled}  # or at once
        for client in clients:
            assert_between(now, received(client), now | later, accepted)
        shown = {frame.headers["n"]: frame for frame in looked_at(address, A)}
        assert_between(now, shown.keys() - {"end"}, now | later, accepted)
        for name in now:
            check(accepted[name], shown[name])
    with serving(url) as (broker, address):
        kept = {name for name in now if accepted[name].is_persistent}
        missing = {name for name in later if accepted[name].is_persistent}
        wall = Wall(broker)
        with consumers(address, version, asked) as clients:
            found = [received(client) for client in clients]
            for _ in range(6):  # an entry of a calendar may begin a series, and that be late, too
                missing = {
                    name for name in missing if not accepted[name].is_expired(broker.scheduler.now_ms(), began_ms)
                }
                if all(missing <= names for names in found):
                    break
                wall.move(11 * YEAR_MS)
                wait_until(lambda: not is_due(broker, wall))
                for client, names in zip(clients, found, strict=True):
                    while not client.is_silent(0.3):
                        names.add(client.message().headers["n"])
        for names in found:
            assert_between(kept | missing, names, kept | later, accepted)
        causes = [dead.headers["dlqDeliveryFailureCause"] for dead in looked_at(address, DLQ)]
        assert [cause for cause in causes if "Message Expired" not in cause] == []


def is_due(broker: Broker, wall: Wall) -> bool:
    """Whether the scheduler has something to send."""
    due_ms = job_store(broker.adapter).next_due_ms()
    return due_ms is not None and due_ms <= wall.now_ms


@contextmanager
def serving(url: str) -> Iterator[tuple[Broker, Address]]:
    broker = Broker(open_store(url), BrokerOptions(bind="127.0.0.1:0"))
    with running(broker) as address:
        yield broker, address


@contextmanager
def consumers(address: Address, version: str, asked: Mapping[str, str]) -> Iterator[list[Client]]:
    """One of the queue, one of the durable subscription. They take everything and acknowledge nothing."""
    with Client(address) as queue, Client(address) as durable:
        queue.connect(version)
        durable.connect(version, client_id="ann")
        many = {"activemq.prefetchSize": "1000", **asked}
        queue.subscribe(A, "client-individual", selector=EVERYTHING, **many)
        durable.subscribe(T, "client-individual", **{"activemq.subscriptionName": "news", **many})
        yield [queue, durable]
        durable.done("DISCONNECT")


def publish(address: Address, sent: list[Sent]) -> dict[str, Sent]:
    """Send everything to queue and topic. Returns what was accepted, by name."""
    accepted: dict[str, Sent] = {}
    with Client(address) as client:
        client.connect()
        for n, one in enumerate(sent):
            answers = [client.request("SEND", *frame(one, destination, f"m{n}")).command for destination in (A, T)]
            assert answers in (["RECEIPT"] * 2, ["ERROR"] * 2)
            if answers[0] == "RECEIPT":
                accepted[f"m{n}"] = one
        for destination in (A, T):
            client.publish(destination, "", n="end")
    return accepted


def frame(sent: Sent, destination: str, name: str) -> tuple[dict[str, str], bytes]:
    """The headers of a SEND as they are written, and its body."""
    counted = {"content-length": str(len(sent.body))} if sent.is_counted else {}
    said = dict(sent.headers)
    for character, escaped in (("\\", "\\\\"), ("\n", "\\n"), (":", "\\c"), ("\r", "\\r")):
        said = {name: value.replace(character, escaped) for name, value in said.items()}
    return {"destination": destination, "persistent": "true", "n": name, **counted, **said}, sent.body


def assert_between(
    least: Collection[str], found: Collection[str], most: Collection[str], accepted: Mapping[str, Sent]
) -> None:
    """Nothing is missing and nothing is too much."""
    assert {name: accepted[name] for name in {*least} - {*found}} == {}
    assert {name: accepted[name] for name in {*found} - {*most}} == {}


def received(client: Client) -> set[str]:
    """What a consumer is sent, up to the last message."""
    names = set()
    while (name := client.message().headers["n"]) != "end":
        names.add(name)
    return names


def looked_at(address: Address, destination: str) -> list[Frame]:
    """What a queue holds."""
    with Client(address) as client:
        client.connect()
        return browsed(client, destination)


def check(sent: Sent, shown: Frame) -> None:
    """A message says what its sender said, as far as nobody has another idea of it."""
    if "transformation" not in sent.headers:
        assert shown.body == sent.body or not (sent.is_counted or is_text(sent.body))
    for name, value in sent.headers.items():
        if name not in VALUES and "\\" not in name:
            assert shown.headers[name] == value


def is_text(body: bytes) -> bool:
    try:
        body.decode()
    except UnicodeDecodeError:
        return False
    return True
