"""Mastership of a SQL store: who has acquired the lock, the store itself or who opens it, and what proves it."""

from __future__ import annotations

import logging
import os
import threading
from typing import Final

from sqlalchemy import URL

from jdbcstore.errors import LeaseLost, LockHeld, StoreError
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.line_watch import engine_for
from jdbcstore.store.jdbc.lockers import DatabaseLocker, LeaseDatabaseLocker
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.usable_schema import usable_schema
from jdbcstore.store.keeper import LockKeeper
from jdbcstore.store.unlocked import NoLocker

__all__ = ["Mastership"]

log = logging.getLogger(__name__)

#: Set to 1, commits prove nothing: for the test that has to see what happens then, and for nobody else.
_UNFENCED: Final = "_JDBCSTORE_UNFENCED"


class Mastership:
    """The locker of a store, and the lease that the store keeps by itself when nobody has acquired it before.

    Args:
        url, options: of the store.
        fence: a mastership that the caller has, and keeps until the store is stopped; the locker of the options is
            ``none`` then.
        must_exist: as `usable_schema` takes it.

    Attributes:
        locker: kind and times are options.
    """

    def __init__(self, url: URL, options: JdbcOptions, fence: Fence | None, *, must_exist: bool) -> None:
        self._url = url
        self._options = options
        self._must_exist = must_exist
        self._given = fence
        self.locker: Final = self._new_locker()
        self._keeper: LockKeeper | None = None
        self._ending: threading.Thread | None = None

    def _new_locker(self) -> NoLocker | LeaseDatabaseLocker | DatabaseLocker:
        if self._options.locker == "none":
            return NoLocker(self._options.lock)
        kind = LeaseDatabaseLocker if self._options.locker == "lease" else DatabaseLocker
        return kind(self._url, self._options, self._prepare)

    def _prepare(self) -> None:
        """What a standby may do already: create the tables, or make sure that they will do."""
        engine = engine_for(self._url, self._options)
        try:
            usable_schema(engine, self._options, must_exist=self._must_exist)
        finally:
            engine.dispose()

    def begin(self) -> None:
        """Acquire for a caller who did not, and keep the lease until `end`.

        Raises:
            LockHeld: somebody else is master.
        """
        locker = self.locker
        if isinstance(locker, NoLocker) or locker.lease is not None:
            return
        try:
            if locker.acquire() is None:
                raise locker.held_by_another()
        except LockHeld:
            locker.release()  # closes its connection
            raise
        keeper = LockKeeper(locker, lost=lambda error: log.error("nothing can be written any more: %s", error))
        keeper.start()
        self._keeper = keeper

    def proof(self) -> Fence | None:
        """What every commit proves; None without a locker.

        Raises:
            LeaseLost: not master any more.
        """
        fence = self._given or self.locker.fence
        if self._options.locker != "none" and fence is None:
            raise LeaseLost("not master any more: acquire again")
        if fence is not None and os.environ.get(_UNFENCED) == "1":
            log.error("fencing is turned off by %s: two masters may write", _UNFENCED)
            return None
        return fence

    def end(self) -> None:
        """Release what `begin` has acquired."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._release(keeper)

    def abandon(self) -> None:
        """`end`, without waiting for the database."""
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            self._ending = threading.Thread(
                target=self._release, args=(keeper,), name="jdbcstore-resigning", daemon=True
            )
            self._ending.start()

    def wait_until_abandoned(self) -> None:
        """What `abandon` did not wait for may not come in between."""
        if self._ending is not None:
            self._ending.join()
            self._ending = None

    def _release(self, keeper: LockKeeper) -> None:
        keeper.stop()
        try:
            self.locker.release()
        except StoreError as error:  # all is written and closed; the lease ends by itself
            log.warning("could not release, others have to wait for the end of the lease error=%r", str(error))
