"""A real broker and ours, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.config.urls import open_spool
from tests.broker.client import Address
from tests.compat.activemq import ActiveMQ


@pytest.fixture(scope="module")
def theirs(class_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Address]:
    """A real ActiveMQ, for STOMP."""
    with ActiveMQ(class_path, tmp_path_factory.mktemp("activemq"), "memory") as activemq:
        yield "127.0.0.1", activemq.stomp_port


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Address]:
    """Our broker, for STOMP."""
    store = open_store(f"sqlite:///{tmp_path / 'ours.db'}")
    with running(Broker(store, BrokerOptions(bind="127.0.0.1:0"), open_spool)) as address:
        yield address
