"""A picture of what keeps the files of a KahaDB journal: a bar for each, coloured by its holder.

In each bar the live messages come first, in the full colour of their destination. The rest of the file is not needed
any more: in a pale colour it is kept for somebody's messages, here or in other files; else it is the broker's, or goes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import TYPE_CHECKING, Final

from jdbcstore.store.journal.kahadb.diagnosis import Diagnosis, FileDiagnosis, Holder

if TYPE_CHECKING:
    from rich.text import Text

__all__ = ["OTHERS", "Bar", "Part", "Picture", "as_lines", "as_rich", "as_svg", "draw", "size"]

#: For holders that have no colour of their own, for the broker itself, and for nobody: the next cleanup removes it.
OTHERS: Final = -1
BROKER: Final = -2
NOBODY: Final = -3

#: Colours that the colour-blind can tell apart (Okabe and Ito's), full and pale.
_COLOURS: Final = (
    ("#0072b2", "#b8d6e8"),
    ("#d55e00", "#f5cfb3"),
    ("#009e73", "#b3e2d5"),
    ("#cc79a7", "#f0d7e5"),
    ("#b8860b", "#eadbb6"),
    ("#56b4e9", "#d5ecfa"),
    ("#6a3d9a", "#d3c5e1"),
    ("#8c564b", "#dcccc9"),
)
_OTHER: Final = {OTHERS: ("#555555", "#cccccc"), BROKER: ("#e8e8e8", "#e8e8e8"), NOBODY: ("#ffffff", "#ffffff")}
_LETTERS: Final = "ABCDEFGH"
_NAME_MAX: Final = 120
_NAMES: Final = {OTHERS: "others", BROKER: "kept by the broker for itself", NOBODY: "the next cleanup removes it"}


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a bar."""

    bytes: int
    key: int
    """Place of the holder in the legend, or one of the special ones."""
    live: bool


@dataclass(frozen=True, slots=True)
class Bar:
    """One file, or a few that follow each other."""

    label: str
    bytes: int
    parts: Sequence[Part]
    note: str


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn."""

    title: str
    summary: str
    bars: Sequence[Bar]
    names: Sequence[str]
    """Of the holders that have a colour, the first is key 0."""
    keys: Sequence[int] = field(default=())
    """All that occur."""

    @property
    def largest(self) -> int:
        """Bytes of the longest bar."""
        return max((bar.bytes for bar in self.bars), default=0) or 1

    def name(self, key: int) -> str:
        """What a key stands for."""
        return self.names[key] if key >= 0 else _NAMES[key]


def size(number: float) -> str:
    """1536 → ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if number < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def draw(diagnosis: Diagnosis, title: str, summary: str, names: Mapping[Holder, str], most: int) -> Picture:
    """The picture of a diagnosis.

    Args:
        title, summary: what it is about, a line each.
        names: of the holders, those that matter most first; the first eight get colours.
        most: bars; of more files several share one.
    """
    coloured = {holder: place for place, holder in enumerate(list(names)[: len(_COLOURS)])}
    files = list(diagnosis.files.values())
    each = -(-len(files) // most) if files else 1
    bars = [_bar(diagnosis, files[at : at + each], coloured) for at in range(0, len(files), each)]
    found = {part.key for bar in bars for part in bar.parts}
    keys = [*sorted(key for key in found if key >= 0), *(key for key in (OTHERS, BROKER, NOBODY) if key in found)]
    shown = [name if len(name) <= _NAME_MAX else f"{name[:_NAME_MAX]}…" for name in names.values()]
    return Picture(title, summary, bars, shown[: len(_COLOURS)], keys)


def _bar(diagnosis: Diagnosis, files: Sequence[FileDiagnosis], coloured: Mapping[Holder, int]) -> Bar:
    live: dict[int, int] = {}
    rest: dict[int, int] = {}
    for file in files:
        for destination, held in file.held.items():
            key = coloured.get(destination, OTHERS)
            live[key] = live.get(key, 0) + held.bytes
        roots = [] if file.removable or file.current else diagnosis.roots(file.number)
        key = NOBODY if file.removable else coloured.get(roots[0], OTHERS) if roots else BROKER
        rest[key] = rest.get(key, 0) + max(file.bytes - file.live_bytes, 0)
    parts = [Part(count, key, True) for key, count in sorted(live.items(), key=lambda one: -one[1])]
    parts += [Part(count, key, False) for key, count in sorted(rest.items(), reverse=True) if count]
    total = sum(file.bytes for file in files)
    first, last = files[0].number, files[-1].number
    alive = sum(file.live_bytes for file in files)
    return Bar(
        f"db-{first}.log" if first == last else f"db-{first} … {last}",
        total,
        parts,
        f"{size(total)}, {_share(alive, total)} live",
    )


def _share(part: int, whole: int) -> str:
    if not part or not whole:
        return "nothing"
    return f"{100 * part / whole:.0f} %" if 100 * part >= whole else "< 1 %"


# --- in a terminal ----------------------------------------------------------------------------------------------------


def _cells(picture: Picture, bar: Bar, width: int) -> list[tuple[Part, int]]:
    """How many characters each part gets; what is there gets one at least."""
    total = max(round(width * bar.bytes / picture.largest), 1)
    cells = [(part, max(round(total * part.bytes / bar.bytes), 1) if bar.bytes else 1) for part in bar.parts]
    while cells and sum(count for _, count in cells) != total:
        over = sum(count for _, count in cells) - total
        place = max(range(len(cells)), key=lambda one: cells[one][1])
        part, count = cells[place]
        if count - over < 1:
            break  # more parts than characters
        cells[place] = part, count - over
    return cells


def as_lines(picture: Picture, width: int = 80) -> list[str]:
    """The picture in plain letters, where there are no colours."""
    labels = max((len(bar.label) for bar in picture.bars), default=0)
    lines = [picture.title, picture.summary]
    for bar in picture.bars:
        drawn = "".join(_letter(part) * count for part, count in _cells(picture, bar, width - labels - 28))
        lines.append(f"{bar.label.replace('…', '-'):<{labels}} {drawn} {bar.note}")
    for key in picture.keys:
        letter = _letter(Part(0, key, False))
        shown = f"{letter.upper()} live, {letter} kept for:" if letter.isalpha() else letter
        lines.append(f"{shown} {picture.name(key)}")
    return lines


def _letter(part: Part) -> str:
    if part.key >= 0 or part.key == OTHERS:
        letter = _LETTERS[part.key] if part.key >= 0 else "X"
        return letter if part.live else letter.lower()
    return "-" if part.key == BROKER else "."


def as_rich(picture: Picture, width: int) -> list[Text]:
    """The picture in colours."""
    from rich.text import Text

    labels = max((len(bar.label) for bar in picture.bars), default=0)
    lines = [Text(picture.title, style="bold"), Text(picture.summary)]
    for bar in picture.bars:
        line = Text(f"{bar.label:<{labels}} ")
        for part, count in _cells(picture, bar, width - labels - 28):
            line.append(*_block(part, count))
        lines.append(line.append(f" {bar.note}", style="dim"))
    for key in picture.keys:
        line = Text()
        if key >= 0 or key == OTHERS:
            line.append(*_block(Part(0, key, True), 2)).append(" live, ")
            line.append(*_block(Part(0, key, False), 2)).append(" kept for: ")
        else:
            line.append(*_block(Part(0, key, False), 2)).append(" ")
        lines.append(line.append(picture.name(key)))
    return lines


def _block(part: Part, count: int) -> tuple[str, str]:
    if part.key == NOBODY:
        return "·" * count, "dim"
    if part.key == BROKER:
        return "─" * count, "dim"
    colour = _COLOURS[part.key][0] if part.key >= 0 else "#888888"
    return ("█" if part.live else "░") * count, colour


# --- as SVG -----------------------------------------------------------------------------------------------------------

_WIDTH: Final = 1200
_MARGIN: Final = 24
_TOP: Final = 72
_ROWS_MAX: Final = 100
_NOTE_WIDTH: Final = 150


def as_svg(picture: Picture) -> str:
    """The picture as a document of its own. Many bars stand in several columns."""
    columns = -(-len(picture.bars) // _ROWS_MAX) or 1
    rows = -(-len(picture.bars) // columns)
    height = 24 if rows <= 30 else 14 if rows <= 60 else 10
    letters = min(height - 2, 12)
    column_width = (_WIDTH - 2 * _MARGIN) / columns
    labels = max((len(bar.label) for bar in picture.bars), default=0) * letters * 0.62 + 8
    notes = _NOTE_WIDTH if columns == 1 else 0
    room = column_width - labels - notes - (16 if columns > 1 else 0)
    legend_at = _TOP + rows * height + 28
    total_height = legend_at + 22 * len(picture.keys) + _MARGIN
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {total_height}" width="{_WIDTH}"'
        f' height="{total_height}" font-family="sans-serif">',
        '<defs><pattern id="goes" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        '<rect width="6" height="6" fill="#fff"/><rect width="1.5" height="6" fill="#bbb"/></pattern></defs>',
        f'<rect width="{_WIDTH}" height="{total_height}" fill="#fff"/>',
        f'<text x="{_MARGIN}" y="34" font-size="16" font-weight="bold" fill="#222">'
        f"{escape(picture.title[-_NAME_MAX:])}</text>",
        f'<text x="{_MARGIN}" y="56" font-size="13" fill="#444">{escape(picture.summary)}</text>',
    ]
    for place, bar in enumerate(picture.bars):
        column, row = divmod(place, rows)
        x, y = _MARGIN + column * column_width, _TOP + row * height
        middle = y + height / 2 + letters * 0.36
        out.append(
            f'<text x="{x + labels - 6:.1f}" y="{middle:.1f}" font-size="{letters}" text-anchor="end"'
            f' fill="#333">{escape(bar.label)}</text>'
        )
        out += _svg_bar(picture, bar, x + labels, y + 1, room, height - 2)
        if notes:
            at = x + labels + room * bar.bytes / picture.largest + 6
            out.append(
                f'<text x="{at:.1f}" y="{middle:.1f}" font-size="{letters}" fill="#666">{escape(bar.note)}</text>'
            )
    for place, key in enumerate(picture.keys):
        out += _svg_key(picture, key, legend_at + 22 * place)
    out.append("</svg>\n")
    return "\n".join(out)


def _svg_bar(picture: Picture, bar: Bar, x: float, y: float, room: float, height: float) -> list[str]:
    least = 2.0
    total = room * bar.bytes / picture.largest
    widths = [max(total * part.bytes / (bar.bytes or 1), least) for part in bar.parts]
    over = sum(widths) - total
    if widths:
        widest = widths.index(max(widths))
        widths[widest] = max(widths[widest] - over, least)
    out = [f"<g><title>{escape(f'{bar.label}: {bar.note}')}</title>"]
    for part, width in zip(bar.parts, widths, strict=True):
        out.append(_box(part, x, y, width, height))
        x += width
    return [*out, "</g>"]


def _box(part: Part, x: float, y: float, width: float, height: float) -> str:
    fill = "url(#goes)" if part.key == NOBODY else _colours(part.key)[0 if part.live else 1]
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def _colours(key: int) -> tuple[str, str]:
    return _COLOURS[key] if key >= 0 else _OTHER[key]


def _svg_key(picture: Picture, key: int, y: float) -> list[str]:
    holder = key >= 0 or key == OTHERS
    boxes = [_box(Part(0, key, False), _MARGIN + 20, y, 16, 14)]
    boxes.insert(0, _box(Part(0, key, holder), _MARGIN, y, 16, 14))
    name = escape(picture.name(key))
    told = f"live, and kept for: {name}" if holder else name
    return [*boxes, f'<text x="{_MARGIN + 44}" y="{y + 12}" font-size="13" fill="#222">{told}</text>']
