"""Two connections with one client id: the one that has it keeps it as long as its machine answers.

A client whose machine or network has failed comes back with the same client id, often before the broker can know that
its old connection is dead. TCP is asked at once then. Who answers keeps the client id, and the newcomer is refused; who
does not is closed. Closing gives back everything that was not acknowledged before the newcomer is let
in, so a durable subscription never has two users, and nothing that its old one had is lost. What it had acknowledged,
and whose commit is still under way, stays acknowledged: the commit does not belong to the connection.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jdbcstore.broker.callbacks import ClientCallbacks
from jdbcstore.broker.options import BrokerOptions

__all__ = ["Contender", "contend"]


class Contender(Protocol):
    """A client that has a client id."""

    client_id: str | None
    connection_id: str

    @property
    def callbacks(self) -> ClientCallbacks:
        """Its transport."""

    @property
    def peer(self) -> str:
        """Its address."""

    @property
    def is_closed(self) -> bool:
        """Whether it is on its way out."""

    @property
    def says_no_more(self) -> bool:
        """Whether it only waits for answers."""

    def when_gone(self, told: Callable[[bool], object]) -> None:
        """Call this with False when everything that it had is given back; it `is_closed`, or is made to."""

    def make_way(self, text: str | None, reason: str) -> None:
        """Be gone at once, so that another connection may have the client id."""


def contend(options: BrokerOptions, holder: Contender, newcomer: str, told: Callable[[bool], object]) -> None:
    """Decide who has a client id.

    Args:
        options: what is allowed.
        holder: who has it.
        newcomer: the address of who wants it, for the log.
        told: called with whether the holder keeps it; at once if links may be stolen.
    """
    if options.allow_link_stealing:
        holder.make_way(
            f"Another connection has your client id {holder.client_id}",
            f"its client id {holder.client_id!r} was taken by {newcomer}",
        )
        told(False)
        return

    def decided(lives: bool) -> None:
        if not lives:
            holder.make_way(None, f"it does not answer, and {newcomer} has its client id {holder.client_id!r} now")
        told(lives)

    holder.callbacks.probe(decided)
