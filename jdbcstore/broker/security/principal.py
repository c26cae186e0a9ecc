"""Who somebody is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

__all__ = ["EVERYBODY", "Principal"]

#: The group of everybody who has logged in, ActiveMQ's wildcard in lists of groups.
EVERYBODY: Final = "*"


@dataclass(frozen=True, slots=True)
class Principal:
    """Somebody who has logged in.

    Args:
        name: of the user.
        groups: what decides about rights. `EVERYBODY` is among them unless a ``*`` in a list of groups does not mean
            this one, which is so for users without groups of ActiveMQ's ``simpleAuthenticationPlugin``.
    """

    name: str
    groups: frozenset[str] = frozenset((EVERYBODY,))
