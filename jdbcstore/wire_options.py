"""What can be chosen about the protocols of clients: how much one of them may say, and how long it may be silent.

The broker takes them among its own (`jdbcstore.broker.options.BrokerOptions`) and never looks at them: the transports
read them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.version import VERSION

__all__ = ["WireOptions", "parse_heart_beat"]

_MIB: Final = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class WireOptions:
    """How clients are listened to. Names end in their unit; sizes are bytes.

    Args:
        server_header: what CONNECTED calls the broker. Some clients look for "ActiveMQ" in it, in any case, to know
            which headers there are.
        unconnected_bytes_max: how large the CONNECT of a STOMP client may be, head and body each.
        websocket_origins: the pages whose scripts may connect by WebSocket, ``https://example.org``, with commas or
            blanks between them; empty is all. Clients that are no browsers say none, and may.

        command_bytes_max, header_bytes_max, headers_max, body_bytes_max: limits of a STOMP frame; exceeding one ends
            the connection.
        default_heart_beat: what a client without ``heart-beat`` header is taken to have said, two numbers of ms
            (ActiveMQ: ``transport.defaultHeartBeat``). Clients of STOMP 1.0 send none, and with a first number above 0
            they are disconnected when they are silent.
        heart_beat_grace: stretches the silence after which a client counts as dead: two and a half of its own
            heart-beat intervals (ActiveMQ: ``transport.hbGracePeriodMultiplier``).

        openwire_frame_bytes_max: the largest OpenWire frame (ActiveMQ: ``wireFormat.maxFrameSize``).
        openwire_inactivity_ms: how long an OpenWire client may be silent; clients that want less, or 0, which is for
            ever, have their way (ActiveMQ: ``wireFormat.maxInactivityDuration``).
        openwire_inactivity_initial_delay_ms: how much longer the first silence may be (ActiveMQ:
            ``wireFormat.maxInactivityDurationInitalDelay``).
    """

    #: Numbers that may be 0.
    MAY_BE_ZERO: ClassVar = ("openwire_inactivity_initial_delay_ms", "openwire_inactivity_ms")

    server_header: str = f"jdbcstore/{VERSION} (ActiveMQ)"
    unconnected_bytes_max: int = 16 * 1024
    websocket_origins: str = ""

    command_bytes_max: int = 1024
    header_bytes_max: int = 10 * 1024
    headers_max: int = 1000
    body_bytes_max: int = 100 * _MIB
    default_heart_beat: str = "0,0"
    heart_beat_grace: float = 1.0

    openwire_frame_bytes_max: int = 100 * _MIB
    openwire_inactivity_ms: int = 30_000
    openwire_inactivity_initial_delay_ms: int = 10_000

    def __post_init__(self) -> None:
        parse_heart_beat(self.default_heart_beat)
        if not self.server_header.isascii() or not self.server_header.isprintable() or not self.server_header.strip():
            raise ConfigurationError(f"server_header must be printable ASCII text, got {self.server_header!r}")


def parse_heart_beat(text: str) -> tuple[int, int]:
    """`WireOptions.default_heart_beat` as numbers. Raises ConfigurationError."""
    try:
        can_send_ms, wants_ms = map(int, text.split(","))
    except ValueError:
        raise ConfigurationError(
            f"default_heart_beat must be two numbers of ms, such as 0,10000; got {text!r}"
        ) from None
    return can_send_ms, wants_ms
