"""The management face: everything that an operator sees of a running broker, and everything that he may do to it.

One object for one person: it asks the person's `Rights` for each call, and writes what was done, or refused, to the
audit log. It knows no protocol; `jdbcstore.transport.web` brings it to browsers and programs. All of it is called in
the broker's event loop.
"""

from __future__ import annotations

from jdbcstore.management.control import SIDES, Control
from jdbcstore.management.messages import Messages
from jdbcstore.management.overview import Overview
from jdbcstore.management.rights import Rights

__all__ = ["SIDES", "Management"]


class Management(Overview, Messages, Control):
    """The face for one person; its three parts know nothing of each other."""

    def for_whom(self, rights: Rights) -> Management:
        """The face for somebody else."""
        return Management(self._desk, rights)
