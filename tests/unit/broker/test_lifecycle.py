"""The states of a broker's life: which way leads where, what is told about it, and how to wait for it."""

from __future__ import annotations

import asyncio
import logging
from itertools import product

import pytest

from jdbcstore.broker.lifecycle import Lifecycle, State, Status

STARTING, STANDBY, RECOVERING = State.STARTING, State.STANDBY, State.RECOVERING
MASTER, SUSPENDED, STOPPING = State.MASTER, State.SUSPENDED, State.STOPPING

#: A way to each state, and every step that is allowed from there.
WAYS = {
    STARTING: (),
    STANDBY: (STANDBY,),
    RECOVERING: (RECOVERING,),
    MASTER: (RECOVERING, MASTER),
    SUSPENDED: (RECOVERING, MASTER, SUSPENDED),
    STOPPING: (STOPPING,),
}
STEPS = {
    STARTING: {STANDBY, RECOVERING, STOPPING},
    STANDBY: {RECOVERING, SUSPENDED, STOPPING},
    RECOVERING: {MASTER, SUSPENDED, STOPPING},
    MASTER: {SUSPENDED, STOPPING},
    SUSPENDED: {RECOVERING, STANDBY, STOPPING},
    STOPPING: set(),
}


def life_in(state: State) -> Lifecycle:
    life = Lifecycle()
    for step in WAYS[state]:
        life.change(step, "on the way")
    assert life.state is state
    return life


@pytest.mark.parametrize(("before", "after"), list(product(State, State)))
def test_only_the_ways_of_the_picture_can_be_gone(before: State, after: State) -> None:
    life = life_in(before)
    if after is before or after in STEPS[before]:
        life.change(after, "why not")
        assert (life.state, life.status.reason) == (after, "why not")
    else:
        status = life.status
        with pytest.raises(RuntimeError, match=f"a broker that is {before} cannot become {after}"):
            life.change(after, "no way")
        assert life.status is status


def test_a_change_is_logged_with_reason_and_term(caplog: pytest.LogCaptureFixture) -> None:
    life = Lifecycle()
    with caplog.at_level(logging.INFO, "jdbcstore"):
        life.change(RECOVERING, "it has the lock", term=7, holder="a-1")
        life.change(MASTER, "clients may connect", term=7, holder="a-1")
        life.change(SUSPENDED, "the store failed", term=7, holder="a-1")
        life.change(STANDBY, "b-2 is master")
    assert [(record.name, record.levelname, record.getMessage()) for record in caplog.records] == [
        ("jdbcstore.broker.lifecycle", level, f"state changed {text}")
        for level, text in (
            ("INFO", "from=starting to=recovering term=7 reason='it has the lock'"),
            ("INFO", "from=recovering to=master term=7 reason='clients may connect'"),
            ("WARNING", "from=master to=suspended term=7 reason='the store failed'"),
            ("INFO", "from=suspended to=standby term=None reason='b-2 is master'"),
        )
    ]


def test_since_is_when_the_state_began_not_when_its_reason_changed() -> None:
    life = Lifecycle()
    began = life.status.since
    life.change(STARTING, "the store does not answer")
    assert (life.status.since, life.status.reason) == (began, "the store does not answer")
    life.change(STANDBY, "a-1 is master")
    assert life.status.since > began


def test_a_master_that_is_not_trusted_is_suspended_for_whoever_asks() -> None:
    trusted = True
    life = Lifecycle(lambda: trusted)
    life.change(RECOVERING, "it has the lock", term=3, holder="a-1")
    life.change(MASTER, "clients may connect", term=3, holder="a-1")
    as_master = life.status
    assert (as_master.state, life.entered) == (MASTER, MASTER)
    trusted = False
    told = life.status
    assert (told.state, told.reason) == (SUSPENDED, "the lease was not renewed in time")
    assert (told.term, told.holder, life.state, life.entered) == (3, "a-1", SUSPENDED, MASTER)
    trusted = True  # a renewal that was under way
    assert life.status is as_master


def test_trust_is_a_masters_matter() -> None:
    for state in set(State) - {MASTER}:
        life = Lifecycle(lambda: False)
        for step in WAYS[state]:
            life.change(step, "on the way")
        assert life.state is state


def test_listeners_hear_of_every_change() -> None:
    life, heard = Lifecycle(), list[Status]()
    life.listeners.append(heard.append)
    life.change(RECOVERING, "it has the lock", term=3, holder="a-1")
    life.change(MASTER, "clients may connect", term=3, holder="a-1")
    assert [(status.state, status.term, status.holder) for status in heard] == [
        (RECOVERING, 3, "a-1"),
        (MASTER, 3, "a-1"),
    ]
    assert heard[-1] is life.status


def test_a_state_can_be_waited_for() -> None:
    async def wait() -> None:
        life = Lifecycle()
        assert await life.reached(STARTING, MASTER) is STARTING
        until_master = asyncio.create_task(life.reached(MASTER))
        until_served_or_not = asyncio.create_task(life.reached(MASTER, SUSPENDED))
        await asyncio.sleep(0)
        life.change(RECOVERING, "it has the lock")
        await asyncio.sleep(0)
        assert not until_master.done()
        life.change(SUSPENDED, "the store cannot be opened")
        assert await until_served_or_not is SUSPENDED
        assert not until_master.done()
        life.change(RECOVERING, "it has the lock")
        life.change(MASTER, "clients may connect")
        assert await until_master is MASTER

    asyncio.run(wait())
