"""The SQL store under the contract suite, on every database."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableScheduleContract,
    DurableTopicContract,
    DurableTransactionContract,
    KilledStoreContract,
    OpenAdapter,
)
from tests.servers.prepared import PreparedFile

pytestmark = pytest.mark.has_tables

OTHER_NAMES = "messageTableName=AMQ&durableSubAcksTableName=AMQ_ACKS2&lockTableName=amq_lock&tablePrefix=Own_"


def lasting(url: str) -> str:
    """With a lease that a machine does not end that stands still for seconds: who asks waits for a third of it."""
    return f"{url}{'&' if '?' in url else '?'}lease_ms=60000"


class TestJdbc(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, every_database_url: str) -> OpenAdapter:
        return lambda: open_store(lasting(every_database_url))


@pytest.fixture(scope="module")
def under_other_names(tmp_path_factory: pytest.TempPathFactory) -> PreparedFile:
    """A SQLite file whose tables have other names."""
    return PreparedFile(tmp_path_factory.mktemp("names"), OTHER_NAMES)


class TestJdbcUnderOtherNames(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, under_other_names: PreparedFile, tmp_path: Path) -> OpenAdapter:
        under_other_names.copy_to(tmp_path / "names.db")
        return lambda: open_store(f"sqlite:///{tmp_path / 'names.db'}?{OTHER_NAMES}&lease_ms=60000")


class TestJdbcTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, second_version_url: str) -> OpenAdapter:
        return lambda: open_store(lasting(second_version_url))


class TestJdbcSchedule(DurableScheduleContract):
    @pytest.fixture
    def open_adapter(self, second_version_url: str) -> OpenAdapter:
        return lambda: open_store(lasting(second_version_url))


class TestJdbcTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, second_version_url: str) -> OpenAdapter:
        return lambda: open_store(lasting(second_version_url))


class TestJdbcKilled(KilledStoreContract):
    @pytest.fixture
    def store_url(self, database_url: str) -> str:
        return database_url
