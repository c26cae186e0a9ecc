"""Numbers as Java prints them. Expected texts are those of Java's Double.toString and Float.toString."""

from __future__ import annotations

from math import inf, nan

import pytest

from jdbcstore.java_text import java_text
from jdbcstore.primitives import Byte, Float, Long, Value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (-0.0, "-0.0"),
        (1.0, "1.0"),
        (2.5, "2.5"),
        (0.001, "0.001"),
        (0.0001, "1.0E-4"),
        (1234567.0, "1234567.0"),
        (9999999.0, "9999999.0"),
        (1e7, "1.0E7"),
        (12345678.9, "1.23456789E7"),
        (1e21, "1.0E21"),
        (-1.5e-10, "-1.5E-10"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (inf, "Infinity"),
        (-inf, "-Infinity"),
        (nan, "NaN"),
        (5e-324, "4.9E-324"),
        (1e-323, "9.9E-324"),
        (Float(0.1), "0.1"),
        (Float(1.4e-45), "1.4E-45"),
        (Float(1e-44), "9.8E-45"),
        (Float(3.4028235e38), "3.4028235E38"),
        (Float(16777216.0), "1.6777216E7"),
        (Byte(-1), "-1"),
        (Long(7), "7"),
        (False, "false"),
        ("text", "text"),
        ({"a": 1, "b": None}, "{a=1, b=null}"),
        ([1, "x", True], "[1, x, true]"),
        (b"\x01\xff", "01ff"),
    ],
)
def test_values_are_printed_as_java_prints_them(value: Value, text: str) -> None:
    assert java_text(value) == text
