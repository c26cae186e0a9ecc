"""How a bulk load behaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["LoadOptions"]

_PROTOCOLS: Final = ("auto", "direct", "staged")
_INDEXES: Final = ("auto", "keep", "rebuild")


@dataclass(frozen=True, slots=True)
class LoadOptions:
    """How a load behaves.

    Args:
        protocol: ``auto``: direct if nobody is master, else staged. ``direct``: fail if somebody is. ``staged``: let a
            broker take it in, even if none is there at the moment.
        indexes: ``rebuild``: drop the secondary indexes and make them again at the end; ``keep``; or ``auto``:
            rebuild if there is no message at the beginning and the database gains by it. Of direct loads only.
        lease_ms: for how long a load stays master when all its processes are gone.
        timeout_s: how long the end of a staged load waits for a broker that takes nothing in.
    """

    protocol: str = "auto"
    indexes: str = "auto"
    lease_ms: int = 30_000
    timeout_s: float = 600.0

    def __post_init__(self) -> None:
        for name, value, known in (
            ("commitProtocol", self.protocol, _PROTOCOLS),
            ("indexes", self.indexes, _INDEXES),
        ):
            if value not in known:
                raise ConfigurationError(f"{name} {value!r} is none of {', '.join(known)}")
        if self.lease_ms < 1000:
            raise ConfigurationError(f"lease_ms must be at least 1000, got {self.lease_ms}")
        if self.timeout_s < 0:
            raise ConfigurationError(f"timeout_s must be at least 0, got {self.timeout_s}")
