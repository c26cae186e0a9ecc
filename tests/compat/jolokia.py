"""What Jolokia answers beside a real ActiveMQ: ``python -m tests.compat.jolokia`` asks it, and writes the answers down.

They are in ``tests/vectors/jolokia.json``, with which `tests.management.test_jolokia_answers` compares ours; so that
test needs no Java. Recording them anew needs ActiveMQ and, from Debian, ``libjolokia-core-java``.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any, Final

import click

from tests.compat.activemq import ACTIVEMQ_LIBRARIES, JAVA_LIBRARIES, NEEDED, SOURCES

__all__ = ["ANSWERS", "BROKER", "QUEUE", "REQUESTS", "ROOT", "settled"]

ANSWERS: Final = Path(__file__).parents[1] / "vectors" / "jolokia.json"
BROKER: Final = "b1"
ROOT: Final = f"org.apache.activemq:type=Broker,brokerName={BROKER}"
QUEUE: Final = f"{ROOT},destinationType=Queue,destinationName="
_ALL: Final = "org.apache.activemq:type=Broker,brokerName=*"

Request = dict[str, Any]
"""Of ``path`` by GET, or of ``body`` by POST."""


def _get(path: str) -> Request:
    return {"path": path}


def _post(body: Any) -> Request:
    return {"path": "", "body": body}


def _read(mbean: str, attribute: Any, **rest: Any) -> Request:
    return _post({"type": "read", "mbean": mbean, "attribute": attribute, **rest})


def _search(mbean: str, **rest: Any) -> Request:
    return _post({"type": "search", "mbean": mbean, **rest})


def _execute(mbean: str, operation: str, *arguments: Any) -> Request:
    return _post({"type": "exec", "mbean": mbean, "operation": operation, "arguments": list(arguments)})


def _on_bar(operation: str, *arguments: Any) -> Request:
    return _execute(f"{QUEUE}BAR", operation, *arguments)


_TWO: Final = "(java.lang.String,java.lang.String)"

REQUESTS: Final[list[Request]] = [
    _execute(ROOT, "addQueue(java.lang.String)", "BAR"),
    *(_on_bar("sendTextMessage(java.lang.String)", f"m{number}") for number in range(3)),
    _get("/version"),
    _get("/"),
    # KEDA, Zabbix's HTTP agent, Telegraf's jolokia2 input, Datadog: one attribute, several, all; of one MBean, of many
    _get(f"/read/{QUEUE}BAR/QueueSize"),
    _get(f"/read/{QUEUE}NONE/QueueSize"),
    _get(f"/read/{QUEUE}BAR/Nonsense"),
    _get(f"/read/{QUEUE}BAR/QueueSize,EnqueueCount"),
    _get(f"/read/{QUEUE}BAR"),
    _get(f"/read/{ROOT}"),
    _get(f"/read/{ROOT},service=Health/CurrentStatus"),
    _get(f"/read/{QUEUE}*/QueueSize"),
    _get(f"/read/{ROOT}/TotalProducerCount"),
    _get(f"/search/{QUEUE}*"),
    _get("/search/org.apache.activemq:type=Broker,*"),
    _search(_ALL),
    _search(f"{_ALL},destinationType=*,destinationName=*"),
    _search(f"{QUEUE}NO*"),
    _read(f"{QUEUE}BAR", ["QueueSize", "EnqueueCount"]),
    _read(f"{QUEUE}BAR", ["QueueSize"]),
    _read(f"{QUEUE}BAR", ["QueueSize", "Nonsense"]),
    _read(_ALL, ["BrokerName"]),
    _read(_ALL, "BrokerName"),
    _read(f"{QUEUE}NO*", "QueueSize"),
    _read(f"{QUEUE}*", "Nonsense"),
    # hawtio: canonicalNaming false, ignoreErrors true; list, in parts
    _search(_ALL, config={"canonicalNaming": False}),
    _read(_ALL, "BrokerName", config={"canonicalNaming": False}),
    _read(f"{QUEUE}BAR", "Nonsense", config={"ignoreErrors": True}),
    _read(f"{QUEUE}BAR", ["QueueSize", "Nonsense"], config={"ignoreErrors": True}),
    _read(ROOT, "Queues", path="0/objectName"),
    _get(f"/read/{ROOT}/Queues/0/objectName"),
    _post({"type": "list"}),
    _post({"type": "list", "path": f"org.apache.activemq/type=Broker,brokerName={BROKER}/attr/BrokerName"}),
    _post({"type": "list", "config": {"maxDepth": 1}}),
    _get("/list/nowhere"),
    _get("/list/org.apache.activemq/type=Broker,brokerName=nobody"),
    _get(f"/list/org.apache.activemq/type=Broker,brokerName={BROKER}/attr/Nope"),
    # what is no request
    _post(
        [
            {"type": "read", "mbean": f"{QUEUE}BAR", "attribute": "QueueSize"},
            {"type": "nonsense"},
            {"type": "version"},
        ]
    ),
    _post({"type": "nonsense"}),
    _post("nonsense"),
    _post({}),
    _get("/nonsense/x"),
    _get("/read/nonsense"),
    # operations
    _on_bar("browse()"),
    _on_bar("browse"),
    _on_bar("nonsense()"),
    _on_bar("purge()", "a"),
    _execute(f"{QUEUE}NONE", "purge()"),
    _on_bar(
        "sendTextMessage(java.util.Map,java.lang.String,java.lang.String,java.lang.String)", {"n": "x"}, "hi", "u", "p"
    ),
    _on_bar(f"moveMatchingMessagesTo{_TWO}", "n = 'x'", "FOO"),
    _on_bar(f"copyMatchingMessagesTo{_TWO}", "", "FOO"),
    _on_bar("removeMatchingMessages(java.lang.String)", "n = 'y'"),
    _on_bar("removeMatchingMessages(java.lang.String)", "n = = 'y'"),
    _on_bar("removeMessage(java.lang.String)", "ID:nobody"),
    _on_bar("retryMessages()"),
    _on_bar("pause()"),
    _get(f"/read/{QUEUE}BAR/Paused"),
    _on_bar("resume()"),
    _get(f"/exec/{QUEUE}BAR/purge()"),
    _get(f"/read/{QUEUE}BAR/QueueSize"),
    _on_bar("purge"),
    _execute(ROOT, "addTopic(java.lang.String)", "T"),
    _get(f"/search/{ROOT},destinationType=Topic,destinationName=T"),
    _execute(ROOT, "removeTopic(java.lang.String)", "T"),
    _execute(ROOT, "removeQueue(java.lang.String)", "BAR"),
    _execute(ROOT, "removeQueue(java.lang.String)", "NOBODY"),
    _get(f"/search/{QUEUE}BAR"),
    # names that a name of an MBean cannot have
    _execute(ROOT, "addQueue(java.lang.String)", "A/B"),
    _get(f"/read/{QUEUE}A!/B/QueueSize"),
    _execute(ROOT, "addQueue(java.lang.String)", "C:D=E"),
    _get(f"/search/{QUEUE}C*"),
    _read(f"{QUEUE}C_D&amp;E", "Name"),
]


def settled(answer: Any) -> Any:
    """An answer without what is different each time, and without MBeans of advisories and of the virtual machine."""
    if isinstance(answer, dict):
        return {
            key: settled(value)
            for key, value in answer.items()
            if key not in ("timestamp", "stacktrace", "DataDirectory") and not _is_left_out(key)
        }
    if isinstance(answer, list):
        return [settled(value) for value in answer if not _is_left_out(str(value))]
    return answer


def _is_left_out(name: str) -> bool:
    others = ("JMImplementation", "com.sun.", "java.", "jdk.", "jmx4perl", "jolokia")
    return "ActiveMQ.Advisory" in name or name.startswith(others)


@click.command(help=__doc__)
@click.option("--jars", default=JAVA_LIBRARIES, type=click.Path(path_type=Path), help="Where Jolokia is.")
def main(jars: Path) -> None:
    """Ask, and write."""
    libraries = [f"{ACTIVEMQ_LIBRARIES}/*", *(str(JAVA_LIBRARIES / f"{name}.jar") for name in NEEDED)]
    libraries += [str(jars / "jolokia-core.jar"), str(jars / "json-simple.jar")]
    with tempfile.TemporaryDirectory() as folder:
        class_path = os.pathsep.join([folder, *libraries])
        source = SOURCES / "jolokia" / "JolokiaAnswers.java"
        subprocess.run(["javac", "-nowarn", "-cp", class_path, "-d", folder, str(source)], check=True, timeout=300)
        asked = [
            {**request, "body": json.dumps(request["body"])} if "body" in request else request for request in REQUESTS
        ]
        done = subprocess.run(
            ["java", "-cp", class_path, "JolokiaAnswers", BROKER],
            input="".join(f"{json.dumps(request)}\n" for request in asked),
            stdout=subprocess.PIPE,
            text=True,
            cwd=folder,
            check=True,
            timeout=300,
        )
    answers = [json.loads(line) for line in done.stdout.splitlines() if line[:1] in ("{", "[")]
    told = [{**request, "answer": settled(answer)} for request, answer in zip(REQUESTS, answers, strict=True)]
    lines = ",\n".join(json.dumps(exchange) for exchange in told)
    ANSWERS.write_text(f"[\n{lines}\n]\n")


if __name__ == "__main__":
    main()
