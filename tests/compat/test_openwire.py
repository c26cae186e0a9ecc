"""Every command in every wire version and encoding: what ActiveMQ's marshallers write, we write, byte for byte.

One Java process reads our frames and writes its own, for connections with and without the object cache.
"""

from __future__ import annotations

import itertools
import json
import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from jdbcstore.destination import Destination
from jdbcstore.identifiers import BrokerId, ConnectionId, LocalTransactionId
from jdbcstore.message import BlobMessage, Message
from jdbcstore.openwire.commands import (
    ConsumerInfo,
    NetworkBridgeFilter,
    StackTraceElement,
    SubscriptionInfo,
    Throwable,
)
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import COMMANDS, VERSION_MAX, Kind
from tests.compat.activemq import quick_start
from tests.examples import examples
from tests.servers.server import ServerFailed
from tests.unit.openwire.test_openwire_round_trips import LEAVES, TABLES, values_of

CACHE_SIZE = 128
#: Values of each type, in each version with and without stack traces.
EXAMPLES = examples(2)
#: What connections begin with, and what brokers and clients of this decade agree on. The others are tried where there
#: is time.
USUAL = {1, 11, 12}


@dataclass
class Connection:
    """The frames of one connection, and the same commands as a store would hold them."""

    encoding: Encoding
    loose: list[bytes]
    frames: list[bytes]

    def asked(self) -> str:
        return json.dumps(
            {
                "version": self.encoding.version,
                "tight": self.encoding.tight,
                "cache": self.encoding.cached,
                "cacheSize": CACHE_SIZE,
                "stackTrace": self.encoding.stack_traces,
                "frames": [frame.hex() for frame in self.frames],
                "loose": [frame.hex() for frame in self.loose],
            }
        )


def java_would_keep(value: Any, stack_traces: bool) -> Any:
    """`value` without what Java's classes do not keep, or cannot hold in a cache."""
    if isinstance(value, tuple):
        return tuple(java_would_keep(element, stack_traces) for element in value)
    if isinstance(value, Throwable):
        return throwable(stack_traces)
    if isinstance(value, Destination):  # Java cuts off options, and splits composites
        return type(value).decoded("Q." + "".join(filter(str.isalnum, value.physical_name)))
    if type(value) not in TABLES:
        return value
    identifies = type(value) in LEAVES
    for part in TABLES[type(value)].fields:
        found = java_would_keep(getattr(value, part.name), stack_traces)
        if identifies and found is None and part.name != "text_view":
            found = {Kind.TEXT: "ID:1", Kind.BYTES: b"1"}.get(part.kind)
            if isinstance(value, LocalTransactionId):
                found = ConnectionId("ID:1")
        object.__setattr__(value, part.name, found)
    if isinstance(value, ConsumerInfo):
        value.network_consumer_path = value.network_consumer_path or None
        if value.additional_predicate is not None:
            value.additional_predicate = NetworkBridgeFilter(network_broker_id=BrokerId("ID:b"))
    elif isinstance(value, SubscriptionInfo):
        value.subscribed_destination = value.subscribed_destination or value.destination
    elif isinstance(value, Message):
        value.priority = min(max(value.priority, 0), 9)
        if isinstance(value, BlobMessage):
            value.mime_type = value.mime_type or "application/octet-stream"
    return value


def throwable(stack_traces: bool) -> Throwable:
    if not stack_traces:
        return Throwable(class_name="java.io.IOException", message="no such thing: \u00e9")
    stack = (
        StackTraceElement(class_name="a.B", method="c", file="B.java", line=7),
        StackTraceElement(class_name="a.D", method="<init>", file=None, line=-2),
    )
    cause = Throwable(class_name="javax.jms.JMSException", message="why", stack=stack[:1])
    return Throwable(class_name="java.io.IOException", message="what", stack=stack, cause=cause)


def connections(versions: Iterable[int]) -> Iterator[Connection]:
    """One for each encoding; those that differ in tight and cached alone carry the same values."""
    for version, stack_traces in itertools.product(versions, (False, True)):
        drawn = values(version, stack_traces)
        for tight, cached in itertools.product((False, True), repeat=2):
            encoding = Encoding(version, tight, cached, stack_traces)
            writer = ConnectionCodec(encoding, CACHE_SIZE)
            yield Connection(
                encoding,
                [ConnectionCodec(Encoding(version, stack_traces=stack_traces)).marshal(value) for value in drawn],
                [writer.marshal(value) for value in drawn],
            )


def values(version: int, stack_traces: bool) -> list[Any]:
    """Some values of every type that the version knows."""
    found = list[Any]()

    @settings(
        max_examples=EXAMPLES,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
        database=None,
        derandomize=True,  # Java's classes normalise more values than are known here: none may be met by chance
    )
    @given(data=st.data())
    def draw(data: st.DataObject) -> None:
        for command in COMMANDS:
            if command.since <= version:
                value = data.draw(values_of(command.cls, version, stack_traces, depth=2))
                found.append(java_would_keep(value, stack_traces))

    draw()
    return found


def ask(class_path: str, asked: list[Connection]) -> list[dict[str, Any]]:
    done = subprocess.run(
        ["java", *quick_start(class_path), "-cp", class_path, "Marshaller"],
        input="".join(connection.asked() + "\n" for connection in asked),
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    if done.returncode != 0:
        raise ServerFailed(f"Marshaller.java failed\n{done.stderr[-4000:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def differences(asked: list[Connection], answers: list[dict[str, Any]]) -> list[object]:
    found = list[object]()
    for connection, answer in zip(asked, answers, strict=True):
        if "error" in answer:
            found.append((connection.encoding, answer["error"]))
            continue
        for ours, theirs in ((connection.frames, answer["written"]), (connection.loose, answer["read"])):
            pairs = zip(ours, theirs, strict=True)
            found += [(connection.encoding, our.hex(), their) for our, their in pairs if our.hex() != their][:1]
    return found


@pytest.mark.parametrize(
    "versions", [USUAL, pytest.param({*range(1, VERSION_MAX + 1)} - USUAL, marks=pytest.mark.exhaustive)]
)
def test_java_reads_and_writes_the_same_bytes(class_path: str, versions: set[int]) -> None:
    asked = list(connections(sorted(versions)))
    assert len(asked) == 8 * len(versions)
    assert differences(asked, ask(class_path, asked)) == []
