"""A minute of faults of a PostgreSQL cluster, and the proof that the harness finds what the store protects from.

`make chaos ARGS="--database patroni --minutes 60"` goes on for longer, and with ``--without`` shows the other proofs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.failover.chaos import run
from tests.failover.history import What
from tests.failover.nemesis import Fault, kinds_for

pytestmark = [pytest.mark.whole_machine, pytest.mark.timeout(900)]

#: Waits of commits that end with their sessions, and the death of the server that alone had them.
CANCELLED = Fault("cancel_commits", 0.5, True, 1.0)
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


def test_without_confirmation_what_had_a_receipt_is_lost_or_comes_back(tmp_path: Path) -> None:
    """Whether a commit waits in the moment of the fault is chance, so there are some tries."""
    told = []
    for seed in (7, 8, 9, 10):
        folder = tmp_path / str(seed)
        folder.mkdir()
        outcome = run("patroni", [CANCELLED], folder, seed=seed, without=["confirmation"], patience_s=10)
        if "a" in {violation.rule for violation in outcome.violations}:
            return
        told.append(str(outcome))
    raise AssertionError("\n".join(told))
