"""What is kept in memory of each destination: who it is, how many messages it has, who subscribes to it.

Counts are kept, not counted: they are loaded with the index and change with what is applied to it.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Final, cast

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.errors import CodecError
from jdbcstore.openwire import marshal, unmarshal
from jdbcstore.openwire.commands import SubscriptionInfo as WireInfo
from jdbcstore.store.journal.asked_subscriptions import AskedSubscriptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = [
    "DEFAULT_LEVEL",
    "Known",
    "KnownDestination",
    "KnownSubscription",
    "destination_name",
    "info_bytes",
    "named_destination",
    "subscription_text",
]

#: Where a message stands whose priority does not count.
DEFAULT_LEVEL: Final = 4

_KINDS: Final[tuple[type[Destination], ...]] = (Queue, Topic, TempQueue, TempTopic)


class KnownSubscription:
    """A durable subscription that is in the index."""

    __slots__ = ("count", "id", "info", "info_bytes", "location", "retroactive", "text")

    def __init__(
        self,
        id: int,
        text: str,
        info_bytes: bytes,
        location: tuple[int, int, int],
        destination: Destination,
        *,
        retroactive: bool = False,
        count: int = 0,
    ) -> None:
        self.id: Final = id
        #: ``<client id>:<subscription name>``, as in the journal.
        self.text: Final = text
        self.info_bytes = info_bytes
        #: File, offset and size of the record that created it.
        self.location = location
        self.retroactive = retroactive
        self.info: Final = _info(text, info_bytes, destination)
        #: How many messages it has not acknowledged.
        self.count = count


class KnownDestination:
    """A destination that something is stored of, or that somebody has asked for."""

    __slots__ = ("asked", "count", "destination", "id", "is_kept", "levels", "subscriptions")

    def __init__(self, id: int, destination: Destination, *, is_kept: bool = False, levels: int = 0) -> None:
        self.id: Final = id
        self.destination: Final = destination
        #: Whether it is to be known although it is empty.
        self.is_kept = is_kept
        #: The priorities that its messages have or had.
        self.levels = {level for level in range(10) if levels >> level & 1}
        #: How many messages it has, those in doubt not counted.
        self.count = 0
        #: By their text: what is in the index.
        self.subscriptions: dict[str, KnownSubscription] = {}
        self.asked = AskedSubscriptions()

    @property
    def levels_bits(self) -> int:
        """`levels` as a number."""
        return sum(1 << level for level in self.levels)


class Known:
    """All of them, by destination and by their number in the index."""

    def __init__(self) -> None:
        self._by_destination: dict[Destination, KnownDestination] = {}
        self._by_id: dict[int, KnownDestination] = {}
        self._lock = threading.Lock()

    def __iter__(self) -> Iterator[KnownDestination]:
        return iter(list(self._by_id.values()))

    def put(self, known: KnownDestination) -> KnownDestination:
        """Take one in."""
        self._by_destination[known.destination] = self._by_id[known.id] = known
        return known

    def get(self, destination: Destination) -> KnownDestination | None:
        """The one, if it is known."""
        return self._by_destination.get(destination)

    def of(self, destination: Destination) -> KnownDestination:
        """The one, made known."""
        known = self._by_destination.get(destination)
        if known is None:
            with self._lock:
                known = self._by_destination.get(destination)
                if known is None:
                    known = self.put(KnownDestination(max(self._by_id, default=0) + 1, destination))
        return known

    def by_id(self, id: int) -> KnownDestination:
        """The one of a number in the index."""
        return self._by_id[id]


def destination_name(destination: Destination) -> str:
    """A destination as ActiveMQ's index and our remarks name it: ``<kind>:<physical name>``."""
    return f"{_KINDS.index(type(destination))}:{destination.physical_name}"


def named_destination(name: str) -> Destination:
    """The destination of this name. Raises ValueError or IndexError when it is none."""
    kind, _, physical_name = name.partition(":")
    return _KINDS[int(kind)].decoded(physical_name)


def subscription_text(key: SubscriptionKey) -> str:
    """A subscription's key as it stands in the journal. Nothing is escaped, so two keys may have the same text."""
    return f"{key.client_id}:{key.subscription_name}"


def info_bytes(info: SubscriptionInfo, wire_version: int) -> bytes:
    """A durable subscription in an OpenWire version. Raises `CodecError` when a text does not fit."""
    return marshal(
        WireInfo(
            client_id=info.key.client_id,
            destination=info.destination,
            selector=info.selector,
            subscription_name=info.key.subscription_name,
            subscribed_destination=info.subscribed_destination,
            no_local=info.no_local,
        ),
        wire_version,
    )


def _info(text: str, data: bytes, destination: Destination) -> SubscriptionInfo:
    client_id, _, name = text.rpartition(":")
    try:
        wire = cast(WireInfo, unmarshal(data))
    except CodecError:  # it is served as far as it is known, and kept as it stands
        return SubscriptionInfo(SubscriptionKey(client_id, name), destination, destination)
    if wire.client_id is not None and wire.subscription_name is not None:
        client_id, name = wire.client_id, wire.subscription_name
    return SubscriptionInfo(
        SubscriptionKey(client_id, name),
        destination,
        wire.subscribed_destination or wire.destination or destination,
        wire.selector or None,
        wire.no_local,
    )
