"""What only this store needs to know, as trace records: their text begins with ``jdbcstore``; ActiveMQ ignores them.

=============================  =====================================================================================
``acked 7 3-5,9``              the subscription of collection 7 has acknowledged these of its topic, before others
``each 8``                     what the transaction of collection 8 acknowledges for subscriptions stands for itself
                               only; ActiveMQ's stand for all before them
``to 8 2 queue://A``           the message 2 of transaction 8 goes to this destination, which is not its own
``nolocal 7``                  the subscription leaves out what its own connection sent
``producer 5 1700000 ID:a``    how far a producer came that numbers its messages, and when that was said (epoch ms)
``restored all``               messages that ActiveMQ had lost were added again
``producers forgotten``        what was known of producers does not count any more
=============================  =====================================================================================
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from jdbcstore.store.journal.leveldb.records import TRACE, framed

__all__ = [
    "acked",
    "acked_ranges",
    "each",
    "forgotten",
    "no_local",
    "of_trace",
    "producer",
    "ranges_of",
    "restored",
    "snapshot",
    "to",
]

_PREFIX: Final = "jdbcstore "


def acked(subscription: int, numbers: Iterable[int]) -> bytes:
    """Acknowledged out of order. The numbers are ascending."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][1] + 1 == number:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return acked_ranges(subscription, [(first, last) for first, last in runs])


def acked_ranges(subscription: int, ranges: Sequence[tuple[int, int]]) -> bytes:
    """The same by ranges."""
    shown = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges)
    return _trace("acked", f"{subscription} {shown}")


def ranges_of(text: str) -> list[tuple[int, int]]:
    """Numbers as they stand in a trace. Raises ValueError."""
    found = []
    for run in text.split(","):
        first, _, last = run.partition("-")
        found.append((int(first), int(last or first)))
    return found


def each(transaction: int) -> bytes:
    """Acknowledgements one by one."""
    return _trace("each", str(transaction))


def to(transaction: int, number: int, destination: str) -> bytes:
    """Where a message in doubt goes."""
    return _trace("to", f"{transaction} {number} {destination}")


def no_local(subscription: int) -> bytes:
    """Of a subscription."""
    return _trace("nolocal", str(subscription))


def producer(name: str, last: int, now_ms: int) -> bytes:
    """How far a producer came."""
    return _trace("producer", f"{last} {now_ms} {name}")


def forgotten() -> bytes:
    """No producer is known."""
    return _trace("producers", "forgotten")


def restored() -> bytes:
    """Messages that were displaced are in their queues again."""
    return _trace("restored", "all")


def snapshot() -> bytes:
    """Nothing; the log goes on."""
    return _trace("snapshot", "follows")


def of_trace(data: bytes) -> tuple[str, str] | None:
    """What it says and about what; None when it is ActiveMQ's."""
    text = data.decode("utf-8", "surrogateescape")
    if not text.startswith(_PREFIX):
        return None
    what, _, about = text[len(_PREFIX) :].partition(" ")
    return what, about


def _trace(what: str, about: str) -> bytes:
    return framed(TRACE, f"{_PREFIX}{what} {about}".encode("utf-8", "surrogateescape"))
