"""One client's access: its login, and what it may do afterwards. Knows no protocol."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, Protocol

from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.authorization import Action, Authorization, Permissions
from jdbcstore.broker.security.login import Credentials, Grant
from jdbcstore.broker.security.principal import Principal
from jdbcstore.destination import Destination, Topic
from jdbcstore.errors import LoginRefused, NotAuthorized

__all__ = ["Access", "Guard"]

log = logging.getLogger(__name__)

#: Orders for the scheduler are messages to this one, however the client spells it.
_MANAGEMENT: Final = Topic("ActiveMQ.Scheduler.Management")
#: Between two log lines about one client.
_TELL_S: Final = 1.0


class Guard(Protocol):
    """A broker, as far as it decides who may do what."""

    loop: asyncio.AbstractEventLoop

    @property
    def authentication(self) -> Authentication | None:
        """Who may log in; None for everybody."""

    @property
    def authorization(self) -> Authorization | None:
        """Who may do what; None for everything."""


class Access:
    """What one client may do; everything, while the broker has no authorisation.

    Args:
        broker: has the users and the rights.
        peer: the client's address and port, for the log.
    """

    __slots__ = ("_broker", "_grant", "_is_encrypted", "_login", "_peer", "_told_s", "_untold", "permissions")

    def __init__(self, broker: Guard, peer: str) -> None:
        #: What it may do; None if there is nothing to be looked at.
        self.permissions: Permissions | None = None
        self._broker = broker
        self._peer = peer
        self._grant: Grant | None = None
        self._login: asyncio.Task[None] | None = None
        self._is_encrypted = False
        self._told_s = -_TELL_S
        self._untold = 0

    @property
    def principal(self) -> Principal | None:
        """Who it is; None if nobody has asked."""
        return None if self._grant is None else self._grant.principal

    # -- login ---------------------------------------------------------------------------------------------------

    def login(self, credentials: Credentials, told: Callable[[LoginRefused | None], object]) -> None:
        """Begin a login; `told` hears how it ends, at once if that is known, None if the client is let in."""
        authentication = self._broker.authentication
        if authentication is None:
            told(None)
            return

        def decided(outcome: Grant | LoginRefused) -> None:
            self._login = None
            if isinstance(outcome, Grant):
                self._take(outcome)
                told(None)
            else:
                told(outcome)

        self._is_encrypted = credentials.is_encrypted
        self._login = authentication.login(credentials, self._peer.rpartition(":")[0], decided)

    def renew(self) -> bool:
        """The users have changed: go by what they are now. False if the client has to log in again."""
        authentication = self._broker.authentication
        if authentication is None or self._grant is None:
            return True
        grant = authentication.renew(self._grant, is_encrypted=self._is_encrypted)
        if grant is None:
            return False
        self._take(grant)
        return True

    def end(self) -> None:
        """The client is gone."""
        if self._login is not None:
            self._login.cancel()
            self._login = None

    def _take(self, grant: Grant) -> None:
        self._grant = grant
        authorization = self._broker.authorization
        if authorization is not None:
            self.permissions = authorization.permissions(grant.principal)

    # -- rights --------------------------------------------------------------------------------------------------

    def check_receive(self, destination: Destination) -> None:
        """Raise NotAuthorized if it may not subscribe to a destination, or browse it."""
        if self.permissions is not None:
            self.permissions.check_receive(destination)

    def check_read(self, destination: Destination) -> None:
        """Raise NotAuthorized if it may not read a destination that is there."""
        if self.permissions is not None:
            self.permissions.check(Action.READ, destination)

    def check_create(self, temporary: Destination) -> None:
        """Raise NotAuthorized if it may have no temporary destinations."""
        if self.permissions is not None:
            self.permissions.check(Action.ADMIN, temporary)

    def check_management(self, reply_to: Destination | None) -> None:
        """Raise NotAuthorized if it may not give orders to the scheduler, or not send their answers there."""
        if self.permissions is not None:
            self.permissions.check(Action.WRITE, _MANAGEMENT)
            if reply_to is not None:
                self.permissions.check(Action.WRITE, reply_to)

    def check_remove(self, destination: Destination) -> None:
        """Raise NotAuthorized if it may not remove a destination."""
        if self.permissions is not None:
            self.permissions.check(Action.ADMIN, destination, "remove")

    def may_subscribe(self, destination: Destination) -> bool:
        """Whether it may subscribe to a destination, and create it if it is not there: what `check_receive` asks."""
        return self.permissions is None or self.permissions.may_subscribe(destination)

    def may_receive(self, destination: Destination) -> bool:
        """Whether a subscription to a wildcard gets what is in this destination."""
        return self.permissions is None or self.permissions.may_receive(destination)

    def denied(self, error: NotAuthorized) -> None:
        """Tell the log, but not too often."""
        now_s = self._broker.loop.time()
        if now_s - self._told_s < _TELL_S:
            self._untold += 1
            return
        more = f" untold_before={self._untold}" if self._untold else ""
        self._told_s, self._untold = now_s, 0
        log.warning("denied peer=%s reason=%r%s", self._peer, str(error), more)
