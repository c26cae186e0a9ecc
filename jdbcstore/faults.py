"""Named points where a test may stop or fail the product; they do nothing in production.

Points in use: ``writer.before_commit`` (a batch is about to be sent), ``writer.after_commit`` (the database has
answered).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

__all__ = ["inject", "point"]

_armed: dict[str, Callable[[], object]] = {}


def point(name: str) -> None:
    """Run what a test has put at this point, if anything."""
    if _armed and (action := _armed.get(name)) is not None:
        action()


@contextmanager
def inject(name: str, action: Callable[[], object]) -> Iterator[None]:
    """Run `action` at a point for the duration of the block; what it raises, the point raises."""
    if name in _armed:
        raise RuntimeError(f"something is armed at {name} already")
    _armed[name] = action
    try:
        yield
    finally:
        del _armed[name]
