"""Modified UTF-8, the form in which Java writes strings.

It differs from UTF-8 in two places: NUL is ``C0 80``, and a character beyond U+FFFF is its two surrogates of three
bytes each. Lone surrogates are legal. Source: java.io.DataOutput.writeUTF.
"""

from __future__ import annotations

import re
from typing import Final

from jdbcstore.errors import CodecError

__all__ = ["SUPPLEMENTARY", "decode_any_utf8", "decode_modified_utf8", "encode_modified_utf8"]

#: A character that takes two UTF-16 units.
SUPPLEMENTARY = re.compile("[\U00010000-\U0010ffff]")
# Looked for as numbers, which is ten times as fast: CPython takes anything for a number first, and fails with bytes.
_NUL: Final = 0
_BEFORE_NUL: Final = 0xC0
_BEFORE_SURROGATE: Final = 0xED
_FOREIGN = re.compile(b"[\x00\xf0-\xff]")


def _split_surrogates(match: re.Match[str]) -> str:
    point = ord(match[0]) - 0x10000
    return chr(0xD800 | point >> 10) + chr(0xDC00 | point & 0x3FF)


def encode_modified_utf8(text: str) -> bytes:
    """`text` in modified UTF-8. Lone surrogates are legal, as in Java."""
    if text.isascii():
        data = text.encode("ascii")
    else:
        if max(text) > "\uffff":
            text = SUPPLEMENTARY.sub(_split_surrogates, text)
        data = text.encode("utf-8", "surrogatepass")
    return data.replace(b"\x00", b"\xc0\x80") if _NUL in data else data


def decode_modified_utf8(data: bytes, offset: int = 0) -> str:
    """The text of modified UTF-8, strictly: `encode_modified_utf8` gives the same bytes again.

    Args:
        data: the bytes of the text alone.
        offset: where they stand in what is being read; for errors.

    Raises:
        CodecError: a raw NUL, a four-byte sequence, an overlong or broken one.
    """
    if data.isascii():
        if _NUL in data:
            raise CodecError("a NUL is the two bytes c0 80 in modified UTF-8", offset=offset + data.index(0))
        return data.decode("ascii")
    foreign = _FOREIGN.search(data)
    if foreign is not None:
        raise CodecError(f"byte {foreign[0].hex()} does not occur in modified UTF-8", offset=offset + foreign.start())
    return decode_any_utf8(data, offset)


def decode_any_utf8(data: bytes, offset: int = 0) -> str:
    """The text of bytes that are modified UTF-8, or UTF-8, or a mixture.

    ActiveMQ's STOMP transport stored UTF-8 where JMS clients expect modified UTF-8, until 5.18.6.

    Args:
        data: the bytes of the text alone.
        offset: where they stand in what is being read; for errors.

    Raises:
        CodecError: neither.
    """
    if data.isascii():
        return data.decode("ascii")
    try:
        text = (data.replace(b"\xc0\x80", b"\x00") if _BEFORE_NUL in data else data).decode("utf-8", "surrogatepass")
    except UnicodeDecodeError as error:
        raise CodecError(f"not UTF-8 of either kind ({error.reason})", offset=offset + error.start) from error
    if _BEFORE_SURROGATE in data:
        # Pairs of surrogates become one character, lone ones stay.
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
    return text
