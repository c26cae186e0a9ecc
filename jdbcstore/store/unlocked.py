"""The locker of a store that is shared with nobody."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from jdbcstore.store.contract import Locker, LockStatus
from jdbcstore.store.lease import Lease, LockerOptions

__all__ = ["NoLocker"]


class NoLocker(Locker):
    """For a broker that shares its store with nobody. Always master, and its commits prove nothing."""

    fence: Final = None

    def __init__(self, options: LockerOptions | None = None) -> None:
        self.options = options or LockerOptions()
        self._lease: Lease | None = None

    @property
    def lease(self) -> Lease | None:
        return self._lease

    def acquire(self) -> int:
        self._lease = Lease.unlimited("", 0)
        return 0

    def renew(self) -> None:
        pass

    def prove(self) -> None:
        """Nobody else is asked."""

    def hold(self) -> Callable[[], object]:
        """Nobody is kept out."""
        return lambda: None

    def release(self) -> None:
        self._lease = None

    def status(self) -> LockStatus:
        return LockStatus(None, 0, None)
