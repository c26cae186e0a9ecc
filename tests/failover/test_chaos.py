"""Brokers, clients and database in one to two minutes of faults: nothing is lost or doubled, one master writes.

And the proof of the proof: without fencing the same harness finds that two masters write.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.failover.chaos import run
from tests.failover.history import What
from tests.failover.nemesis import Fault, kinds_for, plan

SEED = 20
DATABASES = ["postgresql", "mariadb", "mysql", "sqlite", "kahadb"]
#: PostgreSQL has every kind of fault; the other servers have all of them where there is time.
OTHER_SERVERS = [pytest.param(name, marks=pytest.mark.exhaustive) for name in ("mariadb", "mysql")]
IN_A_FILE = pytest.param("sqlite", marks=pytest.mark.exhaustive)
WHATEVER_BREAKS = ["postgresql", *OTHER_SERVERS, IN_A_FILE, "kahadb"]
WITHOUT_FENCES = ["postgresql", *OTHER_SERVERS, IN_A_FILE]
#: What is done to brokers alone, by the statements of any database: on PostgreSQL, and in files.
OF_BROKERS = {"kill_standby", "stop_master", "rolling_restart", "pause_shortly", "skew_clock"}
#: What is done to the line, which MariaDB and MySQL have in common with their driver: on MariaDB.
OF_LINES = {"cut_master", "drop_connections", "slow_master", "hold_line", "freeze_database"}
LEFT_OUT = {"mariadb": OF_BROKERS, "mysql": OF_BROKERS | OF_LINES}
#: Rows of an old term arrive when the new one has begun: held up in the network, or in the master itself.
LATE = [Fault("late_statements", 0.5, True, 1.0), Fault("pause_before_commit", 0.5, True, 1.0)]
#: Of normal life after each fault.
REST_S = 0.2

#: Runs without fences until both faults did their harm in one.
ATTEMPTS = 3


def once(database: str) -> list[Fault]:
    """Each kind of fault once, those of `LATE` as they are there. `make chaos` goes on for as long as one likes."""
    kinds = [kind for kind in kinds_for(database) if kind not in LEFT_OUT.get(database, ())]
    late = {fault.kind: fault for fault in LATE}
    return [replace(late.get(fault.kind, fault), rest_s=REST_S) for fault in plan(SEED, 200, kinds)[: len(kinds)]]


def test_every_kind_of_fault_is_done_on_a_server() -> None:
    assert {fault.kind for fault in once("postgresql")} == set(kinds_for("postgresql"))
    assert {fault.kind for fault in [*once("mariadb"), *once("mysql")]} == set(kinds_for("mysql")) - OF_BROKERS
    assert all(len(once(database)) == len({fault.kind for fault in once(database)}) for database in DATABASES)


@pytest.mark.whole_machine
@pytest.mark.timeout(900)
@pytest.mark.parametrize("database", WHATEVER_BREAKS)
def test_nothing_is_lost_whatever_breaks(database: str, tmp_path: Path) -> None:
    outcome = run(database, once(database), tmp_path, seed=SEED)
    assert not outcome.violations, str(outcome)
    assert outcome.history.counts[What.ACKED] > 1000


@pytest.mark.whole_machine
@pytest.mark.timeout(300)
@pytest.mark.exhaustive
def test_what_comes_late_is_kept_out_on_mariadb_too(tmp_path: Path) -> None:
    outcome = run("mariadb", LATE, tmp_path, seed=SEED)
    assert not outcome.violations, str(outcome)


@pytest.mark.whole_machine
@pytest.mark.timeout(300)
@pytest.mark.parametrize("database", WITHOUT_FENCES)
def test_without_fences_the_same_faults_bring_rows_of_an_old_term(database: str, tmp_path: Path) -> None:
    faults = [fault for fault in LATE if fault.kind in kinds_for(database)]
    for attempt in range(ATTEMPTS):  # whether a row is late enough is a matter of chance, on a busy machine more so
        folder = tmp_path / str(attempt)
        folder.mkdir()
        outcome = run(database, faults, folder, is_fenced=False, patience_s=1)
        told = "\n".join(violation.text for violation in outcome.violations if violation.rule == "b")
        brokers = set(re.findall(r"row .* was added by (b\d)/\d+, while term \d+ was that of b\d/", told))
        if len(brokers) == len(faults):  # each fault made another broker write what it must not
            return
    pytest.fail(str(outcome))
