"""Bars as SVG: colours come from the page, so they follow light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import NamedTuple

__all__ = ["Bar", "bars", "columns"]

_WIDTH = 720
_ROW = 26
_LABEL = 250
_VALUE = 110
_HEIGHT = 170
_LETTERS_MAX = 38


class Bar(NamedTuple):
    """One bar.

    Args:
        label: what it stands for.
        value: how long it is; at least 0.
        shown: the value as people read it.
        accent: whether it is to be noticed.
    """

    label: str
    value: float
    shown: str
    accent: bool = False


def bars(rows: Sequence[Bar], title: str) -> str:
    """Bars from left to right below one another, for names.

    Args:
        rows: not empty.
        title: what is to be seen, for those who do not see it.
    """
    longest = max(row.value for row in rows) or 1
    room = _WIDTH - _LABEL - _VALUE
    drawn = []
    for place, row in enumerate(rows):
        top = place * _ROW
        length = max(room * row.value / longest, 1.5 if row.value else 0)
        drawn.append(
            f"<g><title>{escape(row.label)}: {escape(row.shown)}</title>"
            f'<text x="{_LABEL - 10}" y="{top + 17}" text-anchor="end" class="label">{escape(_short(row.label))}</text>'
            f'<rect x="{_LABEL}" y="{top + 4}" width="{length:.1f}" height="{_ROW - 9}" rx="2"{_class(row)}/>'
            f'<text x="{_LABEL + length + 8:.1f}" y="{top + 17}" class="value">{escape(row.shown)}</text></g>'
        )
    return _svg(len(rows) * _ROW + 4, title, drawn)


def columns(rows: Sequence[Bar], title: str) -> str:
    """Bars from bottom to top beside one another, for what has an order. Arguments as `bars`."""
    highest = max(row.value for row in rows) or 1
    step = min(_WIDTH / len(rows), 130)
    low = _HEIGHT - 26
    drawn = [f'<line x1="0" y1="{low}" x2="{step * len(rows):.1f}" y2="{low}" class="axis"/>']
    for place, row in enumerate(rows):
        height = max((low - 24) * row.value / highest, 1.5 if row.value else 0)
        middle = step * (place + 0.5)
        drawn.append(
            f"<g><title>{escape(row.label)}: {escape(row.shown)}</title>"
            f'<rect x="{middle - step * 0.36:.1f}" y="{low - height:.1f}" width="{step * 0.72:.1f}"'
            f' height="{height:.1f}" rx="2"{_class(row)}/>'
            f'<text x="{middle:.1f}" y="{low - height - 6:.1f}" text-anchor="middle" class="value">'
            f"{escape(row.shown) if row.value else ''}</text>"
            f'<text x="{middle:.1f}" y="{low + 18}" text-anchor="middle" class="label">{escape(row.label)}</text></g>'
        )
    return _svg(_HEIGHT, title, drawn)


def _svg(height: int, title: str, drawn: Sequence[str]) -> str:
    return (
        f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{escape(title)}"'
        f' xmlns="http://www.w3.org/2000/svg">{"".join(drawn)}</svg>'
    )


def _class(row: Bar) -> str:
    return ' class="accent"' if row.accent else ""


def _short(label: str) -> str:
    """The end of a name tells more than its beginning."""
    return label if len(label) <= _LETTERS_MAX else f"…{label[1 - _LETTERS_MAX :]}"
