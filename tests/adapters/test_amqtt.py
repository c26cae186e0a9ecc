"""amqtt with our plug-in: a real broker that is killed, clients of paho-mqtt and of amqtt."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import paho.mqtt.client as paho
import pytest
from amqtt.broker import Broker
from amqtt.client import MQTTClient
from amqtt.errors import PluginInitError
from paho.mqtt.enums import CallbackAPIVersion

from jdbcstore import Queue, open_store
from jdbcstore.adapters.amqtt.memory import BrokerMemory, Retained
from jdbcstore.adapters.producer import Producer
from tests.servers.server import CHECKOUT, free_port
from tests.waiting import wait_until

TIMEOUT_S = 60.0


class MqttBroker:
    """A broker on a store."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.port = free_port()
        self._log = folder / "amqtt.log"
        self.process: subprocess.Popen[bytes]

    def start(self) -> None:
        """Return when clients may connect."""
        self._log.write_text("")
        command = [sys.executable, "-W", "ignore", "-m", "tests.adapters.mqtt_broker", self.url, str(self.port)]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log, cwd=CHECKOUT)
        wait_until(lambda: "ready" in self._log.read_text() or self.process.poll() is not None)
        assert self.process.poll() is None, self._log.read_text()

    def end(self, number: signal.Signals) -> None:
        """By a signal."""
        self.process.send_signal(number)
        self.process.wait(TIMEOUT_S)

    def has(self, sessions: int, retained: int, queued: int) -> None:
        """Wait until so much is stored: amqtt confirms before its plug-ins know."""

        def is_so() -> bool:
            self.process.send_signal(signal.SIGUSR1)
            return f"committed {sessions} {retained} {queued}" == self._log.read_text().splitlines()[-1]

        wait_until(is_so, self._log.read_text)

    def restart(self) -> None:
        """``kill -9``, and again."""
        self.end(signal.SIGKILL)
        self.start()


@pytest.fixture(params=[pytest.param("sqlite", marks=pytest.mark.exhaustive), "kahadb"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Of a store: the plug-in knows the contract, not which one it is."""
    return f"sqlite:///{tmp_path / 'mqtt.db'}" if request.param == "sqlite" else f"kahadb:{tmp_path / 'mqtt'}"


@pytest.fixture
def broker(url: str, tmp_path: Path) -> Iterator[MqttBroker]:
    """It runs."""
    broker = MqttBroker(url, tmp_path)
    broker.start()
    yield broker
    if broker.process.poll() is None:
        broker.end(signal.SIGKILL)


class Client:
    """A client of paho-mqtt. A context manager that connects and disconnects."""

    def __init__(self, broker: MqttBroker, name: str, *, clean: bool = False) -> None:
        self.heard: list[tuple[str, bytes]] = []
        self.is_known = False
        self._port = broker.port
        self._connected = threading.Event()
        self.paho = paho.Client(CallbackAPIVersion.VERSION2, client_id=name, clean_session=clean)
        self.paho.username_pw_set(name, "secret")
        self.paho.on_connect = self._on_connect
        self.paho.on_message = lambda _, __, message: self.heard.append((message.topic, bytes(message.payload)))

    def _on_connect(self, client: Any, userdata: Any, flags: Any, reason: Any, properties: Any) -> None:
        self.is_known = flags.session_present
        self._connected.set()

    def __enter__(self) -> Client:
        self.paho.connect("127.0.0.1", self._port)
        self.paho.loop_start()
        assert self._connected.wait(TIMEOUT_S)
        return self

    def __exit__(self, *error: object) -> None:
        self.paho.disconnect()
        self.paho.loop_stop()

    def subscribe(self, topic: str, qos: int = 1) -> None:
        """Return when the broker has said so."""
        done = threading.Event()
        self.paho.on_subscribe = lambda *_: done.set()
        self.paho.subscribe(topic, qos)
        assert done.wait(TIMEOUT_S)

    def unsubscribe(self, topic: str) -> None:
        """Return when the broker has said so."""
        done = threading.Event()
        self.paho.on_unsubscribe = lambda *_: done.set()
        self.paho.unsubscribe(topic)
        assert done.wait(TIMEOUT_S)

    def publish(self, topic: str, data: bytes, qos: int = 1, *, retain: bool = False) -> None:
        """Return when the broker has confirmed it."""
        published = self.paho.publish(topic, data, qos, retain)
        published.wait_for_publish(TIMEOUT_S)
        assert published.is_published()


def stored(url: str, what: Callable[[BrokerMemory], Any]) -> Any:
    """Look into the store of a broker that has ended."""
    with open_store(url) as store:
        return what(BrokerMemory(store))


def rests(broker: MqttBroker, kind: str, expected: int) -> None:
    """A broker that ends has so many; amqtt tells nobody when a plug-in has stored something."""
    broker.end(signal.SIGTERM)
    assert len(stored(broker.url, lambda memory: list(getattr(memory, kind)()))) == expected


@pytest.mark.parametrize(("url", "qos"), [("sqlite", 1), ("kahadb", 2)], indirect=["url"])
def test_messages_for_a_session_that_is_away_survive_a_kill(broker: MqttBroker, qos: int) -> None:
    with Client(broker, "reader") as reader:
        reader.subscribe("orders/#", qos)
    bodies = [bytes([0xFF, n]) for n in range(200)]  # no UTF-8
    with Client(broker, "writer", clean=True) as writer:
        for body in bodies:
            writer.publish("orders/new", body, qos)
    broker.has(1, 0, 200)
    broker.restart()
    with Client(broker, "reader") as reader:
        wait_until(lambda: len(reader.heard) >= 200, lambda: str(len(reader.heard)))
        assert sorted(body for _, body in reader.heard) == sorted(bodies)
    rests(broker, "queued", 0)


def test_subscriptions_survive_a_kill_and_end_with_unsubscribe(broker: MqttBroker) -> None:
    with Client(broker, "reader") as reader:
        reader.subscribe("kept")
        reader.subscribe("dropped")
        reader.unsubscribe("dropped")
        reader.publish("last", b"1", retain=True)
    broker.has(1, 1, 0)
    broker.restart()
    with Client(broker, "reader") as reader, Client(broker, "writer", clean=True) as writer:
        writer.publish("dropped", b"no")
        writer.publish("kept", b"yes")
        wait_until(lambda: reader.heard)
        assert reader.heard == [("kept", b"yes")]


def test_retained_messages_are_the_last_ones(broker: MqttBroker) -> None:
    with Client(broker, "writer", clean=True) as writer:
        writer.publish("state/a", b"gone", retain=True)
        writer.publish("state/a", b"", retain=True)
        for value in (b"1", b"2", b"\xff3"):
            writer.publish("state/b", value, retain=True)
        writer.publish("state/c", b"4", retain=True)
    broker.has(0, 2, 0)
    broker.restart()
    with Client(broker, "reader", clean=True) as reader:
        reader.subscribe("state/#")
        wait_until(lambda: len(reader.heard) >= 2)
        assert sorted(reader.heard) == [("state/b", b"\xff3"), ("state/c", b"4")]
    rests(broker, "retained", 2)


def test_a_clean_session_forgets_what_was_known(broker: MqttBroker) -> None:
    with Client(broker, "reader") as reader:
        reader.subscribe("orders")
    with Client(broker, "writer", clean=True) as writer:
        writer.publish("orders", b"1")
    with Client(broker, "reader", clean=True):
        pass
    rests(broker, "sessions", 0)
    assert stored(broker.url, lambda memory: list(memory.queued())) == []


def test_a_session_is_stored_once_whatever_happens_to_it(broker: MqttBroker) -> None:
    for _ in range(3):
        with Client(broker, "reader") as reader:
            for topic in ("a", "b", "c"):
                reader.subscribe(topic)
    broker.end(signal.SIGTERM)
    sessions = stored(broker.url, lambda memory: list(memory.sessions()))
    assert [(session["client_id"], session["subscriptions"]) for session in sessions] == [
        ("reader", {"a": 1, "b": 1, "c": 1})
    ]


def test_amqtts_own_client_gets_what_it_missed(broker: MqttBroker) -> None:
    async def session(*, subscribes: bool, wants: int) -> list[bytes]:
        client = MQTTClient(client_id="reader", config={"auto_reconnect": False})
        await client.connect(f"mqtt://reader:secret@127.0.0.1:{broker.port}/", cleansession=False)
        if subscribes:
            await client.subscribe([("orders", 1)])
        heard = []
        for _ in range(wants):
            message = await client.deliver_message(timeout_duration=TIMEOUT_S)
            assert message is not None
            heard.append(bytes(message.data))
        await client.disconnect()
        return heard

    asyncio.run(session(subscribes=True, wants=0))
    with Client(broker, "writer", clean=True) as writer:
        for n in range(20):
            writer.publish("orders", str(n).encode())
    broker.has(1, 0, 20)
    broker.restart()
    assert sorted(asyncio.run(session(subscribes=False, wants=20))) == sorted(str(n).encode() for n in range(20))


class Watched(Broker):
    """Looks what it knows when it begins to listen."""

    known: tuple[int, int] | None = None

    async def _start_listeners(self) -> None:
        session = self._sessions.get("reader", (None, None))[0]
        self.known = (len(self._retained_messages), 0 if session is None else session.retained_messages.qsize())
        await super()._start_listeners()


def started(url: str) -> tuple[int, int] | None:
    """Start a broker on a store, and stop it; how many retained and queued messages it knew before clients came."""

    async def run() -> tuple[int, int] | None:
        broker = Watched(
            {
                "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{free_port()}"}},
                "plugins": {
                    "tests.adapters.mqtt_broker.AnyName": {},
                    "jdbcstore.adapters.amqtt.JdbcSessionPlugin": {"url": url},
                },
            }
        )
        await broker.start()
        await broker.shutdown()
        return broker.known

    return asyncio.run(run())


def test_everything_is_known_before_a_client_can_connect(url: str) -> None:
    session: dict[str, Any] = {"client_id": "reader", "subscriptions": {"a": 1}, "will_message": None}
    session |= {"will_flag": False, "will_qos": 0, "will_retain": False, "will_topic": None, "keep_alive": 60}
    with open_store(url) as store:
        memory = BrokerMemory(store)
        memory.put_session(session)
        memory.put_retained(Retained("a", b"1", 1))
        for client_id in ("reader", "reader", "nobody"):
            memory.put_queued(client_id, "a", b"2", 1)[1].result(TIMEOUT_S)
    assert started(url) == (1, 2)
    assert len(stored(url, lambda memory: list(memory.queued()))) == 2  # what was nobody's is removed


@pytest.mark.parametrize("kind", ["sessions", "retained", "queued"])
def test_a_broker_whose_memory_cannot_be_read_does_not_start(url: str, kind: str) -> None:
    queue = Queue(f"amqtt.{kind}")
    with open_store(url) as store:
        foreign = Producer("somebody").message(queue, "hello", {})
        store.queue_message_store(queue).add_message(foreign).result(TIMEOUT_S)
    with pytest.raises(PluginInitError) as refused:
        started(url)
    assert f"of queue://amqtt.{kind} is no" in str(refused.value.__cause__)
    with open_store(url) as store:
        assert store.queue_message_store(queue).message_count == 1
