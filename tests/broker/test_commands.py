"""The commands that look and try: send, receive, browse, stats; and how mistakes are told."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import shlex
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from jdbcstore import BytesMessage, MapMessage, MessageId, PersistenceAdapter, ProducerId, Queue, Topic, open_store
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.cli import run
from jdbcstore.console.stomp_client import StompClient
from jdbcstore.store.contract import SupportsTopics
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from jdbcstore.transport import conversation
from tests.broker.client import Address
from tests.broker.conftest import StartBroker

Capture = pytest.CaptureFixture[str]


def place(address: Address) -> str:
    return f"{address[0]}:{address[1]}"


@pytest.fixture
def url(tmp_path: Path, sqlite_store: PersistenceAdapter) -> str:
    """A store with messages in it."""
    with sqlite_store as store:
        orders = store.queue_message_store(Queue("ORDERS"))
        for number in range(1, 4):
            message = text_message(number, f"order {number} ü", destination=Queue("ORDERS"))
            message.properties = {"shop": "north", "count": 3}
            orders.add_message(message).result()
        producer = ProducerId("ID:other", 1, 1)
        other = BytesMessage(
            message_id=MessageId(producer, 1), producer_id=producer, destination=Queue("OTHER"), content=b"\x00\xff"
        )
        store.queue_message_store(Queue("OTHER")).add_message(other).result()
        with_map = MapMessage(message_id=MessageId(producer, 2), producer_id=producer, destination=Queue("OTHER"))
        with_map.body = {"a": 1}
        store.queue_message_store(Queue("OTHER")).add_message(with_map).result()
    return f"sqlite:///{tmp_path / 'broker.db'}"


def test_browse_shows_messages(url: str, capsys: Capture) -> None:
    assert run(["browse", url, "queue://ORDERS"]) == 0
    shown = capsys.readouterr().out
    assert [f"order {n} ü" in shown for n in (1, 2, 3)] == [True] * 3
    assert ":1:1:1" in shown.replace("\n", "")  # no emoji


def test_browse_speaks_json(url: str, capsys: Capture) -> None:
    assert run(["browse", url, "ORDERS", "--json", "--limit", "2"]) == 0
    first, second = (json.loads(line) for line in capsys.readouterr().out.splitlines())
    assert (first["body"], second["body"]) == ("order 1 ü", "order 2 ü")
    assert (first["properties"], first["kind"], first["destination"]) == (
        {"shop": "north", "count": "3"},
        "text",
        "queue://ORDERS",
    )


def test_browse_shows_other_kinds(url: str, capsys: Capture) -> None:
    assert run(["browse", url, "OTHER", "--json"]) == 0
    assert [json.loads(line)["body"] for line in capsys.readouterr().out.splitlines()] == ["00ff", "{a=1}"]


def test_browse_of_nothing_says_so(url: str, capsys: Capture) -> None:
    assert run(["browse", url, "queue://NOBODY"]) == 1
    assert "there is no message in queue://NOBODY, and no other trace of it" in capsys.readouterr().err


def test_browse_of_a_misspelt_queue_names_the_one_that_is_there(url: str, capsys: Capture) -> None:
    assert run(["browse", url, "queue://ODRERS", "--json"]) == 1
    told = capsys.readouterr()
    assert not told.out
    assert "did you mean queue://ORDERS?" in told.err


def test_stats_counts(url: str, capsys: Capture) -> None:
    assert run(["stats", url, "--json"]) == 0
    rows = {row["destination"]: row for row in json.loads(capsys.readouterr().out)}
    assert (rows["queue://ORDERS"]["depth"], rows["queue://OTHER"]["depth"]) == (3, 2)
    assert rows["queue://ORDERS"]["bytes"] > 300
    assert rows["queue://ORDERS"]["oldest_age_s"] > 1_000_000
    assert run(["stats", url]) == 0
    assert "queue://ORDERS" in capsys.readouterr().out


def test_stats_shows_durable_subscriptions(url: str, capsys: Capture) -> None:
    with open_store(url) as store:
        assert isinstance(store, SupportsTopics)
        topic, empty = store.topic_message_store(Topic("T.a")), store.topic_message_store(Topic("U"))
        ann, bob = SubscriptionKey("ann", "news"), SubscriptionKey("bob", "x")
        topic.add_subscription(SubscriptionInfo(ann, Topic("T.a"), Topic("T.>"), "n > 1")).result()
        empty.add_subscription(SubscriptionInfo(bob, Topic("U"), Topic("U"))).result()
        for number in (1, 2, 3):
            message = text_message(number, destination=Topic("T.a"))
            topic.add_message(message).result()
        assert message.message_id is not None
        topic.acknowledge(ann, message.message_id).result()
    assert run(["stats", url, "--json"]) == 0
    rows = {row["destination"]: row for row in json.loads(capsys.readouterr().out)}
    subscription = {"client_id": "ann", "name": "news", "subscribed": "topic://T.>", "selector": "n > 1", "pending": 2}
    assert (rows["topic://T.a"]["depth"], rows["topic://T.a"]["subscriptions"]) == (3, [subscription])
    assert (rows["topic://U"]["depth"], rows["topic://U"]["subscriptions"][0]["pending"]) == (0, 0)
    assert rows["queue://ORDERS"]["subscriptions"] == []
    assert run(["stats", url]) == 0
    assert "n > 1" in capsys.readouterr().out


def test_send_and_receive(start_broker: StartBroker, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    address = place(start_broker(users={"admin": "secret"}))
    login = ["--login", "admin", "--passcode", "secret"]
    assert run(["send", address, "/queue/A", "hello", "world", "-H", "shop:north", "--count", "2", *login]) == 0
    assert run(["receive", address, "/queue/A", "--count", "1", *login]) == 0
    assert capfdbinary.readouterr().out == b"hello world\n"
    assert run(["receive", address, "/queue/A", "--browse", "--json", *login]) == 0
    shown = json.loads(capfdbinary.readouterr().out)
    assert (shown["headers"]["shop"], shown["headers"]["persistent"], shown["body"]) == ("north", "true", "hello world")
    assert run(["receive", address, "/queue/A", "--timeout", "5", *login]) == 0  # a machine may stand still for 3 s
    assert capfdbinary.readouterr().out == b"hello world\n"
    assert run(["receive", address, "/queue/A", "--timeout", "0.2", *login]) == 1
    assert b"nothing came" in capfdbinary.readouterr().err
    # By the name that all other commands have for it.
    assert run(["send", address, "queue://A", "again", *login]) == 0
    assert run(["receive", address, "/queue/A", "--count", "1", *login]) == 0
    assert run(["send", address, "topic://T,queue://A", "both", *login]) == 0
    assert run(["receive", address, "queue://B,queue://A", "--count", "1", *login]) == 0
    assert capfdbinary.readouterr().out == b"again\nboth\n"


PROGRAM = [sys.executable, "-m", "jdbcstore"]


def without_terminal(*arguments: str, text: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*PROGRAM, *arguments],
        input=text,
        capture_output=True,
        text=True,
        timeout=100,
        start_new_session=True,
        check=False,
    )


def test_a_passcode_comes_from_a_file_or_a_pipe(start_broker: StartBroker, tmp_path: Path) -> None:
    address = place(start_broker(users={"admin": "secret"}))
    file = tmp_path / "secret"
    file.write_text("secret\n")
    sent = without_terminal("send", address, "/queue/A", "--login", "admin", "--passcode-file", str(file), text="piped")
    assert sent.returncode == 0, sent
    got = without_terminal(
        "receive", address, "/queue/A", "--count", "1", "--login", "admin", "--passcode-file", "-", text="secret\n"
    )
    assert got.stdout == "piped\n", got


def test_a_passcode_that_nobody_can_be_asked_for_is_told(start_broker: StartBroker) -> None:
    address = place(start_broker(users={"admin": "secret"}))
    missing = without_terminal("send", address, "/queue/A", "hello", "--login", "admin", text="secret\n")
    assert (missing.returncode, "--passcode-file" in missing.stderr) == (2, True)
    both = without_terminal("send", address, "/queue/A", "--login", "admin", "--passcode-file", "-", text="secret\n")
    assert (both.returncode, "cannot be both" in both.stderr) == (2, True)


def test_a_passcode_is_asked_for_on_the_terminal_while_the_message_is_piped(
    start_broker: StartBroker, capfd: pytest.CaptureFixture[str]
) -> None:
    address = place(start_broker(users={"admin": "secret"}))
    command = f"echo piped | {shlex.join(PROGRAM)} send {address} /queue/A --login admin"
    leader, follower = pty.openpty()
    with subprocess.Popen(
        ["sh", "-c", command],
        stdin=follower,
        stdout=follower,
        stderr=follower,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # the terminal is the session's
    ) as process:
        os.close(follower)
        shown = b""
        while b"Passcode:" not in shown:
            shown += os.read(leader, 1000)
        os.write(leader, b"secret\n")
        assert process.wait(100) == 0
        os.close(leader)
    assert run(["receive", address, "/queue/A", "--count", "1", "--login", "admin", "--passcode", "secret"]) == 0
    assert capfd.readouterr().out == "piped\n\n"


@pytest.mark.parametrize("count", [1, 3])
@pytest.mark.parametrize("slice_s", [SLICE_S, -1.0], ids=["as-usual", "time-is-always-over"])
def test_receive_takes_so_many_of_more_and_leaves_the_others_untouched(
    start_broker: StartBroker,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
    slice_s: float,
    count: int,
) -> None:
    """Also on a machine that is so busy that a session's time is over after each thing that it is asked for."""
    monkeypatch.setattr(conversation, "SLICE_S", slice_s)
    address = place(start_broker())
    for number in range(12):
        assert run(["send", address, "/queue/A", str(number)]) == 0
    for first in range(0, 12, count):
        assert run(["receive", address, "/queue/A", "--count", str(count), "--json"]) == 0
        out, err = capfdbinary.readouterr()
        received = [json.loads(line) for line in out.splitlines()]
        assert [one["body"] for one in received] == [str(number) for number in range(first, first + count)]
        assert not any("redelivered" in one["headers"] for one in received)
        assert b"the broker says" not in err


def test_receive_takes_what_comes_before_its_receipt(
    start_broker: StartBroker, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    """The store may take its time with an acknowledgement while more is delivered."""
    host, port = start_broker()
    assert run(["send", f"{host}:{port}", "/queue/A", "x", "--count", "5"]) == 0
    with StompClient(host, port) as client:
        client.request("SUBSCRIBE", {"destination": "/queue/A", "id": "1", "ack": "client-individual"})
        first = client.expect("MESSAGE")
        client.request("ACK", {"id": first.headers["ack"]})
        assert [client.expect("MESSAGE").body for _ in range(4)] == [b"x"] * 4
        client.disconnect()


def test_a_refused_command_says_why_in_one_line(start_broker: StartBroker, capsys: Capture) -> None:
    address = place(start_broker(users={"admin": "secret"}))
    assert run(["send", address, "/queue/A", "x"]) == 1
    assert capsys.readouterr().err == "jdbcstore: the broker says: User name [null] or password is invalid.\n"


def test_a_port_for_openwire_is_told_from_one_that_is_broken(start_broker: StartBroker, capsys: Capture) -> None:
    address = place(start_broker(bind="openwire://127.0.0.1:0"))
    assert run(["send", address, "/queue/A", "x"]) == 1
    assert f"{address} speaks OpenWire, not STOMP" in capsys.readouterr().err


def test_what_is_no_store_is_named_and_not_shown_as_an_empty_one(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "notes.txt").touch()
    assert run(["stats", f"sqlite:///{tmp_path}"]) == 2
    assert f"{tmp_path} is a directory, and sqlite: names a file" in capsys.readouterr().err
    assert run(["stats", f"kahadb:{tmp_path}"]) == 2
    assert f"{tmp_path} is no KahaDB store: it holds no journal" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_nobody_there_is_said_in_one_line(capsys: Capture) -> None:
    assert run(["send", "127.0.0.1:1", "/queue/A", "x"]) == 1
    assert capsys.readouterr().err == "jdbcstore: no broker answers at 127.0.0.1:1 (Connection refused)\n"


def test_looking_into_a_store_that_is_not_there_creates_nothing(tmp_path: Path, capsys: Capture) -> None:
    for command in (["stats"], ["browse"]):
        arguments = [*command, f"sqlite:///{tmp_path}/none/x.db"] + (["queue://A"] if command == ["browse"] else [])
        assert run(arguments) == 2
        assert "there is no file" in capsys.readouterr().err
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["broker", "--bind", "nowhere"], "'nowhere' is not an address"),
        (["broker", "--url", "oracle://x"], "no store for oracle"),
        (["broker", "--user", "admin"], "--user needs LOGIN:PASSCODE"),
        (["broker", "--config", "nothing.toml"], "cannot read nothing.toml"),
        (["browse", "sqlite:///x.db", "topic://T"], "no queue"),
        (["send", "127.0.0.1:1", "/queue/A", "x", "-H", "none"], "--header needs NAME:VALUE"),
        (["send", "127.0.0.1", "/queue/A", "x"], "'127.0.0.1' is not an address: give HOST:PORT"),
        (["stats", "memory:"], "in memory"),
        (["nonsense"], "No such command"),
        (["brwse"], "No such command 'brwse', did you mean browse?"),
        (["broker", "--nonsense"], "No such option"),
    ],
)
def test_a_wrong_command_exits_with_2_and_says_what_is_wrong(
    arguments: list[str], complaint: str, capsys: Capture
) -> None:
    assert run(arguments) == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("command", [[], ["broker"], ["send"], ["receive"], ["browse"], ["stats"]])
def test_help_teaches_with_examples(command: list[str], capsys: Capture) -> None:
    assert run([*command, "--help"]) == 0
    assert "    jdbcstore " in capsys.readouterr().out
