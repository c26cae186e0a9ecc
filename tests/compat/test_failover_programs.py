"""Random JMS programs over ``failover:`` keep what they were promised, whatever becomes of their brokers."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.compat.activemq import JdbcStore
from tests.compat.failover_programs import Fault, JavaMember, Member, OurMember, Pair, judged

LEASE_MS = 3000
LEASE = f"?lease_ms={LEASE_MS}&lock_acquire_sleep_interval_ms=200"
pytestmark = pytest.mark.timeout(600)


def require_kept_promises(class_path: str, pair: Pair, faults: Sequence[Fault], seed: int, count: int) -> None:
    with pair:
        said = judged(class_path, pair, faults, seed, count)
    broken = [one for one in said if one["wrong"]]
    assert not broken, f"seed {seed}: {json.dumps(broken, indent=1)}"
    assert len(said) == count


def test_brokers_on_one_directory(class_path: str, tmp_path: Path) -> None:
    url = f"kahadb:{tmp_path}/kahadb?lockAcquireSleepInterval=200"
    pair = Pair(OurMember(url, tmp_path, "first"), OurMember(url, tmp_path, "second"))
    require_kept_promises(class_path, pair, ["kill", "stop"], seed=2000, count=7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("_", range(3))
def test_more_of_them(class_path: str, tmp_path: Path, _: int) -> None:
    url = f"kahadb:{tmp_path}/kahadb?lockAcquireSleepInterval=200"
    pair = Pair(OurMember(url, tmp_path, "first"), OurMember(url, tmp_path, "second"))
    faults: list[Fault] = ["kill", "stop", "kill", "stop", "kill"]
    require_kept_promises(class_path, pair, faults, random.randrange(1_000_000), count=14)


@pytest.mark.exhaustive
@pytest.mark.parametrize("_", range(3))
def test_brokers_on_one_database(class_path: str, tmp_path: Path, postgresql_url: str, _: int) -> None:
    url = postgresql_url + LEASE
    pair = Pair(OurMember(url, tmp_path, "first"), OurMember(url, tmp_path, "second"))
    faults: list[Fault] = ["kill", "hand over", "freeze", "stop", "kill"]
    require_kept_promises(class_path, pair, faults, random.randrange(1_000_000), count=14)


@pytest.mark.exhaustive
@pytest.mark.parametrize("is_java_first", [True, False])
def test_a_java_broker_and_ours_on_one_database(
    class_path: str, tmp_path: Path, postgresql_url: str, *, is_java_first: bool
) -> None:
    store = JdbcStore(postgresql_url, lock="lease", lease_ms=LEASE_MS, renew_ms=LEASE_MS * 3 // 10)
    members: list[Member] = [
        JavaMember(class_path, tmp_path, store, "java"),
        OurMember(postgresql_url + LEASE, tmp_path, "ours"),
    ]
    pair = Pair(*(members if is_java_first else members[::-1]))
    require_kept_promises(class_path, pair, ["kill", "stop", "kill"], random.randrange(1_000_000), count=14)
