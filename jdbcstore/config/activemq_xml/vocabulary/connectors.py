"""Parameters of a connector's URI, by the protocol of its clients."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from jdbcstore.addresses import Protocol
from jdbcstore.config.activemq_xml.vocabulary.broker import STOMP_URI, TLS_URI
from jdbcstore.config.activemq_xml.vocabulary.entry import Entry, ignored, integer, refused, size, used

__all__ = ["AUTO_URI", "OPENWIRE_URI", "WEBSOCKET_URI", "entries_of"]

_BOTH: Final = "each client chooses it, by wireFormat options of its own: it holds if both want it"


def _no_less_than_0(text: str) -> int:
    return max(integer(text), 0)


#: Those of an OpenWire connector besides.
OPENWIRE_URI: Final = {
    "wireFormat.maxFrameSize": used(
        "`broker.openwire_frame_bytes_max`", "unlimited", option="broker.openwire_frame_bytes_max", read=size
    ),
    "wireFormat.maxInactivityDuration": used(
        "`broker.openwire_inactivity_ms`", "30000", option="broker.openwire_inactivity_ms", read=_no_less_than_0
    ),
    "wireFormat.maxInactivityDurationInitalDelay": used(
        "`broker.openwire_inactivity_initial_delay_ms`",
        "10000",
        option="broker.openwire_inactivity_initial_delay_ms",
        read=_no_less_than_0,
    ),
    "wireFormat.maxFrameSizeEnabled": ignored("the limit always holds", "true", "true"),
    "wireFormat.sizePrefixDisabled": refused("frames without a size cannot be bounded", "false", "false"),
    "wireFormat.cacheSize": ignored("a smaller one is taken from the client", "1024", "1024"),
    "wireFormat.version": ignored("a lower one is taken from the client", "12", "12"),
    **{
        f"wireFormat.{name}": ignored(_BOTH, "true", "true")
        for name in ("cacheEnabled", "tightEncodingEnabled", "tcpNoDelayEnabled")
    },
    "wireFormat.stackTraceEnabled": ignored("clients get the reason, not a stack trace", "true", "false"),
    "transport.useInactivityMonitor": ignored("wireFormat.maxInactivityDuration=0 turns it off", "true", "true"),
    "transport.useKeepAlive": ignored("wireFormat.maxInactivityDuration=0 turns it off", "true", "true"),
}

#: Those of an auto connector besides; ``wireFormat.default.NAME`` and ``wireFormat.stomp.NAME`` are of one protocol.
AUTO_URI: Final = {
    "protocolDetectionTimeOut": used(
        "`broker.connect_timeout_s`, in ms. **Differs**: without it 10 s",
        "30000",
        option="broker.connect_timeout_s",
        read=lambda ms: integer(ms) / 1000,
    ),
    "auto.protocols": used("`default` is OpenWire; others than that and `stomp` are not served"),
}

_MESSAGES: Final = "broker.body_bytes_max bounds a STOMP frame, however many messages it comes in"
_IDLE: Final = "heart-beats find dead clients, and broker.silence_max_s those that hold messages"
_BUFFERS: Final = "what arrives is passed on as it arrives"
#: Those of a WebSocket connector besides.
WEBSOCKET_URI: Final = {
    prefix + name: ignored(why)
    for prefix in ("websocket.", "transport.")
    for names, why in (
        ("maxTextMessageSize maxBinaryMessageSize maxTextMessageBufferSize maxBinaryMessageBufferSize", _MESSAGES),
        ("maxIdleTime idleTimeout asyncWriteTimeout", _IDLE),
        ("bufferSize inputBufferSize", _BUFFERS),
    )
    for name in names.split()
}

#: What only STOMP has.
_STOMPS: Final = frozenset(
    {
        "auto.protocols",
        "transport.hbGracePeriodMultiplier",
        "transport.defaultHeartBeat",
        "transport.maxFrameSize",
        "transport.maxDataLength",
        "wireFormat.maxDataLength",
        "wireFormat.maxFrameSize",
        "wireFormat.stompVersion",
    }
)
_TABLES: Final[Mapping[Protocol, tuple[Mapping[str, Entry], ...]]] = {
    Protocol.STOMP: (STOMP_URI,),
    Protocol.OPENWIRE: (OPENWIRE_URI, {name: entry for name, entry in STOMP_URI.items() if name not in _STOMPS}),
    Protocol.AUTO: (AUTO_URI, OPENWIRE_URI, STOMP_URI),
    Protocol.WS: (WEBSOCKET_URI, STOMP_URI),
}
_PREFIXES: Final = {
    "wireFormat.default.": OPENWIRE_URI,
    "wireFormat.openwire.": OPENWIRE_URI,
    "wireFormat.stomp.": STOMP_URI,
}


def entries_of(protocol: Protocol, *, is_tls: bool) -> Mapping[str, tuple[Entry, ...]]:
    """By name, what a parameter of a connector becomes; of an auto connector it may be two options.

    Args:
        protocol: the clients'.
        is_tls: whether they have to speak TLS.
    """
    tables = (*((TLS_URI,) if is_tls else ()), *_TABLES[protocol])
    found: dict[str, tuple[Entry, ...]] = {}
    for name in dict.fromkeys(name for table in tables for name in table):
        entries = [table[name] for table in tables if name in table]
        options = [entry for entry in entries if entry.option and _is_new(entry, entries)]
        found[name] = tuple(options) if len(options) > 1 else (entries[0],)
    if protocol is Protocol.AUTO:
        for prefix, table in _PREFIXES.items():
            for name, entry in table.items():
                if name.startswith("wireFormat."):
                    found[prefix + name.removeprefix("wireFormat.")] = (entry,)
    return found


def _is_new(entry: Entry, entries: list[Entry]) -> bool:
    """Whether no entry before it becomes the same option."""
    return next(other for other in entries if other.option == entry.option) is entry
