"""The version of this package; the same as in pyproject.toml, which a test compares."""

from typing import Final

__all__ = ["VERSION"]

VERSION: Final = "0.1.0"
