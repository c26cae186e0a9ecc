"""XML is read with its lines, and nothing of it reaches outside or grows."""

from __future__ import annotations

import pytest

from jdbcstore.config.activemq_xml.document import DEPTH_MAX, FILE_BYTES_MAX, Element, parse_document
from jdbcstore.config.activemq_xml.findings import Place, PlacedError


def parsed(text: str | bytes) -> Element:
    return parse_document(text if isinstance(text, bytes) else text.encode(), "a.xml")


def refusal(text: str | bytes) -> PlacedError:
    with pytest.raises(PlacedError) as caught:
        parsed(text)
    return caught.value


def test_elements_and_attributes_know_their_lines() -> None:
    root = parsed(
        """<?xml version="1.0"?>
<!-- two
     lines -->
<a xmlns="urn:a"
   xmlns:b="urn:b"
   one="1" two='2'

   b:three="3
   ">
  <b:c/>
  text &lt;</a>"""
    )
    assert (root.namespace, root.name, root.place, root.end) == ("urn:a", "a", Place("a.xml", 4), Place("a.xml", 11))
    assert [(a.namespace, a.name, a.value, a.place.line) for a in root.attributes] == [
        ("", "one", "1", 6),
        ("", "two", "2", 6),
        ("urn:b", "three", "3    ", 8),
    ]
    assert [(c.namespace, c.name, c.place.line) for c in root.children] == [("urn:b", "c", 10)]
    assert root.text.split() == ["text", "<"]


@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"])
def test_any_line_end_counts(line_end: str) -> None:
    root = parsed(line_end.join(["<a>", "<b", "c='1'", "/></a>"]))
    assert root.children[0].place.line == 2
    if line_end != "\r":  # of old Macintosh files the attributes have the line of their element
        assert root.children[0].attributes[0].place.line == 3


def test_utf_16_is_read_and_its_attributes_have_the_line_of_their_element() -> None:
    root = parsed("<?xml version='1.0' encoding='utf-16'?>\n<ä\n b='ö'/>".encode("utf-16"))
    assert (root.name, root.attributes[0].value, root.attributes[0].place.line) == ("ä", "ö", 2)


def test_latin_1_is_read() -> None:
    assert parsed("<?xml version='1.0' encoding='iso-8859-1'?><a b='ö'/>".encode("latin-1")).attributes[0].value == "ö"


BILLION_LAUGHS = """<!DOCTYPE a [
<!ENTITY x "ha"><!ENTITY y "&x;&x;&x;&x;&x;&x;&x;&x;"><!ENTITY z "&y;&y;&y;&y;&y;&y;&y;&y;">
]><a>&z;</a>"""


@pytest.mark.parametrize(
    "text",
    [
        BILLION_LAUGHS,
        '<!DOCTYPE a [<!ENTITY secret SYSTEM "file:///etc/passwd">]><a>&secret;</a>',
        '<!DOCTYPE a SYSTEM "http://example.com/a.dtd"><a/>',
        '<!DOCTYPE a [<!ENTITY % remote SYSTEM "http://example.com/a.dtd"> %remote;]><a/>',
        "<!DOCTYPE beans PUBLIC '-//SPRING//DTD BEAN//EN' 'http://www.springframework.org/dtd/spring-beans.dtd'><beans/>",
    ],
)
def test_a_document_type_declaration_is_refused(text: str) -> None:
    error = refusal("\n" + text)
    assert error.place.line == 2
    assert "<!DOCTYPE" in error.text


def test_an_entity_that_nobody_declared_is_refused() -> None:
    assert "undefined entity" in refusal("<a>\n&secret;</a>").text


def test_a_file_that_is_too_large_is_refused_before_it_is_read() -> None:
    assert str(FILE_BYTES_MAX) in refusal(b"<a>" + b" " * FILE_BYTES_MAX + b"</a>").text


def test_a_file_may_be_as_large_as_it_may_be() -> None:
    assert parsed(b"<a>" + b" " * (FILE_BYTES_MAX - 7) + b"</a>").name == "a"


def test_elements_may_not_be_deep() -> None:
    depth = DEPTH_MAX
    assert parsed("<a>" * depth + "</a>" * depth).name == "a"
    assert str(depth) in refusal("<a>" * (depth + 1) + "</a>" * (depth + 1)).text


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("<a>\n<b></a>", 2),
        ("", 1),
        ("<a", 1),
        ("<a/>\n<b/>", 2),
        ("<a b='1' b='2'/>", 1),
        ("<x:a/>", 1),
        (b"<a>\n\xff</a>", 2),
    ],
)
def test_what_is_not_xml_is_refused_with_its_line(text: str | bytes, line: int) -> None:
    error = refusal(text)
    assert error.place == Place("a.xml", line)
    assert str(error).startswith(f"a.xml:{line}: not XML: ")
