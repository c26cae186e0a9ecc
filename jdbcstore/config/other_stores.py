"""Stores that other packages bring, found by the scheme of their URL.

A package registers a store by an entry point of the group ``jdbcstore.stores``: its name is the scheme, as in
``NAME:…``, its object is called with the URL and returns a `PersistenceAdapter` that is not started.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import PersistenceAdapter

__all__ = ["is_other_store", "open_other_store", "other_stores"]

_GROUP: Final = "jdbcstore.stores"


def other_stores() -> list[str]:
    """Their schemes."""
    return sorted({point.name for point in entry_points(group=_GROUP)})


def is_other_store(url: str) -> bool:
    """Whether a package brings the store of this URL."""
    return bool(_points(url))


def open_other_store(url: str) -> PersistenceAdapter:
    """The store of a URL for which `is_other_store`.

    Raises:
        ConfigurationError: what is registered cannot be loaded, or gives no store.
        Whatever the package raises.
    """
    point = _points(url)[0]
    package = "" if point.dist is None else f" of the package {point.dist.name}"
    try:
        open_it: Callable[[str], object] = point.load()
    except (ImportError, AttributeError) as error:
        raise ConfigurationError(
            f"the store {point.name}:{package} cannot be loaded ({error}): mend or remove the package"
        ) from error
    adapter = open_it(url)
    if not isinstance(adapter, PersistenceAdapter):
        raise ConfigurationError(f"what is registered as the store {point.name}:{package} gives none, but {adapter!r}")
    return adapter


def _points(url: str) -> list[EntryPoint]:
    scheme, colon, _ = url.partition(":")
    return list(entry_points(group=_GROUP, name=scheme)) if colon else []
