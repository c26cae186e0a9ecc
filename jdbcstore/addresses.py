"""Where a broker listens: addresses as they are written, read once."""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["SCHEMES", "Listener", "Protocol", "client_url", "parse_address", "parse_listeners", "why_it_cannot_listen"]


class Protocol(Enum):
    """What clients of a listener speak. The value is the scheme's name."""

    STOMP = "stomp"
    OPENWIRE = "openwire"
    #: STOMP or OpenWire, as the client's first bytes tell.
    AUTO = "auto"
    #: STOMP over WebSocket.
    WS = "ws"


#: What may stand before an address: the protocol, and whether it means TLS. ActiveMQ's names are among them.
SCHEMES: Final = {
    **dict.fromkeys(("stomp", "stomp+nio"), (Protocol.STOMP, False)),
    **dict.fromkeys(("stomp+ssl", "stomp+nio+ssl"), (Protocol.STOMP, True)),
    **dict.fromkeys(("openwire", "tcp", "nio"), (Protocol.OPENWIRE, False)),
    **dict.fromkeys(("openwire+ssl", "ssl", "nio+ssl"), (Protocol.OPENWIRE, True)),
    **dict.fromkeys(("auto", "auto+nio"), (Protocol.AUTO, False)),
    **dict.fromkeys(("auto+ssl", "auto+nio+ssl"), (Protocol.AUTO, True)),
    "ws": (Protocol.WS, False),
    "wss": (Protocol.WS, True),
}
#: ActiveMQ's ports, for addresses without one.
_PORTS: Final = {Protocol.STOMP: 61613, Protocol.OPENWIRE: 61616, Protocol.AUTO: 61616, Protocol.WS: 61614}
_TLS_SCHEMES: Final = {Protocol.WS: "wss"}
_SEPARATOR: Final = re.compile(r"[,\s]+")
#: What to do where the system does not let a broker listen.
_ADVICE: Final = {
    errno.EADDRINUSE: ": another program has the port (ss -ltnp shows which); stop it, or give another port",
    errno.EADDRNOTAVAIL: ": this machine has no such address",
    errno.EACCES: ": ports below 1024 take a privilege; give a higher one",
}
_HAS_NO_PORT: Final = re.compile(r"\[[^\]]*\]|[^:]+")


@dataclass(frozen=True, slots=True)
class Listener:
    """One place to listen at.

    Args:
        host: a name or an address, without brackets; empty for all interfaces.
        port: 0 lets the system choose.
        is_tls: whether clients have to speak TLS there.
        protocol: what else they speak.
    """

    host: str
    port: int
    is_tls: bool = False
    protocol: Protocol = Protocol.STOMP

    @property
    def address(self) -> str:
        """Host and port."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    def __str__(self) -> str:
        scheme = self.protocol.value
        if self.is_tls:
            scheme = _TLS_SCHEMES.get(self.protocol, f"{scheme}+ssl")
        return f"{scheme}://{self.address}"


def parse_listeners(bind: str) -> tuple[Listener, ...]:
    """The places that `BrokerOptions.bind` names, in their order.

    Args:
        bind: one or several of ``HOST:PORT`` and ``SCHEME://HOST[:PORT]``, see `SCHEMES`, with commas or blanks between
            them. Without a scheme it is ``stomp``.

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
    if not separator:
        return Listener(*parse_address(text))
    if scheme not in SCHEMES:
        raise ConfigurationError(
            f"{text!r} is not an address to listen on: give HOST:PORT, or SCHEME://HOST:PORT with one of"
            f" {', '.join(SCHEMES)}"
        )
    protocol, is_tls = SCHEMES[scheme]
    if _HAS_NO_PORT.fullmatch(address):
        address = f"{address}:{_PORTS[protocol]}"
    return Listener(*parse_address(address), is_tls, protocol)


def client_url(listeners: Sequence[Listener], ports: Sequence[int], host: str) -> str:
    """Where clients find a broker: as those of OpenWire write it, if there is a listener for them.

    Args:
        listeners: where it listens.
        ports: the port of each; none if nobody reaches it.
        host: what to say for all interfaces.
    """
    found = [replace(listener, port=port) for listener, port in zip(listeners, ports, strict=False)]
    if not found:
        return ""
    speaks = {Protocol.OPENWIRE: "tcp", Protocol.AUTO: "tcp"}
    first = next((listener for listener in found if listener.protocol in speaks), found[0])
    if first.host in ("", "0.0.0.0", "::"):
        first = replace(first, host=host)
    if first.protocol in speaks:
        return f"{'ssl' if first.is_tls else 'tcp'}://{first.address}"
    return str(first)


def parse_address(text: str) -> tuple[str, int]:
    """Host and port of ``HOST:PORT``, ``[V6-ADDRESS]:PORT`` or ``:PORT`` (all interfaces, host ``""``).

    Raises:
        ConfigurationError: it is neither.
    """
    host, colon, port = text.rpartition(":")
    if not colon or not (port.isascii() and port.isdigit()) or int(port) > 65535 or (":" in host and host[0] != "["):
        raise ConfigurationError(f"{text!r} is not an address: give HOST:PORT, e.g. 127.0.0.1:61613")
    return host.strip("[]"), int(port)


def why_it_cannot_listen(error: OSError) -> str:
    """Why the system does not let a broker listen, and what to do."""
    if isinstance(error, socket.gaierror):  # its numbers are others
        return f"the name of the host has no address ({error.strerror})"
    reason = os.strerror(error.errno).lower() if error.errno else str(error)
    return reason + _ADVICE.get(error.errno or 0, "")
