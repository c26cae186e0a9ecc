"""Python source under construction, which remembers what field each line is about.

Generated functions carry no bookkeeping for errors: they let ``IndexError``, ``struct.error`` and the like escape. The
line at which that happened, and the function's local variables, tell which field it was and where it stood.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

from jdbcstore.errors import CodecError
from jdbcstore.openwire.fields import Field, Kind

__all__ = ["UNREADABLE", "UNWRITABLE", "Malformed", "Part", "Source", "misfits", "struct_of", "trace"]


class Malformed(Exception):
    """A generated function's own complaint; becomes a `CodecError` that knows byte and field."""


#: What generated functions let escape when bytes are wrong, and when values are.
UNREADABLE: Final = (Malformed, CodecError, IndexError, struct.error)
UNWRITABLE: Final = (Malformed, CodecError, KeyError, TypeError, struct.error)


@dataclass(frozen=True, slots=True)
class Part:
    """A field that a line reads or writes, and how far behind the local variable ``o`` it begins."""

    field: Field
    distance: int = 0


_PARTS: Final[dict[CodeType, dict[int, tuple[Part, ...]]]] = {}


class Source:
    """Lines of one function.

    Args:
        name: of the function; unique, because equal code of two functions would be taken for one.
        parameters: as in its ``def`` line.
    """

    def __init__(self, name: str, parameters: str) -> None:
        self._name = name
        self._lines = [f"def {name}({parameters}):"]
        self._parts: dict[int, tuple[Part, ...]] = {}
        self._indent = 1

    def line(self, text: str, *parts: Part) -> None:
        """Add a line that is about `parts`."""
        self._lines.append("    " * self._indent + text)
        if parts:
            self._parts[len(self._lines)] = parts

    def block(self, header: str, *parts: Part) -> _Block:
        """Add a compound statement; what is added within ``with`` is its body."""
        self.line(header, *parts)
        return _Block(self)

    def compile(self, scope: dict[str, Any]) -> Callable[..., Any]:
        """The function, seeing the names of `scope`."""
        exec(compile("\n".join(self._lines), f"<openwire {self._name}>", "exec"), scope)
        function: Callable[..., Any] = scope[self._name]
        _PARTS[function.__code__] = self._parts
        return function


class _Block:
    def __init__(self, source: Source) -> None:
        self._source = source

    def __enter__(self) -> None:
        self._source._indent += 1

    def __exit__(self, *_: object) -> None:
        self._source._indent -= 1


def trace(error: BaseException) -> list[tuple[tuple[Part, ...], dict[str, Any]]]:
    """The generated functions that `error` came through, outermost first: what the line was about, and its locals."""
    found = []
    traceback = error.__traceback__
    while traceback is not None:
        parts = _PARTS.get(traceback.tb_frame.f_code)
        if parts is not None:
            found.append((parts.get(traceback.tb_lineno, ()), traceback.tb_frame.f_locals))
        traceback = traceback.tb_next
    return found


def struct_of(codes: Iterable[str]) -> struct.Struct:
    """The big-endian struct of these format codes."""
    return struct.Struct(">" + "".join(codes))


def misfits(part: Part, value: object) -> bool:
    """Whether it is this number or flag of a value that cannot be written."""
    if not part.field.kind.is_fixed:
        return False
    attribute = getattr(value, part.field.name)
    if part.field.kind is Kind.FLAG:
        return attribute not in (False, True)
    try:
        struct.pack(">" + part.field.kind.value, attribute)
    except struct.error:
        return True
    return False
