"""Prepared branches that the next broker finds, of the same kind or of the other.

A broker commits one and is killed before its client hears so. The client says all of the branch again to the next one:
what it sent is there once.

What a Java broker commits of a branch that it has found prepared it counts twice for the queue. From then on it takes
what it reads there for duplicates, of the branch and of others, and removes it from the store before anybody has it:
what its consumers have not got from its memory is lost when it is killed. So do two Java brokers; nothing in the
database is to blame.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TypeAlias

import pytest

from jdbcstore.config.urls import is_journal_url
from tests.compat.activemq import JdbcStore, JmsClients
from tests.compat.failover_programs import JavaMember, Kind, Member, OurMember
from tests.compat.jms_failover import control, judged
from tests.compat.test_durable import kahadb_url
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(200)

LEASE_MS = 3000
BRANCH = "55:0a01ff:62"
#: Its messages are still there, or another client has consumed them meanwhile.
LEFT, CONSUMED = "killed: XA commit, answer lost", "killed: XA commit, answer lost, and its messages are consumed"
#: What is in the queue in the end, and what are dead letters.
Found: TypeAlias = tuple[list[str], list[str]]
ONCE: Found = (["1", "2"], [])
GONE: Found = ([], [])
#: What nobody knows any more is done again.
AGAIN = ONCE


def member(kind: Kind, class_path: str, url: str, folder: Path, name: str) -> Member:
    if kind == "ours":
        is_journal = is_journal_url(url)
        options = "" if is_journal else f"?lease_ms={LEASE_MS}&lock_acquire_sleep_interval_ms=200"
        return OurMember(url + options, folder, name)
    if is_journal_url(url):
        return JavaMember(class_path, folder, "kahadb", name)
    return JavaMember(class_path, folder, JdbcStore(url, lock="lease", lease_ms=LEASE_MS, renew_ms=LEASE_MS // 3), name)


@pytest.mark.parametrize(
    ("store", "first", "second", "commit", "consumed"),
    [
        ("postgresql_url", "java", "ours", "done", AGAIN),
        *(
            pytest.param(*one, marks=pytest.mark.exhaustive)
            for one in (
                ("postgresql_url", "ours", "java", "XAException -4", AGAIN),
                ("postgresql_url", "java", "java", "XAException -4", AGAIN),
                ("postgresql_url", "ours", "ours", "done", GONE),
                ("kahadb", "java", "ours", "done", AGAIN),
                ("kahadb", "java", "java", "XAException -4", GONE),
                ("kahadb", "ours", "ours", "done", GONE),
            )
        ),
    ],
)
def test_a_branch_that_is_committed_and_said_again(
    request: pytest.FixtureRequest,
    class_path: str,
    tmp_path: Path,
    store: str,
    first: Kind,
    second: Kind,
    commit: str,
    consumed: Found,
) -> None:
    url = kahadb_url(tmp_path) if store == "kahadb" else request.getfixturevalue(store)
    master = member(first, class_path, url, tmp_path, "first")
    successor = member(second, class_path, url, tmp_path, "second")

    def take_over() -> None:
        successor.launch()
        wait_until(successor.is_serving, "the second broker serves", timeout_s=60)

    with ExitStack() as stack:
        for one in (master, successor):
            stack.callback(one.end)
        master.launch()
        wait_until(master.is_serving, "the first broker serves", timeout_s=60)
        with control(lambda: master.fail("kill"), take_over) as port:
            said = judged(class_path, port, [master.place, successor.place], (LEFT, CONSUMED), "killed")
    heard = {name: one[one.index("recover: true") + 1] for name, one in said.items()}
    found = {name: (one[one.index("left") + 1], one[one.index("dead") + 1]) for name, one in said.items()}
    assert found == {LEFT: ONCE, CONSUMED: consumed}
    assert heard[LEFT] == f"commit: {commit}"


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        ("ours", "java", [9]),
        pytest.param("java", "java", [9], marks=pytest.mark.exhaustive),
        pytest.param("java", "ours", [1, 2, 3, 9], marks=pytest.mark.exhaustive),
    ],
)
def test_what_is_left_of_a_branch_that_is_committed_by_who_found_it_prepared(
    class_path: str, tmp_path: Path, postgresql_url: str, first: Kind, second: Kind, kept: list[int]
) -> None:
    master = member(first, class_path, postgresql_url, tmp_path, "first")
    successor = member(second, class_path, postgresql_url, tmp_path, "second")
    early, late = (JmsClients(class_path, f"tcp://{one.place}") for one in (master, successor))
    with ExitStack() as stack:
        for one in (master, successor):
            stack.callback(one.end)
        master.launch()
        wait_until(master.is_serving, "the first broker serves", timeout_s=60)
        early.prepare(BRANCH, "send", "queue://Q", "1", "3")
        master.fail("kill")
        successor.launch()
        wait_until(successor.is_serving, "the second broker serves", timeout_s=60)
        late.decide(BRANCH, commits=True)
        late.send_numbers("queue://Q", 9, 1)
        successor.fail("kill")
        master.launch()
        wait_until(master.is_serving, "the first broker serves again", timeout_s=60)
        assert [message["properties"]["number"][1] for message in early.consume("Q")] == kept
