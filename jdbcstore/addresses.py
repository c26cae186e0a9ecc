"""Where a broker listens: addresses as they are written, read once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["Listener", "parse_address", "parse_listeners"]

#: What may stand before an address, and whether it means TLS.
_SCHEMES: Final = {
    "": (False, "stomp"),
    "stomp": (False, "stomp"),
    "stomp+ssl": (True, "stomp"),
    "openwire": (False, "openwire"),
}
_SEPARATOR: Final = re.compile(r"[,\s]+")


@dataclass(frozen=True, slots=True)
class Listener:
    """One place to listen at.

    Args:
        host: a name or an address, without brackets; empty for all interfaces.
        port: 0 lets the system choose.
        is_tls: whether clients have to speak TLS there.
        protocol: what they speak, ``stomp`` or ``openwire``.
    """

    host: str
    port: int
    is_tls: bool = False
    protocol: str = "stomp"

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.protocol}{'+ssl' if self.is_tls else ''}://{host}:{self.port}"


def parse_listeners(bind: str) -> tuple[Listener, ...]:
    """The places that `BrokerOptions.bind` names, in their order.

    Args:
        bind: one or several of ``HOST:PORT``, ``stomp://HOST:PORT``, ``stomp+ssl://HOST:PORT`` and
            ``openwire://HOST:PORT``, with commas or blanks between them.

    Raises:
        ConfigurationError: one of them is none, or there are two of the same, or there is none.
    """
    listeners = tuple(_listener(text) for text in _SEPARATOR.split(bind.strip()))
    taken = [(listener.host, listener.port) for listener in listeners if listener.port]
    if len(set(taken)) != len(taken):
        raise ConfigurationError(f"bind names the same address twice, leave one of them out: {bind!r}")
    return listeners


def _listener(text: str) -> Listener:
    scheme, separator, address = text.rpartition("://")
    if scheme not in _SCHEMES or bool(separator) != bool(scheme):
        raise ConfigurationError(
            f"{text!r} is not an address to listen on: give HOST:PORT, stomp://HOST:PORT, stomp+ssl://HOST:PORT"
            " or openwire://HOST:PORT"
        )
    host, port = parse_address(address)
    return Listener(host, port, *_SCHEMES[scheme])


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[V6-ADDRESS]:PORT`` or ``:PORT`` (all interfaces, host ``""``).

    Raises:
        ConfigurationError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigurationError(f"{text!r} is not an address: give HOST:PORT, e.g. 127.0.0.1:61613")
    return host.strip("[]"), int(port)
