"""The words of a selector.

Blanks, ``/* ... */`` and ``-- ...`` up to the end of the line stand between them. Keywords are known in any case; names
are ASCII letters, digits, ``_`` and ``$``, and their case counts. Source: the tokens that ActiveMQ knows, as observed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

from jdbcstore.errors import SelectorError

__all__ = ["END", "KEYWORDS", "Token", "tokens"]

END: Final = "end"
KEYWORDS: Final = frozenset(
    ("AND", "BETWEEN", "ESCAPE", "FALSE", "IN", "IS", "LIKE", "NOT", "NULL", "OR", "TRUE", "XPATH", "XQUERY")
)

#: Each alternative begins differently or is longer than the next, so that the first that fits is the longest; none can
#: fit the same text in two ways, so none backtracks.
_TOKEN: Final = re.compile(
    r"""
    (?P<blank> [ \t\n\r\f]+ | --[^\n\r]*[\n\r] | /\*(?s:.*?)\*/ )
    | (?P<unfinished> -- | /\* )
    | (?P<float> [0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)? | \.[0-9]+(?:[eE][+-]?[0-9]+)? | [0-9]+[eE][+-]?[0-9]+ )
    | (?P<hexadecimal> 0[xX][0-9a-fA-F]+ )
    | (?P<octal> 0[0-7]* )
    | (?P<decimal> [1-9][0-9]*[lL]? )
    | (?P<string> '[^']*(?:''[^']*)*' )
    | (?P<name> [A-Za-z_$][A-Za-z0-9_$]* )
    | (?P<symbol> <> | <= | >= | [=<>(),+\-*/%] )
    """,
    re.VERBOSE,
)

_UNFINISHED: Final = {
    "--": "a line break at the end of the comment (or, to subtract, parentheses around what is negative)",
    "/*": "*/ at the end of the comment",
}


class Token(NamedTuple):
    """One word.

    Args:
        kind: the symbol or keyword itself, else "name", "string", "float", "decimal", "octal", "hexadecimal", `END`.
        text: as written.
        position: of its first character, from 1.
    """

    kind: str
    text: str
    position: int


def tokens(text: str) -> Iterator[Token]:
    """The words of `text`, at last one of kind `END`; each is looked for when it is asked for.

    Raises:
        SelectorError: a character that begins no word, a string or comment without end.
    """
    offset = 0
    while offset < len(text):
        found = _TOKEN.match(text, offset)
        if found is None:
            raise _no_token(text, offset)
        kind, word = str(found.lastgroup), found[0]
        if kind == "unfinished":
            raise SelectorError(_UNFINISHED[word], f"{word} without it", offset + 1)
        if kind != "blank":
            if kind == "symbol":
                kind = word
            elif kind == "name" and word.upper() in KEYWORDS:
                kind = word.upper()
            yield Token(kind, word, offset + 1)
        offset = found.end()
    yield Token(END, "the end of the selector", len(text) + 1)


def _no_token(text: str, offset: int) -> SelectorError:
    character = text[offset]
    if character == "'":
        return SelectorError("' at the end of the string", "' without it", offset + 1)
    if character == '"':
        return SelectorError("a string in single quotes", '"', offset + 1)
    return SelectorError("a name, a value or an operator", ascii(character), offset + 1)
