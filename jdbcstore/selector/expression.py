"""What a selector says, as a tree of values: what the parser makes, the compiler reads and a translator can walk.

Expressions are frozen and compare by value. ``str(expression)`` is a selector that reads as the same expression. A tree
made by hand is not checked: whether a string may stand left of ``<`` is the parser's to say.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal, TypeAlias

__all__ = [
    "And",
    "Arithmetic",
    "ArithmeticOperator",
    "Between",
    "Comparison",
    "ComparisonOperator",
    "Condition",
    "Constant",
    "Expression",
    "Flag",
    "In",
    "IsNull",
    "Like",
    "Negative",
    "Not",
    "Or",
    "Property",
]

ArithmeticOperator: TypeAlias = Literal["+", "-", "*", "/", "%"]
ComparisonOperator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]


@dataclass(frozen=True)
class Expression:
    """Base of all nodes."""

    _parts: ClassVar[tuple[str, ...]] = ()

    depth: int = field(default=1, init=False, repr=False, compare=False)
    """Levels of the tree from here down: what a recursive walk costs. A constant or a property is 1."""

    def __post_init__(self) -> None:
        if operands := self.operands:
            object.__setattr__(self, "depth", 1 + max(operand.depth for operand in operands))

    @property
    def operands(self) -> tuple[Expression, ...]:
        """The expressions that this one is made of, from left to right."""
        return tuple(getattr(self, part) for part in self._parts)

    def walk(self) -> Iterator[Expression]:
        """This expression and all below it."""
        waiting: list[Expression] = [self]
        while waiting:
            expression = waiting.pop()
            yield expression
            waiting.extend(reversed(expression.operands))


class Condition(Expression):
    """Base of what is true, false or unknown. Beside these, the constants TRUE, FALSE and NULL are conditions."""


@dataclass(frozen=True, eq=False)
class Constant(Expression):
    """A literal. Two are equal if value and type are.

    Args:
        value: a string, a boolean, None for NULL, a float for what has a point or an exponent, or an int: of 32 bits,
            or `jdbcstore.primitives.Long` if it needs 64.
    """

    value: str | bool | int | float | None

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Constant):
            return NotImplemented
        return self.value.__class__ is other.value.__class__ and self.value == other.value

    def __hash__(self) -> int:
        return hash((self.value.__class__, self.value))

    def __str__(self) -> str:
        value = self.value
        if isinstance(value, str):
            return _quoted(value)
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            return "TRUE" if value else "FALSE"
        if isinstance(value, float):
            return _INFINITE.get(value) or repr(value)
        return int.__repr__(value)


#: A literal may be larger than any double; nothing else prints as infinity.
_INFINITE: Final = {float("inf"): "1e999", float("-inf"): "-1e999"}


@dataclass(frozen=True)
class Property(Expression):
    """The value of a property of the application or of a header (``JMSPriority``); nothing if there is none."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True)
class Negative(Expression):
    """A minus sign."""

    _parts = ("operand",)

    operand: Expression

    def __str__(self) -> str:
        return f"-{_operand(self.operand)}"


@dataclass(frozen=True)
class Arithmetic(Expression):
    """A sum, difference, product, quotient or remainder; a sum whose left side is a string joins texts."""

    _parts = ("left", "right")

    operator: ArithmeticOperator
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


@dataclass(frozen=True)
class Flag(Condition):
    """A property that stands for a condition: true if it is the boolean true, false if it is anything else."""

    _parts = ("operand",)

    operand: Property

    def __str__(self) -> str:
        return self.operand.name


@dataclass(frozen=True)
class Comparison(Condition):
    """Two values compared."""

    _parts = ("left", "right")

    operator: ComparisonOperator
    left: Expression
    right: Expression

    def __str__(self) -> str:
        return f"{_operand(self.left)} {self.operator} {_operand(self.right)}"


@dataclass(frozen=True)
class Between(Condition):
    """``operand BETWEEN low AND high``, both included."""

    _parts = ("operand", "low", "high")

    operand: Expression
    low: Expression
    high: Expression
    negated: bool = False

    def __str__(self) -> str:
        word = _negated("BETWEEN", self.negated)
        return f"{_operand(self.operand)} {word} {_operand(self.low)} AND {_operand(self.high)}"


@dataclass(frozen=True)
class Like(Condition):
    """``operand LIKE pattern``: ``%`` stands for any text, ``_`` for one character.

    Args:
        operand: what is matched.
        pattern: as written, escapes included.
        escape: the character that makes a following ``%``, ``_`` or itself stand for itself; None if there is none.
        negated: whether it is NOT LIKE.
    """

    _parts = ("operand",)

    operand: Expression
    pattern: str
    escape: str | None = None
    negated: bool = False

    def __str__(self) -> str:
        escape = "" if self.escape is None else f" ESCAPE {_quoted(self.escape)}"
        return f"{_operand(self.operand)} {_negated('LIKE', self.negated)} {_quoted(self.pattern)}{escape}"


@dataclass(frozen=True)
class In(Condition):
    """``operand IN ('a', 'b')``. Unknown unless the property is a string."""

    _parts = ("operand",)

    operand: Property
    values: tuple[str, ...]
    negated: bool = False

    def __str__(self) -> str:
        return f"{self.operand} {_negated('IN', self.negated)} ({', '.join(map(_quoted, self.values))})"


@dataclass(frozen=True)
class IsNull(Condition):
    """``operand IS NULL``; never unknown."""

    _parts = ("operand",)

    operand: Expression
    negated: bool = False

    def __str__(self) -> str:
        return f"{_operand(self.operand)} IS {'NOT NULL' if self.negated else 'NULL'}"


@dataclass(frozen=True)
class Not(Condition):
    """A condition turned round; unknown stays unknown."""

    _parts = ("operand",)

    operand: Expression

    def __str__(self) -> str:
        return f"NOT {_operand(self.operand)}"


@dataclass(frozen=True)
class And(Condition):
    """Conditions of which none is itself an `And`: false if one is false, else unknown if one is unknown."""

    terms: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.terms

    def __str__(self) -> str:
        return " AND ".join(map(_operand, self.terms))


@dataclass(frozen=True)
class Or(Condition):
    """Conditions of which none is itself an `Or`: true if one is true, else unknown if one is unknown."""

    terms: tuple[Expression, ...]

    @property
    def operands(self) -> tuple[Expression, ...]:
        return self.terms

    def __str__(self) -> str:
        return " OR ".join(map(_operand, self.terms))


def _operand(expression: Expression) -> str:
    text = str(expression)
    alone = isinstance(expression, Constant | Property | Flag) and not text.startswith("-")
    return text if alone else f"({text})"


def _negated(word: str, negated: bool) -> str:
    return f"NOT {word}" if negated else word


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
