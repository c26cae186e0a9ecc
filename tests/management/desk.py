"""A broker in a thread with its desk, for tests that call the management face in the broker's loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from jdbcstore import Broker, BrokerOptions, PersistenceAdapter, running
from jdbcstore.broker.destination_policy import DestinationPolicy
from jdbcstore.broker.runner import run_in_loop
from jdbcstore.broker.security.authorization import AuthorizationMap
from jdbcstore.config.urls import open_spool
from jdbcstore.management.desk import Desk
from jdbcstore.management.filters import Filter
from jdbcstore.management.management import Management
from jdbcstore.management.operations import Operation
from jdbcstore.management.rights import OPERATOR, Rights
from jdbcstore.management.views import DestinationView, OperationView

T = TypeVar("T")


class Managed:
    """A running broker and what its operator does."""

    def __init__(self, broker: Broker, desk: Desk, address: tuple[str, int]) -> None:
        self.broker = broker
        self.desk = desk
        self.address = address
        self.face = Management(desk, OPERATOR)

    def call(self, work: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the broker's loop."""
        return asyncio.run_coroutine_threadsafe(work, self.broker.loop).result(60)

    def operate(self, action: str, *arguments: Any, rights: Rights = OPERATOR, **named: Any) -> OperationView:
        """Begin an operation by the face's method of this name, and wait for its end."""

        async def work() -> OperationView:
            operation: Operation = getattr(self.face.for_whom(rights), action)(*arguments, **named)
            return await self.face.finished(operation)

        return self.call(work())

    def view(self, name: str) -> DestinationView:
        """A destination as it is now."""

        async def look() -> DestinationView:
            await self.face.look()
            return self.face.destination(name)

        return self.call(look())

    def bodies(self, name: str, chosen: Filter | None = None) -> list[str]:
        """The bodies of all messages of a queue, by pages of three."""
        found: list[str] = []
        after = None
        while True:
            page = self.call(self.face.browse(name, chosen or Filter(), after, 3))
            found += [(view.message.content or b"")[4:].decode() for view in page.messages]
            if page.after is None:
                return found
            after = page.after


@contextmanager
def managed(
    store: PersistenceAdapter,
    *,
    authorization: AuthorizationMap | None = None,
    policies: Sequence[DestinationPolicy] = (),
    waits: bool = True,
    **options: Any,
) -> Iterator[Managed]:
    """A running broker with its desk; with `waits` it is master."""
    broker = Broker(
        store,
        BrokerOptions(**{"bind": "127.0.0.1:0", **options}),
        open_spool,
        policies,
        authorization=authorization,
    )
    desk = Desk(broker)
    broker.companions.append(desk)
    if waits:
        with running(broker) as address:
            yield Managed(broker, desk, address)
        return
    with beside(broker):
        yield Managed(broker, desk, ("", 0))


@contextmanager
def beside(broker: Broker) -> Iterator[None]:
    """A broker that runs, in whatever state it is."""
    thread = threading.Thread(target=run_in_loop, args=(_live(broker, started := threading.Event()),))
    thread.start()
    try:
        assert started.wait(60)
        yield
    finally:
        broker.loop.call_soon_threadsafe(lambda: asyncio.ensure_future(broker.stop()))
        thread.join(60)


async def _live(broker: Broker, started: threading.Event) -> None:
    await broker.start()
    started.set()
    await broker.ended()
