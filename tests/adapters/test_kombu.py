"""kombu's own integration tests against our transport; they are in its source distribution, and not changed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import kombu
import pytest

import jdbcstore.adapters.celery  # noqa: F401  # makes the transport known
from jdbcstore import Broker, BrokerOptions, open_store, running
from tests.adapters.suites import host_suite
from tests.servers.server import free_port

common: Any = host_suite("kombu", "t/integration/common.py")


@pytest.fixture
def broker_url(tmp_path: Path) -> Iterator[str]:
    """A broker with the usual options, on a file."""
    store = open_store(f"sqlite:///{tmp_path / 'broker.db'}")
    with running(Broker(store, BrokerOptions(bind="127.0.0.1:0"))) as (host, port):
        yield f"jdbcstore://{host}:{port}/"


@pytest.fixture
def connection(broker_url: str) -> Iterator[Any]:
    """Not connected yet."""
    with closing(kombu.Connection(broker_url, connect_timeout=60)) as connection:
        yield connection


@pytest.fixture
def invalid_connection() -> Iterator[Any]:
    """To nobody."""
    with closing(kombu.Connection(f"jdbcstore://127.0.0.1:{free_port()}/")) as connection:
        yield connection


@pytest.fixture
def failover_connection(broker_url: str) -> Iterator[Any]:
    """First to nobody, then to the broker."""
    with closing(kombu.Connection(f"jdbcstore://127.0.0.1:{free_port()}/;{broker_url}")) as connection:
        yield connection


class TestBasicFunctionality(common.BasicFunctionality):
    """Connecting, publishing, consuming."""


class TestExchangeTypes(common.BaseExchangeTypes):
    """Direct, topic, fanout."""


class TestTimeToLive(common.BaseTimeToLive):
    """Expired messages."""


class TestPriority(common.BasePriority):
    """Higher numbers first."""


class TestMessage(common.BaseMessage):
    """Acknowledge, reject, requeue."""


class TestFailover(common.BaseFailover):
    """The second of two URLs answers."""


class TestEventLoop(common.BaseEventLoop):
    """kombu's event loop."""
