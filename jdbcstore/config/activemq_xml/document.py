"""XML → elements that know their lines.

Configuration files come from mail, tickets and shared folders, so this reads like a server reads: expat, and nothing of
XML that reaches outside of the file or makes it larger than it is. A document type declaration is refused as a whole;
without one there are no entities to expand and nothing to fetch. Size and depth are bounded.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Final
from xml.parsers import expat

from jdbcstore.config.activemq_xml.findings import Place, PlacedError

__all__ = ["DEPTH_MAX", "FILE_BYTES_MAX", "Attribute", "Element", "parse_document"]

FILE_BYTES_MAX: Final = 1 << 20
DEPTH_MAX: Final = 64

#: Between namespace and local name; neither can have it.
_SEPARATOR: Final = " "
_TAG: Final = re.compile(rb"<[^\s/>]+")
_ATTRIBUTE: Final = re.compile(rb"""\s+([^\s=<>"'/]+)\s*=\s*(?:"[^"]*"|'[^']*')""")


@dataclass(frozen=True, slots=True)
class Attribute:
    """An attribute of an element.

    Args:
        namespace: empty for those without prefix.
        name: without prefix.
        value: as written, placeholders included.
        place: where its name is.
    """

    namespace: str
    name: str
    value: str
    place: Place


@dataclass(slots=True)
class Element:
    """An element.

    Args:
        namespace: empty without one.
        name: without prefix.
        place: where its tag begins.
        end: where its end tag is.
        attributes: in the order of the file.
        children: elements in it.
        text: all text that stands directly in it.
    """

    namespace: str
    name: str
    place: Place
    end: Place
    attributes: tuple[Attribute, ...] = ()
    children: list[Element] = field(default_factory=list)
    text: str = ""

    def attribute(self, name: str, namespace: str = "") -> Attribute | None:
        """The attribute of this name, if it is given."""
        for attribute in self.attributes:
            if attribute.name == name and attribute.namespace == namespace:
                return attribute
        return None


def parse_document(data: bytes, file: str) -> Element:
    """Read a document and return its root.

    Args:
        data: the bytes of the file.
        file: its name, for places and errors.

    Raises:
        PlacedError: it is not well-formed, has a document type declaration, or is too large or too deep.
    """
    if len(data) > FILE_BYTES_MAX:
        raise PlacedError(
            Place(file, 0), f"{len(data)} bytes are too many for a configuration, {FILE_BYTES_MAX} may be"
        )
    reader = _Reader(data, file)
    try:
        reader.parser.Parse(data, True)
    except expat.ExpatError as error:
        raise PlacedError(Place(file, error.lineno), f"not XML: {expat.ErrorString(error.code)}") from error
    return reader.root


class _Reader:
    """Builds the elements from what expat tells."""

    def __init__(self, data: bytes, file: str) -> None:
        self.root: Element
        self._data = data
        self._file = file
        self._open: list[Element] = []
        self.parser = expat.ParserCreate(namespace_separator=_SEPARATOR)
        self.parser.buffer_text = True
        self.parser.ordered_attributes = True
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._text

    def _place(self) -> Place:
        return Place(self._file, self.parser.CurrentLineNumber)

    def _doctype(self, *_: object) -> None:
        raise PlacedError(
            self._place(), "a document type declaration (<!DOCTYPE …>) is not read, nor any entity of it: remove it"
        )

    def _start(self, name: str, given: list[str]) -> None:
        if len(self._open) >= DEPTH_MAX:
            raise PlacedError(self._place(), f"more than {DEPTH_MAX} elements inside each other")
        place = self._place()
        lines = self._attribute_lines(len(given) // 2)
        attributes = tuple(
            Attribute(*_split(given[2 * i]), given[2 * i + 1], Place(self._file, line)) for i, line in enumerate(lines)
        )
        element = Element(*_split(name), place, place, attributes)
        if self._open:
            self._open[-1].children.append(element)
        else:
            self.root = element
        self._open.append(element)

    def _end(self, _: str) -> None:
        self._open.pop().end = self._place()

    def _text(self, text: str) -> None:
        self._open[-1].text += text

    def _attribute_lines(self, count: int) -> list[int]:
        """The lines of the attributes that expat has just told, in its order; declarations of namespaces are none."""
        line, lines = self.parser.CurrentLineNumber, []
        tag = _TAG.match(self._data, self.parser.CurrentByteIndex)
        position = tag.end() if tag else len(self._data)
        starts = [self.parser.CurrentByteIndex]
        while found := _ATTRIBUTE.match(self._data, position):
            position = found.end()
            if found[1] != b"xmlns" and not found[1].startswith(b"xmlns:"):
                starts.append(found.start(1))
        for before, start in pairwise(starts):
            line += self._data.count(b"\n", before, start)
            lines.append(line)
        if len(lines) != count:  # an encoding in which bytes are no characters, UTF-16
            return [self.parser.CurrentLineNumber] * count
        return lines


def _split(name: str) -> tuple[str, str]:
    namespace, _, local = name.rpartition(_SEPARATOR)
    return namespace, local
