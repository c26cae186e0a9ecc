"""Secrets in the arguments of a process, which everybody on the machine may see: taken out of its process list.

On Linux the arguments that ``ps`` and ``/proc/PID/cmdline`` show are memory of the process itself, so it can overwrite
them, and does so before anything else. What remains: somebody may look in the milliseconds before, shells keep a
history, and what started the process may log its command. Files and environment variables have none of that.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final

__all__ = ["hide_secrets", "secrets_in"]

#: The password of a URL, also one with an unescaped @ in it.
_OF_URL: Final = re.compile(r"://[^/@:]*:(.+)@")
_PARAMETER: Final = re.compile(r"[?&](?:password|passwd)=([^&]+)")
_PASSCODE_OPTIONS: Final = ("--passcode", "--token", "--user")
#: Fields of /proc/self/stat behind the name of the program, from 0: where the arguments begin and end.
_ARG_START, _ARG_END = 45, 46


def secrets_in(arguments: Sequence[str]) -> list[str]:
    """The passwords and passcodes in a command line."""
    found: list[str] = []
    before = ""
    for argument in arguments:
        option, equals, value = argument.partition("=")
        if before in _PASSCODE_OPTIONS:
            option, value = before, argument
        elif not (equals and option in _PASSCODE_OPTIONS):
            option = ""
        if option:
            found.append(value if option != "--user" else value.partition(":")[2])
        found += [*_OF_URL.findall(argument), *_PARAMETER.findall(argument)]
        before = argument
    return [secret for secret in dict.fromkeys(found) if secret]


def hide_secrets(secrets: Iterable[str]) -> bool:
    """Overwrite secrets in the arguments that others see, by stars. Returns whether it was possible."""
    longest_first = sorted((secret.encode("utf-8", "surrogateescape") for secret in secrets), key=len, reverse=True)
    if not longest_first:
        return True
    if sys.platform != "linux":
        return False
    import ctypes

    try:
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(")")[2].split()
        start, end = int(fields[_ARG_START]), int(fields[_ARG_END])
    except (OSError, ValueError, IndexError):
        return False
    if not 0 < start < end:  # the kernel does not say
        return False
    shown = ctypes.string_at(start, end - start)
    hidden = shown
    for secret in longest_first:
        hidden = hidden.replace(secret, b"*" * len(secret))
    ctypes.memmove(start, hidden, len(hidden))
    return True
