"""The phases of a client, from the first byte to the last.

::

    opening ──▶ open ──▶ leaving ──▶ ending ──▶ closed
       └──────────┴──────────────────▶┘            ▲
                  (from everywhere) ───────────────┘

======== ===================== ============== ===============================================================
phase    requests              deliveries     left by
======== ===================== ============== ===============================================================
opening  `Client.open` alone   none           being let in; a refusal ends it
open     all                   yes            `Client.leave`; an error that is fatal ends it
leaving  none                  none           the last answer of the store, then the transport ends it
ending   none                  none           the socket: the last word is written
closed   none                  none           nothing; what was not acknowledged is being given back
======== ===================== ============== ===============================================================
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum
from typing import Final

__all__ = ["NEXT", "Phase"]


class Phase(Enum):
    """Where a client is."""

    OPENING = "opening"
    OPEN = "open"
    LEAVING = "leaving"
    ENDING = "ending"
    CLOSED = "closed"


#: Where it may go from there.
NEXT: Final[Mapping[Phase, frozenset[Phase]]] = {
    Phase.OPENING: frozenset({Phase.OPEN, Phase.ENDING, Phase.CLOSED}),
    Phase.OPEN: frozenset({Phase.LEAVING, Phase.ENDING, Phase.CLOSED}),
    Phase.LEAVING: frozenset({Phase.ENDING, Phase.CLOSED}),
    Phase.ENDING: frozenset({Phase.CLOSED}),
    Phase.CLOSED: frozenset(),
}
