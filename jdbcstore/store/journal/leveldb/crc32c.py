"""CRC-32C, with which LevelDB's own files are checked: by the library ``crc32c`` if it is installed, else here."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

__all__ = ["crc32c", "masked"]

_POLYNOMIAL: Final = 0x82F63B78
_MASK_DELTA: Final = 0xA282EAD8


def _table() -> list[int]:
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (_POLYNOMIAL if value & 1 else 0)
        table.append(value)
    return table


_TABLE: Final = _table()


def crc32c_pure(data: bytes) -> int:
    """The same without the library."""
    table, value = _TABLE, 0xFFFFFFFF
    for byte in data:
        value = table[(value ^ byte) & 0xFF] ^ value >> 8
    return value ^ 0xFFFFFFFF


def _fastest() -> Callable[[bytes], int]:
    try:
        from crc32c import crc32c as native
    except ImportError:
        return crc32c_pure
    return native


crc32c: Final = _fastest()


def masked(data: bytes) -> int:
    """The checksum as LevelDB writes it, so that a checksum of checksums is none."""
    value = crc32c(data)
    return ((value >> 15 | value << 17) + _MASK_DELTA) & 0xFFFFFFFF
