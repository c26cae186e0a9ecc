"""Several KahaDB stores as one under the contract suite: all destinations in one, or one for each."""

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


class TestPerDestination(DurablePersistenceAdapterContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")


class TestPerDestinationTopics(DurableTopicContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")


class TestPerDestinationTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: open_store(f"mkahadb:{tmp_path / 'm'}?perDestination=true")
