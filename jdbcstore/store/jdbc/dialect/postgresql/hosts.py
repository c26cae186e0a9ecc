"""One URL, several servers: they are tried one after the other until one is as it is wanted.

libpq does that too, and stops at the first that lets a connection in and then fails: a server that is just starting or
has too many sessions, a proxy in front of one that is dead. So each gets an attempt of its own here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import psycopg2

from jdbcstore.store.jdbc.dialect.postgresql.errors import code_of
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["connected", "target"]

#: libpq waits no shorter for one server.
_LEAST_S: Final = 2
_DENIED: Final = "28000"

#: Which one it was the last time, by the hosts of a URL: one that hangs costs time with each connection.
_last: dict[str, int] = {}


def target(options: JdbcOptions) -> dict[str, str]:
    """The parameter for `JdbcOptions.read_from`; none where any server that is named will do."""
    return {"target_session_attrs": "standby"} if options.read_from == "standby" else {}


def connected(parameters: Mapping[str, Any]) -> Any:
    """A connection to the first server that is as ``target_session_attrs`` says; of several, one that takes writes.

    A host that hangs takes its part of the time for connecting.

    Args:
        parameters: of libpq; ``host`` and ``port`` have commas between hosts.

    Raises:
        psycopg2.OperationalError: none is; the text has what each said.
    """
    hosts = str(parameters.get("host") or "").split(",")
    if len(hosts) == 1:
        return psycopg2.connect(**parameters)
    given = {"target_session_attrs": "read-write", **parameters}
    if timeout := int(given.get("connect_timeout") or 0):
        given["connect_timeout"] = max(_LEAST_S, timeout // len(hosts))
    ports = str(parameters.get("port") or "").split(",")
    name, errors = f"{parameters.get('host')} {parameters.get('port')}", []
    for number in _in_order(len(hosts), _last.get(name, 0)):
        one = {**given, "host": hosts[number], "port": ports[number if len(ports) > 1 else 0] or None}
        try:
            raw = psycopg2.connect(**one)
        except psycopg2.OperationalError as error:
            errors.append(error)
        else:
            _last[name] = number
            return raw
    raise _together(errors) from errors[-1]


def _in_order(count: int, first: int) -> Sequence[int]:
    return [(first + number) % count for number in range(count)]


def _together(errors: Sequence[psycopg2.OperationalError]) -> psycopg2.OperationalError:
    """All errors as one. That one host does not let us in says nothing while others may."""
    told = [error for error in errors if code_of(error) != _DENIED] or errors
    return psycopg2.OperationalError("; ".join(" ".join(str(error).split()) for error in told))
