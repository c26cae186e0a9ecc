"""What an attack is, and what it attacks.

An attack is a function that gets a `Target` and does its worst; what the broker answers is its own affair. Attacks that
the broker holds back end by themselves after a few seconds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient

__all__ = ["Attack", "Target"]


@dataclass
class Target:
    """A broker that is attacked.

    Args:
        address: where it listens.
        openwire_address: where it listens for OpenWire.
        database: its SQLite file.
        scale: multiplies how often an attack does what it does.
    """

    address: Address
    openwire_address: Address
    database: Path
    scale: float = 1.0
    _stack: ExitStack = field(default_factory=ExitStack)

    def times(self, count: int) -> int:
        """How often, at this scale; once at least."""
        return max(1, int(count * self.scale))

    def stranger(self, timeout_s: float = 5.0) -> Client:
        """A connection that has not said CONNECT; closed when the attack is over."""
        return self._stack.enter_context(Client(self.address, timeout_s=timeout_s))

    def client(self, timeout_s: float = 5.0, version: str = "1.2", **headers: str) -> Client:
        """A connection that has."""
        client = self.stranger(timeout_s)
        answer = client.connect(version, **headers)
        if answer.command != "CONNECTED":
            raise ConnectionError(answer.headers.get("message", answer.command))
        return client

    def openwire(self, *, cache: int = 0, is_open: bool = True, is_fault_tolerant: bool = False) -> OpenWireClient:
        """A connection that speaks OpenWire.

        Args:
            cache: slots of its cache.
            is_open: whether it says who it is.
            is_fault_tolerant: whether it would send again what it heard no answer for.
        """
        client = OpenWireClient(
            self.openwire_address, cache=cache, is_open=is_open, is_fault_tolerant=is_fault_tolerant
        )
        return self._stack.enter_context(client)

    def close(self) -> None:
        """Close all its connections."""
        self._stack.close()


@dataclass(frozen=True)
class Attack:
    """What somebody may do to a broker.

    Args:
        name: for the table, and for ``--only``.
        run: does it; returns when its worst is done, with the connections still open.
        options: of the broker, as environment variables; the defaults otherwise.
    """

    name: str
    run: Callable[[Target], None]
    options: Mapping[str, str] = field(default_factory=dict)
