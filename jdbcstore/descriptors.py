"""Files and sockets that a process does not share with the children that it forks.

A program with a broker inside of it may fork: Celery's pool, gunicorn, ``multiprocessing``. Nothing of the broker runs
in the child, but its descriptors are there. When the parent is killed, what the child has open stays open: the port
would go on taking connections that nobody answers, clients would wait for the silent broker, and the lock that tells of
its life would be kept. So a child puts ``/dev/null`` in the place of each. The numbers stay taken, since objects of the
parent will close them some day.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from contextlib import suppress
from typing import Protocol
from weakref import WeakSet

__all__ = ["Owner", "keep_from_children"]


class Owner(Protocol):
    """Who has descriptors."""

    def own_descriptors(self) -> Iterable[int]:
        """Those that are open now. Asked in a child that was just forked, where nothing else runs."""


_owners: WeakSet[Owner] = WeakSet()


def keep_from_children(owner: Owner) -> None:
    """From now on no child gets the descriptors of `owner`, while somebody refers to it."""
    _owners.add(owner)


def _let_go() -> None:
    if not _owners:
        return
    nothing = os.open(os.devnull, os.O_RDWR | os.O_CLOEXEC)
    for owner in list(_owners):
        for descriptor in owner.own_descriptors():
            with suppress(OSError):  # a negative one is of a socket that was closed
                os.dup2(nothing, descriptor, inheritable=False)
    os.close(nothing)
    _owners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_let_go)
