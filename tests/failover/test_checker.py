"""Each rule is broken by a made-up history that breaks nothing else."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from jdbcstore.store.jdbc.fence import session_name
from tests.failover.chaos import Outcome
from tests.failover.checker import check
from tests.failover.history import Event, History, Left, Takeover, What, Write
from tests.failover.report import excerpt, longest_gaps, summary

M1, M2, M3, M4, M5 = (f"p01|000000{number}" for number in range(1, 6))
Q = "/queue/A"


class Story:
    """A history that somebody tells, second by second.

    As it stands: b0 is master, is killed with the second message in flight, b1 takes over and delivers that again.
    """

    def __init__(self) -> None:
        self.history = History()
        self.at = 0.0
        self.tell(What.LAUNCHED, "b0", mark="7")
        self.tell(What.STATE, "b0", mark="7", text="recovering", term=1)
        self.tell(What.STATE, "b0", mark="7", text="master", term=1)
        self.takes_over(1, "b0-x")
        self.connects("b0", "p01#0")
        self.connects("b0", "c01#0")
        self.is_sent("b0", "p01#0", M1)
        self.is_sent("b0", "p01#0", M2)
        self.is_delivered("b0", "c01#0", M1)
        self.is_acknowledged("b0", "c01#0", M1)
        self.is_delivered("b0", "c01#0", M2)
        self.tell(What.FAULT, text="kill_master")
        self.tell(What.GONE, "b0", text="SIGKILL")
        for line in ("p01#0", "c01#0"):
            self.tell(What.CLOSED, "b0", line, text="closed by the broker")
        self.tell(What.STATE, "b1", mark="8", text="recovering", term=2)
        self.tell(What.STATE, "b1", mark="8", text="master", term=2)
        self.takes_over(2, "b1-y")
        self.connects("b1", "p01#1")
        self.connects("b1", "c01#1")
        self.is_delivered("b1", "c01#1", M2)
        self.is_acknowledged("b1", "c01#1", M2)
        self.is_sent("b1", "p01#1", M3)
        self.tell(What.RESUMED, text="kill_master")
        self.is_delivered("b1", "c01#1", M3)
        self.is_acknowledged("b1", "c01#1", M3)

    def tell(
        self,
        what: What,
        broker: str = "",
        line: str = "",
        message: str = "",
        queue: str = "",
        mark: str = "",
        text: str = "",
        term: int = 0,
    ) -> None:
        """Something happens a second later."""
        self.at += 1
        self.history.add(Event(self.at, what, broker, line, message, queue, mark, text, term))

    def connects(self, broker: str, line: str) -> None:
        self.tell(What.CONNECT, broker, line)
        self.tell(What.CONNECTED, broker, line)

    def is_sent(self, broker: str, line: str, message: str) -> None:
        self.tell(What.SEND, broker, line, message, Q)
        self.writes("+", message)
        self.tell(What.RECEIPT, broker, line, message)

    def is_delivered(self, broker: str, line: str, message: str, text: str = "") -> None:
        self.tell(What.DELIVERED, broker, line, message, Q, f"ID:{message}", text)

    def is_acknowledged(self, broker: str, line: str, message: str) -> None:
        self.tell(What.ACK, broker, line, message, Q, f"ID:{message}")
        self.writes("-", message)
        self.tell(What.ACKED, broker, line, message, Q, f"ID:{message}")

    def takes_over(self, term: int, holder: str) -> None:
        """A new term, which sees everything that was written before."""
        history = self.history
        low = history.takeovers[-1].high if history.takeovers else 0
        numbers = [write.number for write in history.writes if write.number > low]
        history.takeovers.append(Takeover(term, holder, low, max(numbers, default=low), len(numbers), self.at))

    def writes(self, op: str, message: str, *, writer: str = "", session: str | None = None, term: int = 0) -> None:
        """A row of the present master, unless said otherwise."""
        last = self.history.takeovers[-1]
        holder, term = last.holder, term or last.term
        writer = writer or {"b0": "b0/7", "b1": "b1/8"}[holder[:2]]
        session = session_name(holder) if session is None else session
        number = len(self.history.writes) + 1
        row = int(message[-7:])
        self.history.writes.append(Write(number, op, row, term, holder, writer, session, message, Q, self.at))

    def replace(self, number: int, **values: object) -> None:
        """Change an event."""
        self.history.events[number] = self.history.events[number]._replace(**values)  # type: ignore[arg-type]

    def without(self, *whats: What, message: str = "", line: str = "") -> None:
        """Take events out."""
        self.history.events = [
            event
            for event in self.history.events
            if not (event.what in whats and message in (event.message, "") and line in (event.line, ""))
        ]

    def transaction(self, *members: str, delivered: tuple[str, ...], end: What | None) -> None:
        """A transaction of b1, and how it ends."""
        for message in members:
            self.tell(What.SEND, "b1", "p01#1", message, Q, "t:1")
        if end is What.COMMITTED:
            self.tell(What.COMMIT, "b1", "p01#1", mark="t:1")
        if end is not None:
            self.tell(end, "b1", "p01#1", mark="t:1")
        for message in delivered:
            self.writes("+", message)
            self.is_delivered("b1", "c01#1", message)
            self.is_acknowledged("b1", "c01#1", message)


def lose(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)


def lose_of_transaction(story: Story) -> None:
    story.transaction(M4, M5, delivered=(), end=What.COMMITTED)


def deliver_after_ack(story: Story) -> None:
    story.connects("b1", "c02#0")
    story.tell(What.CLOSED, "b1", "c01#1", text="broken")
    story.is_delivered("b1", "c02#0", M3)


def keep_after_ack(story: Story) -> None:
    story.history.left.append(Left(M3, f"ID:{M3}", Q))


def invent(story: Story) -> None:
    story.is_delivered("b1", "c01#1", M5)


def misdirect(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)
    story.tell(What.DELIVERED, "b1", "c01#1", M4, "/queue/B", f"ID:{M4}")


def write_as_other(story: Story) -> None:
    story.writes("~", M3, writer="b0/7")


def write_as_former_process(story: Story) -> None:
    story.writes("~", M3, writer="b1/6")


def write_in_old_session(story: Story) -> None:
    story.writes("~", M3, session=session_name("b0-x"))


def write_unnamed(story: Story) -> None:
    story.writes("~", M3, session="")


def commit_late_behind(story: Story) -> None:
    story.writes("~", M3, term=1, writer="b0/7", session=session_name("b1-y"))


def commit_late_before(story: Story) -> None:
    story.history.takeovers[1] = story.history.takeovers[1]._replace(seen=2)


def lose_committed_rows(story: Story) -> None:
    story.history.takeovers[1] = story.history.takeovers[1]._replace(seen=9)


def skip_term(story: Story) -> None:
    story.tell(What.STATE, "b1", mark="8", text="suspended", term=2)
    story.takes_over(4, "b1-z")


def deliver_twice_on_one_line(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)
    story.is_delivered("b1", "c01#1", M4)
    story.is_delivered("b1", "c01#1", M4, "again")


def deliver_to_two(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)
    story.connects("b1", "c02#0")
    story.is_delivered("b1", "c01#1", M4)
    story.is_delivered("b1", "c02#0", M4)


def deliver_to_two_of_whom_one_breaks_later(story: Story) -> None:
    story.connects("b1", "c02#0")
    story.is_sent("b1", "p01#1", M4)
    story.is_sent("b1", "p01#1", M5)
    story.is_delivered("b1", "c01#1", M4)
    story.is_delivered("b1", "c02#0", M4, "again")
    story.is_delivered("b1", "c01#1", M5)  # still served, so M4 should be its own
    story.tell(What.CLOSED, "b1", "c01#1", text="broken")


def store_twice(story: Story) -> None:
    story.writes("+", M3)


def overtake(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)
    story.is_sent("b1", "p01#1", M5)
    story.is_delivered("b1", "c01#1", M5)
    story.is_delivered("b1", "c01#1", M4)


def share_term(story: Story) -> None:
    story.tell(What.STATE, "b0", mark="9", text="recovering", term=2)


def let_in_as_standby(story: Story) -> None:
    story.tell(What.LAUNCHED, "b0", mark="9")
    story.tell(What.STATE, "b0", mark="9", text="standby")
    story.connects("b0", "c02#0")


def serve_beside(story: Story) -> None:
    story.tell(What.STATE, "b0", mark="9", text="master", term=3)


def serve_on(story: Story) -> None:
    """b0 is not dead when b1 begins."""
    gone = next(number for number, event in enumerate(story.history.events) if event.what is What.GONE)
    story.replace(gone, at=story.history.events[-1].at)
    story.history.sort()


def mix_histories(story: Story) -> None:
    """b1 goes on after a failover as if nothing had been."""
    story.is_sent("b1", "p01#1", M4)
    story.history.writes[-1] = story.history.writes[-1]._replace(history="00000002")
    story.is_delivered("b1", "c01#1", M4)
    story.is_acknowledged("b1", "c01#1", M4)
    story.history.writes.pop()


def tear(story: Story) -> None:
    story.transaction(M4, M5, delivered=(M4,), end=What.COMMITTED)
    story.without(What.COMMITTED)  # else M5 would be lost, too


def deliver_aborted(story: Story) -> None:
    story.transaction(M4, M5, delivered=(M4, M5), end=What.ABORTED)


def deliver_uncommitted(story: Story) -> None:
    story.transaction(M4, M5, delivered=(M4, M5), end=None)


def leave_behind(story: Story) -> None:
    story.is_sent("b1", "p01#1", M4)
    story.history.left.append(Left(M4, f"ID:{M4}", Q))


BROKEN: dict[Callable[[Story], None], tuple[str, str]] = {
    lose: ("a", "p01.0000004 has a receipt, was never delivered and is not stored"),
    deliver_after_ack: ("a", "p01.0000003 came again to c02#0 after its acknowledgement had a receipt"),
    invent: ("a", "p01.0000005 is in /queue/A, to where nobody sent it"),
    misdirect: ("a", "p01.0000004 is in /queue/B, to where nobody sent it"),
    write_as_other: ("b", r"row 3 \(p01.0000003\) was changed by b0/7, while term 2 was that of b1/8"),
    write_as_former_process: ("b", "by b1/6, while term 2 was that of b1/8"),
    write_in_old_session: ("b", "in session 'jdbcstore [0-9a-f]{32}', which is not one of b1-y"),
    write_unnamed: ("b", "in session '', which is not one of b1-y"),
    commit_late_behind: ("b", "in term 1, and the takeover of term 2 had been committed"),
    commit_late_before: ("b", "3 rows were written before term 2 and committed in the end; its takeover saw 2"),
    lose_committed_rows: ("b", "3 rows were written before term 2 and committed in the end; its takeover saw 9"),
    skip_term: ("b", "term 4 came after term 2"),
    deliver_twice_on_one_line: ("c", "came twice on one connection"),
    deliver_to_two: ("c", "came 2 times and 0 of its connections broke"),
    deliver_to_two_of_whom_one_breaks_later: ("c", "came to c02#0 while c01#1 had it and was served"),
    store_twice: ("c", "p01.0000003 was stored 2 times, sent 1 times"),
    overtake: ("c", "p01.0000004 came after p01.0000005 on c01#1"),
    share_term: ("d", "b1 and b0 both have term 2"),
    let_in_as_standby: ("d", "b0 let c02#0 in, and was not master"),
    serve_on: ("d", r"b0 \(term 1\) and b1 \(term 2\) were master together for .* s in which neither was stopped"),
    mix_histories: ("h", r"row 4 \(p01.0000004\) was added in history 00000002, and term 2 began in"),
    tear: ("t", "only a part of t:1 is there, p01.0000005 is not"),
    deliver_aborted: ("t", "t:1 was not committed, and some of it is there"),
    deliver_uncommitted: ("t", "t:1 was not committed, and some of it is there"),
    leave_behind: ("s", "1 messages are left in the store: p01.0000004"),
}


def test_a_history_as_it_should_be_is_accepted() -> None:
    story = Story()
    story.transaction(M4, M5, delivered=(M4, M5), end=What.COMMITTED)
    assert check(story.history) == []


def test_who_was_stopped_and_then_waited_for_a_processor_may_be_late_by_that() -> None:
    for waited_s, is_late in [(1.9, False), (1.0, True)]:
        story = Story()
        serve_on(story)
        history = story.history
        first = next(event.at for event in history.events if event.broker == "b1")
        gone = next(event.at for event in history.events if event.what is What.GONE)
        history.add(Event(first - 1, What.PAUSED, "b0"))
        history.add(Event(gone - 2, What.PROCEEDS, "b0", waited_s=0.5))
        history.add(Event(gone - 0.001, What.STATE, "b0", mark="7", text="suspended", term=1, waited_s=0.5 + waited_s))
        history.sort()
        assert [violation.rule for violation in check(history)] == (["d"] if is_late else [])


@pytest.mark.parametrize("break_it", BROKEN, ids=lambda change: change.__name__)
def test_a_broken_rule_is_found_and_no_other(break_it: Callable[[Story], None]) -> None:
    story = Story()
    break_it(story)
    rule, text = BROKEN[break_it]
    (violation,) = check(story.history)
    assert violation.rule == rule
    assert re.search(text, violation.text), violation.text


def test_what_breaks_two_rules_is_found_by_both() -> None:
    story = Story()
    keep_after_ack(story)
    assert sorted(violation.rule for violation in check(story.history)) == ["a", "s"]
    story = Story()
    serve_beside(story)  # nobody knows b0's third term but itself
    story.tell(What.FAULT, text="end")
    assert [violation.rule for violation in check(story.history)] == ["d"]
    story = Story()
    lose_of_transaction(story)
    assert {violation.messages for violation in check(story.history)} == {(M4,), (M5,)}


def test_an_acknowledgement_without_a_receipt_promises_nothing() -> None:
    """Gone or there again: both are right."""
    for is_there in (False, True):
        story = Story()
        story.without(What.ACKED, message=M3)
        story.tell(What.CLOSED, "b1", "c01#1", text="broken")
        if is_there:
            story.connects("b1", "c01#2")
            story.is_delivered("b1", "c01#2", M3)
            story.is_acknowledged("b1", "c01#2", M3)
        assert check(story.history) == []


def test_a_stopped_broker_cannot_know_better() -> None:
    """What it delivers, and how long it believes to be master, is excused: for as long as it was stopped."""

    def stopped(proceeds: bool) -> Story:
        story = Story()
        serve_on(story)
        events = story.history.events
        fault = next(event.at for event in events if event.what is What.FAULT)
        story.history.add(Event(fault - 0.5, What.PAUSED, "b0"))
        story.history.add(Event(story.at - 0.4 if proceeds else story.at - 4, What.PROCEEDS, "b0"))
        story.history.add(Event(story.at - 0.3, What.DELIVERED, "b0", "c09#0", M3, Q, f"ID:{M3}"))
        story.history.add(Event(story.at - 0.2, What.CLOSED, "b0", "c09#0", text="broken"))
        story.history.sort()
        return story

    assert check(stopped(proceeds=True).history) == []
    assert [violation.rule for violation in check(stopped(proceeds=False).history)] == ["d"]


def test_producers_who_do_not_say_who_they_are_may_have_it_stored_as_often_as_they_sent_it() -> None:
    story = Story()
    story.history.deduplicates = False
    story.tell(What.SEND, "b1", "p01#1", M3, Q)
    store_twice(story)
    assert check(story.history) == []
    store_twice(story)
    assert [violation.text for violation in check(story.history)] == [f"{M3} was stored 3 times, sent 2 times"]


def test_what_is_said_to_be_redelivered_may_come_out_of_order() -> None:
    story = Story()
    story.is_sent("b1", "p01#1", M4)
    story.is_sent("b1", "p01#1", M5)
    story.is_delivered("b1", "c01#1", M5)
    story.is_delivered("b1", "c01#1", M4, "again")
    assert check(story.history) == []


def test_a_history_is_the_same_when_it_was_saved(tmp_path: Path) -> None:
    story = Story()
    leave_behind(story)
    story.history.save(tmp_path / "history.jsonl")
    assert History.load(tmp_path / "history.jsonl") == story.history
    assert all(json.loads(line) for line in (tmp_path / "history.jsonl").read_text().splitlines())


def test_what_is_told_of_a_violation_is_about_it() -> None:
    story = Story()
    for number in range(6, 200):
        message = f"p01|{number:07}"
        story.is_sent("b1", "p01#1", message)
        story.is_delivered("b1", "c01#1", message)
        story.is_acknowledged("b1", "c01#1", message)
    deliver_after_ack(story)
    (violation,) = check(story.history)
    lines = excerpt(story.history, violation)
    assert len(lines) < 30
    about = [line for line in lines if M3 in line]
    assert [line.split()[1] for line in about] == [
        "send", "database", "receipt", "delivered", "ack", "database", "acked", "delivered",
    ]  # fmt: skip
    assert not any(other in line for line in lines for other in (M1, M2, "p01|0000006"))
    assert any("resumed kill_master" in line for line in lines)
    assert "VIOLATION of rule a" in str(Outcome(story.history, [violation]))


def test_the_summary_counts() -> None:
    story = Story()
    assert longest_gaps(story.history) == {"kill_master": 19.0}
    text = summary(story.history)
    assert "3 sent in 3 attempts; receipts: 3 of messages" in text
    assert "1 redeliveries of what was in flight, 0 messages stored again" in text
    assert re.search(r"kill_master +1 x +19.00", text)
