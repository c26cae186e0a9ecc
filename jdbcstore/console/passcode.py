"""Where a command that logs in has its passcode from."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from getpass import getpass
from typing import Any, Final, TextIO

import click

from jdbcstore.errors import ConfigurationError

__all__ = ["PASSCODE_OPTIONS", "given_passcode"]

#: The options of every command that logs in, in the order of its help.
PASSCODE_OPTIONS: Final[tuple[Callable[[Callable[..., Any]], Callable[..., Any]], ...]] = (
    click.option("--login", envvar="JDBCSTORE_LOGIN", help="User name, if the broker has users."),
    click.option(
        "--passcode",
        envvar="JDBCSTORE_PASSCODE",
        help="Password; others see it in the list of processes. [default: asked for on a terminal]",
    ),
    click.option("--passcode-file", type=click.File("r"), help="Where it is, in the first line; - is standard input."),
)


def given_passcode(login: str | None, passcode: str | None, file: TextIO | None) -> str | None:
    """The passcode of a login, asked for if there is somebody to ask; None without a login.

    Raises:
        ConfigurationError: it is given twice, or nowhere.
    """
    if file is not None:
        if passcode is not None:
            raise ConfigurationError("give --passcode or --passcode-file, not both")
        return file.readline().rstrip("\r\n")
    if login is None or passcode is not None:
        return passcode
    if not _has_terminal():
        raise ConfigurationError(
            "--login needs a passcode, and there is no terminal to ask on: give --passcode-file FILE (- is standard"
            " input), or set JDBCSTORE_PASSCODE"
        )
    return getpass("Passcode: ")  # on the terminal, whatever standard input is


def _has_terminal() -> bool:
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return sys.stdin.isatty()
    return True
