"""A minute of faults of a PostgreSQL cluster, and the proof that the harness finds what the store protects from.

`make chaos ARGS="--database patroni --minutes 60"` goes on for longer, and `make chaos-proofs` shows the other proofs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.chaos import run
from tests.failover.history import What
from tests.failover.nemesis import Fault, kinds_for
from tests.failover.proofs import PROOFS, prove
from tests.waiting import Standstill

pytestmark = [pytest.mark.whole_machine, pytest.mark.timeout(900)]

#: How late a process may be.
SLACK_S = 0.5
SMOKE = [
    Fault("switch_over", 0.5, True, 0.5),
    Fault("cut_broker", 0.5, True, 0.5),
    Fault("kill_primary", 0.5, True, 0.5),
]


def test_every_kind_of_fault_of_a_cluster_is_known() -> None:
    assert {fault.kind for fault in SMOKE} < set(kinds_for("patroni"))


def test_nothing_is_lost_when_the_database_fails_over(tmp_path: Path) -> None:
    outcome = run("patroni", SMOKE, tmp_path, seed=7)
    assert not outcome.violations, str(outcome)
    assert outcome.history.counts[What.ACKED] > 500


def test_a_frozen_node_costs_the_lease_and_no_more_than_that_is_believed(tmp_path: Path) -> None:
    """Connections to it stay open, so only the clock tells the master; others serve while the node is frozen still."""
    lease_s = 4.0
    frozen = Fault("freeze_member", 0.5, True, 0.5)
    with Standstill() as still:
        outcome = run("galera", [frozen], tmp_path, seed=7, lease_ms=round(lease_s * 1000))
    assert not outcome.violations, str(outcome)
    events = outcome.history.events
    began = next(event.at for event in events if event.what is What.FAULT)
    healed = next(event.at for event in events if event.what is What.HEALED)
    master = [event for event in events if event.what is What.STATE and event.text == "master" and event.at < began][-1]
    end = next(event for event in events if event.what is What.STATE and event.at > began)
    assert (end.broker, end.text) == (master.broker, "suspended")
    late_s = end.at - began - lease_s
    assert late_s < SLACK_S + end.waited_s - master.waited_s + still.between(began, end.at)
    assert any(event.what is What.RECEIPT and end.at < event.at < healed for event in events)


@pytest.mark.parametrize("name", ["history", pytest.param("confirmation", marks=pytest.mark.exhaustive)])
def test_without_a_protection_the_harness_finds_the_harm(name: str, tmp_path: Path) -> None:
    told: list[str] = []
    assert prove(PROOFS[name], tmp_path, tries=1, tell=told.append), "\n".join(told)


def test_each_protection_has_a_proof_of_faults_that_its_database_can_have() -> None:
    for proof in PROOFS.values():
        assert proof.fault.kind in kinds_for(proof.database)
    assert {name for proof in PROOFS.values() for name in proof.without} == {
        "certification",
        "confirmation",
        "fence",
        "history",
        "terms",
    }
