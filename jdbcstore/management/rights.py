"""Who may see and do what: somebody who has logged in as a client does, by destination, or nobody in particular.

The rights are those of `jdbcstore.broker.security.authorization`: who may *administrate* a destination may do to it
what this face offers; who may *read* it may see it and what is in it. What concerns no destination (clients, log,
mastership) takes both rights for all queues and topics. A broker without authorisation gives everything to everybody
who has logged in.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.broker.security.authorization import Action, Authorization
from jdbcstore.broker.security.principal import Principal
from jdbcstore.destination import Destination, Queue, Topic
from jdbcstore.errors import NotAuthorized

__all__ = ["OPERATOR", "VISITOR", "Rights"]

_EVERYTHING: Final = (Queue(">"), Topic(">"))


@dataclass(frozen=True, slots=True)
class Rights:
    """What one person may do.

    Args:
        name: who it is, for the audit log.
        may_act: whether it may change anything; else it only looks.
        principal: whose rights decide; None for everything that `may_act` allows.
        authorization: the broker's; None if it has none.
    """

    name: str
    may_act: bool
    principal: Principal | None = None
    authorization: Authorization | None = None

    def may_see(self, destination: Destination) -> bool:
        """Whether it may see a destination and what is in it."""
        return self._may(Action.READ, destination) or self._may(Action.ADMIN, destination)

    @property
    def may_see_everything(self) -> bool:
        """Whether it may see every destination, and clients and log."""
        return all(self.may_see(pattern) for pattern in _EVERYTHING)

    def check_see(self, destination: Destination) -> None:
        """Raise NotAuthorized if it may not see a destination."""
        if not self.may_see(destination):
            raise NotAuthorized(f"User {self.name} is not authorized to see {destination}")

    def check_see_everything(self, what: str) -> None:
        """Raise NotAuthorized if it may not see what concerns the whole broker."""
        if not self.may_see_everything:
            raise NotAuthorized(f"User {self.name} is not authorized to see {what}: that takes the right to read all")

    def may_admin(self, destination: Destination) -> bool:
        """Whether it may administrate a destination."""
        return self.may_act and self._may(Action.ADMIN, destination)

    def check_admin(self, destination: Destination) -> None:
        """Raise NotAuthorized if it may not administrate a destination."""
        self._check_act()
        if not self._may(Action.ADMIN, destination):
            raise NotAuthorized(f"User {self.name} is not authorized to administrate {destination}")

    def check_admin_everything(self, what: str) -> None:
        """Raise NotAuthorized if it may not do what concerns the whole broker."""
        self._check_act()
        if not all(self._may(Action.ADMIN, pattern) for pattern in _EVERYTHING):
            raise NotAuthorized(
                f"User {self.name} is not authorized to {what}: that takes the right to administrate all"
            )

    def _check_act(self) -> None:
        if not self.may_act:
            raise NotAuthorized(f"{self.name} may only look: give --token, --token-file or --login")

    def _may(self, action: Action, destination: Destination) -> bool:
        if self.principal is None or self.authorization is None:
            return True
        return self.authorization.may(self.principal, action, destination)


#: Somebody with all rights, for a program that has the broker inside of it.
OPERATOR: Final = Rights("operator", may_act=True)
#: Somebody who has not logged in, at a broker that lets everybody in.
VISITOR: Final = Rights("visitor", may_act=False)
