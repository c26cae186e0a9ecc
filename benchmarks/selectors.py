"""How fast selectors are read and asked, on one core: ``python benchmarks/selectors.py [--json]``.

Reading is measured without the memory for selectors that were read before. Asking is measured with messages whose
properties are decoded, and once with messages as they come from the store, so that the share of the decoding shows.
Measured is processor time, so that a busy machine does not change the result; the best of many rounds is shown.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable

from jdbcstore.destination import Queue
from jdbcstore.message import Message, TextMessage
from jdbcstore.selector import CONVERT_STRINGS, DEPTH_MAX, TERMS_MAX, Selector
from jdbcstore.selector.parser import parse_expression
from jdbcstore.selector.selector import _parsed

ROUNDS = 9
MESSAGES = 2000
SELECTORS = {
    "one string": "region = 'EU'",
    "one number": "amount > 100",
    "header": "JMSPriority > 4",
    "two terms": "region = 'EU' AND amount > 100",
    "absent property": "absent = 'EU' AND amount > 100",
    "IN, LIKE": "region IN ('EU', 'US') AND customer LIKE 'C1%7'",
    "ten terms": (
        "(region = 'EU' OR region = 'US') AND amount BETWEEN 10 AND 900.5 AND customer NOT LIKE '%9' AND urgent"
        " AND amount * 2 + 1 > 5 AND JMSType IS NULL AND (attempt = 1 OR attempt = 2 OR attempt IS NULL)"
    ),
    "a hundred terms": " OR ".join(f"amount = {-i}" for i in range(1, 101)),
    "STOMP, two terms": f"{CONVERT_STRINGS}region = 'EU' AND count > 100",
}


def messages() -> list[Message]:
    """Messages with six properties, half of which any of these selectors matches."""
    return [_message(i) for i in range(MESSAGES)]


def _message(i: int) -> Message:
    message = TextMessage(destination=Queue("ORDERS"), priority=i % 10)
    message.properties = {
        "region": ("EU", "ASIA")[i % 2],
        "amount": i % 500,
        "customer": f"C{i}",
        "urgent": i % 3 > 0,
        "attempt": 1,
        "count": str(i % 500),
    }
    return message


def measure() -> dict[str, dict[str, float]]:
    """Microseconds for each selector: to read and compile it, to ask it, to ask it of a message not yet decoded."""
    decoded = messages()
    for message in decoded:
        assert message.properties
    return {name: _measured(text, decoded) for name, text in SELECTORS.items()}


def _measured(text: str, decoded: list[Message]) -> dict[str, float]:
    selector = Selector.parse(text)
    matches = selector.matches
    assert 0 <= sum(map(matches, decoded)) < len(decoded)
    fresh = [messages() for _ in range(ROUNDS)]
    condition = text.removeprefix(CONVERT_STRINGS)
    return {
        "parse": _best_us(lambda: parse_expression(condition, DEPTH_MAX, TERMS_MAX), 1, 50),
        "parse and compile": _best_us(lambda: _parsed(text, DEPTH_MAX, TERMS_MAX), 1, 50),
        "remembered": _best_us(lambda: Selector.parse(text), 1, 1000),
        "match": _best_us(lambda: [matches(message) for message in decoded], MESSAGES, 1),
        "match and decode": _best_us(lambda: [matches(message) for message in fresh.pop()], MESSAGES, 1),
    }


def _best_us(call: Callable[[], object], things: int, repeated: int) -> float:
    best = min(_processor_s(call, repeated) for _ in range(ROUNDS))
    return best / things / repeated * 1e6


def _processor_s(call: Callable[[], object], repeated: int) -> float:
    start = time.process_time()
    for _ in range(repeated):
        call()
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for machines")
    arguments = parser.parse_args()
    figures = measure()
    if arguments.json:
        print(json.dumps(figures))
        return
    columns = list(next(iter(figures.values())))
    print(f"{'microseconds':20}" + "".join(f"{column:>20}" for column in columns))
    for name, measured in figures.items():
        print(f"{name:20}" + "".join(f"{measured[column]:20.2f}" for column in columns))


if __name__ == "__main__":
    main()
