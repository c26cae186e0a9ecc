"""The ``jdbcstore`` program: who interrupts it while it is being loaded hears the same as later on."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """Entry point of the ``jdbcstore`` program."""
    try:
        from jdbcstore.cli import main as run

        run()
    except KeyboardInterrupt:
        sys.exit("interrupted")  # code 1, as any command that is interrupted
