"""From words to a tree, with ActiveMQ's precedence.

From loose to tight::

    1  OR
    2  AND
    3  =  <>  IS [NOT] NULL
    4  <  <=  >  >=  [NOT] LIKE  [NOT] BETWEEN  [NOT] IN
    5  +  -
    6  *  /  %
    7  NOT  -  +  in front of an operand

Everything associates to the left. NOT binds more tightly than a comparison, unlike in SQL: ``NOT a = b`` is
``(NOT a) = b``.

The parser is by precedence climbing and written out because most of what ActiveMQ refuses is no matter of grammar (what
may stand left of ``<``, which constants can be equal), and because every refusal has to name its place.
"""

from __future__ import annotations

from typing import Final, NoReturn, cast

from jdbcstore.errors import SelectorError
from jdbcstore.primitives import Long
from jdbcstore.selector.expression import (
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Condition,
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
from jdbcstore.selector.tokens import END, Token, tokens

__all__ = ["parse_expression"]

_OR, _AND, _EQUALITY, _ORDER, _SUM, _PRODUCT = range(1, 7)

_POWERS: Final = {
    **dict.fromkeys(("OR",), _OR),
    **dict.fromkeys(("AND",), _AND),
    **dict.fromkeys(("=", "<>", "IS"), _EQUALITY),
    **dict.fromkeys(("<", "<=", ">", ">=", "NOT", "LIKE", "BETWEEN", "IN"), _ORDER),
    **dict.fromkeys(("+", "-"), _SUM),
    **dict.fromkeys(("*", "/", "%"), _PRODUCT),
}
_CONSTANTS: Final = {"TRUE": True, "FALSE": False, "NULL": None}
_BASES: Final = {"decimal": 10, "octal": 8, "hexadecimal": 16}

#: No integer of 64 bits has more digits, in any base; longer ones are not even converted.
_DIGITS_MAX: Final = 22
_LONG_MAX: Final = (1 << 63) - 1
_SHOWN_CHARS_MAX: Final = 40


def parse_expression(text: str, depth_max: int, terms_max: int) -> Expression:
    """The condition that `text` is.

    Args:
        text: a selector, without prefix.
        depth_max: levels of the tree. What is begun and not finished may be twice as many, since an operator and the
            parentheses around its operand make one level.
        terms_max: constants and properties; those of an IN list do not count.

    Raises:
        SelectorError: it is none, or larger than that.
    """
    return _Parser(text, depth_max, terms_max).selector()


class _Parser:
    def __init__(self, text: str, depth_max: int, terms_max: int) -> None:
        self._depth_max = depth_max
        self._terms_max = terms_max
        self._begun = 0
        self._terms = 0
        self._tokens = tokens(text)
        self._token = next(self._tokens)

    def selector(self) -> Expression:
        """Everything, up to the end."""
        start = self._token
        condition = _as_condition(self._expression(_OR), start)
        if self._token.kind != END:
            self._unexpected("an operator or the end of the selector")
        return condition

    # --- operators ----------------------------------------------------------------------------------------------------

    def _expression(self, level: int) -> Expression:
        """An operand and the operators behind it that bind at least as tightly as `level`."""
        start = self._token
        self._begin(start)
        left = self._operand()
        ceiling = _PRODUCT
        while level <= (power := _POWERS.get(self._token.kind, 0)) <= ceiling:
            operator = self._token
            left = self._infix(left, start, power)
            ceiling = power  # what binds more tightly would have been the right operand's
            if left.depth > self._depth_max:
                self._too_deep(operator)
        self._begun -= 1
        return left

    def _infix(self, left: Expression, start: Token, power: int) -> Expression:
        if power in (_OR, _AND):
            return self._logic(left, start, power)
        operator = self._next()
        kind = operator.kind
        if kind == "IS":
            negated = self._accept("NOT")
            self._expect("NULL")
            return IsNull(left, negated)
        if power == _ORDER and kind not in ("<", "<=", ">", ">="):
            return self._test(left, start, operator)
        right_start = self._token
        right = self._expression(power + 1)
        if power >= _SUM:
            return Arithmetic(cast(ArithmeticOperator, kind), left, right)
        check = _check_equal if power == _EQUALITY else _check_ordered
        check(left, start)
        check(right, right_start)
        if power == _EQUALITY and _is_boolean(left) and isinstance(right, Constant) and not _is_boolean(right):
            raise SelectorError("TRUE, FALSE, a condition or a property", _shown(str(right)), right_start.position)
        return Comparison(cast(ComparisonOperator, kind), left, right)

    def _logic(self, left: Expression, start: Token, power: int) -> Expression:
        kind = Or if power == _OR else And
        terms = list[Expression]()
        word = self._token.kind
        while True:
            condition = _as_condition(left, start)
            terms.extend(condition.terms if isinstance(condition, kind) else [condition])
            if not self._accept(word):
                return kind(tuple(terms))
            start = self._token
            left = self._expression(power + 1)

    def _test(self, left: Expression, start: Token, operator: Token) -> Expression:
        negated = operator.kind == "NOT"
        word = self._next() if negated else operator
        if word.kind == "LIKE":
            pattern = self._string()
            return Like(left, pattern, self._escape() if self._accept("ESCAPE") else None, negated)
        if word.kind == "BETWEEN":
            _check_ordered(left, start)
            low = self._bound()
            self._expect("AND")
            return Between(left, low, self._bound(), negated)
        if word.kind == "IN":
            if not isinstance(left, Property):
                raise _misfit("a property in front of IN", left, start)
            return In(left, self._strings(), negated)
        raise SelectorError("LIKE, BETWEEN or IN after NOT", _shown_token(word), word.position)

    def _bound(self) -> Expression:
        start = self._token
        bound = self._expression(_SUM)
        _check_ordered(bound, start)
        return bound

    def _escape(self) -> str:
        start = self._token
        escape = self._string()
        if len(escape) != 1 or escape > "\uffff":
            raise SelectorError("one character, of one UTF-16 unit, after ESCAPE", _shown(start.text), start.position)
        return escape

    def _strings(self) -> tuple[str, ...]:
        self._expect("(")
        values = [self._string()]
        while self._accept(","):
            values.append(self._string())
        self._expect(")", "a comma or )")
        return tuple(values)

    # --- operands -----------------------------------------------------------------------------------------------------

    def _operand(self) -> Expression:
        while self._accept("+"):
            pass
        token = self._next()
        kind = token.kind
        if kind == "(":
            expression = self._expression(_OR)
            self._expect(")", "an operator or )")
            return expression
        if kind in ("-", "NOT"):
            return self._prefixed(token)
        self._terms += 1
        if self._terms > self._terms_max:
            raise SelectorError(f"at most {self._terms_max} values and properties", "more", token.position)
        if kind == "name":
            return self._property(token)
        if kind == "string":
            return Constant(_text(token))
        if kind in _CONSTANTS:
            return Constant(_CONSTANTS[kind])
        if kind == "float":
            return Constant(float(token.text))
        if kind in _BASES:
            return Constant(_integer(token, _LONG_MAX))
        if kind in ("XPATH", "XQUERY"):
            raise SelectorError(f"headers and properties only ({kind} looks into bodies)", kind, token.position)
        raise SelectorError("a value, a property or (", _shown_token(token), token.position)

    def _prefixed(self, operator: Token) -> Expression:
        start = self._token
        if operator.kind == "-" and start.kind == "decimal" and _integer(start, _LONG_MAX + 1) > _LONG_MAX:
            self._next()
            return Constant(Long(-_LONG_MAX - 1))
        self._begin(operator)
        operand = self._operand()
        self._begun -= 1
        made = Negative(operand) if operator.kind == "-" else Not(_as_condition(operand, start))
        if made.depth > self._depth_max:
            self._too_deep(operator)
        return made

    def _property(self, token: Token) -> Property:
        if self._token.kind == "(":
            raise SelectorError("an operator (functions are not supported)", _shown(f"{token.text}("), token.position)
        return Property(token.text)

    def _string(self) -> str:
        token = self._token
        self._expect("string", "a string in single quotes")
        return _text(token)

    # --- words --------------------------------------------------------------------------------------------------------

    def _next(self) -> Token:
        token = self._token
        if token.kind != END:
            self._token = next(self._tokens)
        return token

    def _accept(self, kind: str) -> bool:
        if self._token.kind != kind:
            return False
        self._next()
        return True

    def _expect(self, kind: str, expected: str | None = None) -> None:
        if not self._accept(kind):
            self._unexpected(expected or kind)

    def _unexpected(self, expected: str) -> NoReturn:
        raise SelectorError(expected, _shown_token(self._token), self._token.position)

    def _begin(self, token: Token) -> None:
        self._begun += 1
        if self._begun > 2 * self._depth_max:
            self._too_deep(token)

    def _too_deep(self, token: Token) -> NoReturn:
        raise SelectorError(f"at most {self._depth_max} levels of nesting", "more", token.position)


def _is_boolean(expression: Expression) -> bool:
    return isinstance(expression, Constant) and isinstance(expression.value, bool)


def _as_condition(expression: Expression, start: Token) -> Expression:
    if isinstance(expression, Property):
        return Flag(expression)
    if isinstance(expression, Condition) or _is_boolean(expression) or expression == Constant(None):
        return expression
    raise _misfit("a condition, such as a comparison", expression, start)


def _check_equal(expression: Expression, start: Token) -> None:
    if expression == Constant(None):
        raise SelectorError("a value (nothing equals NULL: write IS NULL)", "NULL", start.position)


def _check_ordered(expression: Expression, start: Token) -> None:
    unordered = isinstance(expression, Condition) or _is_boolean(expression)
    if unordered or (isinstance(expression, Constant) and isinstance(expression.value, str | None)):
        raise _misfit("a number or a property (only those have an order)", expression, start)


def _misfit(expected: str, expression: Expression, start: Token) -> SelectorError:
    if isinstance(expression, Not):
        expected = "parentheses around what NOT turns round"
    return SelectorError(expected, _shown(str(expression)), start.position)


def _text(token: Token) -> str:
    return token.text[1:-1].replace("''", "'")


def _integer(token: Token, largest: int) -> int:
    base = _BASES[token.kind]
    digits = (token.text[2:] if base == 16 else token.text.rstrip("lL")).lstrip("0") or "0"
    value = int(digits, base) if len(digits) <= _DIGITS_MAX else largest + 1
    if value > largest:
        raise SelectorError("an integer of at most 64 bits", _shown(token.text), token.position)
    return value if value < 1 << 31 else Long(value) if value <= _LONG_MAX else value


def _shown_token(token: Token) -> str:
    return token.text if token.kind == END else _shown(token.text)


def _shown(text: str) -> str:
    return repr(text if len(text) <= _SHOWN_CHARS_MAX else text[:_SHOWN_CHARS_MAX] + "...")
