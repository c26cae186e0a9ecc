"""A tree compiled to one closure, which is called once for each message.

Each closure takes the message and its decoded properties and gives the value of its expression: for a condition True,
False, or None for unknown. Closures never raise, and call each other as deep as the tree is.

Comparing with a constant of the property's own type is what selectors do most: that is decided in the first line of the
closure, without a look at the table of types.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.selector.expression import (
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
)
from jdbcstore.selector.headers import HEADERS
from jdbcstore.selector.values import (
    add,
    converted,
    divide,
    equal,
    equal_converted,
    multiply,
    negate,
    order,
    remainder,
    subtract,
)

__all__ = ["Evaluation", "compiled", "like_pattern"]

Evaluation: TypeAlias = Callable[[Message, Mapping[str, Value]], Any]


def compiled(expression: Expression, converts: bool) -> Evaluation:
    """The closure that gives the value of `expression`.

    Args:
        expression: what to compute.
        converts: whether comparisons read strings as the type they are compared with.
    """
    return _COMPILERS[type(expression)](expression, converts)


def like_pattern(pattern: str, escape: str | None) -> re.Pattern[str]:
    """The regular expression that matches completely what LIKE matches.

    Between two ``%`` stands a piece of fixed length. The first place where a piece fits is as good as any later one, so
    it is searched for once, in an atomic group, and never again; the last piece can only stand at the end. That takes
    at most length of the text times length of the pattern steps, where trying every combination of places would take
    the length of the text to the power of the number of ``%``.
    """
    pieces: list[list[str]] = [[]]
    offset = 0
    while offset < len(pattern):
        character = pattern[offset]
        following = pattern[offset + 1 : offset + 2]
        if character == escape and following and following in ("%", "_", escape):
            pieces[-1].append(re.escape(following))
            offset += 1
        elif character == "%":
            pieces.append([])
        else:
            pieces[-1].append("." if character == "_" else re.escape(character))
        offset += 1
    first, *others = ("".join(piece) for piece in pieces)
    if not others:
        return re.compile(first, re.DOTALL)
    *middle, last = others
    searches = "".join(f"(?>.*?{piece})" for piece in middle if piece)
    end = f"(?>.{{{len(pieces[-1])},}})(?<={last})" if last else ".*"
    return re.compile(first + searches + end, re.DOTALL)


# --- values -----------------------------------------------------------------------------------------------------------


def _constant(expression: Constant, converts: bool) -> Evaluation:
    value = expression.value
    return lambda message, properties: value


def _property(expression: Property, converts: bool) -> Evaluation:
    name = expression.name
    header = HEADERS.get(name)
    if header is not None:
        return lambda message, properties: header(message)
    return lambda message, properties: properties.get(name)


def _negative(expression: Negative, converts: bool) -> Evaluation:
    value = compiled(expression.operand, converts)
    return lambda message, properties: negate(value(message, properties))


_ARITHMETIC: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "+": add,
    "-": subtract,
    "*": multiply,
    "/": divide,
    "%": remainder,
}


def _arithmetic(expression: Arithmetic, converts: bool) -> Evaluation:
    left, right = compiled(expression.left, converts), compiled(expression.right, converts)
    compute = _ARITHMETIC[expression.operator]

    def evaluate(message: Message, properties: Mapping[str, Value]) -> Any:
        one = left(message, properties)
        if one is None:
            return None
        other = right(message, properties)
        return None if other is None else compute(one, other)

    return evaluate


# --- conditions -------------------------------------------------------------------------------------------------------


def _flag(expression: Flag, converts: bool) -> Evaluation:
    value = compiled(expression.operand, converts)

    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        found = value(message, properties)
        return None if found is None else found is True

    return evaluate


_TESTS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _comparison(expression: Comparison, converts: bool) -> Evaluation:
    if expression.operator == "=":
        return _equality(expression.left, expression.right, converts)
    if expression.operator == "<>":
        return _turned(_equality(expression.left, expression.right, converts))
    return _ordering(expression.left, expression.right, _TESTS[expression.operator], converts)


def _folded(expression: Expression) -> Expression:
    """A constant with a minus sign as one constant."""
    if isinstance(expression, Negative) and isinstance(expression.operand, Constant):
        return Constant(negate(expression.operand.value))
    return expression


def _equality(left: Expression, right: Expression, converts: bool) -> Evaluation:
    value = compiled(left, converts)
    same = equal_converted if converts else equal
    right = _folded(right)
    if isinstance(right, Constant):
        constant = right.value
        kind = None if isinstance(constant, float) else constant.__class__  # zeros and NaN are equal in their own way

        def evaluate_constant(message: Message, properties: Mapping[str, Value]) -> bool | None:
            found = value(message, properties)
            return found == constant if found.__class__ is kind else same(found, constant)

        return evaluate_constant
    other = compiled(right, converts)
    return lambda message, properties: same(value(message, properties), other(message, properties))


def _ordering(left: Expression, right: Expression, test: Callable[[Any, Any], bool], converts: bool) -> Evaluation:
    right = _folded(right)
    value, other = compiled(left, converts), compiled(right, converts)

    def compare(one: Any, two: Any) -> bool | None:
        if one is None or two is None:
            return None
        if converts:
            one, two = converted(one, two)
        place = order(one, two)
        return place is not None and test(place, 0)

    if isinstance(right, Constant) and isinstance(right.value, int):
        constant = right.value
        kind = constant.__class__

        def evaluate_constant(message: Message, properties: Mapping[str, Value]) -> bool | None:
            found = value(message, properties)
            return test(found, constant) if found.__class__ is kind else compare(found, constant)

        return evaluate_constant
    return lambda message, properties: compare(value(message, properties), other(message, properties))


def _between(expression: Between, converts: bool) -> Evaluation:
    lower, upper = (operator.lt, operator.gt) if expression.negated else (operator.ge, operator.le)
    terms = (
        _ordering(expression.operand, expression.low, lower, converts),
        _ordering(expression.operand, expression.high, upper, converts),
    )
    return _any(terms) if expression.negated else _all(terms)


def _like(expression: Like, converts: bool) -> Evaluation:
    value = compiled(expression.operand, converts)
    match = like_pattern(expression.pattern, expression.escape).fullmatch

    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        found = value(message, properties)
        if found.__class__ is str:
            return match(found) is not None
        return None if found is None else False

    return _turned(evaluate) if expression.negated else evaluate


def _in(expression: In, converts: bool) -> Evaluation:
    value = compiled(expression.operand, converts)
    values = frozenset(expression.values)
    negated = expression.negated

    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        found = value(message, properties)
        return (found in values) is not negated if found.__class__ is str else None

    return evaluate


def _is_null(expression: IsNull, converts: bool) -> Evaluation:
    value = compiled(expression.operand, converts)
    negated = expression.negated
    return lambda message, properties: (value(message, properties) is None) is not negated


def _not(expression: Not, converts: bool) -> Evaluation:
    return _turned(compiled(expression.operand, converts))


def _and(expression: And, converts: bool) -> Evaluation:
    return _all(tuple(compiled(term, converts) for term in expression.terms))


def _or(expression: Or, converts: bool) -> Evaluation:
    return _any(tuple(compiled(term, converts) for term in expression.terms))


def _turned(condition: Evaluation) -> Evaluation:
    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        found = condition(message, properties)
        return None if found is None else not found

    return evaluate


def _all(terms: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        result: bool | None = True
        for term in terms:
            found = term(message, properties)
            if found is False:
                return False
            if found is None:
                result = None
        return result

    return evaluate


def _any(terms: tuple[Evaluation, ...]) -> Evaluation:
    def evaluate(message: Message, properties: Mapping[str, Value]) -> bool | None:
        result: bool | None = False
        for term in terms:
            found = term(message, properties)
            if found is True:
                return True
            if found is None:
                result = None
        return result

    return evaluate


_COMPILERS: Final[dict[type[Expression], Callable[[Any, bool], Evaluation]]] = {
    And: _and,
    Arithmetic: _arithmetic,
    Between: _between,
    Comparison: _comparison,
    Constant: _constant,
    Flag: _flag,
    In: _in,
    IsNull: _is_null,
    Like: _like,
    Negative: _negative,
    Not: _not,
    Or: _or,
    Property: _property,
}
