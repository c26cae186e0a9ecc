"""Brokers, clients and database in two minutes of faults: nothing is lost, nothing is doubled, one master writes.

And the proof of the proof: without fencing the same harness finds that two masters write.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.failover.chaos import run
from tests.failover.history import What
from tests.failover.nemesis import Fault, kinds_for, plan

SEED = 20
#: Each kind of fault once. `make chaos` goes on for as long as one likes.
SECONDS = {"postgresql": 120, "mariadb": 120, "mysql": 120, "sqlite": 37, "kahadb": 41}
#: Rows of an old term arrive when the new one has begun: held up in the network, or in the master itself.
LATE = [Fault("late_statements", 0.5, True, 1.0), Fault("pause_before_commit", 0.5, True, 1.0)]

#: Runs without fences until both faults did their harm in one.
ATTEMPTS = 3


@pytest.mark.whole_machine
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", SECONDS)
def test_nothing_is_lost_whatever_breaks(database: str, tmp_path: Path) -> None:
    faults = plan(SEED, SECONDS[database], kinds_for(database))
    assert {fault.kind for fault in faults} == set(kinds_for(database))
    outcome = run(database, faults, tmp_path, seed=SEED)
    assert not outcome.violations, str(outcome)
    assert outcome.history.counts[What.ACKED] > 1000


@pytest.mark.whole_machine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", [database for database in SECONDS if database != "kahadb"])
@pytest.mark.parametrize("is_fenced", [False, True], ids=["unfenced", "fenced"])
def test_rows_of_an_old_term_are_found_unless_fences_keep_them_out(
    database: str, is_fenced: bool, tmp_path: Path
) -> None:
    faults = [fault for fault in LATE if fault.kind in kinds_for(database)]
    if is_fenced:
        outcome = run(database, faults, tmp_path)
        assert not outcome.violations, str(outcome)
        return
    for attempt in range(ATTEMPTS):  # whether a row is late enough is a matter of chance, on a busy machine more so
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = run(database, faults, folder, is_fenced=False, patience_s=1)
        told = "\n".join(violation.text for violation in outcome.violations if violation.rule == "b")
        brokers = set(re.findall(r"row .* was added by (b\d)/\d+, while term \d+ was that of b\d/", told))
        if len(brokers) == len(faults):  # each fault made another broker write what it must not
            return
    pytest.fail(str(outcome))
