"""How the frames of a connection are encoded."""

from __future__ import annotations

from dataclasses import dataclass

from jdbcstore.openwire.commands import WireFormatInfo
from jdbcstore.openwire.fields import MESSAGES, VERSION_MAX

__all__ = ["MARSHAL_AWARE", "Encoding"]

#: Types that, nested in tight encoding, have one more flag: that a stored form follows, which nobody sends.
MARSHAL_AWARE = frozenset((*MESSAGES, WireFormatInfo))


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
