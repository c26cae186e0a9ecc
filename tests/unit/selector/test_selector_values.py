"""Values compared, computed and matched where the vectors cannot tell: ActiveMQ fails there, or reads wrongly."""

from __future__ import annotations

import time

import pytest

from jdbcstore.message import Message
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value
from jdbcstore.selector import CONVERT_STRINGS, Selector
from jdbcstore.selector.evaluation import like_pattern


def value(selector: str, **properties: Value) -> bool | None:
    """What a selector is for a message with these properties."""
    message = Message()
    message.properties = properties
    return Selector.parse(selector).evaluate(message)


# --- where ActiveMQ fails with an exception ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("double = single", True),
        ("2.5 = single", True),
        ("double > single", False),
        ("double >= single", True),
        ("1e300 > single", True),
        ("list > 5", False),
        ("5 > list", False),
        ("NOT (list > 5)", True),
        ("bytes > bytes", False),
        ("-byte = -5", True),
        ("-short < 0", True),
    ],
)
def test_what_activemq_cannot_compare(selector: str, expected: bool) -> None:
    properties: dict[str, Value] = {"double": 2.5, "single": Float(2.5), "list": [1], "bytes": b"x"}
    assert value(selector, **properties, byte=Byte(5), short=Short(5)) is expected


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("flag = text", True),
        ("TRUE = text", True),
        ("FALSE = text", False),
        ("FALSE = other", True),
        ("flag > other", True),
    ],
)
def test_a_boolean_left_of_a_converted_string(selector: str, expected: bool) -> None:
    assert value(CONVERT_STRINGS + selector, flag=True, text="TRUE", other="no") is expected


@pytest.mark.parametrize(
    "computed",
    [
        "flag + 1",
        "1 + flag",
        "text - 1",
        "1 - text",
        "text * 2",
        "text / 2",
        "text % 2",
        "1 / text",
        "list + 1",
        "1 + list",
    ],
)
def test_arithmetic_with_what_is_no_number_is_unknown(computed: str) -> None:
    properties: dict[str, Value] = {"flag": True, "text": "x", "list": [1]}
    assert value(f"{computed} = 1", **properties) is None
    assert value(f"{computed} IS NULL", **properties) is True
    assert value(f"{computed} = 1 OR flag", **properties) is True


def test_joined_texts_are_bounded() -> None:
    text = "x" * 65_535
    assert value("text + 'y' LIKE '%y'", text=text) is True
    assert value("text + 'yz' IS NULL", text=text) is True
    assert value(" + ".join(["text"] * 90) + " IS NULL", text="x" * 10_000) is True


# --- texts ------------------------------------------------------------------------------------------------------------


def test_texts_are_ordered_by_utf_16_units_as_in_java() -> None:
    assert value("rocket < high", rocket="\U0001f680", high="\ufffd") is True
    assert value("high > rocket", rocket="\U0001f680", high="\ufffd") is True
    assert value("lone < rocket", lone="\ud83c", rocket="\U0001f680") is True
    assert value("a < b", a="a", b="ab") is True
    assert value("a < b", a="B", b="a") is True


def test_a_character_beyond_the_first_plane_is_one_for_like() -> None:
    assert value("rocket LIKE '_'", rocket="\U0001f680") is True
    assert value("rocket = '\U0001f680'", rocket="\U0001f680") is True


@pytest.mark.parametrize(
    ("pattern", "escape", "matched", "not_matched"),
    [
        ("", None, [""], ["a", "\n"]),
        ("%", None, ["", "a", "a\nb"], []),
        ("_", None, ["a", "\n", "%"], ["", "ab"]),
        ("a%b", None, ["ab", "axb", "abb", "a\nb"], ["a", "b", "ba", "abc", "xab"]),
        ("ab%ba", None, ["abba", "abxba"], ["aba", "ab", "abab"]),
        ("%ab%ab%", None, ["abab", "xabxabx"], ["ab", "aab", "xabx"]),
        ("%_", None, ["a", "ab"], [""]),
        ("__%", None, ["ab", "abc"], ["a"]),
        ("%a_%b", None, ["axb", "aaxb", "xaabb"], ["ab", "axbx"]),
        ("a.c", None, ["a.c"], ["abc"]),
        ("[a-z]*(x|y)+?\\d^$", None, ["[a-z]*(x|y)+?\\d^$"], ["x"]),
        ("100!%", "!", ["100%"], ["100", "100!", "100!%", "100x"]),
        ("a!_b", "!", ["a_b"], ["axb", "a!xb"]),
        ("a!!b", "!", ["a!b"], ["a!!b"]),
        ("a!b", "!", ["a!b"], ["ab"]),
        ("a!", "!", ["a!"], ["a"]),
        ("a\\_b", "\\", ["a_b"], ["a\\xb"]),
        ("a.b", ".", ["a.b"], ["axb"]),
        ("a.%", ".", ["a%"], ["a.", "ab"]),
        ("\u0100!", "!", ["\u0100!"], []),
        ("x\u0100\u0100", "\u0100", ["x\u0100"], ["x\u0100\u0100", "x\x100"]),
        ("x\x01%", "\x01", ["x%"], ["x", "x\x01y"]),
    ],
)
def test_like(pattern: str, escape: str | None, matched: list[str], not_matched: list[str]) -> None:
    quoted = pattern.replace("'", "''")
    selector = f"a LIKE '{quoted}'" + ("" if escape is None else f" ESCAPE '{escape}'")
    for text in matched:
        assert value(selector, a=text) is True, text
    for text in not_matched:
        assert value(selector, a=text) is False, text


@pytest.mark.parametrize(
    "pattern", ["%a" * 30 + "%b", "%a_" * 30 + "%b", "a%" * 30 + "b", "%" * 60 + "b", "%_" * 30 + "%b%c"]
)
def test_like_does_not_try_every_combination(pattern: str) -> None:
    """Trying them all would take longer than anybody waits: 30 places among 20000."""
    start = time.process_time()
    assert like_pattern(pattern, None).fullmatch("a" * 20_000) is None
    assert time.process_time() - start < 1


# --- strings converted ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "condition", "expected"),
    [
        ("10", "n = 10", True),
        ("10", "n > 9", True),
        ("10", "9 < n", True),
        ("10", "n BETWEEN 9 AND 11", True),
        ("10", "n <> 10", False),
        ("10", "n IN ('10')", True),
        ("10", "n = '10'", True),
        ("10", "n = '010'", False),
        ("010", "n = 10", True),
        ("10.0", "n = 10", False),
        ("10.0", "n = 10.0", True),
        ("ten", "n > 0", False),
        ("ten", "n <= 0", False),
        ("ten", "NOT (n > 0)", True),
        ("", "n = 0", False),
        (" 10", "n = 10", False),
        (" 10 ", "n = 10.0", True),
        ("\x01\n10\x1f", "n = 10.0", True),
        ("\u00a010", "n = 10.0", False),
        ("1_0", "n = 10", False),
        ("1_0", "n = 10.0", False),
        ("3000000000", "n > 5", False),
        ("3000000000", "n > 5.0", True),
        ("1e400", "n > 1e308", True),
        ("-0x1p99999", "n < 0.0", True),
        ("0x1.8p1", "n = 3.0", True),
        ("infinity", "n > 0.0", False),
        ("inf", "n > 0.0", False),
        ("nan", "n > 0.0", False),
        ("NaN", "n > 0.0", True),
        ("1" * 5000, "n > 0.0", False),
        ("1" * 5000, "n > 0", False),
        ("true", "n = TRUE", True),
        ("yes", "n = FALSE", True),
        ("true", "n", False),
    ],
)
def test_strings_are_converted_if_asked_for(text: str, condition: str, expected: bool) -> None:
    assert value(CONVERT_STRINGS + condition, n=text) is expected
    if "'" not in condition and condition != "n":
        plain = value(condition, n=text)
        assert plain is (condition.startswith("NOT") or "<>" in condition)


def test_a_string_is_read_as_the_type_beside_it() -> None:
    beside: dict[str, Value] = {"b": Byte(100), "s": Short(100), "i": 100, "l": Long(100), "f": Float(100), "d": 100.0}
    for name in beside:
        assert value(f"{CONVERT_STRINGS}{name} = n", n="100", **beside) is True
        assert value(f"{CONVERT_STRINGS}n = {name}", n="100", **beside) is True
    assert value(f"{CONVERT_STRINGS}n > b", n="200", **beside) is False
    assert value(f"{CONVERT_STRINGS}n > s", n="200", **beside) is True
    assert value(f"{CONVERT_STRINGS}n = f", n="100.000001", **beside) is True
    assert value(f"{CONVERT_STRINGS}n = d", n="100.000001", **beside) is False
    assert value(f"{CONVERT_STRINGS}n = c", n="1", c=Char("1")) is False


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_a_long_beside_a_float_is_rounded_once() -> None:
    """First to 53 bits and then to 24, a tie would be broken that is none."""
    above = (1 << 60) + (1 << 36) + 1
    assert value("long = single", long=Long(above), single=Float((1 << 60) + (1 << 37))) is True
    assert value("long = single", long=Long(-above), single=Float(-(1 << 60) - (1 << 37))) is True
    assert value("long = single", long=Long(above - 1), single=Float(1 << 60)) is True


def test_integers_wrap_around_in_their_own_size() -> None:
    assert value("i + 1 = -2147483648", i=(1 << 31) - 1) is True
    assert value("l + 1 = -9223372036854775808", l=Long((1 << 63) - 1)) is True
    assert value("i * i = 0", i=1 << 16) is True
    assert value("-i = i", i=-(1 << 31)) is True
