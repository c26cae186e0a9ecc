"""The lockers of the stores under their contract suite, those of the SQL store on every database."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import Locker
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker
from jdbcstore.store.lease import Clock, LockerOptions, boot_time_ns
from jdbcstore.store.unlocked import NoLocker
from jdbcstore.testing import ExclusiveLockerContract, LeaseLockerContract, LockerContract, OpenLocker

pytestmark = [pytest.mark.has_tables, pytest.mark.one_in(5, of="mariadb mysql postgresql18")]


def on(url: str, kind: type[LeaseDatabaseLocker] | type[DatabaseLocker]) -> OpenLocker:
    """Lockers of a kind, on tables that are there."""

    def new(options: LockerOptions, clock: Clock = boot_time_ns) -> Locker:
        return kind(store_url(url), JdbcOptions(lock=options), clock=clock)

    return new


class TestLease(LeaseLockerContract):
    @pytest.fixture
    def open_locker(self, every_database_url: str) -> OpenLocker:
        return on(every_database_url, LeaseDatabaseLocker)


class TestDatabase(LeaseLockerContract):
    @pytest.fixture
    def open_locker(self, sql_server_url: str) -> OpenLocker:
        return on(sql_server_url, DatabaseLocker)


class TestFile(ExclusiveLockerContract):
    @pytest.fixture
    def open_locker(self, tmp_path: Path) -> OpenLocker:
        return lambda options, clock=boot_time_ns: SharedFileLocker(tmp_path / "store", options, clock)


class TestNone(LockerContract):
    @pytest.fixture
    def open_locker(self) -> OpenLocker:
        return lambda options, clock=boot_time_ns: NoLocker(options)


def test_a_file_has_no_exclusive_row_lock(tmp_path: object) -> None:
    with pytest.raises(ConfigurationError, match="use 'lease'"):
        DatabaseLocker(store_url(f"sqlite:///{tmp_path}/one.db"), JdbcOptions())
