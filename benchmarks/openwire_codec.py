"""How many messages a second the OpenWire codec reads and writes on one core.

A persistent text message of 1 KiB with five properties, as ActiveMQ's JDBC store holds it; ten thousand different ones
of a hundred producers to ten queues, so that what is remembered and what is not is mixed as in a broker.

    python benchmarks/openwire_codec.py [--json]
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.primitives import Long

MESSAGES = 10_000
ROUNDS = 7


def messages() -> list[Message]:
    """Ten thousand different messages."""
    producers = [ProducerId(f"ID:host.example-40001-1700000000000-1:{i}", 1, 1) for i in range(100)]
    queues = [Queue(f"ORDERS.EUROPE.{i}") for i in range(10)]
    return [message(i, producers[i % len(producers)], queues[i % len(queues)]) for i in range(MESSAGES)]


def message(i: int, producer: ProducerId, queue: Queue) -> TextMessage:
    """One message of 1 KiB."""
    made = TextMessage(
        command_id=i,
        response_required=True,
        producer_id=producer,
        destination=queue,
        message_id=MessageId(producer, i, i),
        timestamp=1_700_000_000_000 + i,
        broker_in_time=1_700_000_000_001 + i,
    )
    made.text = (f"order {i} " * 128)[:1024]
    made.properties = {"customer": f"C{i}", "region": "EU", "attempt": 1, "amount": 12.5, "placed": Long(1_700_000_000)}
    return made


def rate(call: Callable[[], object]) -> int:
    """Messages a second, of the best round: the others were disturbed."""
    best = min(_seconds(call) for _ in range(ROUNDS))
    return int(MESSAGES / best)


def _seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def measure() -> dict[str, int]:
    """Messages a second by what is done with them."""
    values = messages()
    frames = [marshal(value) for value in values]
    return {
        "marshal": rate(lambda: [marshal(value) for value in values]),
        "unmarshal": rate(lambda: [unmarshal_message(frame) for frame in frames]),
        "unmarshal, five properties read": rate(lambda: [unmarshal_message(frame).properties for frame in frames]),
        "unmarshal and marshal": rate(lambda: [marshal(unmarshal_message(frame)) for frame in frames]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for machines")
    arguments = parser.parse_args()
    rates = measure()
    if arguments.json:
        print(json.dumps(rates))
    else:
        for what, a_second in rates.items():
            print(f"{what:32} {a_second:>9,} a second")


if __name__ == "__main__":
    main()
