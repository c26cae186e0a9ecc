"""What two peers can do, and what they agree on: the options of WireFormatInfo.

Both peers send theirs at once, in loose encoding. The lower version and the smaller sizes win, options that are flags
hold if both have them. Source: ActiveMQ's negotiation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.openwire.commands import WireFormatInfo
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.fields import VERSION_MAX
from jdbcstore.openwire.object_cache import SLOTS_MAX
from jdbcstore.primitives import Long, Value, decode_map, encode_map

__all__ = ["MAGIC", "WireFormat"]

MAGIC: Final = b"ActiveMQ"

_I64_MAX: Final = 0x7FFFFFFFFFFFFFFF


@dataclass(frozen=True, slots=True, kw_only=True)
class WireFormat:
    """The options of one peer, or those that both agreed on. The defaults are those of ActiveMQ's clients.

    Attributes:
        version: wire version, 1 to 12.
        cache_enabled: frames refer to values that were sent before.
        cache_size: slots of the cache in each direction; 0 is 16383.
        tight_encoding_enabled: frames are tight.
        size_prefix_disabled: frames have no size. Never agreed to: the size is what bounds a frame.
        stack_trace_enabled: exceptions carry their stack traces.
        tcp_no_delay_enabled: the socket sends small packets at once.
        max_inactivity_ms: how long the peer may be silent; 0 is forever.
        max_inactivity_initial_delay_ms: how long the first silence may be.
        max_frame_size: bytes of a frame, its size prefix not included; 0 or less is whatever the other peer says.
        max_frame_size_enabled: whether the peer checks it.
        host: the host that the client connects to.
        provider_name: name of the implementation.
        provider_version: version of the implementation.
        platform_details: what it runs on.

    Raises:
        ConfigurationError: there is no such version, or no such cache size.
    """

    version: int = VERSION_MAX
    cache_enabled: bool = True
    cache_size: int = 1024
    tight_encoding_enabled: bool = True
    size_prefix_disabled: bool = False
    stack_trace_enabled: bool = True
    tcp_no_delay_enabled: bool = True
    max_inactivity_ms: int = 30_000
    max_inactivity_initial_delay_ms: int = 10_000
    max_frame_size: int = _I64_MAX
    max_frame_size_enabled: bool = True
    host: str | None = None
    provider_name: str | None = None
    provider_version: str | None = None
    platform_details: str | None = None

    def __post_init__(self) -> None:
        if self.version not in range(1, VERSION_MAX + 1):
            raise ConfigurationError(f"there is no wire version {self.version!r}, only 1 to {VERSION_MAX}")
        if not 0 <= self.cache_size <= SLOTS_MAX:
            raise ConfigurationError(f"a cache size of {self.cache_size}, 0 to {SLOTS_MAX} expected")

    @property
    def encoding(self) -> Encoding:
        """How frames are written by peers that agreed on this."""
        return Encoding(self.version, self.tight_encoding_enabled, self.cache_enabled, self.stack_trace_enabled)

    def info(self) -> WireFormatInfo:
        """The command that tells the peer."""
        properties: dict[str, Value] = {
            "StackTraceEnabled": self.stack_trace_enabled,
            "CacheEnabled": self.cache_enabled,
            "TcpNoDelayEnabled": self.tcp_no_delay_enabled,
            "SizePrefixDisabled": self.size_prefix_disabled,
            "CacheSize": self.cache_size,
            "TightEncodingEnabled": self.tight_encoding_enabled,
            "MaxFrameSize": Long(self.max_frame_size),
            "MaxFrameSizeEnabled": self.max_frame_size_enabled,
            "MaxInactivityDuration": Long(self.max_inactivity_ms),
            "MaxInactivityDurationInitalDelay": Long(self.max_inactivity_initial_delay_ms),
        }
        words = {
            "Host": self.host,
            "ProviderName": self.provider_name,
            "ProviderVersion": self.provider_version,
            "PlatformDetails": self.platform_details,
        }
        properties.update((name, word) for name, word in words.items() if word is not None)
        return WireFormatInfo(magic=MAGIC, version=self.version, marshalled_properties=encode_map(properties))

    @classmethod
    def of(cls, info: WireFormatInfo) -> WireFormat:
        """What a peer's command says; an option that it leaves out is off, or 0. A newer version is read as ours.

        Raises:
            CodecError: another magic, no such version, or an option of another type.
        """
        if info.magic != MAGIC:
            raise CodecError(f"magic {info.magic!r}, {MAGIC!r} expected", field="magic")
        if info.version < 1:
            raise CodecError(f"there is no wire version {info.version}", field="version")
        stored = info.marshalled_properties
        properties = _Properties({} if stored is None else decode_map(stored, "marshalled_properties"))
        return cls(
            version=min(info.version, VERSION_MAX),
            cache_enabled=properties.flag("CacheEnabled"),
            cache_size=min(max(properties.number("CacheSize"), 0), SLOTS_MAX),
            tight_encoding_enabled=properties.flag("TightEncodingEnabled"),
            size_prefix_disabled=properties.flag("SizePrefixDisabled"),
            stack_trace_enabled=properties.flag("StackTraceEnabled"),
            tcp_no_delay_enabled=properties.flag("TcpNoDelayEnabled"),
            max_inactivity_ms=properties.number("MaxInactivityDuration"),
            max_inactivity_initial_delay_ms=properties.number("MaxInactivityDurationInitalDelay"),
            max_frame_size=properties.number("MaxFrameSize"),
            max_frame_size_enabled=properties.flag("MaxFrameSizeEnabled"),
            host=properties.text("Host"),
            provider_name=properties.text("ProviderName"),
            provider_version=properties.text("ProviderVersion"),
            platform_details=properties.text("PlatformDetails"),
        )

    def agreed(self, peer: WireFormat) -> WireFormat:
        """What both peers do.

        Args:
            peer: the other one's options.

        Returns:
            The common options. Words about the implementation are the peer's.
        """
        return WireFormat(
            version=min(self.version, peer.version),
            cache_enabled=self.cache_enabled and peer.cache_enabled,
            cache_size=min(self.cache_size, peer.cache_size),
            tight_encoding_enabled=self.tight_encoding_enabled and peer.tight_encoding_enabled,
            size_prefix_disabled=self.size_prefix_disabled and peer.size_prefix_disabled,
            stack_trace_enabled=self.stack_trace_enabled and peer.stack_trace_enabled,
            tcp_no_delay_enabled=self.tcp_no_delay_enabled and peer.tcp_no_delay_enabled,
            max_inactivity_ms=max(0, min(self.max_inactivity_ms, peer.max_inactivity_ms)),
            max_inactivity_initial_delay_ms=max(
                0, min(self.max_inactivity_initial_delay_ms, peer.max_inactivity_initial_delay_ms)
            ),
            max_frame_size=_smaller(self.max_frame_size, peer.max_frame_size),
            max_frame_size_enabled=self.max_frame_size_enabled,
            host=peer.host,
            provider_name=peer.provider_name,
            provider_version=peer.provider_version,
            platform_details=peer.platform_details,
        )


def _smaller(ours: int, theirs: int) -> int:
    """The smaller size, where 0 and less is none."""
    sizes = [size for size in (ours, theirs) if size > 0]
    return min(sizes) if sizes else 0


class _Properties:
    def __init__(self, properties: dict[str, Value]) -> None:
        self._properties = properties

    def flag(self, name: str) -> bool:
        value = self._properties.get(name, False)
        if not isinstance(value, bool):
            raise self._misfit(name, "a boolean")
        return value

    def number(self, name: str) -> int:
        value = self._properties.get(name, 0)
        if isinstance(value, bool) or not isinstance(value, int):
            raise self._misfit(name, "an integer")
        return int(value)

    def text(self, name: str) -> str | None:
        value = self._properties.get(name)
        if value is not None and not isinstance(value, str):
            raise self._misfit(name, "a string")
        return value

    def _misfit(self, name: str, expected: str) -> CodecError:
        return CodecError(f"{expected} expected, not {self._properties[name]!r:.100}", field=name)
