"""``[authorization]`` of a TOML file: who may read, write and create what.

::

    [authorization."queue://ORDERS.>"]
    read = "buyers, admins"
    write = "sellers"
    admin = "admins"

    [authorization.default]     # counts for every destination, beside its own
    [authorization.temporary]   # for temporary destinations; without it everybody may use them
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from jdbcstore.broker.security.authorization import Action, AuthorizationEntry, AuthorizationMap
from jdbcstore.destination import Destination, Queue, Topic, parse_destination
from jdbcstore.errors import ConfigurationError

__all__ = ["groups_in", "read_authorization"]

_DEFAULT, _TEMPORARY = "default", "temporary"
_ACTIONS = tuple(action.value for action in Action)


def read_authorization(tables: Mapping[str, Any]) -> AuthorizationMap:
    """Read the tables.

    Raises:
        ConfigurationError: a name or a value is wrong.
    """
    entries = {name: _entry(name, table) for name, table in tables.items()}
    return AuthorizationMap(
        default=entries.pop(_DEFAULT, None), temporary=entries.pop(_TEMPORARY, None), entries=tuple(entries.values())
    )


def _entry(name: str, table: object) -> AuthorizationEntry:
    where = f'authorization."{name}"'
    if not isinstance(table, dict):
        raise ConfigurationError(f"[{where}] must be a table")
    unknown = [option for option in table if option not in _ACTIONS]
    if unknown:
        raise ConfigurationError(f"unknown option in [{where}]: {', '.join(unknown)}; there are {', '.join(_ACTIONS)}")
    return AuthorizationEntry(
        pattern=_pattern(name, where), **{option: _groups(f"{where}.{option}", text) for option, text in table.items()}
    )


def _pattern(name: str, where: str) -> Destination | None:
    if name in (_DEFAULT, _TEMPORARY):
        return None
    if not name.startswith((Queue.prefix, Topic.prefix)):
        raise ConfigurationError(f'[{where}]: write "queue://…", "topic://…", "{_DEFAULT}" or "{_TEMPORARY}"')
    return parse_destination(name)


def _groups(where: str, value: object) -> frozenset[str]:
    if isinstance(value, list) and all(isinstance(group, str) for group in value):
        return frozenset(group.strip() for group in value)
    if isinstance(value, str):
        return groups_in(value)
    raise ConfigurationError(f'{where} must name groups, "buyers, admins", got {value!r}')


def groups_in(text: str) -> frozenset[str]:
    """The groups of a list with commas."""
    return frozenset(group.strip() for group in text.split(",") if group.strip())
