"""Authorisation: who may read, write and create what, as ActiveMQ's ``authorizationPlugin`` decides it.

Which entries count for a destination:

* All whose pattern covers it, and the default entry: their groups are added up. There is no *most specific* one, so an
  entry for ``queue://>`` is good for every queue, whatever another entry says.
* Nothing covers it: nobody may, unless there is a default entry.
* A wildcard needs entries that cover it: ``queue://ORDERS.>`` those for ``ORDERS.>`` or ``>``, not one for
  ``ORDERS.EU``. Who may subscribe to it gets what he may read and no more: `Permissions.may_receive` says for each
  destination.
* Temporary destinations have an entry of their own, which is not added to others. Without it everybody may.
* A composite is its parts; all of them must be allowed. (ActiveMQ counts only entries that all parts have in common,
  which refuses more.)

What a client does is one of three: it reads (subscribe, browse, use or remove a durable subscription), writes (send),
or administrates (use a destination that is not there yet, which creates it). Acknowledgements need no second look: what
may be acknowledged was read.

The answers of each principal are remembered, so a SEND costs a look into a set.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from jdbcstore.broker.security.principal import Principal
from jdbcstore.destination import Destination
from jdbcstore.errors import NotAuthorized

__all__ = ["Action", "Authorization", "AuthorizationEntry", "AuthorizationMap", "Permissions"]

#: Clients choose the names that are asked for, so not all answers are remembered.
_REMEMBERED_MAX: Final = 4096
#: Principals whose answers are remembered; groups of one user rarely change.
_PRINCIPALS_MAX: Final = 4096
#: Destinations that were there once; creating one takes the right to.
_DESTINATIONS_MAX: Final = 100_000


class Action(Enum):
    """What somebody wants to do with a destination. The value names the list of groups."""

    READ = "read"
    WRITE = "write"
    ADMIN = "admin"


_WORDS: Final = {Action.READ: "read from", Action.WRITE: "write to", Action.ADMIN: "create"}


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationEntry:
    """Which groups may do what with the destinations of a pattern.

    Args:
        pattern: a queue or topic, wildcards allowed. None for the default entry and the one of temporary destinations.
        read, write, admin: groups; ``*`` is everybody who has logged in.
    """

    pattern: Destination | None = None
    read: frozenset[str] = frozenset()
    write: frozenset[str] = frozenset()
    admin: frozenset[str] = frozenset()

    def groups(self, action: Action) -> frozenset[str]:
        """Who may."""
        groups: frozenset[str] = getattr(self, action.value)
        return groups


@dataclass(frozen=True, slots=True, kw_only=True)
class AuthorizationMap:
    """All entries.

    Args:
        entries: with a pattern each.
        default: counts for every destination, beside what `entries` say.
        temporary: for temporary destinations; None lets everybody use them.
    """

    entries: tuple[AuthorizationEntry, ...] = ()
    default: AuthorizationEntry | None = None
    temporary: AuthorizationEntry | None = None

    def groups(self, action: Action, destination: Destination) -> frozenset[str] | None:
        """The groups that may; None for everybody. The destination is no composite."""
        if destination.is_temporary:
            return None if self.temporary is None else self.temporary.groups(action)
        entries = [] if self.default is None else [self.default]
        entries += [
            entry for entry in self.entries if entry.pattern is not None and _covers(entry.pattern, destination)
        ]
        return frozenset().union(*(entry.groups(action) for entry in entries))


def _covers(pattern: Destination, destination: Destination) -> bool:
    """Whether an entry of this pattern counts for a destination. The pattern may be a composite."""
    return any(
        element.is_queue == destination.is_queue
        and element.is_temporary == destination.is_temporary
        and _covers_path(element.physical_name.split("."), destination.physical_name.split("."))
        for element in pattern.elements()
    )


def _covers_path(pattern: list[str], path: list[str], position: int = 0, *, is_below_star: bool = False) -> bool:
    """Whether ActiveMQ's map finds an entry by this path, whose elements up to `position` are matched.

    A ``*`` in the path stands for any element of the pattern. A ``>`` in it is found by ``*`` and ``>`` in the pattern,
    and by anything behind a ``*`` of the pattern; that is how its map of nodes happens to work, and harmless, since
    each destination that a wildcard covers is looked at for itself. ``A.>`` covers A, too.
    """
    for place in range(position, len(path)):
        if is_below_star and path[place] == ">":
            return True
        if place == len(pattern):
            return False
        if pattern[place] == ">":
            return True
        if pattern[place] == "*" and _covers_path(pattern, path, place + 1, is_below_star=True):
            return True
        if path[place] not in ("*", pattern[place]):
            return False
    return len(pattern) == len(path) or pattern[len(path) :] == [">"]


class Permissions:
    """What one principal may do. Sessions of one principal share it.

    Args:
        principal: whose.
        groups: who may, as `AuthorizationMap.groups`.
        exists: whether a destination is there already.
    """

    __slots__ = ("_exists", "_groups", "_readable", "principal", "sendable")

    def __init__(
        self,
        principal: Principal,
        groups: Callable[[Action, Destination], frozenset[str] | None],
        exists: Callable[[Destination], bool],
    ) -> None:
        self.principal = principal
        #: Where it may send to, as far as that is known: what is in here needs no call of `check_send`.
        self.sendable: set[Destination] = set()
        self._readable: dict[Destination, bool] = {}
        self._groups = groups
        self._exists = exists

    def may(self, action: Action, destination: Destination) -> bool:
        """Whether the principal may do it, with every part of a composite."""
        return all(self._may(action, element) for element in destination.elements())

    def check(self, action: Action, destination: Destination, words: str | None = None) -> None:
        """Raise NotAuthorized if the principal may not do it.

        Args:
            action: which right it takes.
            destination: with what.
            words: what it is, for the error; None for what mostly takes this right.
        """
        for element in destination.elements():
            if not self._may(action, element):
                words = words or _WORDS[action]
                raise NotAuthorized(f"User {self.principal.name} is not authorized to {words}: {element}")

    def check_send(self, destination: Destination) -> None:
        """Raise NotAuthorized if the principal may not send there, or may not create what is not there."""
        self.check(Action.WRITE, destination)
        self._check_existence(destination)
        if len(self.sendable) >= _REMEMBERED_MAX:
            self.sendable.clear()
        self.sendable.add(destination)

    def check_receive(self, destination: Destination) -> None:
        """Raise NotAuthorized if the principal may not subscribe to it or browse it, or may not create what is not
        there."""
        self.check(Action.READ, destination)
        self._check_existence(destination)

    def may_subscribe(self, destination: Destination) -> bool:
        """Whether the principal may subscribe to it, and create what is not there: what `check_receive` asks."""
        return self.may(Action.READ, destination) and all(
            self._may(Action.ADMIN, element) for element in self._to_create(destination)
        )

    def may_receive(self, destination: Destination) -> bool:
        """Whether somebody who subscribed to a wildcard may have what is in this destination."""
        answer = self._readable.get(destination)
        if answer is None:
            if len(self._readable) >= _REMEMBERED_MAX:
                self._readable.clear()
            answer = self._readable[destination] = self.may(Action.READ, destination)
        return answer

    def _may(self, action: Action, element: Destination) -> bool:
        groups = self._groups(action, element)
        return groups is None or not groups.isdisjoint(self.principal.groups)

    def _check_existence(self, destination: Destination) -> None:
        for element in self._to_create(destination):
            self.check(Action.ADMIN, element)

    def _to_create(self, destination: Destination) -> Iterator[Destination]:
        """What would be made to use a destination."""
        for element in destination.elements():
            if not (element.is_temporary or element.is_wildcard or self._exists(element)):
                yield element


@dataclass(slots=True)
class Authorization:
    """Decides for one broker.

    Args:
        map: the entries.
        exists: whether a destination is there at the moment.
    """

    map: AuthorizationMap
    exists: Callable[[Destination], bool]
    _permissions: dict[Principal, Permissions] = field(default_factory=dict, init=False)
    #: What was there once needs no right to create it, although the broker lets go of what nobody uses: ActiveMQ keeps
    #: its destinations until it stops.
    _known: dict[Destination, None] = field(default_factory=dict, init=False)

    def permissions(self, principal: Principal) -> Permissions:
        """What a principal may do."""
        found = self._permissions.get(principal)
        if found is None:
            if len(self._permissions) >= _PRINCIPALS_MAX:
                self._permissions.clear()
            found = self._permissions[principal] = Permissions(principal, self.map.groups, self._is_known)
        return found

    def may(self, principal: Principal, action: Action, destination: Destination) -> bool:
        """Whether a principal may do something with a destination."""
        return self.permissions(principal).may(action, destination)

    def appeared(self, destinations: Iterable[Destination]) -> None:
        """These are there now, whoever made them."""
        for destination in destinations:
            if not destination.is_temporary:
                if len(self._known) >= _DESTINATIONS_MAX:
                    del self._known[next(iter(self._known))]
                self._known[destination] = None

    def forget(self) -> None:
        """Somebody else was master in between."""
        self._known.clear()
        self._permissions.clear()

    def _is_known(self, destination: Destination) -> bool:
        return destination in self._known or self.exists(destination)
