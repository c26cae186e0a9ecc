"""Rest between two turns: what one contestant has put off does not burden the next.

A broker answers, and goes on: RabbitMQ writes segments, a Java machine compiles and collects, a database makes a
checkpoint, the kernel writes pages back.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Final

__all__ = ["wait_for_rest"]

_LOOK_S: Final = 0.25
#: Of one core: ten servers that have nothing to do take less.
_IDLE_SHARE: Final = 0.12
#: Longer than any of them was busy; on a machine with other work it is over some time.
_PATIENCE_S: Final = 5.0
_TICKS_PER_S: Final = os.sysconf("SC_CLK_TCK")


def wait_for_rest() -> None:
    """Wait until what was written is on the disk and the processors of this machine are idle, 5 s at most."""
    os.sync()
    until_s = time.monotonic() + _PATIENCE_S
    used_s = _used_s()
    while time.monotonic() < until_s:
        time.sleep(_LOOK_S)
        before_s, used_s = used_s, _used_s()
        if used_s - before_s < _IDLE_SHARE * _LOOK_S:
            return


def _used_s() -> float:
    """The processor time that all of the machine has used, in seconds: user, nice, system, interrupts."""
    user, nice, system, _idle, _disk, *interrupts = map(int, Path("/proc/stat").read_text().split(maxsplit=8)[1:8])
    return (user + nice + system + sum(interrupts)) / _TICKS_PER_S
