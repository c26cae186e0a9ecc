"""Users and authorisation beside a real ActiveMQ: its map of entries, and one ``activemq.xml`` that starts both."""

from __future__ import annotations

import itertools
import random
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from jdbcstore.broker.security.authorization import Action, AuthorizationEntry, AuthorizationMap
from jdbcstore.destination import parse_destination
from tests.broker.client import Client
from tests.broker_process import BrokerProcess
from tests.compat.activemq import quick_start
from tests.compat.java_broker import JavaBroker
from tests.compat.oracle import differences
from tests.compat.test_jms_judge import changed, judged
from tests.servers.server import free_port

pytestmark = pytest.mark.timeout(400)

QUESTIONS = 3000

#: What ours tells Java clients otherwise, by the place in the check's answer.
OTHERWISE: dict[str, dict[str, object]] = {
    "receiving as bob": {  # a real one makes what a composite names without asking
        f"{kind} READ.A,READ.LATER": "throws javax.jms.JMSSecurityException: User bob is not authorized to create"
        for kind in ("queue", "topic")
    },
    "destinations are not removed by everybody": {  # a real one forgets to ask
        "0": "throws javax.jms.JMSSecurityException: User bob is not authorized to remove: queue://READ.A",
        "1": "throws javax.jms.JMSSecurityException: User bob is not authorized to remove: queue://WRITE.A",
    },
    "an asynchronous send that is denied": {"3": "done"},  # to receive from a queue that bob has removed there
    "a transaction with what is denied": {"2": "throws javax.jms.TransactionRolledBackException"},
}

FILE = """<beans xmlns="http://www.springframework.org/schema/beans" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"
    xsi:schemaLocation="http://www.springframework.org/schema/beans
      http://www.springframework.org/schema/beans/spring-beans.xsd
      http://activemq.apache.org/schema/core http://activemq.apache.org/schema/core/activemq-core.xsd">
  <broker xmlns="http://activemq.apache.org/schema/core" useJmx="false" persistent="false" schedulerSupport="false">
    <plugins>
      {authentication}
      <authorizationPlugin><map><authorizationMap>
        <authorizationEntries>
          <authorizationEntry queue=">" read="admins" write="admins" admin="admins"/>
          <authorizationEntry topic=">" read="admins" write="admins" admin="admins"/>
          <authorizationEntry queue="READ.>" read="users"/>
          <authorizationEntry topic="READ.>" read="users"/>
          <authorizationEntry queue="WRITE.*" write="users"/>
          <authorizationEntry queue="FREE.>" read="users" write="users" admin="users"/>
          <authorizationEntry queue="STAR" read="*" write="*" admin="*"/>
          <authorizationEntry topic="ActiveMQ.Advisory.>" read="*" write="*" admin="*"/>
        </authorizationEntries>
        <tempDestinationAuthorizationEntry><tempDestinationAuthorizationEntry read="temps" write="temps"
            admin="temps"/></tempDestinationAuthorizationEntry>
      </authorizationMap></map></authorizationPlugin>
    </plugins>
    <transportConnectors>
      <transportConnector name="stomp" uri="stomp://127.0.0.1:{port}"/>
      <transportConnector name="openwire" uri="tcp://127.0.0.1:{openwire_port}"/>
    </transportConnectors>
  </broker>
</beans>
"""
SIMPLE = """<simpleAuthenticationPlugin anonymousAccessAllowed="true" anonymousGroup="nobodies"><users>
  <authenticationUser username="admin" password="a" groups="admins,temps"/>
  <authenticationUser username="bob" password="b" groups="users"/>
  <authenticationUser username="lone" password="l" groups=""/>
</users></simpleAuthenticationPlugin>"""
JAAS = '<jaasAuthenticationPlugin configuration="activemq"/>'
LOGIN_CONFIG = """activemq {
  org.apache.activemq.jaas.GuestLoginModule sufficient credentialsInvalidate=true
    org.apache.activemq.jaas.guest.user="anonymous" org.apache.activemq.jaas.guest.group="nobodies";
  org.apache.activemq.jaas.PropertiesLoginModule requisite
    org.apache.activemq.jaas.properties.user="users.properties"
    org.apache.activemq.jaas.properties.group="groups.properties";
};
"""
LOGINS = [
    {"login": "admin", "passcode": "a"},
    {"login": "admin", "passcode": "wrong"},
    {"login": "nobody", "passcode": "a"},
    {"passcode": "a"},
    {},
]
#: Who does what, in this order. What admin did before is there.
STEPS = [
    ("admin", "SEND", {"destination": "/queue/READ.A"}),
    ("admin", "SEND", {"destination": "/queue/WRITE.A"}),
    ("admin", "SEND", {"destination": "/queue/OTHER"}),
    ("bob", "SEND", {"destination": "/queue/OTHER"}),
    ("bob", "SEND", {"destination": "/queue/READ.A"}),
    ("bob", "SEND", {"destination": "/queue/WRITE.A"}),
    ("bob", "SEND", {"destination": "/queue/WRITE.NEW"}),
    ("bob", "SEND", {"destination": "/queue/WRITE.A.B"}),
    ("bob", "SEND", {"destination": "/queue/FREE"}),
    ("bob", "SEND", {"destination": "/queue/FREE.NEW"}),
    ("bob", "SEND", {"destination": "/topic/READ.A"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/READ.A", "id": "1"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/READ.NEW", "id": "2"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/WRITE.A", "id": "3"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/OTHER", "id": "4", "browser": "true"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/>", "id": "5"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/OTHER.>", "id": "6"}),
    ("bob", "SUBSCRIBE", {"destination": "/topic/OTHER", "id": "7"}),
    ("bob", "SUBSCRIBE", {"destination": "/queue/READ.>", "id": "8"}),
    ("bob", "SEND", {"destination": "/queue/STAR"}),
    ("bob", "SUBSCRIBE", {"destination": "/temp-queue/x", "id": "9"}),  # ActiveMQ says two ERRORs: the last of bob
    ("lone", "SEND", {"destination": "/queue/STAR"}),
    ("lone", "SEND", {"destination": "/queue/OTHER"}),
    ("anonymous", "SEND", {"destination": "/queue/STAR"}),
    ("anonymous", "SEND", {"destination": "/queue/FREE.A"}),
    ("admin", "SUBSCRIBE", {"destination": "/temp-queue/x", "id": "1"}),
]
#: Whether a client asks what becomes of a SEND of a transaction that is refused: then it may leave it out.
REFUSED_IN_TRANSACTION: list[dict[str, str]] = [{}, {"receipt": "asked"}]


def test_the_same_groups_may_as_in_activemqs_map(class_path: str) -> None:
    chance = random.Random(14)
    words = ["A", "B", "C", "*", ">"]
    kinds = ["queue://", "topic://"]

    def name(most: int) -> str:
        parts: list[str] = []
        while not parts or (len(parts) < most and parts[-1] != ">" and chance.random() < 0.65):
            parts.append(chance.choice(words))
        return chance.choice(kinds) + ".".join(parts)

    questions = [
        [chance.choice(["-", "everywhere"]), name(4), *{name(4) for _ in range(chance.randint(0, 5))}]
        for _ in range(QUESTIONS)
    ]
    asked = "".join("\t".join(question) + "\n" for question in questions)
    done = subprocess.run(
        ["java", *quick_start(class_path), "-cp", class_path, "Authorization"],
        input=asked,
        capture_output=True,
        text=True,
        timeout=150,
        check=True,
    )
    answers = [frozenset(line.split()) for line in done.stdout.split("\n")[:-1]]
    assert len(set(answers)) > 10
    for question, answer in zip(questions, answers, strict=True):
        assert _groups(question) == answer, question


def _groups(question: list[str]) -> frozenset[str] | None:
    default, destination, *patterns = question
    return AuthorizationMap(
        entries=tuple(
            AuthorizationEntry(pattern=parse_destination(pattern), read=frozenset((f"g{number}",)))
            for number, pattern in enumerate(patterns)
        ),
        default=None if default == "-" else AuthorizationEntry(read=frozenset((default,))),
    ).groups(Action.READ, parse_destination(destination))


@pytest.mark.parametrize("authentication", [SIMPLE, JAAS], ids=["simple", "jaas"])
def test_both_let_in_and_deny_alike(class_path: str, tmp_path: Path, authentication: str) -> None:
    (tmp_path / "login.config").write_text(LOGIN_CONFIG)
    (tmp_path / "users.properties").write_text("admin=a\nbob=b\nlone=l\n")
    (tmp_path / "groups.properties").write_text("admins=admin\ntemps=admin\nusers=bob\n")
    port, openwire_port = free_port(), free_port()
    file = FILE.format(authentication=authentication, port=port, openwire_port=openwire_port)
    (tmp_path / "activemq.xml").write_text(file)

    def heard() -> tuple[list[str], dict[str, object]]:
        by_stomp = list(said(port))
        is_judged = authentication is SIMPLE  # the program asks for the users of that one
        return by_stomp, judged(class_path, "SecurityJudge", f"tcp://127.0.0.1:{openwire_port}") if is_judged else {}

    def heard_of_activemq() -> tuple[list[str], dict[str, object]]:
        with JavaBroker(class_path, tmp_path, port, f"-Djava.security.auth.login.config={tmp_path}/login.config"):
            by_stomp, to_java = heard()
        return by_stomp, {check: changed(check, result, OTHERWISE) for check, result in to_java.items()}

    theirs, theirs_to_java = heard_of_activemq()
    with BrokerProcess(None, tmp_path, "--config", str(tmp_path / "activemq.xml")):
        ours, ours_to_java = heard()
    told = [
        f"{step}: ActiveMQ {their!r}, ours {our!r}"
        for step, their, our in zip(itertools.chain(LOGINS, STEPS, REFUSED_IN_TRANSACTION), theirs, ours, strict=True)
        if their != our
    ]
    assert told == [], "\n".join(told)
    found = differences(
        ours_to_java,
        theirs_to_java,
        lambda _: heard_of_activemq()[1],
        is_answer=lambda result: "check ended" not in str(result),
    )
    assert not found, found


def answer_to(login: dict[str, str], port: int) -> str:
    """What a broker answers to a login. A real ActiveMQ may close the connection before its ERROR has left."""
    for _ in range(20):
        with Client(("127.0.0.1", port)) as client, suppress(ConnectionError):
            answer = client.connect(**login)
            return answer.command if answer.command == "CONNECTED" else answer.headers["message"]
    raise ConnectionError(f"closed at each login of {login}")


def said(port: int) -> Iterator[str]:
    """What a broker answers to each login and each step."""
    for login in LOGINS:
        yield answer_to(login, port)
    with ExitStack() as stack:
        clients: dict[str, Client] = {}
        for user, command, headers in STEPS:
            if user not in clients:
                clients[user] = stack.enter_context(Client(("127.0.0.1", port)))
                login = {} if user == "anonymous" else {"login": user, "passcode": user[0]}
                answer = clients[user].connect(**login)
                assert answer.command == "CONNECTED", (user, answer)
            answer = clients[user].request(command, headers, "x" if command == "SEND" else b"")
            # Of a temporary destination ActiveMQ says both in any order, that it cannot be created and not be read.
            text = answer.headers.get("message", answer.command)
            text = re.sub(r"(create|read from): temp-queue://ID:\S+", "use: temp-queue", text)
            yield text.replace("User null", "User anonymous")  # what ActiveMQ calls a guest of JAAS
    for receipt in REFUSED_IN_TRANSACTION:
        yield answer_to_commit(port, receipt)


def answer_to_commit(port: int, receipt: dict[str, str]) -> str:
    """What a broker answers to the COMMIT of a transaction in which it has refused a SEND."""
    with Client(("127.0.0.1", port)) as client:
        client.connect(login="bob", passcode="b")
        client.send("BEGIN", {"transaction": "t"})
        client.send("SEND", {"destination": "/queue/FREE.B", "transaction": "t", "persistent": "true"}, "allowed")
        client.send("SEND", {"destination": "/queue/OTHER", "transaction": "t", **receipt}, "denied")
        client.send("COMMIT", {"transaction": "t", "receipt": "committed"})
        while (frame := client.frame()).headers.get("receipt-id") != "committed":
            assert frame.command == "ERROR", frame
    with Client(("127.0.0.1", port)) as client:
        client.connect(login="bob", passcode="b")
        return f"{frame.command}, {client.rest_of('/queue/FREE.B')}"
