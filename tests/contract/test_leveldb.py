"""The LevelDB store under the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.testing import (
    DurablePersistenceAdapterContract,
    DurableTopicContract,
    DurableTransactionContract,
    OpenAdapter,
)


class TestLevelDB(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"leveldb:{tmp_path / 'leveldb'}")


class TestLevelDBTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"leveldb:{tmp_path / 'leveldb'}")


class TestLevelDBTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"leveldb:{tmp_path / 'leveldb'}")
