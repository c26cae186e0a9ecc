"""One URL, several servers: libpq tries one after the other until one is as it is wanted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["chosen", "target"]

#: libpq waits no shorter for one server.
_LEAST_S: Final = 2


def target(options: JdbcOptions) -> dict[str, str]:
    """The parameter for `JdbcOptions.read_from`; none where any server that is named will do."""
    return {"target_session_attrs": "standby"} if options.read_from == "standby" else {}


def chosen(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of a connection, with what several hosts need besides.

    Unless they say otherwise the one that takes writes is wanted. A host that hangs takes its part of the time for
    connecting, which libpq would give to each.

    Args:
        parameters: of libpq; ``host`` has commas between hosts.
    """
    hosts = str(parameters.get("host") or parameters.get("hostaddr") or "").count(",") + 1
    if hosts == 1:
        return dict(parameters)
    found = {"target_session_attrs": "read-write", **parameters}
    if timeout := int(found.get("connect_timeout") or 0):
        found["connect_timeout"] = max(_LEAST_S, timeout // hosts)
    return found
