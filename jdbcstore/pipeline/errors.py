"""Spark's errors in our words: of sixty lines of two languages the one that says what to do.

What one of our readers or writers raises comes back as a text, with the traceback of a process that has ended and
perhaps that of Java around it. The last line of a traceback that names an error of ours is what was meant.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from jdbcstore import errors
from jdbcstore.errors import ConfigurationError, JdbcStoreError, LockError, SelectorError, StoreError

__all__ = ["in_our_words", "our_words"]

#: ``jdbcstore.errors.ConfigurationError: …`` up to the end of the line.
_OURS: Final = re.compile(r"jdbcstore\.errors\.(\w+): (.+)$", re.MULTILINE)
#: The last line of any traceback of Python.
_PYTHON: Final = re.compile(r"^([A-Za-z_][\w.]*(?:Error|Exception|Interrupt)): (.+)$", re.MULTILINE)
#: ``[PATH_NOT_FOUND] `` and what else Spark puts around a sentence.
_CONDITION: Final = re.compile(r"^\[[A-Z_.]+\]\s*")
_SQLSTATE: Final = re.compile(r"\s*SQLSTATE: \w{5};?\s*$")
#: Java's class before its message.
_JAVA: Final = re.compile(r"^:\s*(?:[a-z][\w$]*\.)+[A-Z][\w$]*:?\s*")
_LINE_CHARS_MAX: Final = 1000
#: By which the command line chooses its exit code.
_KINDS: Final = (ConfigurationError, LockError, StoreError)


@contextmanager
def our_words() -> Iterator[None]:
    """Errors of Spark that are raised inside become errors of ours, with one line of text.

    Raises:
        JdbcStoreError: of the kind that was raised in a process of Spark's, else `StoreError`.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    try:
        yield
    except (Py4JError, PySparkException) as error:
        raise in_our_words(error) from error


def in_our_words(error: BaseException) -> JdbcStoreError:
    """What an error of Spark says, as one of ours."""
    told = str(error)
    if found := _OURS.findall(told):
        name, sentence = found[-1]
        return _kind(name)(_line(sentence))
    if found := _PYTHON.findall(told):
        name, sentence = found[-1]
        if name in ("ModuleNotFoundError", "ImportError"):
            return ConfigurationError(f"Spark's Python cannot run this: {_line(sentence)}")
        return StoreError(f"{_line(sentence)} ({name.rpartition('.')[2]})")
    if "Cannot run program" in told:
        program = re.search(r'Cannot run program "([^"]*)"', told)
        return ConfigurationError(
            f"Spark cannot start Python{f' as {program[1]}' if program else ''}: set PYSPARK_PYTHON to one that has"
            " jdbcstore[spark]"
        )
    lines = [line.strip() for line in told.splitlines() if line.strip()]
    # What py4j tells begins with a line of its own, then comes the class of Java's exception and what it says.
    if lines and lines[0].startswith("An error occurred while"):
        lines = [_JAVA.sub("", line) for line in lines if line.startswith(":")]
    first = lines[0] if lines else type(error).__name__
    return StoreError(_line(_SQLSTATE.sub("", _CONDITION.sub("", first))))


def _kind(name: str) -> type[JdbcStoreError]:
    """Errors of ours take different arguments; the kind that the exit code is chosen by takes a sentence."""
    kind = getattr(errors, name, JdbcStoreError)
    if kind is SelectorError:
        return ConfigurationError
    return next((one for one in _KINDS if issubclass(kind, one)), JdbcStoreError)


def _line(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _LINE_CHARS_MAX else text[: _LINE_CHARS_MAX - 1] + "…"
