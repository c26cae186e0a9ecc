"""The tables of docs/activemq-xml.md. ``python -m tests.unit.config.documentation`` writes them anew."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from jdbcstore.config.activemq_xml.jdbc_url import PARAMETERS
from jdbcstore.config.activemq_xml.vocabulary import KINDS
from jdbcstore.config.activemq_xml.vocabulary.broker import STOMP_URI, TLS_URI
from jdbcstore.config.activemq_xml.vocabulary.connectors import AUTO_URI, OPENWIRE_URI, WEBSOCKET_URI
from jdbcstore.config.activemq_xml.vocabulary.entry import Entry, Fate, Kind
from jdbcstore.config.activemq_xml.vocabulary.security import PLUGINS_NOT_RUN

DOCUMENT = Path(__file__).parents[3] / "docs" / "activemq-xml.md"
_PLACE = re.compile(r"(?<=<!-- table: )([a-z-]+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
_WORDS = {Fate.USED: "", Fate.KEPT: "*not yet*: ", Fate.IGNORED: "warning: ", Fate.REFUSED: "**error**: "}

PARAMETERS_BESIDES = {
    "openwire-parameters": OPENWIRE_URI,
    "auto-parameters": AUTO_URI,
    "websocket-parameters": WEBSOCKET_URI,
    "tls-parameters": TLS_URI,
}


def rendered(text: str) -> str:
    """The document with its tables as they have to be."""
    return _PLACE.sub(lambda place: place[1] + place[2] + "\n" + _table(place[1]) + "\n", text)


def _table(name: str) -> str:
    if name == "connector-parameters":
        return _rows("parameter", STOMP_URI)
    if name in PARAMETERS_BESIDES:
        return _rows("parameter", PARAMETERS_BESIDES[name])
    if name in PARAMETERS:
        return _rows("parameter", PARAMETERS[name])
    parts = list(_kinds([kind for kind in KINDS.values() if kind.where == name]))
    if name == "plugins":
        rows = "".join(f"| `{plugin}` | warning: {why} |\n" for plugin, why in PLUGINS_NOT_RUN.items())
        parts.append(f"**Other plugins**\n\n| | |\n|---|---|\n{rows}| any other, or a Java class | **error** |\n")
    return "\n".join(parts)


def _kinds(kinds: list[Kind]) -> Iterator[str]:
    """Kinds that are treated alike stand together."""
    told: set[int] = set()
    for kind in kinds:
        if id(kind) in told:
            continue
        alike = [other for other in kinds if (other.entries, other.refused) == (kind.entries, kind.refused)]
        told |= set(map(id, alike))
        names = ", ".join(f"`{other.name}`" for other in alike)
        refused = " **Error**: " + kind.refused.replace("<", "\\<") + "." if kind.refused else ""
        yield f"**{names}** {kind.about}{refused}\n"
        if kind.entries and not (kind.refused and kind.where != "files"):
            yield _rows("attribute", kind.entries)


def _rows(what: str, entries: Mapping[str, Entry]) -> str:
    lines = [f"| {what} | ActiveMQ's default | here |", "|---|---|---|"]
    groups: dict[tuple[object, ...], list[str]] = {}
    for name, entry in entries.items():
        key = (entry.fate, entry.says, entry.same, entry.fate is Fate.USED and name)
        groups.setdefault(key, []).append(name)
    for names in groups.values():
        entry = entries[names[0]]
        defaults = [entries[name].default for name in names]
        if len(names) > 1 and any(defaults):
            pairs = zip(names, defaults, strict=True)
            shown = ", ".join(f"`{name}`" + (f" ({default})" if default else "") for name, default in pairs)
            default = ""
        else:
            shown, default = ", ".join(f"`{name}`" for name in names), defaults[0]
        fine = f" ({' and '.join(f'`{value}`' for value in entry.same)} is fine)" if entry.same else ""
        text = f"{_WORDS[entry.fate]}{entry.says}{fine}".replace("|", "\\|").replace("<", "\\<")
        lines.append(f"| {shown} | {default} | {text} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(rendered(DOCUMENT.read_text("utf-8")), "utf-8")
