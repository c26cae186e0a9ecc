"""The arithmetic of leases, on clocks that are made up."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jdbcstore.config.urls import open_store, store_options
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.lease import FOREVER_NS, Lease, LockerOptions, boot_time_ns

MS = 1_000_000

lease_lengths = st.integers(1000, 600_000)
moments = st.integers(0, 1 << 60)


@st.composite
def options(draw: st.DrawFn) -> LockerOptions:
    lease_ms = draw(lease_lengths)
    return LockerOptions(
        lease_ms=lease_ms,
        lock_keep_alive_period_ms=draw(st.integers(0, (lease_ms - 1) // 2)),
        lock_acquire_sleep_interval_ms=draw(st.integers(1, lease_ms)),
    )


@given(options(), moments, st.lists(st.tuples(*[st.integers(0, 20_000)] * 3), max_size=20), st.floats(0.95, 1.05))
def test_trust_ends_before_the_database_gives_the_lease_to_another(
    chosen: LockerOptions, start_ns: int, renewals: list[tuple[int, int, int]], speed: float
) -> None:
    """Whatever answers take, and with a database clock that runs five percent faster or slower than ours."""
    lease = Lease.granted("b-1", 1, start_ns, chosen)
    now_ns = ran_ns = start_ns
    for idle_ms, there_ms, back_ms in renewals:
        asked_ns = now_ns + idle_ms * MS
        if (asked_ns + there_ms * MS - ran_ns) * speed > chosen.lease_ms * MS:
            break  # the database refuses
        ran_ns = asked_ns + there_ms * MS
        now_ns = ran_ns + back_ms * MS
        lease = lease.renewed(asked_ns, chosen)
    free_ns = ran_ns + int(chosen.lease_ms * MS / speed)
    assert lease.trusted_until_ns < free_ns


@given(options(), moments)
def test_the_default_order_of_events(chosen: LockerOptions, asked_ns: int) -> None:
    lease = Lease.granted("b-1", 1, asked_ns, chosen)
    assert lease.is_trusted(asked_ns)
    assert asked_ns < lease.renewal_due_ns(chosen) < lease.trusted_until_ns
    assert lease.trusted_until_ns - asked_ns == (chosen.lease_ms - chosen.margin_ms) * MS
    second_due_ns = asked_ns + 2 * chosen.renew_ms * MS
    assert second_due_ns < asked_ns + chosen.lease_ms * MS  # one renewal may fail


@given(options(), moments, st.integers(0, 1 << 50))
def test_trust_runs_out_and_stays_out(chosen: LockerOptions, asked_ns: int, later_ns: int) -> None:
    lease = Lease.granted("b-1", 1, asked_ns, chosen)
    now_ns = asked_ns + later_ns
    assert lease.is_trusted(now_ns) == (later_ns < chosen.trust_ms * MS)
    assert (lease.trusted_for_ms(now_ns) > 0) <= lease.is_trusted(now_ns)
    assert not lease.is_trusted(max(now_ns, lease.trusted_until_ns))
    assert lease.trusted_for_ms(lease.trusted_until_ns) == 0


@given(options(), moments, moments)
def test_a_renewal_changes_the_time_only_and_never_shortens_it(chosen: LockerOptions, one: int, other: int) -> None:
    lease = Lease.granted("b-1", 7, one, chosen)
    renewed = lease.renewed(other, chosen)
    assert (renewed.holder, renewed.term) == ("b-1", 7)
    assert renewed.trusted_until_ns == max(
        lease.trusted_until_ns, Lease.granted("b-1", 7, other, chosen).trusted_until_ns
    )


def test_an_unlimited_lease_needs_nothing() -> None:
    lease = Lease.unlimited("", 0)
    assert lease.is_trusted(FOREVER_NS - 1)
    assert lease.renewal_due_ns(LockerOptions()) == FOREVER_NS


def test_defaults() -> None:
    chosen = LockerOptions()
    assert (chosen.lease_ms, chosen.renew_ms, chosen.lock_acquire_sleep_interval_ms) == (10_000, 3333, 1000)
    assert (chosen.trust_ms, chosen.fail_if_locked, chosen.max_allowable_diff_from_db_time_ms) == (9000, False, 0)


@pytest.mark.parametrize(
    ("wrong", "complaint"),
    [
        ({"lease_ms": 999}, "at least 1000"),
        ({"lease_ms": 0}, "at least 1000"),
        ({"lock_keep_alive_period_ms": 5000}, "at most 4999"),
        ({"lock_keep_alive_period_ms": 30_000}, "less than half of lease_ms 10000"),
        ({"lock_keep_alive_period_ms": -1}, "less than half"),
        ({"lease_ms": 2000, "lock_keep_alive_period_ms": 1000}, "at most 999"),
        ({"lock_acquire_sleep_interval_ms": 0}, "1 to lease_ms 10000"),
        ({"lock_acquire_sleep_interval_ms": 10_001}, "takes over late"),
        ({"max_allowable_diff_from_db_time_ms": -1}, "at least 0"),
        ({"lease_holder_id": ""}, "1 to 200"),
        ({"lease_holder_id": "x" * 201}, "1 to 200"),
        ({"lease_holder_id": "a\0b"}, "printable"),
    ],
)
def test_values_that_are_not_safe_are_refused(wrong: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        replace(LockerOptions(), **wrong)


@given(lease_lengths, st.integers(0, 600_000))
def test_exactly_the_renewals_of_half_a_lease_and_more_are_refused(lease_ms: int, period_ms: int) -> None:
    def made() -> LockerOptions:
        return LockerOptions(
            lease_ms=lease_ms, lock_keep_alive_period_ms=period_ms, lock_acquire_sleep_interval_ms=1000
        )

    if 2 * period_ms >= lease_ms:
        with pytest.raises(ConfigurationError):
            made()
    else:
        assert 0 < made().renew_ms < lease_ms / 2


def test_options_in_the_url(tmp_path: object) -> None:
    adapter = open_store(
        f"sqlite:///{tmp_path}/one.db?locker=lease&lease_ms=4000&lease_holder_id=east&fail_if_locked=true&pool_size=2"
    )
    assert isinstance(adapter, JdbcPersistenceAdapter)
    assert adapter.options.locker == "lease"
    assert adapter.options.pool_size == 2
    assert adapter.options.lock == LockerOptions(lease_ms=4000, lease_holder_id="east", fail_if_locked=True)
    assert not adapter.url.query


def test_options_in_the_url_by_the_names_of_activemq_and_in_its_units(tmp_path: object) -> None:
    adapter = open_store(
        f"sqlite:///{tmp_path}/one.db?locker=lease-database-locker&lockKeepAlivePeriod=3000&lockAcquireSleepInterval=500"
        "&maxAllowableDiffFromDBTime=1000&leaseHolderId=east&failIfLocked=true"
        "&tablePrefix=X_&createTablesOnStartup=false&queryTimeout=7"
    )
    assert isinstance(adapter, JdbcPersistenceAdapter)
    assert adapter.options == JdbcOptions(
        locker="lease",
        table_prefix="X_",
        create_tables_on_startup=False,
        query_timeout_s=7.0,
        lock=LockerOptions(
            lock_keep_alive_period_ms=3000,
            lock_acquire_sleep_interval_ms=500,
            max_allowable_diff_from_db_time_ms=1000,
            lease_holder_id="east",
            fail_if_locked=True,
        ),
    )
    assert not adapter.url.query


def test_the_lockers_of_activemq_and_the_safe_one_by_default() -> None:
    assert JdbcOptions().locker == "lease"
    assert JdbcOptions(locker="lease-database-locker") == JdbcOptions(locker="lease")
    assert JdbcOptions(locker="database-locker") == JdbcOptions(locker="database")


def test_what_is_the_driver_s_stays_the_driver_s() -> None:
    url, options = store_options(
        "postgresql://h/db?host=one&host=two&lease_ms=2000&connect_timeout=3&passfile=p&application_name=a"
    )
    assert dict(url.query) == {
        "host": ("one", "two"),
        "connect_timeout": "3",
        "passfile": "p",
        "application_name": "a",
    }
    assert options.lock.lease_ms == 2000


@pytest.mark.parametrize(
    ("query", "complaint"),
    [
        ("locker=leases", "locker 'leases' is none of lease, database, none, lease-database-locker, database-locker"),
        ("locker=lease&lease_ms=10s", "option lease_ms in the URL must be a whole number, got '10s'"),
        ("locker=lease&lock_keep_alive_period_ms=5000", "less than half"),
        ("locker=database", "not possible on sqlite"),
        ("lockKeepAlivePeriod=30000", "lockKeepAlivePeriod.* 30000 must be less than half of lease_ms 10000.* 4999"),
        ("lockAcquireSleepInterval=30000", "lockAcquireSleepInterval.* 30000 must be 1 to lease_ms 10000"),
        ("maxAllowableDiffFromDBTime=-1", "maxAllowableDiffFromDBTime"),
        ("leaseHolderId=" + 201 * "x", "leaseHolderId"),
        ("failIfLocked=yes", "option failIfLocked in the URL must be true or false, got 'yes'"),
        ("queryTimeout=0", "query_timeout_s must be at least 0.1"),
        ("tablePrefix=a;b", "letters, digits and underscores"),
        ("tablePrefix=A_&table_prefix=A_", "gives tablePrefix and table_prefix: say it once"),
        ("lease_ms=2000&lease_ms=3000", "gives lease_ms and lease_ms: say it once"),
        ("lease=3", r"has the parameter lease, which is no option, did you mean lease_ms\?"),
        ("tableprefx=A_", r"has the parameter tableprefx, which is no option, did you mean tablePrefix\?"),
    ],
)
def test_wrong_options_in_the_url(tmp_path: object, query: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        open_store(f"sqlite:///{tmp_path}/one.db?{query}")


def test_our_clock_counts_the_time_in_which_the_machine_is_suspended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "clock_gettime_ns", lambda which: {time.CLOCK_BOOTTIME: 42}[which])
    assert boot_time_ns() == 42


def test_without_such_a_clock_it_is_one_that_goes_forward(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(time, "CLOCK_BOOTTIME")
    before_ns = time.monotonic_ns()
    assert before_ns <= boot_time_ns() <= time.monotonic_ns()
