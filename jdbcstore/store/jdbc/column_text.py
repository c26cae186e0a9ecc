"""What a column for texts takes: each of ActiveMQ's and of ours is VARCHAR(250)."""

from __future__ import annotations

import re
from typing import Final

from jdbcstore.errors import JdbcStoreError, StoreError

__all__ = ["COLUMN_CHARACTERS_MAX", "require_column_text"]

COLUMN_CHARACTERS_MAX: Final = 250

#: NUL, and halves of characters that take two.
_IMPOSSIBLE: Final = re.compile("[\0\ud800-\udfff]")


def require_column_text(what: str, text: str, error: type[JdbcStoreError] = StoreError) -> None:
    """Refuse a text that no row can have.

    Args:
        what: the text is, for the error.
        text: may be empty.
        error: what to raise.

    Raises:
        JdbcStoreError: it is too long for its column, or has characters that no database takes; of the kind `error`.
    """
    if len(text) > COLUMN_CHARACTERS_MAX:
        raise error(f"{what} has {len(text)} characters, its column takes {COLUMN_CHARACTERS_MAX}: {text[:60]!r}…")
    if not text.isprintable() and _IMPOSSIBLE.search(text) is not None:
        raise error(f"{what} {text[:60]!r} has characters that no database column takes")
