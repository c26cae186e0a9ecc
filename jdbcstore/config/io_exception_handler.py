"""ActiveMQ's handlers for errors of the store, as options of our broker.

::

    [io_exception_handler]
    type = "leaseLockerIOExceptionHandler"
    resumeCheckSleepPeriod = 500            # and the others, in ActiveMQ's spelling

`type` is one of ``defaultIOExceptionHandler``, ``leaseLockerIOExceptionHandler`` and ``JDBCIOExceptionHandler``, which
differ in their defaults only; upper and lower case do not matter. What becomes of the options:

========================  =======  ====================================================================================
option                    default  means
========================  =======  ====================================================================================
`ignoreAllErrors`         false    true: ``on_store_failure = "ignore"``
`ignoreSQLExceptions`     true,    true: ``on_store_failure = "ignore"``
                          others
                          false
`stopStartConnectors`     false,   true: ``on_store_failure = "suspend"``; false: ``"stop"``; only looked at when
                          others   nothing is ignored
                          true
`resumeCheckSleepPeriod`  our own  milliseconds, becomes `resume_check_sleep_s`; ActiveMQ's default of 5000 is not
                                   taken over, it would only lengthen an outage
`systemExitOnShutdown`    false    true: ``on_lease_lost = "stop"``: the process ends, somebody else starts it anew;
                                   false leaves `on_lease_lost` as it is
`ignoreNoSpaceErrors`     true     nothing: senders are told that the database is full and nobody is dropped, which
                                   is what true means; false is noted in the log
`noSpaceMessage`          "space"  nothing, and that is noted: a full database is known by its error code
`sqlExceptionMessage`     ""       nothing, and that is noted: errors are known by their codes, not by their texts
========================  =======  ====================================================================================

A broker that finds that another is master stops serving whatever the handler says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.errors import ConfigurationError

__all__ = ["io_exception_handler"]

#: Handler → its defaults of `ignoreSQLExceptions` and `stopStartConnectors`.
_HANDLERS: Final[Mapping[str, tuple[bool, bool]]] = {
    "defaultIOExceptionHandler": (True, False),
    "leaseLockerIOExceptionHandler": (False, True),
    "JDBCIOExceptionHandler": (False, True),
}
_KINDS: Final[Mapping[str, type]] = {
    "ignoreAllErrors": bool,
    "ignoreNoSpaceErrors": bool,
    "noSpaceMessage": str,
    "ignoreSQLExceptions": bool,
    "sqlExceptionMessage": str,
    "stopStartConnectors": bool,
    "resumeCheckSleepPeriod": int,
    "systemExitOnShutdown": bool,
}
_KIND_NAMES: Final[Mapping[type, str]] = {bool: "true or false", str: "a string", int: "a whole number of milliseconds"}
#: What cannot mean anything here, unless it has this value, and what is done instead.
_WITHOUT_MEANING: Final[Mapping[str, tuple[object, str]]] = {
    "ignoreNoSpaceErrors": (True, "when the database is full, senders are told and nobody is dropped"),
    "noSpaceMessage": ("space", "a full database is known by its error code"),
    "sqlExceptionMessage": ("", "errors are known by their codes"),
}


def io_exception_handler(options: BrokerOptions, table: Mapping[str, Any]) -> tuple[BrokerOptions, tuple[str, ...]]:
    """The broker's options as a handler wants them.

    Args:
        options: of the broker.
        table: the handler's `type` and options, in ActiveMQ's spelling.

    Returns:
        The options, and a sentence for the log about each option that means nothing here.

    Raises:
        ConfigurationError: there is no such handler or option, or a value is of the wrong kind; the text says what
            there is.
    """
    given = dict(table)
    ignores_sql, stops_connectors = _defaults(given.pop("type", None))
    for name, value in given.items():
        _check(name, value)
    notes = [
        f"io_exception_handler.{name} = {given[name]!r} means nothing here: {instead}"
        for name, (neutral, instead) in _WITHOUT_MEANING.items()
        if given.get(name, neutral) != neutral
    ]
    if given.get("ignoreAllErrors", False) or given.get("ignoreSQLExceptions", ignores_sql):
        on_store_failure = "ignore"
    else:
        on_store_failure = "suspend" if given.get("stopStartConnectors", stops_connectors) else "stop"
    period_ms = given.get("resumeCheckSleepPeriod")
    options = replace(
        options,
        on_store_failure=on_store_failure,
        on_lease_lost="stop" if given.get("systemExitOnShutdown", False) else options.on_lease_lost,
        resume_check_sleep_s=options.resume_check_sleep_s if period_ms is None else period_ms / 1000,
    )
    return options, tuple(notes)


def _defaults(kind: object) -> tuple[bool, bool]:
    for name, defaults in _HANDLERS.items():
        if isinstance(kind, str) and kind.lower() == name.lower():
            return defaults
    raise ConfigurationError(f"io_exception_handler.type must be one of {', '.join(_HANDLERS)}, got {kind!r}")


def _check(name: str, value: object) -> None:
    kind = _KINDS.get(name)
    if kind is None:
        raise ConfigurationError(
            f"unknown option in [io_exception_handler]: {name}; there are type, {', '.join(_KINDS)}"
        )
    if type(value) is not kind:
        raise ConfigurationError(f"io_exception_handler.{name} must be {_KIND_NAMES[kind]}, got {value!r}")
    if kind is int and isinstance(value, int) and value < 1:
        raise ConfigurationError(f"io_exception_handler.{name} must be at least 1, got {value}")
