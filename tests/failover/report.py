"""What is told about a run: figures, and of a violation no more than what belongs to it."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from tests.failover.checker import Violation
from tests.failover.history import Event, History, What

__all__ = ["excerpt", "longest_gaps", "summary"]

#: What is told around a violation whatever it is about.
_CONTEXT = frozenset(
    (What.FAULT, What.HEALED, What.RESUMED, What.LAUNCHED, What.GONE, What.PAUSED, What.PROCEEDS, What.STATE)
)
_AROUND_S = 2.0
_LINES = 80


def summary(history: History) -> str:
    """Figures of a run, several lines."""
    counts = history.counts
    sent = {event.message for event in history.events if event.what is What.SEND}
    copies = Counter(event.mark for event in history.events if event.what is What.DELIVERED)
    rows = Counter(write.message for write in history.writes if write.op == "+")
    faults = Counter(event.text for event in history.events if event.what is What.FAULT)
    gaps = longest_gaps(history)
    lines = [
        f"messages     {len(sent)} sent in {counts[What.SEND]} attempts; receipts: {counts[What.RECEIPT]} of messages,"
        f" {counts[What.COMMITTED]} of transactions, {counts[What.ABORTED]} of aborted ones",
        f"deliveries   {counts[What.DELIVERED]}, acknowledged with a receipt {counts[What.ACKED]}",
        f"duplicates   {sum(copies.values()) - len(copies)} redeliveries of what was in flight,"
        f" {sum(rows.values()) - len(rows)} messages stored again because they were sent again",
        f"terms        {len(history.takeovers)}; rows written and removed: {len(history.writes)}",
        f"connections  {counts[What.CONNECTED]}",
        "faults       the longest time without a receipt of each kind, in seconds",
        *(f"  {kind:20} {faults[kind]:3} x  {gaps[kind]:6.2f}" for kind in sorted(faults)),
    ]
    return "\n".join(lines)


def longest_gaps(history: History) -> dict[str, float]:
    """For each kind of fault the longest time between two receipts around it, in seconds."""
    receipts = [event.at for event in history.events if event.what in (What.RECEIPT, What.COMMITTED)]
    gaps: dict[str, float] = defaultdict(float)
    began = 0.0
    for event in history.events:
        if event.what is What.FAULT:
            began = event.at
        elif event.what is What.RESUMED:
            first, last = max(0, bisect_left(receipts, began) - 1), bisect_right(receipts, event.at) + 1
            around = receipts[first:last]
            longest = max((after - before for before, after in pairwise(around)), default=event.at - began)
            gaps[event.text] = max(gaps[event.text], longest)
    return gaps


def excerpt(history: History, violation: Violation) -> list[str]:
    """The lines of a history that belong to a violation, with times in seconds since its beginning."""
    zero = history.events[0].at if history.events else 0.0
    named = set(violation.messages) - {""}
    transactions = {event.mark for event in history.events if event.message in named and event.what is What.SEND}
    told = [
        (event.at, _line(event))
        for event in history.events
        if event.message in named or (event.mark and event.mark in transactions)
    ]
    told += [
        (write.at, f"database {write.writer:8} {write.op} row {write.row} {write.message} number {write.number}"
         f" term {write.term} holder {write.holder} session {write.session!r}")
        for write in history.writes
        if write.message in named
    ]  # fmt: skip
    told += [(zero, f"stored at the end: {left.message} {left.mark}") for left in history.left if left.message in named]
    times = [violation.at, *(at for at, _ in told)] if violation.at else [at for at, _ in told]
    begin, end = min(times, default=zero) - _AROUND_S, max(times, default=zero) + _AROUND_S
    told += [(at, line) for at, line in _context(history) if begin <= at <= end]
    told.sort(key=lambda entry: entry[0])
    if len(told) > _LINES:  # what is nearest to the violation matters most
        nearest = sorted(range(len(told)), key=lambda place: abs(told[place][0] - violation.at))[:_LINES]
        told = [told[place] for place in sorted(nearest)]
    return [f"{at - zero:9.3f}  {line}" for at, line in told]


def _context(history: History) -> Iterator[tuple[float, str]]:
    for event in history.events:
        if event.what in _CONTEXT:
            yield event.at, _line(event)
    for takeover in history.takeovers:
        yield (
            takeover.at,
            f"database term {takeover.term} begins, holder {takeover.holder}, writes up to number {takeover.high},"
            f" {takeover.seen} of them behind {takeover.low}",
        )


def _line(event: Event) -> str:
    words = [event.what, event.broker, event.line, event.message, event.queue, event.mark, event.text]
    return " ".join(word for word in (*words, f"term {event.term}" if event.term else "") if word)
