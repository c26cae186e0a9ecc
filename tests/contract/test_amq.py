"""The AMQ store under the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableScheduleContract,
    DurableTopicContract,
    DurableTransactionContract,
    OpenAdapter,
)


class TestAMQ(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"amq:{tmp_path / 'amq'}")


class TestAMQTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"amq:{tmp_path / 'amq'}")


class TestAMQTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"amq:{tmp_path / 'amq'}")


class TestAMQSchedule(DurableScheduleContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"amq:{tmp_path / 'amq'}")
