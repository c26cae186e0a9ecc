"""How the frames of a connection are encoded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, product
from typing import Final

from jdbcstore.openwire.commands import WireFormatInfo
from jdbcstore.openwire.fields import MESSAGES, VERSION_MAX, Field, Kind, Usually

__all__ = ["EIGHT_BYTES", "MARSHAL_AWARE", "NO_BYTES", "Encoding", "numbers_of", "usual_flags"]

#: Types that, nested in tight encoding, have one more flag: that a stored form follows, which nobody sends.
MARSHAL_AWARE = frozenset((*MESSAGES, WireFormatInfo))

#: The flags of a number that takes no bytes, and of one that takes eight.
NO_BYTES: Final = b"\0\0"
EIGHT_BYTES: Final = b"\1\1"


@dataclass(frozen=True, slots=True)
class Encoding:
    """One of the ways in which frames are written; readers and writers are compiled once for each.

    Attributes:
        version: wire version, 1 to 12.
        tight: flags are collected in front of the data, and numbers of 64 bits take as few bytes as they need.
        cached: some fields are written as references to slots.
        stack_traces: exceptions carry their stack traces.
    """

    version: int = VERSION_MAX
    tight: bool = False
    cached: bool = False
    stack_traces: bool = False

    @property
    def name(self) -> str:
        """Words for names of generated functions."""
        words = [f"v{self.version}", "tight" if self.tight else "loose"]
        words += ["cached"] * self.cached + ["with_stack_traces"] * self.stack_traces
        return "_".join(words)

    def runs(self, fields: Sequence[Field]) -> Iterator[tuple[bool, Sequence[Field]]]:
        """Divide fields into runs, in order.

        Yields:
            Whether a run is one that is read and written in one go while its values are as usual, which happens in
            tight encoding only; and the run.
        """
        for is_regular, group in groupby(fields, key=lambda field: field.is_regular(is_cached=self.cached)):
            run = tuple(group)
            yield self.tight and is_regular and any(field.mostly_null for field in run), run


def usual_flags(fields: Sequence[Field], usual: Mapping[Usually, bytes]) -> dict[bytes, tuple[bool, ...]]:
    """The flags in front of a run of tight fields that is as usual, a byte of 0 or 1 each, and the values of those
    fields among them that are flags themselves.

    Args:
        fields: the run.
        usual: the two flags of a number that is as its hint says.
    """
    own = [field for field in fields if field.kind is Kind.FLAG]
    found = {}
    for values in product((False, True), repeat=len(own)):
        rest = iter(values)
        flags = bytearray()
        for field in fields:
            if field.kind is Kind.FLAG:
                flags.append(next(rest))
            elif field.usually:
                flags += usual[field.usually]
            elif field.mostly_null:
                flags.append(0)
        found[bytes(flags)] = values
    return found


def numbers_of(fields: Sequence[Field], usual: Mapping[Usually, bytes]) -> list[Field]:
    """Those fields of a run that is as usual that stand among its data."""
    return [
        field
        for field in fields
        if field.kind in (Kind.I8, Kind.I32) or (field.usually and usual[field.usually] == EIGHT_BYTES)
    ]
