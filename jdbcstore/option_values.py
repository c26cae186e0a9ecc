"""Values as ActiveMQ writes them: in its XML, and in the URLs of stores."""

from __future__ import annotations

import re
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["as_boolean", "as_integer", "as_number", "as_size"]

_SIZE: Final = re.compile(r"\s*([0-9]{1,15})\s*([kmg]?)b?\s*", re.IGNORECASE)
_FACTORS: Final = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_BOOLEANS: Final = {
    "true": True,
    "on": True,
    "yes": True,
    "1": True,
    "false": False,
    "off": False,
    "no": False,
    "0": False,
}


def as_size(text: str) -> int:
    """Bytes: ``1048576``, ``64kb``, ``16 mb``, ``1g``. Raises `ConfigurationError`; so do the others."""
    found = _SIZE.fullmatch(text)
    if found is None:
        raise ConfigurationError(f"{text!r} is not a size: write bytes, or a number with kb, mb or gb")
    return int(found[1]) * _FACTORS[found[2].lower()]


def as_integer(text: str) -> int:
    """A whole number."""
    try:
        return int(text.strip())
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a whole number") from None


def as_number(text: str) -> float:
    """A number."""
    try:
        return float(text.strip())
    except ValueError:
        raise ConfigurationError(f"{text!r} is not a number") from None


def as_boolean(text: str) -> bool:
    """``true`` or ``false``, and the other words that Spring takes for them."""
    try:
        return _BOOLEANS[text.strip().lower()]
    except KeyError:
        raise ConfigurationError(f"{text!r} is neither true nor false") from None
