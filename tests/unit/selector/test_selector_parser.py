"""From text to tree: precedence, what is refused and where, limits."""

from __future__ import annotations

import pytest

from jdbcstore.errors import SelectorError
from jdbcstore.message import Message
from jdbcstore.primitives import Long
from jdbcstore.selector import (
    DEPTH_MAX,
    And,
    Arithmetic,
    Between,
    Comparison,
    Constant,
    Expression,
    Flag,
    In,
    IsNull,
    Like,
    Negative,
    Not,
    Or,
    Property,
    Selector,
)

A, B, C = Property("a"), Property("b"), Property("c")
ONE, TWO = Constant(1), Constant(2)


def tree(text: str) -> Expression:
    """The tree of a selector."""
    return Selector.parse(text).expression


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a", Flag(A)),
        ("NULL", Constant(None)),
        ("a = 1", Comparison("=", A, ONE)),
        ("a <> 'x''y'", Comparison("<>", A, Constant("x'y"))),
        ("a IS NULL", IsNull(A)),
        ("a is Not null", IsNull(A, negated=True)),
        ("a BETWEEN 1 AND 2", Between(A, ONE, TWO)),
        ("a NOT BETWEEN 1 AND 2", Between(A, ONE, TWO, negated=True)),
        ("a IN ('x', 'y')", In(A, ("x", "y"))),
        ("a NOT IN ('x')", In(A, ("x",), negated=True)),
        ("a LIKE 'x%'", Like(A, "x%")),
        ("a NOT LIKE 'x!%' ESCAPE '!'", Like(A, "x!%", "!", negated=True)),
        ("NOT a", Not(Flag(A))),
        ("-a < +b", Comparison("<", Negative(A), B)),
    ],
)
def test_every_kind_of_expression(text: str, expected: Expression) -> None:
    assert tree(text) == expected
    assert tree(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a OR b AND c", Or((Flag(A), And((Flag(B), Flag(C)))))),
        ("(a OR b) AND c", And((Or((Flag(A), Flag(B))), Flag(C)))),
        ("a OR (b OR c) OR TRUE", Or((Flag(A), Flag(B), Flag(C), Constant(True)))),
        ("(a AND b) AND (c AND TRUE)", And((Flag(A), Flag(B), Flag(C), Constant(True)))),
        ("a = b > c", Comparison("=", A, Comparison(">", B, C))),
        ("a = b = c", Comparison("=", Comparison("=", A, B), C)),
        ("a = b IS NULL", IsNull(Comparison("=", A, B))),
        ("a > b IS NULL", IsNull(Comparison(">", A, B))),
        ("a = b LIKE 'x'", Comparison("=", A, Like(B, "x"))),
        ("a < b + c * 1", Comparison("<", A, Arithmetic("+", B, Arithmetic("*", C, ONE)))),
        ("a - b - c = 1", Comparison("=", Arithmetic("-", Arithmetic("-", A, B), C), ONE)),
        ("a - (b - c) = 1", Comparison("=", Arithmetic("-", A, Arithmetic("-", B, C)), ONE)),
        ("a / b % c = 1", Comparison("=", Arithmetic("%", Arithmetic("/", A, B), C), ONE)),
        ("a BETWEEN 1 AND 2 AND b", And((Between(A, ONE, TWO), Flag(B)))),
        ("a BETWEEN 1 AND b + c", Between(A, ONE, Arithmetic("+", B, C))),
        ("NOT a = b", Comparison("=", Not(Flag(A)), B)),
        ("NOT a AND b", And((Not(Flag(A)), Flag(B)))),
        ("NOT NOT a", Not(Not(Flag(A)))),
        ("- -a = 1", Comparison("=", Negative(Negative(A)), ONE)),
        ("-a * b = 1", Comparison("=", Arithmetic("*", Negative(A), B), ONE)),
    ],
)
def test_precedence_is_that_of_activemq(text: str, expected: Expression) -> None:
    assert tree(text) == expected
    assert tree(str(expected)) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0", 0),
        ("2147483647", 2147483647),
        ("2147483648", Long(2147483648)),
        ("5l", 5),
        ("0xfF", 255),
        ("017", 15),
        ("00", 0),
        ("0x00000000000000000000000001", 1),
        ("9223372036854775807L", Long((1 << 63) - 1)),
        ("-9223372036854775808", Long(-(1 << 63))),
        ("5.", 5.0),
        (".5E-1", 0.05),
        ("5e0", 5.0),
        ("09.5", 9.5),
        ("1e999", float("inf")),
        ("'it''s'", "it's"),
        ("''", ""),
        ("true", True),
    ],
)
def test_constants_have_a_value_and_a_type(text: str, value: object) -> None:
    comparison = tree(f"a = {text}")
    assert isinstance(comparison, Comparison)
    assert isinstance(comparison.right, Constant)
    assert (comparison.right.value, type(comparison.right.value)) == (value, type(value))
    assert tree(str(comparison)) == comparison


def test_constants_of_different_types_are_different() -> None:
    assert Constant(1) != Constant(1.0)
    assert Constant(True) != Constant(1)
    assert len({Constant(1), Constant(1.0), Constant(True), Constant(Long(1)), Constant(1)}) == 4


def test_blanks_and_comments_stand_between_words() -> None:
    assert tree("/* one */a/**/=--x\n\t1 -- y\r\n\f") == Comparison("=", A, ONE)


@pytest.mark.parametrize(
    ("text", "position", "expected", "found"),
    [
        ("", 1, "a value, a property or (", "the end of the selector"),
        ("a =", 4, "a value, a property or (", "the end of the selector"),
        ("a = = b", 5, "a value, a property or (", "'='"),
        ("a b", 3, "an operator or the end", "'b'"),
        ("a = 1)", 6, "an operator or the end", "')'"),
        ("(a = 1", 7, "an operator or )", "the end"),
        ("a = 08", 6, "an operator", "'8'"),
        ("a.b = 1", 2, "a name, a value or an operator", "'.'"),
        ("a = \u00e4", 5, "a name, a value or an operator", r"'\xe4'"),
        ('a = "x"', 5, "single quotes", '"'),
        ("a = 'x", 5, "' at the end of the string", "'"),
        ("a /* b", 3, "*/ at the end of the comment", "/*"),
        ("a -- b", 3, "a line break", "--"),
        ("a IS 5", 6, "NULL", "'5'"),
        ("a NOT 5", 7, "LIKE, BETWEEN or IN", "'5'"),
        ("a IN (5)", 7, "a string in single quotes", "'5'"),
        ("a IN 'x'", 6, "(", "\"'x'\""),
        ("a IN ('x' 'y')", 11, "a comma or )", "\"'y'\""),
        ("5 IN ('x')", 1, "a property", "'5'"),
        ("a LIKE b", 8, "a string", "'b'"),
        ("a LIKE 'x' ESCAPE 'yz'", 19, "one character", "\"'yz'\""),
        ("a LIKE 'x' ESCAPE '\U0001f680'", 19, "one character", "'\U0001f680'"),
        ("a LIKE 'x' + 1", 12, "an operator or the end", "'+'"),
        ("a BETWEEN 1", 12, "AND", "the end"),
        ("a BETWEEN 1 AND 'x'", 17, "a number or a property", "\"'x'\""),
        ("a > 'x'", 5, "a number or a property", "\"'x'\""),
        ("TRUE < a", 1, "a number or a property", "'TRUE'"),
        ("b AND (a = 1) > 1", 7, "a number or a property", "'a = 1'"),
        ("b OR NOT a > 1", 6, "parentheses", "'NOT a'"),
        ("NOT a IN ('x')", 1, "parentheses", "'NOT a'"),
        ("NOT a BETWEEN 1 AND 2", 1, "parentheses", "'NOT a'"),
        ("a = NULL", 5, "IS NULL", "NULL"),
        ("TRUE = 5", 8, "TRUE, FALSE", "'5'"),
        ("a + 1", 1, "a condition", "'a + 1'"),
        ("a AND 5", 7, "a condition", "'5'"),
        ("'x' OR a", 1, "a condition", "\"'x'\""),
        ("a = 1 AND NOT 5", 15, "a condition", "'5'"),
        ("a = 9223372036854775808", 5, "64 bits", "'9223372036854775808'"),
        ("a = -9223372036854775809", 6, "64 bits", "'9223372036854775809'"),
        ("a = 0x8000000000000000", 5, "64 bits", "'0x8000000000000000'"),
        (f"a = {'9' * 5000}", 5, "64 bits", "..."),
        ("a = 1 AND XPATH '//b'", 11, "headers and properties only", "XPATH"),
        ("a = xquery", 5, "headers and properties only", "XQUERY"),
        ("a = REGEX('x', b)", 5, "functions are not supported", "'REGEX('"),
        ("convert_string_expressions:a =", 4, "a value, a property or (", "the end of the selector"),
    ],
)
def test_an_error_says_where_and_what_would_be_right(text: str, position: int, expected: str, found: str) -> None:
    with pytest.raises(SelectorError) as caught:
        Selector.parse(text)
    error = caught.value
    assert error.position == position
    assert expected in error.expected
    assert found in error.found
    assert str(error) == f"Selector: expected {error.expected}, found {error.found} at character {position}"
    assert len(str(error)) < 300


# --- limits -----------------------------------------------------------------------------------------------------------


def test_the_text_may_have_so_many_characters() -> None:
    text = f"a = '{'x' * 10_234}'"
    assert Selector.parse(text).text == text
    with pytest.raises(SelectorError, match="at most 10240 characters, found 10241") as caught:
        Selector.parse(text + " ")
    assert caught.value.position == 10_241


def test_a_durable_subscriptions_selector_has_to_fit_its_column_prefix_included() -> None:
    text = f"convert_string_expressions:a = '{'x' * 217}'"
    assert Selector.parse(text, length_max=250).text == text
    with pytest.raises(SelectorError, match=r"at most 250 characters, the 27 of .*: included.* found 251") as caught:
        Selector.parse(text + " ", length_max=250)
    assert caught.value.position == 224


NESTED = [
    ("({})", 0),
    ("NOT {}", 1),
    ("NOT ({})", 1),
    ("TRUE = ({})", 1),
    ("b BETWEEN 1 AND -({})", 2),
    ("TRUE AND (FALSE OR {})", 2),
    ("TRUE OR FALSE AND TRUE = (1 > 2 AND (1 = 2 OR {}))", 4),
]


@pytest.mark.parametrize(("pattern", "levels"), NESTED)
def test_nesting_is_limited_before_the_stack_is(pattern: str, levels: int) -> None:
    """As deep as allowed it is read, printed, hashed and evaluated; ten times deeper it is a plain error."""
    text, times = "a", (DEPTH_MAX - 3) // (levels or 1)
    for _ in range(times):
        text = pattern.format(text)
    deep = Selector.parse(text)
    assert DEPTH_MAX - 10 < deep.expression.depth <= DEPTH_MAX or not levels
    assert tree(str(deep.expression)) == deep.expression
    assert hash(deep.expression) == hash(tree(text))
    assert deep.evaluate(Message()) in (True, False, None)
    for _ in range(9 * times):
        text = pattern.format(text)
    with pytest.raises(SelectorError, match="at most 100 levels of nesting, found more"):
        Selector.parse(text, length_max=len(text), terms_max=len(text))


@pytest.mark.parametrize("operator", ["+", "-", "*", "/", "=", "<>"])
def test_a_row_of_operators_is_as_deep_as_it_is_long(operator: str) -> None:
    row = f" {operator} ".join(["a"] * (DEPTH_MAX - 1))
    end = " = a"
    selector = Selector.parse(row + end)
    assert selector.expression.depth == DEPTH_MAX
    assert selector.evaluate(Message()) in (True, False, None)
    with pytest.raises(SelectorError, match="levels of nesting") as caught:
        Selector.parse(f"a {operator} {row}{end}")
    assert caught.value.position == len(f"a {operator} {row} =")


def test_rows_in_parentheses_add_up() -> None:
    text = "a"
    for _ in range(12):
        text = f"({text}{' + a' * 9})"
    with pytest.raises(SelectorError, match="levels of nesting"):
        Selector.parse(f"{text} = 1")


def test_long_rows_of_and_and_or_are_flat() -> None:
    for word in ("AND", "OR"):
        assert Selector.parse(f" {word} ".join(["a"] * 1000)).expression.depth == 3


def test_there_may_be_so_many_values_and_properties() -> None:
    text = " OR ".join(["a"] * 1000)
    assert len(list(tree(text).walk())) == 2001
    with pytest.raises(SelectorError, match="at most 1000 values and properties") as caught:
        Selector.parse(f"{text} OR b")
    assert caught.value.position == len(text) + 5
    strings = ", ".join(["'x'"] * 2000)
    assert Selector.parse(f"a IN ({strings})")


def test_limits_are_arguments() -> None:
    assert Selector.parse("NOT NOT a", depth_max=4)
    with pytest.raises(SelectorError, match="at most 3 levels"):
        Selector.parse("NOT NOT a", depth_max=3)
    with pytest.raises(SelectorError, match="at most 1 values"):
        Selector.parse("a = b", terms_max=1)
    with pytest.raises(SelectorError, match="at most 4 characters"):
        Selector.parse("a = b", length_max=4)
    with pytest.raises(ValueError, match="100 is the highest"):
        Selector.parse("a", depth_max=101)
