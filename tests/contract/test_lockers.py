"""The lockers of the SQL store under their contract suite, on every database."""

from __future__ import annotations

import pytest

from jdbcstore.config.urls import open_engine, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import Locker
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker, NoLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.lease import Clock, LockerOptions, boot_time_ns
from jdbcstore.testing import ExclusiveLockerContract, LockerContract, OpenLocker


def on(url: str, kind: type[LeaseDatabaseLocker] | type[DatabaseLocker]) -> OpenLocker:
    """Lockers of a kind, on tables that are there."""
    engine = open_engine(url)
    upgrade_schema(engine)
    engine.dispose()

    def new(options: LockerOptions, clock: Clock = boot_time_ns) -> Locker:
        return kind(store_url(url), JdbcOptions(lock=options), clock=clock)

    return new


class TestLease(ExclusiveLockerContract):
    @pytest.fixture
    def open_locker(self, database_url: str) -> OpenLocker:
        return on(database_url, LeaseDatabaseLocker)


class TestDatabase(ExclusiveLockerContract):
    @pytest.fixture
    def open_locker(self, sql_server_url: str) -> OpenLocker:
        return on(sql_server_url, DatabaseLocker)


class TestNone(LockerContract):
    @pytest.fixture
    def open_locker(self) -> OpenLocker:
        return lambda options, clock=boot_time_ns: NoLocker(options)


def test_a_file_has_no_exclusive_row_lock(tmp_path: object) -> None:
    with pytest.raises(ConfigurationError, match="use 'lease'"):
        DatabaseLocker(store_url(f"sqlite:///{tmp_path}/one.db"), JdbcOptions())
