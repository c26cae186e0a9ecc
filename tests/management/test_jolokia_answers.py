"""The requests of tools that know ActiveMQ, answered by us as Jolokia answered them beside a real ActiveMQ.

What it answered is in ``tests/vectors/jolokia.json``; `tests.compat.jolokia` has recorded it, and can do so again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import quote

from tests.compat.jolokia import ANSWERS, BROKER, settled
from tests.management.test_web import Served, served

#: Of whom the answer speaks, or when: anything goes that is of the same type.
_OWN: Final = {
    *(
        "BrokerId",
        "BrokerVersion",
        "JMSMessageID",
        "JMSTimestamp",
        "Uptime",
        "UptimeMillis",
        "agent",
        "product",
        "vendor",
    ),
    *("MemoryLimit", "MemoryUsageByteCount", "StoreLimit", "TempLimit", "TotalConnectionsCount"),
    *("Persistent", "TotalEnqueueCount"),  # it kept nothing, and counts advisories
    *("desc", "name", "ret"),  # of operations
}
#: What only we tell.
_ADDED: Final = {"Stopped", "TotalQueuesCount", "TotalTopicsCount"}
#: What is different on purpose: in which requests, where in the answer, and why.
_DELIBERATE: Final = (
    ('"browse"', "/", "a name without a signature is enough, although two operations have it"),
    ("retryMessages()", "/", "in a queue that is none for dead letters there is nothing to retry: 0, no error"),
    ("sendTextMessage", "/value", "each message has an id of its own"),
    (
        "browse()",
        "/value/",
        "JMX sends what is not persistent, with the lowest priority, unless told otherwise; ours is kept",
    ),
    ('[{"type"', "", "of many requests in one each has its answer, although one of them is nonsense"),
    ("n = = 'y'", "/error", "it is said what is wrong with the selector"),
    ("/read/nonsense", "/error", "it is said what is wrong with the name"),
    ('"attribute": "Nonsense"', "/error", "the pattern is named, not all that it covers"),
    ("brokerName=b1", "/value/TransportConnectors/stomp0", "it has listeners of its own"),
    ("Nope", "/error", "the whole path is named"),
    ("brokerName=nobody", "/error", "the whole path is named"),
    ('{"type": "list"}', "/value/", "attributes are longs, operations have no names of arguments"),
)


def test_answers_are_those_of_jolokia_beside_activemq() -> None:
    found: list[str] = []
    unseen = set(_DELIBERATE)
    with served(broker_name=BROKER) as broker:
        for exchange in json.loads(ANSWERS.read_text()):
            asked = exchange["path"] or json.dumps(exchange["body"])
            allowed = [known for known in _DELIBERATE if known[0] in asked]
            for difference in _differences(exchange["answer"], settled(_answer(broker, exchange))):
                reasons = [known for known in allowed if difference.startswith(known[1])]
                unseen -= set(reasons)
                found += [] if reasons else [f"{asked[:150]}: {difference}"]
    assert found == []
    assert unseen == set()


def _answer(broker: Served, exchange: dict[str, Any]) -> Any:
    if "body" in exchange:
        return broker.operator.post("/api/jolokia", exchange["body"]).json
    return broker.operator.get("/api/jolokia" + quote(exchange["path"], safe="!/:=,*()")).json


def _differences(theirs: Any, ours: Any, at: str = "") -> Iterator[str]:
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted(ours.keys() - theirs.keys() - _ADDED):
            yield f"{at}/{key} is not there"
        for key in theirs:
            if key in ours:
                yield from _differences(theirs[key], ours[key], f"{at}/{key}")
            elif not at.startswith("/value"):
                yield f"{at}/{key} is missing"
    elif isinstance(theirs, list) and isinstance(ours, list):
        if len(theirs) != len(ours):
            yield f"{at} has {len(ours)}, not {len(theirs)}: {ours}"
        for number, (one, other) in enumerate(zip(_ordered(theirs), _ordered(ours), strict=False)):
            yield from _differences(one, other, f"{at}/{number}")
    elif type(theirs) is not type(ours) or (theirs != ours and at.rpartition("/")[2] not in _OWN):
        yield f"{at} is {ours!r}, not {theirs!r}"


def _ordered(values: list[Any]) -> list[Any]:
    """Names of MBeans come in no order."""
    return sorted(values) if all(isinstance(value, str) for value in values) else values
