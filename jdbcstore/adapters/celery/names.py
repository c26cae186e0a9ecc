"""What kombu's queues and exchanges are called in the broker."""

from __future__ import annotations

from typing import Final

__all__ = ["Names"]

#: What means something in the name of a destination, and is none of it here.
_ESCAPES: Final = str.maketrans({character: f"%{ord(character):02X}" for character in "%,*>?\n\r\t \0"})


class Names:
    """The names of one virtual host.

    Args:
        vhost: kombu's virtual host; ``/`` is that without a name.
    """

    def __init__(self, vhost: str | None) -> None:
        vhost = (vhost or "").strip("/")
        self._prefix = f"{vhost.translate(_ESCAPES)}." if vhost else ""

    def queue(self, name: str) -> str:
        """Of a queue, as the header ``destination`` has it. Java clients know it by the same name."""
        return f"/queue/{self._prefix}{name.translate(_ESCAPES)}"

    def exchange(self, name: str) -> str:
        """The topic to which everything goes that is published to an exchange."""
        return f"/topic/{self._prefix}kombu.exchange.{name.translate(_ESCAPES)}"

    def bindings(self, exchange: str) -> str:
        """The queue of an exchange's bindings."""
        return f"/queue/{self._prefix}kombu.bindings.{exchange.translate(_ESCAPES)}"

    def binding_changes(self, exchange: str) -> str:
        """The topic that tells of changes of them."""
        return f"/topic/{self._prefix}kombu.bindings.{exchange.translate(_ESCAPES)}"
