"""Whether a history is one that a safe pair of brokers can have. Pure: it knows nothing but the history.

The rules, by the letters under which violations are told:

a. **Nothing acknowledged is lost or comes back.** A message whose sender has a receipt, or whose transaction has, was
   delivered or is still stored. A stored copy (a message id) whose acknowledgement has a receipt is neither stored nor
   delivered again after that receipt. What may happen to a copy whose acknowledgement has none: it may be gone, it may
   come again, both are right. Nothing is delivered that was not sent, or in another queue.
b. **No row is committed under an old term once a new one has begun.** Stricter than that no row comes after the new
   term's first one. The database tells: each row says which term was the last to have begun and which process wrote it,
   and each takeover says which rows were committed when it got its locks (see `tests.failover.witness`).
c. **Duplicates are what was in flight, and nothing else.** A copy is delivered once, and once more for each connection
   that had it and broke. No connection gets a copy twice, and no two connections that live have one. With producers
   that can be told apart no message is stored twice; without, not oftener than it was sent. On each connection the
   messages of a producer in a queue come in the order in which they were sent, redelivered ones excepted.
d. **One broker serves.** Each term belongs to one process. Clients are let in by a process that is master. Two are
   master at the same time for no longer than `slack_s`, not counting time in which one of them was stopped (SIGSTOP)
   or waited for a processor, and could not know.
h. **One history for one mastership.** All rows of a term were written on one timeline, or on one primary: who goes on
   with what another server has would mix what it remembers with what is there.
t. **Transactions are whole**: all of their messages or none. None of one that was aborted, or never committed.
s. **Nothing is stuck**: at the end, when consumers have waited long enough, the store is empty.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from jdbcstore.store.jdbc.fence import session_name
from tests.failover.history import Event, History, What, Write

__all__ = ["Violation", "check"]

#: How many messages a violation names that concerns many.
_NAMED = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """What must not have happened.

    Args:
        rule: its letter.
        text: one sentence.
        at: about when.
        messages: which it is about.
    """

    rule: str
    text: str
    at: float = 0.0
    messages: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Mastership:
    """A time in which a process said of itself that it is master."""

    broker: str
    process: str
    term: int
    begin: float
    end: float


def check(history: History, slack_s: float = 0.5) -> list[Violation]:
    """Every violation of a rule, the earliest first.

    Args:
        history: sorted.
        slack_s: how late, in seconds, a process may be that had no chance to run.
    """
    facts = Facts(history, slack_s)
    rules = (
        lost,
        returned,
        never_sent,
        old_terms,
        late_commits,
        terms_in_order,
        histories_mixed,
        delivered_too_often,
        stored_twice,
        out_of_order,
        terms_shared,
        let_in_by_others,
        two_masters,
        torn,
        stuck,
    )
    return sorted((found for rule in rules for found in rule(facts)), key=lambda found: found.at)


class Facts:
    """A history, arranged for looking things up."""

    def __init__(self, history: History, slack_s: float) -> None:
        self.history = history
        self.slack_s = slack_s
        self.events: dict[What, list[Event]] = defaultdict(list)
        for event in history.events:
            self.events[event.what].append(event)
        self.end = history.events[-1].at if history.events else 0.0
        self.attempts = Counter(event.message for event in self.events[What.SEND])
        self.queues = {event.message: event.queue for event in self.events[What.SEND]}
        #: Messages by transaction.
        self.members: dict[str, set[str]] = defaultdict(set)
        for event in self.events[What.SEND]:
            if event.mark:
                self.members[event.mark].add(event.message)
        #: When the sender knew.
        self.receipted = {event.message: event.at for event in self.events[What.RECEIPT]}
        for event in self.events[What.COMMITTED]:
            self.receipted.update(dict.fromkeys(self.members[event.mark], event.at))
        #: Deliveries by copy.
        self.copies: dict[str, list[Event]] = defaultdict(list)
        for event in self.events[What.DELIVERED]:
            self.copies[event.mark].append(event)
        self.delivered = {event.message for event in self.events[What.DELIVERED]}
        self.left = {left.message for left in history.left}
        self.broken = {event.line: event for event in self.events[What.CLOSED] if event.text}
        #: The last thing that a connection heard from its broker.
        self.heard = {
            event.line: event.at
            for event in history.events
            if event.what in (What.DELIVERED, What.ACKED, What.RECEIPT, What.COMMITTED, What.CONNECTED)
        }
        #: Who said first that a term is its own.
        self.owners: dict[int, Event] = {}
        for event in self.events[What.STATE]:
            if event.term:
                self.owners.setdefault(event.term, event)
        self.pauses = self._pauses()
        self.masterships = self._masterships()

    def _pauses(self) -> dict[str, list[tuple[float, float]]]:
        pauses: dict[str, list[tuple[float, float]]] = defaultdict(list)
        began: dict[str, float] = {}
        for event in self.history.events:
            if event.what is What.PAUSED:
                began[event.broker] = event.at
            elif event.what in (What.PROCEEDS, What.GONE) and event.broker in began:
                pauses[event.broker].append((began.pop(event.broker), event.at))
        for broker, at in began.items():
            pauses[broker].append((at, self.end))
        return pauses

    def was_stopped(self, broker: str, at: float) -> bool:
        """Whether a broker is stopped at a time, or was so just before: it may not know yet what happened since."""
        return any(begin <= at <= end + self.slack_s for begin, end in self.pauses[broker])

    def stopped_s(self, broker: str, begin: float, end: float) -> float:
        """For how long of a time a broker was stopped."""
        return sum(max(0.0, min(end, e) - max(begin, b)) for b, e in self.pauses[broker])

    def waited_s(self, broker: str, begin: float, end: float) -> float:
        """For how long of a time a broker that could run waited for a processor, as far as it is known."""
        known = [e.waited_s for e in self.history.events if e.broker == broker and e.waited_s and begin <= e.at <= end]
        return known[-1] - known[0] if known else 0.0

    def _masterships(self) -> list[Mastership]:
        found: list[Mastership] = []
        serving: dict[str, Event] = {}
        for event in self.history.events:
            if event.what not in (What.STATE, What.GONE):
                continue
            before = serving.pop(event.broker, None)
            if before is not None:
                found.append(Mastership(before.broker, before.mark, before.term, before.at, event.at))
            if event.what is What.STATE and event.text == "master":
                serving[event.broker] = event
        found += [Mastership(e.broker, e.mark, e.term, e.at, self.end) for e in serving.values()]
        return sorted(found, key=lambda mastership: mastership.begin)


# -- a: nothing acknowledged is lost or comes back ----------------------------------------------------------------


def lost(facts: Facts) -> Iterator[Violation]:
    """Receipted, not delivered, not stored."""
    for message, at in facts.receipted.items():
        if message not in facts.delivered and message not in facts.left:
            yield Violation(
                "a", f"{message} has a receipt, was never delivered and is not stored: lost", at, (message,)
            )


def returned(facts: Facts) -> Iterator[Violation]:
    """Acknowledged with a receipt, and there again."""
    left = {left.mark for left in facts.history.left}
    acked: dict[str, Event] = {}
    for event in facts.events[What.ACKED]:
        acked.setdefault(event.mark, event)
    for copy, ack in acked.items():
        if copy in left:
            text = f"{ack.message} was acknowledged with a receipt and is still stored as {copy}"
            yield Violation("a", text, ack.at, (ack.message,))
        for delivery in facts.copies[copy]:
            is_stale = delivery.broker != ack.broker and facts.was_stopped(delivery.broker, delivery.at)
            if delivery.at > ack.at and not is_stale:
                text = f"{ack.message} came again to {delivery.line} after its acknowledgement had a receipt"
                yield Violation("a", text, delivery.at, (ack.message,))


def never_sent(facts: Facts) -> Iterator[Violation]:
    """Delivered, or stored, and not sent, or not to there."""
    there = [(event.message, event.queue, event.at) for event in facts.events[What.DELIVERED]]
    there += [(left.message, left.queue, facts.end) for left in facts.history.left]
    for message, queue, at in there:
        if facts.queues.get(message) != queue:
            yield Violation(
                "a", f"{message or 'a message of nobody'} is in {queue}, to where nobody sent it", at, (message,)
            )


# -- b: no row under an old term ----------------------------------------------------------------------------------


def old_terms(facts: Facts) -> Iterator[Violation]:
    """Written by a process while the term was another's, or in a session that is not its holder's."""
    owners = {term: f"{first.broker}/{first.mark}" for term, first in facts.owners.items()}
    for write in facts.history.writes:
        owner = owners.get(write.term)
        if write.writer != owner:
            text = (
                f"{written(write)} by {write.writer or 'nobody of ours'}, while term {write.term} was that of {owner}"
            )
            yield Violation("b", text, write.at, (write.message,))
        elif facts.history.names_sessions and write.session != session_name(write.holder):
            text = f"{written(write)} in session {write.session!r}, which is not one of {write.holder}"
            yield Violation("b", text, write.at, (write.message,))


def late_commits(facts: Facts) -> Iterator[Violation]:
    """Written before a takeover, committed after it."""
    numbers = [write.number for write in facts.history.writes]
    takeovers = facts.history.takeovers
    for takeover in takeovers:
        first, behind = bisect_left(numbers, takeover.low + 1), bisect_left(numbers, takeover.high + 1)
        if behind - first != takeover.seen:
            before = facts.history.writes[first:behind]
            text = (
                f"{behind - first} rows were written before term {takeover.term} and committed in the end;"
                f" its takeover saw {takeover.seen}"
            )
            yield Violation("b", text, takeover.at, tuple(write.message for write in before[-_NAMED:]))
    highs = [takeover.high for takeover in takeovers]
    for write in facts.history.writes:
        behind = bisect_left(highs, write.number)
        term = takeovers[behind - 1].term if behind else None
        if write.term != term:
            text = f"{written(write)} in term {write.term}, and the takeover of term {term} had been committed"
            yield Violation("b", text, write.at, (write.message,))


def terms_in_order(facts: Facts) -> Iterator[Violation]:
    """Terms grow by one, and to the first of a later million after a failover (`Dialect.next_term`)."""
    for before, after in pairwise(facts.history.takeovers):
        is_after_failover = after.term > before.term and after.term % 1_000_000 == 1
        if after.term != before.term + 1 and not is_after_failover:
            yield Violation("b", f"term {after.term} came after term {before.term}", after.at)


def written(write: Write) -> str:
    """A write in words."""
    what = {"+": "added", "~": "changed", "-": "removed"}[write.op]
    return f"row {write.row} ({write.message or 'none of ours'}) was {what}"


# -- h: one history for one mastership ----------------------------------------------------------------------------


def histories_mixed(facts: Facts) -> Iterator[Violation]:
    """A term whose rows were written in several histories."""
    begun: dict[int, str] = {}
    for write in facts.history.writes:
        first = begun.setdefault(write.term, write.history)
        if write.history != first:
            text = f"{written(write)} in history {write.history}, and term {write.term} began in {first}"
            yield Violation("h", text, write.at, (write.message,))


# -- c: duplicates are what was in flight -------------------------------------------------------------------------


def delivered_too_often(facts: Facts) -> Iterator[Violation]:
    """A copy that came oftener than connections broke, twice to one, or to two at a time."""
    for copy, deliveries in facts.copies.items():
        if len(deliveries) == 1:
            continue
        message, lines = deliveries[0].message, [delivery.line for delivery in deliveries]
        broken = len(facts.broken.keys() & set(lines))
        at = deliveries[-1].at
        if len(set(lines)) < len(lines):
            yield Violation("c", f"{message} ({copy}) came twice on one connection: {' '.join(lines)}", at, (message,))
        elif len(lines) > 1 + broken:
            text = (
                f"{message} ({copy}) came {len(lines)} times and {broken} of its connections broke: {' '.join(lines)}"
            )
            yield Violation("c", text, at, (message,))
        for first, second in pairwise(deliveries):
            after = facts.heard[first.line]
            if after > second.at + facts.slack_s and not facts.was_stopped(first.broker, after):
                text = f"{message} ({copy}) came to {second.line} while {first.line} had it and was served"
                yield Violation("c", text, second.at, (message,))


def stored_twice(facts: Facts) -> Iterator[Violation]:
    """More rows than there are messages, or than were sent."""
    rows: dict[str, list[Write]] = defaultdict(list)
    for write in facts.history.writes:
        if write.op == "+" and write.message:
            rows[write.message].append(write)
    for message, writes in rows.items():
        allowed = 1 if facts.history.deduplicates else facts.attempts[message]
        if len(writes) > allowed:
            text = f"{message} was stored {len(writes)} times, sent {facts.attempts[message]} times"
            yield Violation("c", text, writes[-1].at, (message,))


def out_of_order(facts: Facts) -> Iterator[Violation]:
    """A producer's message that overtook another on the same connection."""
    last: dict[tuple[str, str, str], str] = {}
    for event in facts.events[What.DELIVERED]:
        is_again = event.text or (not facts.history.deduplicates and facts.attempts[event.message] > 1)
        if is_again:
            continue
        producer, _, _ = event.message.partition("|")
        key = (event.line, event.queue, producer)
        before = last.get(key, "")
        if before >= event.message:
            text = f"{event.message} came after {before} on {event.line} and is not said to be redelivered"
            yield Violation("c", text, event.at, (before, event.message))
        last[key] = event.message


# -- d: one broker serves -----------------------------------------------------------------------------------------


def terms_shared(facts: Facts) -> Iterator[Violation]:
    """A term that two processes said to have."""
    for event in facts.events[What.STATE]:
        first = facts.owners.get(event.term, event)
        if (first.broker, first.mark) != (event.broker, event.mark):
            yield Violation("d", f"{first.broker} and {event.broker} both have term {event.term}", event.at)


def let_in_by_others(facts: Facts) -> Iterator[Violation]:
    """Let in by a process that was not master at any time from CONNECT to CONNECTED."""
    asked = {event.line: event.at for event in facts.events[What.CONNECT]}
    for event in facts.events[What.CONNECTED]:
        begin, end = asked[event.line] - facts.slack_s, event.at + facts.slack_s
        if not any(m.broker == event.broker and m.begin <= end and begin <= m.end for m in facts.masterships):
            yield Violation("d", f"{event.broker} let {event.line} in, and was not master", event.at)


def two_masters(facts: Facts) -> Iterator[Violation]:
    """Two processes that were master at a time."""
    for number, first in enumerate(facts.masterships):
        for second in facts.masterships[number + 1 :]:
            if second.begin >= first.end:
                break
            if (first.broker, first.process) == (second.broker, second.process):
                continue
            end = min(first.end, second.end)
            overlap_s = end - second.begin - facts.stopped_s(first.broker, second.begin, end)
            overlap_s -= facts.waited_s(first.broker, second.begin, end)
            if overlap_s > facts.slack_s:
                text = (
                    f"{first.broker} (term {first.term}) and {second.broker} (term {second.term}) were master"
                    f" together for {overlap_s:.3f} s in which neither was stopped"
                )
                yield Violation("d", text, second.begin)


# -- t, s ---------------------------------------------------------------------------------------------------------


def torn(facts: Facts) -> Iterator[Violation]:
    """Part of a transaction, or anything of one that was not committed."""
    tried = {event.mark for event in facts.events[What.COMMIT]}
    aborted = {event.mark for event in facts.events[What.ABORTED]}
    for transaction, members in facts.members.items():
        visible = {message for message in members if message in facts.delivered or message in facts.left}
        if not visible:
            continue
        named = tuple(sorted(members))
        if transaction in aborted or transaction not in tried:
            yield Violation("t", f"{transaction} was not committed, and some of it is there", facts.end, named)
        elif visible != members:
            missing = " ".join(sorted(members - visible))
            yield Violation("t", f"only a part of {transaction} is there, {missing} is not", facts.end, named)


def stuck(facts: Facts) -> Iterator[Violation]:
    """Stored, and not delivered to consumers that waited."""
    if facts.history.left:
        named = names(left.message for left in facts.history.left)
        text = f"{len(facts.history.left)} messages are left in the store: {' '.join(named)}"
        yield Violation("s", text, facts.end, named)


def names(messages: Iterable[str]) -> tuple[str, ...]:
    """Some of many messages."""
    return tuple(sorted(set(messages)))[:_NAMED]
