"""The KahaDB store under the contract suite."""

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


class TestKahaDB(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")


class TestKahaDBTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"kahadb:{tmp_path / 'kahadb'}")
