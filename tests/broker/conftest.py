"""Brokers for tests: real sockets, a real store, stopped at the end of each test."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

import pytest

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, open_store, running
from jdbcstore.broker import runner
from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.security.authorization import AuthorizationMap
from jdbcstore.broker.virtual_destinations import VirtualDestinations
from jdbcstore.config.urls import open_spool
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Address, Client
from tests.certificates import Authority, Identity
from tests.servers.prepared import PreparedFile

VERSIONS = ("1.0", "1.1", "1.2")

#: The broker that was last started at an address, to look into it.
RUNNING: WeakValueDictionary[Address, Broker] = WeakValueDictionary()

StartBroker = Callable[..., Address]
OpenClient = Callable[..., Client]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    """Signs the certificates of a module's tests."""
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def server(authority: Authority) -> Identity:
    """The certificate of the broker."""
    return authority.identity("broker")


@pytest.fixture(params=["uvloop", "asyncio"])
def any_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """The broker runs on either event loop."""
    if request.param == "asyncio":
        monkeypatch.setattr(runner, "run_in_loop", asyncio.run)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """Closes what the test opened, last things first."""
    with ExitStack() as stack:
        yield stack


@pytest.fixture
def brokers() -> list[Broker]:
    """The brokers that the test started, to look into them."""
    return []


@pytest.fixture
def start_broker(stack: ExitStack, brokers: list[Broker]) -> StartBroker:
    """Start a broker on a free port: ``start_broker(adapter, option=value, …)``; its usual store is in memory."""

    def start(
        adapter: PersistenceAdapter | None = None,
        *,
        policies: Iterable[DestinationPolicy] = (),
        redelivery: Iterable[RedeliveryPolicy] = (),
        tls: TlsOptions | None = None,
        authorization: AuthorizationMap | None = None,
        virtual: VirtualDestinations | None = None,
        **options: Any,
    ) -> Address:
        options = {"bind": "127.0.0.1:0", **options}
        store = adapter or MemoryPersistenceAdapter()
        broker = Broker(
            store,
            BrokerOptions(**options),
            open_spool,
            policies,
            redelivery,
            tls,
            authorization=authorization,
            virtual_destinations=virtual,
        )
        brokers.append(broker)
        address = stack.enter_context(running(broker))
        RUNNING[address] = broker
        return address

    return start


@pytest.fixture
def address(start_broker: StartBroker) -> Address:
    """A broker with the usual options and a store in memory."""
    return start_broker()


@pytest.fixture
def sqlite_store(tmp_path: Path, prepared_file: PreparedFile) -> PersistenceAdapter:
    """A durable store, not started."""
    return open_store(prepared_file.url(tmp_path / "broker.db"))


@pytest.fixture
def open_client(stack: ExitStack) -> OpenClient:
    """A connected raw client: ``open_client(address, version="1.2", …)``."""

    def connect(address: Address, version: str = "1.2", **headers: str) -> Client:
        client = stack.enter_context(Client(address))
        answer = client.connect(version, **headers)
        assert answer.command == "CONNECTED", answer
        return client

    return connect


@pytest.fixture
def client(address: Address, open_client: OpenClient) -> Client:
    """A client of `address`, STOMP 1.2."""
    return open_client(address)


@pytest.fixture(params=VERSIONS)
def any_client(request: pytest.FixtureRequest, address: Address, open_client: OpenClient) -> Client:
    """A client of `address`, in every version."""
    return open_client(address, request.param)
