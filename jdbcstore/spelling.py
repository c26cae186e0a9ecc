"""Misspelt names: which known one was meant."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

__all__ = ["did_you_mean"]

#: Comparing takes longer the longer a name is, and no name that is known is as long.
_CHARACTERS_MAX: Final = 200


def did_you_mean(name: str, known: Iterable[str], likeness: float = 0.75) -> str:
    """A question to append to an error: ``, did you mean lease_ms?``; empty if no known name is like this one.

    Args:
        name: what was written.
        known: the names there are, whose case does not count.
        likeness: how much of the two names is the same, 0 to 1, at least.
    """
    if len(name) > _CHARACTERS_MAX:
        return ""
    folded = {candidate.lower(): candidate for candidate in known}
    close = get_close_matches(name.lower(), folded, 1, likeness)
    return f", did you mean {folded[close[0]]}?" if close else ""
