"""The page: one file without scripts, fonts or pictures from elsewhere. Names are other people's: all are escaped."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any, Final

from jdbcstore.pipeline.report.charts import Bar, bars, columns
from jdbcstore.pipeline.report.figures import Figures, Row
from jdbcstore.pipeline.report.messages import AGES
from jdbcstore.version import VERSION

__all__ = ["page", "people_age", "people_bytes", "people_count"]

_BARS: Final = 20
_ROWS: Final = 200
_STYLE: Final = """
:root { color-scheme: light dark; --ground: #fff; --panel: #f5f6f8; --ink: #1c2330; --soft: #5c6675; --line: #d9dde3;
  --bar: #3b6fb6; --accent: #c2482e; }
@media (prefers-color-scheme: dark) { :root { --ground: #14171c; --panel: #1d2127; --ink: #e4e7ec; --soft: #98a2b1;
  --line: #343a44; --bar: #6b9bdc; --accent: #e87a5f; } }
* { box-sizing: border-box; }
body { margin: 0; background: var(--ground); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 28px 20px 60px; }
h1 { font-size: 24px; margin: 0; } h2 { font-size: 18px; margin: 44px 0 6px; }
p { margin: 4px 0 10px; color: var(--soft); max-width: 70ch; } code { overflow-wrap: anywhere; }
nav { display: flex; flex-wrap: wrap; gap: 4px 16px; margin: 14px 0 0; } a { color: var(--bar); }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 10px; margin: 22px 0 0; }
.tile { background: var(--panel); border-radius: 6px; padding: 12px 14px; }
.tile b { display: block; font-size: 22px; font-weight: 600; font-variant-numeric: tabular-nums; }
.tile span { color: var(--soft); font-size: 13px; } .tile.accent b { color: var(--accent); }
svg { width: 100%; max-width: 860px; height: auto; display: block; margin: 10px 0; }
svg rect { fill: var(--bar); } svg rect.accent { fill: var(--accent); } svg .axis { stroke: var(--line); }
svg text { font: 12px system-ui, sans-serif; } svg .label { fill: var(--ink); } svg .value { fill: var(--soft); }
.scroll { overflow-x: auto; } table { border-collapse: collapse; width: 100%; font-size: 13.5px; margin: 8px 0; }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
th { color: var(--soft); font-weight: 500; white-space: nowrap; } td { overflow-wrap: anywhere; }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
td.name { min-width: 150px; } footer { margin-top: 50px; color: var(--soft); font-size: 13px; }
"""


def page(figures: Figures) -> str:
    """The report as HTML."""
    sections = [
        section
        for make in (
            _depth,
            _ages,
            _sizes,
            _priorities,
            _redeliveries,
            _dead_letters,
            _subscriptions,
            _producers,
            _files,
        )
        if (section := make(figures)) is not None
    ]
    links = "".join(f'<a href="#{id}">{escape(title)}</a>' for id, title, _ in sections)
    bodies = "".join(f'<section id="{id}"><h2>{escape(title)}</h2>{body}</section>' for id, title, body in sections)
    notes = "".join(f"<p>{escape(note)}</p>" for note in figures.notes)
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(figures.source)}</title><style>{_STYLE}</style></head><body><main>"
        f"<h1>Messages in the store</h1><p><code>{escape(figures.source)}</code><br>{escape(figures.taken_at)}</p>"
        f"{notes}{_tiles(figures)}<nav>{links}</nav>{bodies}"
        f"<footer>jdbcstore {escape(VERSION)}. The tables are in the folder <code>tables</code> beside this page, as"
        " Parquet.</footer></main></body></html>\n"
    )


# -- sections ----------------------------------------------------------------------------------------------------------

_Section = tuple[str, str, str] | None


def _counted(count: int, what: str, *, is_trouble: bool = False) -> tuple[str, str, bool]:
    return people_count(count), what if count == 1 else f"{what}s", is_trouble


def _tiles(figures: Figures) -> str:
    expired, dead = figures.total("destinations", "expired"), figures.total("dead_letters", "messages")
    unreadable = figures.total("destinations", "unreadable")
    ages = [row["age_s_max"] for row in figures.rows("destinations") if row.get("age_s_max") is not None]
    tiles = [
        _counted(figures.total("destinations", "depth"), "message"),
        (people_bytes(figures.total("destinations", "bytes")), "stored", False),
        _counted(len(figures.rows("destinations")), "destination"),
        (people_age(max(ages, default=None)), "the oldest message", False),
        (people_count(expired), "expired", expired > 0),
        _counted(dead, "dead letter", is_trouble=dead > 0),
    ]
    if figures.rows("subscriptions"):
        lag = figures.total("subscriptions", "pending")
        tiles.append((people_count(lag), "pending for durable subscriptions", False))
    if unreadable:
        tiles.append((people_count(unreadable), "cannot be decoded", True))
    return (
        '<div class="tiles">'
        + "".join(
            f'<div class="tile{" accent" if accent else ""}"><b>{escape(value)}</b><span>{escape(what)}</span></div>'
            for value, what, accent in tiles
        )
        + "</div>"
    )


def _depth(figures: Figures) -> _Section:
    rows = sorted(figures.rows("destinations"), key=lambda row: (-row["depth"], row["destination"]))
    if not rows:
        return "depth", "Destinations", "<p>The store is empty.</p>"
    chart = bars(
        [Bar(row["destination"], row["depth"], people_count(row["depth"])) for row in rows[:_BARS]],
        "messages by destination",
    )
    table = _table(
        rows,
        ("Destination", "destination", str),
        ("Messages", "depth", people_count),
        ("Stored", "bytes", people_bytes),
        ("Expired", "expired", people_count),
        ("In doubt", "prepared", people_count),
        ("Age p50", "age_s_p50", people_age),
        ("p90", "age_s_p90", people_age),
        ("p99", "age_s_p99", people_age),
        ("max", "age_s_max", people_age),
        ("Size p50", "bytes_p50", people_bytes),
        ("p99", "bytes_p99", people_bytes),
        ("max", "bytes_max", people_bytes),
    )
    return "depth", "Destinations", chart + table


def _ages(figures: Figures) -> _Section:
    found = _summed(figures.rows("ages"), "place")
    if not found:
        return None
    shown = [
        Bar(words, found.get(place, 0), people_count(found.get(place, 0))) for place, (_, words) in enumerate(AGES)
    ]
    words = "How long ago the messages were sent that are still there. A producer's clock may be wrong."
    return "ages", "Age", f"<p>{words}</p>{columns(_relabelled(shown), 'messages by age')}"


def _relabelled(shown: Sequence[Bar]) -> list[Bar]:
    """Short enough to stand side by side."""
    words = ("< 1 min", "1–10 min", "10–60 min", "1–6 h", "6–24 h", "1–7 d", "7–30 d", "> 30 d")
    return [bar._replace(label=label) for bar, label in zip(shown, words, strict=True)]


def _sizes(figures: Figures) -> _Section:
    found = _summed(figures.rows("sizes"), "bytes_from")
    if not found:
        return None
    least, most = min(found), max(found)
    steps = [1 << power for power in range(least.bit_length() - 1, most.bit_length())]
    shown = [Bar(people_bytes(step), found.get(step, 0), people_count(found.get(step, 0))) for step in steps]
    words = "Bytes of a message as stored. Each bar reaches up to twice its number."
    return "sizes", "Size", f"<p>{words}</p>{columns(shown, 'messages by size')}"


def _priorities(figures: Figures) -> _Section:
    found = _summed(figures.rows("priorities"), "priority")
    if not found:
        return None
    shown = [Bar(str(level), found.get(level, 0), people_count(found.get(level, 0))) for level in range(10)]
    return "priorities", "Priority", columns(shown, "messages by priority")


def _redeliveries(figures: Figures) -> _Section:
    found = _summed(figures.rows("redeliveries"), "redeliveries")
    if not found:
        return None
    shown = [Bar(f"{count} ×", found[count], people_count(found[count])) for count in sorted(found)[:_BARS]]
    words = "Messages that were delivered before and came back, by how often."
    return "redeliveries", "Redelivered", f"<p>{words}</p>{columns(shown, 'messages by redeliveries')}"


def _dead_letters(figures: Figures) -> _Section:
    rows = figures.rows("dead_letters")
    if not rows:
        return None
    by_origin = _summed(rows, "original_destination")
    largest = sorted(by_origin.items(), key=lambda item: -item[1])[:_BARS]
    chart = bars(
        [Bar(name or "unknown", count, people_count(count), accent=True) for name, count in largest],
        "dead letters by original destination",
    )
    table = _table(
        rows,
        ("Sent to", "original_destination", str),
        ("Is in", "destination", str),
        ("Cause", "cause", str),
        ("Messages", "messages", people_count),
        ("Oldest", "oldest_s", people_age),
    )
    return "dead-letters", "Dead letters", chart + table


def _subscriptions(figures: Figures) -> _Section:
    rows = figures.rows("subscriptions")
    if not rows:
        return None
    chart = bars(
        [
            Bar(f"{row['client_id']}:{row['subscription']}", row["pending"], people_count(row["pending"]))
            for row in rows[:_BARS]
        ],
        "messages that wait for durable subscriptions",
    )
    table = _table(
        rows,
        ("Topic", "topic", str),
        ("Client id", "client_id", str),
        ("Subscription", "subscription", str),
        ("Selector", "selector", str),
        ("Pending", "pending", people_count),
        ("Oldest", "oldest_s", people_age),
    )
    words = "What each durable subscription has not acknowledged, whatever its selector."
    return "subscriptions", "Durable subscriptions", f"<p>{words}</p>{chart}{table}"


def _producers(figures: Figures) -> _Section:
    rows = figures.rows("producers")
    if not rows:
        return None
    chart = bars(
        [Bar(row["client"] or "unknown", row["bytes"], people_bytes(row["bytes"])) for row in rows[:_BARS]],
        "stored bytes by client",
    )
    table = _table(
        rows,
        ("Client", "client", str),
        ("Producers", "producers", people_count),
        ("Messages", "messages", people_count),
        ("Stored", "bytes", people_bytes),
    )
    words = "Who sent what is still there. A client is one run of one program."
    return "producers", "Producers", f"<p>{words}</p>{chart}{table}"


def _files(figures: Figures) -> _Section:
    rows = figures.rows("files")
    if not rows:
        return None
    pinned = _summed([row for row in rows if row["destination"]], "destination", of="file", count=True)
    largest = sorted(pinned.items(), key=lambda item: -item[1])[:_BARS]
    chart = bars(
        [Bar(name, count, "1 file" if count == 1 else f"{count} files") for name, count in largest],
        "files by destination",
    )
    table = _table(
        rows,
        ("File", "file", lambda number: f"db-{number}.log"),
        ("Size", "bytes", people_bytes),
        ("Kept by", "destination", str),
        ("Messages", "messages", people_count),
        ("Their bytes", "pinned_bytes", people_bytes),
        ("The first one", "oldest_message", str),
        ("Or by", "keeps", str),
    )
    words = (
        "A journal file stays as long as one message in it, or what acknowledges messages of other files, is needed."
    )
    return "files", "Journal files", f"<p>{words}</p>{chart if largest else ''}{table}"


# -- pieces ------------------------------------------------------------------------------------------------------------


def _summed(rows: Iterable[Row], key: str, *, of: str = "messages", count: bool = False) -> dict[Any, int]:
    """The sum of a column by another one; or how many rows there are."""
    found: dict[Any, int] = defaultdict(int)
    for row in rows:
        if row[key] is not None or key == "original_destination":
            found[row[key]] += 1 if count else row[of]
    return found


def _table(rows: Sequence[Row], *shown: tuple[str, str, Callable[[Any], str]]) -> str:
    def cell(row: Row, name: str, told: Callable[[Any], str]) -> str:
        value = row.get(name)
        kind = "name" if told is str else "n"
        return f'<td class="{kind}">{escape("" if value is None else told(value))}</td>'

    heads = "".join(f'<th class="{"name" if told is str else "n"}">{escape(title)}</th>' for title, _, told in shown)
    lines = "".join(f"<tr>{''.join(cell(row, name, told) for _, name, told in shown)}</tr>" for row in rows[:_ROWS])
    more = f"<p>{len(rows) - _ROWS} more in the Parquet table.</p>" if len(rows) > _ROWS else ""
    return f'<div class="scroll"><table><thead><tr>{heads}</tr></thead><tbody>{lines}</tbody></table></div>{more}'


def people_count(count: int) -> str:
    """12 345 → ``12,345``."""
    return f"{count:,}"


def people_bytes(size: float) -> str:
    """1536 → ``1.5 KiB``."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} B" if unit == "B" else f"{size:.3g} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def people_age(seconds: float | None) -> str:
    """3700 → ``1 h 1 min``; nothing for None."""
    if seconds is None:
        return "–"
    minutes, rest = divmod(int(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    parts = [f"{value} {unit}" for value, unit in ((days, "d"), (hours, "h"), (minutes, "min"), (rest, "s")) if value]
    return " ".join(parts[:2]) or "0 s"
