"""The durable subscriptions of a topic that somebody has asked for, before they are in the journal."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator

from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey

__all__ = ["AskedSubscriptions"]


class AskedSubscriptions:
    """What was asked for last, of each subscription. The caller holds the adapter's `order` to change it, so that it
    changes in the order of the writes.

    What a failed write takes back needs no more than the lock in here: whoever has `order` may be waiting for the
    thread that commits, which takes back.

    Args:
        found: those that the journal has.
    """

    __slots__ = ("_by_key", "_lock")

    def __init__(self, found: Iterable[SubscriptionInfo] = ()) -> None:
        self._by_key = {info.key: info for info in found}
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._by_key)

    def __iter__(self) -> Iterator[SubscriptionInfo]:
        return iter(list(self._by_key.values()))

    def get(self, key: SubscriptionKey) -> SubscriptionInfo | None:
        """The one of a key."""
        return self._by_key.get(key)

    def ask(self, info: SubscriptionInfo) -> Callable[[], None] | None:
        """Take one in, in the place of the one of its key.

        Returns:
            What takes it back; None if the one that was there goes on with this.
        """
        with self._lock:
            before = self._by_key.get(info.key)
            if before is not None and before.goes_on_with(info):
                return None
            self._by_key[info.key] = info

        def undo() -> None:
            with self._lock:
                if self._by_key.get(info.key) is not info:
                    return
                if before is None:
                    del self._by_key[info.key]
                else:
                    self._by_key[info.key] = before

        return undo

    def withdraw(self, key: SubscriptionKey) -> Callable[[], None]:
        """Take one out, if it is there; what takes that back."""
        with self._lock:
            before = self._by_key.pop(key, None)

        def undo() -> None:
            with self._lock:
                if before is not None:
                    self._by_key.setdefault(key, before)

        return undo

    def clear(self) -> None:
        """Take all out."""
        with self._lock:
            self._by_key.clear()
