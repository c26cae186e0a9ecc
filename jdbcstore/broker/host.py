"""What the parts of the broker get of it: the loop, the clock, the options, the store, completions and memory.

`jdbcstore.broker.broker.Broker` is the one that runs; tests and other hosts may be others.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from jdbcstore.broker.completion_bridge import CompletionBridge
from jdbcstore.broker.memory import Memory
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.slices import Slices
from jdbcstore.store.contract import PersistenceAdapter

__all__ = ["Dispatching", "Host"]

T = TypeVar("T")


class Dispatching(Protocol):
    """Something that can hand out messages: a queue, or a consumer for the queues that wait for it."""

    def dispatch(self) -> bool:
        """Hand out what there is, as far as a slice of time goes. Returns whether that was all that could be done."""


class Host(Protocol):
    """A running broker, as its parts see it. Everything happens in its event loop."""

    loop: asyncio.AbstractEventLoop
    completions: CompletionBridge
    slices: Slices

    @property
    def options(self) -> BrokerOptions:
        """What was chosen."""

    @property
    def memory(self) -> Memory:
        """The account of everything that clients make it keep."""

    @property
    def adapter(self) -> PersistenceAdapter:
        """The store."""

    @property
    def spool(self) -> PersistenceAdapter:
        """The store for what does not have to survive; opened at the first use. Raises `StoreError` if it cannot be."""

    @property
    def is_spool_opening(self) -> bool:
        """Whether the spool is being opened in a thread. Who asks first begins it."""

    @property
    def is_running(self) -> bool:
        """Whether clients are served."""

    def now_ms(self) -> int:
        """Epoch milliseconds."""

    def read(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Call a function that blocks in a thread."""

    def read_patiently(self, function: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """The same for a client that waits: what passes is waited through."""

    def awake(self, what: Dispatching) -> None:
        """This has something to dispatch: it is asked at the end of this turn of the loop."""
