"""The SELECT of a scan, with every value as a literal: COPY takes no others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from jdbcstore.spark.filters import TEXTS, Term, may_be_stored

__all__ = ["Wording", "conditions", "select"]

_COMPARED: Final = frozenset({"=", "<", "<=", ">", ">="})
NOTHING: Final = "1 = 0"


@dataclass(frozen=True, slots=True)
class Wording:
    """How a database says it.

    Args:
        literal: a text as a literal.
        bytewise: a column of texts, ``{}``, such that it is compared bytewise; empty where it is anyway.
        number: a column of numbers, ``{}``, as a 64-bit integer.
        length: the length of MSG in bytes, without reading it.
    """

    literal: Callable[[str], str]
    bytewise: str
    number: str
    length: str

    def selected(self, column: str) -> str:
        """What is selected for a column, `SIZE` among them."""
        if column == "SIZE":
            return self.number.format(self.length)
        return column if column in TEXTS or column == "MSG" else self.number.format(column)

    def condition(self, term: Term) -> str:
        """A term in SQL; it is true or not, but may be NULL instead of false."""
        if term.or_unset:
            return f"({self.condition(replace(term, or_unset=False))} OR COALESCE({term.column}, 0) = 0)"
        column, operator, value = term.column, term.operator, term.value
        if operator in ("is null", "is not null"):
            return self._null(column, is_null=operator == "is null")
        if operator == "in":
            found = [self._value(one) for one in value if may_be_stored(one)]  # type: ignore[union-attr]  # see Term
            return self._compared(column, f"IN ({', '.join(found)})") if found else NOTHING
        if not may_be_stored(value):
            return NOTHING
        if operator == "starts with":
            return self._starts(column, str(value)) if value else f"{column} IS NOT NULL"
        assert operator in _COMPARED
        compared = self._compared(column, f"{operator} {self._value(value)}")
        return f"{compared} AND EXPIRATION > 0" if column == "EXPIRATION" else compared

    def _null(self, column: str, *, is_null: bool) -> str:
        if column == "EXPIRATION":  # 0 is never
            return "(EXPIRATION IS NULL OR EXPIRATION <= 0)" if is_null else "EXPIRATION > 0"
        if column == "XID":  # an empty one is none; a removal that was rolled back may leave it
            return "COALESCE(LENGTH(XID), 0) = 0" if is_null else "LENGTH(XID) > 0"
        return f"{column} IS {'' if is_null else 'NOT '}NULL"

    def _compared(self, column: str, what: str) -> str:
        """The bare column is for the index, the other one sorts out what its collation confuses."""
        both = [column] + ([self.bytewise.format(column)] if self.bytewise and column in TEXTS else [])
        return " AND ".join(f"{each} {what}" for each in both)

    def _starts(self, column: str, beginning: str) -> str:
        begins = f"SUBSTR({column}, 1, {len(beginning)})"
        return f"{self.bytewise.format(begins) if self.bytewise else begins} = {self.literal(beginning)}"

    def _value(self, value: object) -> str:
        return self.literal(value) if isinstance(value, str) else str(int(value))  # type: ignore[call-overload]  # see Term


def conditions(wording: Wording, terms: Sequence[Term], first: int | None, last: int | None) -> str:
    """WHERE and all conditions, or nothing.

    Args:
        wording: of the database.
        terms: what all have to hold.
        first, last: the ids, both included; None for no limit.
    """
    found = [wording.condition(term) for term in terms]
    found += [f"ID {sign} {id}" for sign, id in ((">=", first), ("<=", last)) if id is not None]
    return f" WHERE {' AND '.join(found)}" if found else ""


def select(wording: Wording, columns: Sequence[str], table: str, where: str, *, ordered: bool) -> str:
    """The whole statement."""
    chosen = ", ".join(wording.selected(column) for column in columns)
    return f"SELECT {chosen} FROM {table}{where}{' ORDER BY ID' if ordered else ''}"
