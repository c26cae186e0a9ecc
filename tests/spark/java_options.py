"""Options of every Java that tests of Spark start, and of those that these start."""

from __future__ import annotations

from typing import Final

__all__ = ["BRIEF_LIFE"]

#: It lives too briefly for the second compiler, and for the proof that each of Spark's many classes is well formed.
#: With one compiler the space for compiled code is so small that Java throws some away, again and again.
BRIEF_LIFE: Final = (
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=192m -XX:+UseSerialGC"
    " -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
