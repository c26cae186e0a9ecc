"""For all selectors and messages: printing and reading are inverse, and nothing raises anything unexpected."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from jdbcstore.errors import SelectorError
from jdbcstore.message import Message
from jdbcstore.primitives import Byte, Char, Float, Long, Short, Value
from jdbcstore.selector import (
    CONVERT_STRINGS,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
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
from jdbcstore.selector.evaluation import like_pattern
from jdbcstore.selector.tokens import KEYWORDS
from tests.examples import examples

# --- trees ------------------------------------------------------------------------------------------------------------

names = st.sampled_from(["a", "b", "c", "$d_1", "JMSPriority", "JMSXUserID"]) | st.from_regex(
    re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,8}", re.ASCII), fullmatch=True
).filter(lambda name: name.upper() not in KEYWORDS)
properties = names.map(Property)
longs = st.integers(1 << 31, (1 << 63) - 1).map(Long)
numbers = st.builds(Constant, st.integers(0, (1 << 31) - 1) | longs | st.floats(0, allow_nan=False).map(abs))
smallest = st.just(Constant(Long(-(1 << 63))))
texts = st.text(max_size=20) | st.sampled_from(["", "7", "-1", "7.0", "true", "NaN", "1e9", " 1 ", "\ud800", "0x1p3"])
strings = texts.map(Constant)
booleans = st.booleans().map(Constant)
null = st.just(Constant(None))
escapes = st.none() | st.characters(max_codepoint=0xFFFF)
patterns = st.text(st.sampled_from("ab%_!\\'"), max_size=8)


@st.composite
def ordered(draw: st.DrawFn, depth: int) -> Expression:
    """What may stand beside ``<``."""
    if depth == 0 or draw(st.booleans()):
        return draw(properties | numbers | smallest)
    if draw(st.booleans()):
        return Negative(draw(anything(depth - 1)))
    operator: ArithmeticOperator = draw(st.sampled_from(["+", "-", "*", "/", "%"]))
    return Arithmetic(operator, draw(anything(depth - 1)), draw(anything(depth - 1)))


@st.composite
def anything(draw: st.DrawFn, depth: int) -> Expression:
    """What may stand beside ``+`` or in front of LIKE."""
    expression: Expression = draw(ordered(depth) | strings | trees(depth))
    return expression.operand if isinstance(expression, Flag) else expression


@st.composite
def trees(draw: st.DrawFn, depth: int = 4) -> Expression:
    """Conditions, as the parser allows them."""
    if depth == 0:
        return draw(properties.map(Flag) | booleans | null)
    below = depth - 1
    negated = draw(st.booleans())
    kind = draw(st.sampled_from(["flag", "order", "equality", "between", "like", "in", "is null", "not", "and", "or"]))
    match kind:
        case "order":
            sign: ComparisonOperator = draw(st.sampled_from(["<", "<=", ">", ">="]))
            return Comparison(sign, draw(ordered(below)), draw(ordered(below)))
        case "equality":
            sides = anything(below).filter(lambda side: not (isinstance(side, Constant) and side.value is None))
            left = draw(sides)
            needs_boolean = isinstance(left, Constant) and isinstance(left.value, bool)
            right = booleans if needs_boolean else sides
            same: ComparisonOperator = draw(st.sampled_from(["=", "<>"]))
            return Comparison(same, left, draw(right))
        case "between":
            return Between(draw(ordered(below)), draw(ordered(below)), draw(ordered(below)), negated)
        case "like":
            return Like(draw(anything(below)), draw(patterns), draw(escapes), negated)
        case "in":
            return In(draw(properties), tuple(draw(st.lists(texts, min_size=1, max_size=4))), negated)
        case "is null":
            return IsNull(draw(anything(below)), negated)
        case "not":
            return Not(draw(trees(below)))
        case "and":
            return And(_flat(And, draw(st.lists(trees(below), min_size=2, max_size=3))))
        case "or":
            return Or(_flat(Or, draw(st.lists(trees(below), min_size=2, max_size=3))))
        case _:
            return Flag(draw(properties))


def _flat(kind: type[And | Or], terms: list[Expression]) -> tuple[Expression, ...]:
    return tuple(part for term in terms for part in (term.terms if isinstance(term, kind) else (term,)))


# --- messages ---------------------------------------------------------------------------------------------------------

scalars: st.SearchStrategy[Any] = (
    st.none()
    | st.booleans()
    | st.integers(-(1 << 31), (1 << 31) - 1)
    | st.integers(-(1 << 63), (1 << 63) - 1).map(Long)
    | st.integers(-128, 127).map(Byte)
    | st.integers(-(1 << 15), (1 << 15) - 1).map(Short)
    | st.floats()
    | st.floats(width=32).map(Float)
    | texts
    | st.characters(max_codepoint=0xFFFF).map(Char)
    | st.binary(max_size=4)
)
values: st.SearchStrategy[Any] = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
)


@st.composite
def messages(draw: st.DrawFn) -> Message:
    """Messages with any values of the properties that trees often have."""
    message = Message(priority=draw(st.integers(0, 9)))
    chosen: dict[str, Value] = draw(st.dictionaries(st.sampled_from(["a", "b", "c", "$d_1", "JMSXUserID"]), values))
    message.properties = chosen
    return message


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(trees())
def test_a_printed_tree_is_read_as_the_same_tree(tree: Expression) -> None:
    assert Selector.parse(str(tree)).expression == tree


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=examples(100))
@given(trees(), messages(), st.booleans())
def test_every_selector_has_a_value_for_every_message(tree: Expression, message: Message, converts: bool) -> None:
    prefix = CONVERT_STRINGS if converts else ""
    selector = Selector.parse(prefix + str(tree))
    value = selector.evaluate(message)
    assert value in (True, False, None)
    assert selector.matches(message) is (value is True)
    turned = Selector.parse(f"{prefix}NOT ({tree})").evaluate(message)
    assert turned is (None if value is None else not value)
    assert Selector.parse(f"{prefix}({tree}) IS NULL").evaluate(message) is (value is None)


words = st.sampled_from(
    [
        *sorted(KEYWORDS),
        *(
            "a",
            "b",
            "'x'",
            "''",
            "'",
            '"',
            "1",
            "2.5",
            "08",
            "0x1",
            "5L",
            "1e",
            ".",
            "\n",
            "\x00",
            "\u00fc",
            "\U0001f680",
        ),
        *("=", "<>", "<", "<=", ">", ">=", "+", "-", "*", "/", "%", "(", ")", ",", "--", "/*", "*/", CONVERT_STRINGS),
    ]
)


def read(text: str) -> Selector | SelectorError:
    """The selector, or what is wrong with it."""
    try:
        return Selector.parse(text)
    except SelectorError as error:
        return error


@settings(max_examples=examples(300))
@given(st.lists(words, max_size=12).map(" ".join) | st.lists(words, max_size=12).map("".join) | st.text() | st.binary())
def test_any_text_is_a_selector_or_a_selector_error(text: str | bytes) -> None:
    if isinstance(text, bytes):
        text = text.decode("latin-1")
    found = read(text)
    if isinstance(found, SelectorError):
        assert 1 <= found.position <= len(text) + 1
    else:
        assert found.evaluate(Message()) in (True, False, None)


# --- LIKE -------------------------------------------------------------------------------------------------------------


@settings(max_examples=examples(300))
@given(st.text(st.sampled_from("ab%_!"), max_size=12), st.text(st.sampled_from("ab%_!"), max_size=12))
def test_like_matches_as_the_plain_backtracking_regular_expression_does(pattern: str, text: str) -> None:
    plain = {"%": ".*", "_": "."}
    expected = re.fullmatch("".join(plain.get(character, re.escape(character)) for character in pattern), text)
    assert (like_pattern(pattern, None).fullmatch(text) is None) is (expected is None)


@given(st.text(max_size=20), st.characters(max_codepoint=0xFFFF))
def test_an_escaped_text_matches_itself_alone(text: str, escape: str) -> None:
    assume(escape not in "%_")
    escaped = "".join(escape + character if character in ("%", "_", escape) else character for character in text)
    matches = like_pattern(escaped, escape).fullmatch
    assert matches(text)
    assert not matches(text + "a")
    assert not matches("a" + text)
