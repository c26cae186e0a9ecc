"""How many examples Hypothesis makes up for a test: few each time, many when somebody asks for them."""

from __future__ import annotations

import os

__all__ = ["examples"]

_FACTOR = int(os.environ.get("JDBCSTORE_TEST_EXAMPLES", "1"))


def examples(usual: int) -> int:
    """So many in a usual run, and ``JDBCSTORE_TEST_EXAMPLES`` times as many where that is in the environment."""
    return usual * _FACTOR
