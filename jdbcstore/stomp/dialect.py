"""How the versions of STOMP read and write header lines.

======== ======================== =================== ======================== ========================
version  unescapes                trims values        drops CR at line ends    escapes
======== ======================== =================== ======================== ========================
1.0      ``\\\\ \\n \\c``         yes                 yes                      nothing
1.1      ``\\\\ \\n \\c``         no                  no                       ``\\\\ \\n \\c``
1.2      ``\\\\ \\n \\c \\r``     no                  yes                      ``\\\\ \\n \\c \\r``
======== ======================== =================== ======================== ========================

This is what ActiveMQ does, and so are these: names are taken literally; what is not UTF-8 becomes U+FFFD; an escape
that the version does not know stays as it is. The specification calls the last one fatal, but clients that put a
Windows path or a regular expression into a header without escaping it have always worked with ActiveMQ, and would
suffer. For the same reason the headers of CONNECT are unescaped, in the way of 1.0.

Stricter than ActiveMQ:

- A line without a colon or without a name is an error; it would be a header nobody meant.
- What would break the frame is never written raw: in 1.0, which has no escapes, a newline in a value is a blank, a
  newline or colon in a name is escaped, and a NUL anywhere becomes U+FFFD. Otherwise one client could forge frames for
  another.

Lines repeat (``destination:/queue/A`` in every SEND), so each dialect remembers the ones it decoded. That memory is
bounded and shared by all connections; the lines of a CONNECT, which carry passwords, never get there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from jdbcstore.errors import ProtocolError

__all__ = ["JAVA_BLANKS", "UNCONNECTED", "VERSIONS", "Dialect", "dialect_of"]

#: The versions we speak, best first.
VERSIONS: Final = ("1.2", "1.1", "1.0")

#: What Java's String.trim takes away.
JAVA_BLANKS: Final = "".join(map(chr, range(0x21)))

_CACHED_LINES_MAX: Final = 2048
_CACHED_LINE_BYTES: Final = 128

_REPLACEMENT: Final = "\ufffd"


class _DecodedLines(dict[bytes, tuple[str, str]]):
    """Header line → name and value; decodes what it has not seen, forgets everything when full."""

    __slots__ = ("_decode", "_lines_max")

    def __init__(self, decode: Callable[[bytes], tuple[str, str]], lines_max: int) -> None:
        super().__init__()
        self._decode = decode
        self._lines_max = lines_max

    def __missing__(self, line: bytes) -> tuple[str, str]:
        decoded = self._decode(line)
        if len(line) <= _CACHED_LINE_BYTES and self._lines_max:
            if len(self) >= self._lines_max:
                self.clear()
            self[line] = decoded
        return decoded


class Dialect:
    """How one version of STOMP reads and writes header lines; see the module's docstring.

    Args:
        version: one of `VERSIONS`.
        lines_max: how many decoded lines to remember.
    """

    __slots__ = ("_escape_sequence", "_escapes", "_unescaped", "decode_line", "drops_cr", "version")

    def __init__(self, version: str, lines_max: int = _CACHED_LINES_MAX) -> None:
        self.version = version
        self.drops_cr = version != "1.1"
        letters = {"\\": "\\", "n": "\n", "c": ":"} | ({"r": "\r"} if version == "1.2" else {})
        self._unescaped = {"\\" + letter: character for letter, character in letters.items()}
        self._escapes = str.maketrans(
            {"\0": _REPLACEMENT}
            | ({"\n": " "} if version == "1.0" else {character: "\\" + letter for letter, character in letters.items()})
        )
        self._escape_sequence = re.compile(r"\\[" + re.escape("".join(letters)) + "]")
        #: Header line without its newline → (name, value). Raises ProtocolError.
        self.decode_line: Callable[[bytes], tuple[str, str]] = _DecodedLines(self.decode_once, lines_max).__getitem__

    def decode_once(self, line: bytes) -> tuple[str, str]:
        """As `decode_line`, of a line that is not worth remembering."""
        name, colon, value = line.decode("utf-8", "replace").partition(":")
        if not colon:
            raise ProtocolError(f"Unable to parse header line [{name[:80]}]: it has no colon", fatal=True)
        if not name:
            raise ProtocolError(f"Unable to parse header line [:{value[:80]}]: it has no name", fatal=True)
        if "\\" in value:
            value = self._unescape(value)
        if self.version == "1.0":
            value = value.strip(JAVA_BLANKS)
        return name, value

    def _unescape(self, value: str) -> str:
        if "\\\\" in value:  # then only reading from left to right tells which backslash belongs to what
            return self._escape_sequence.sub(lambda match: self._unescaped[match[0]], value)
        value = value.replace("\\c", ":").replace("\\n", "\n")
        return value.replace("\\r", "\r") if self.version == "1.2" else value

    def encode_head(self, command: str, headers: Mapping[str, str], more: bytes = b"") -> bytes:
        """Everything before the body: command line, header lines, blank line.

        Args:
            command: the command line.
            headers: what the first lines say.
            more: lines that `encode_lines` has made.
        """
        return b"%s\n%s%s\n" % (command.encode(), self.encode_lines(headers), more)

    def encode_lines(self, headers: Mapping[str, str]) -> bytes:
        """Header lines.

        A lone surrogate, which Java strings may hold and UTF-8 cannot, becomes ``?`` as in Java.
        """
        if not headers:
            return b""
        text = "".join([f"{name}:{value}\n" for name, value in headers.items()])
        is_odd = "\\" in text or "\r" in text or "\0" in text
        if text.count(":") == text.count("\n") == len(headers) and not is_odd:
            return text.encode("utf-8", "replace")  # nothing to escape, as nearly always
        names, values = "".join(headers), "".join(headers.values())
        if is_odd or ":" in names or "\n" in names or "\n" in values:
            lines = [_escape_name(name) + ":" + value.translate(self._escapes) for name, value in headers.items()]
        elif ":" in values and self.version != "1.0":
            lines = [name + ":" + value.replace(":", "\\c") for name, value in headers.items()]
        else:
            lines = [name + ":" + value for name, value in headers.items()]
        lines.append("")
        return "\n".join(lines).encode("utf-8", "replace")


_NAME_ESCAPES: Final = str.maketrans({"\0": _REPLACEMENT, "\n": "\\n", "\r": "\\r", ":": "\\c"})


def _escape_name(name: str) -> str:
    return name.translate(_NAME_ESCAPES)


_DIALECTS: Final = {version: Dialect(version) for version in VERSIONS}

#: Before the version is known; remembers nothing, because it reads passwords.
UNCONNECTED: Final = Dialect("1.0", lines_max=0)


def dialect_of(version: str) -> Dialect:
    """The dialect of a version of `VERSIONS`."""
    return _DIALECTS[version]
