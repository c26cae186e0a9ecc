"""The AMQ store under the contract suite."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.config.urls import open_store
from jdbcstore.store.contract import PersistenceAdapter
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


def _without_index(directory: Path) -> PersistenceAdapter:
    """The store as it is after a crash that has taken its index: the journal alone tells."""
    for path in directory.glob("jdbcstore-index*"):
        path.unlink()
    return open_store(f"amq:{directory}")


@pytest.mark.one_in(3)  # after its opening it is the same store
class TestJournalAlone(DurablePersistenceAdapterContract):
    # A journal does not tell the numbers of messages that are gone.
    test_everything_is_there_after_a_restart = None  # type: ignore[assignment]

    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: _without_index(tmp_path / "amq")


@pytest.mark.one_in(3)
class TestJournalAloneTopics(DurableTopicContract):
    test_sequences_go_on_behind_what_was_acknowledged = None  # type: ignore[assignment]

    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: _without_index(tmp_path / "amq")


@pytest.mark.one_in(3)
class TestJournalAloneTransactions(DurableTransactionContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: _without_index(tmp_path / "amq")


@pytest.mark.one_in(3)
class TestJournalAloneSchedule(DurableScheduleContract):
    @pytest.fixture
    def open_adapter(self, tmp_path: Path) -> OpenAdapter:
        return lambda: _without_index(tmp_path / "amq")
