"""The memory store under the contract suite."""

from __future__ import annotations

import pytest

from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.testing import (
    OpenAdapter,
    PersistenceAdapterContract,
    ScheduleContract,
    TopicContract,
    TransactionContract,
)


class TestMemory(PersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self) -> OpenAdapter:
        return MemoryPersistenceAdapter


class TestMemoryTopics(TopicContract):
    @pytest.fixture
    def open_adapter(self) -> OpenAdapter:
        return MemoryPersistenceAdapter


class TestMemorySchedule(ScheduleContract):
    @pytest.fixture
    def open_adapter(self) -> OpenAdapter:
        return MemoryPersistenceAdapter


class TestMemoryTransactions(TransactionContract):
    @pytest.fixture
    def open_adapter(self) -> OpenAdapter:
        return MemoryPersistenceAdapter
