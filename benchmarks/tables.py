"""Write the figures of ``python -m benchmarks.peer --json FILE`` into the documentation.

``python -m benchmarks.tables FILE`` puts the tables between the two marks in ``docs/benchmarks.md``; what was there is
replaced. It fails, and writes nothing, when a contestant or a scenario is missing.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import click

from benchmarks.peer import COLUMNS, DURABILITY, SCENARIOS, limit_rows_of, rows_of

_PAGE: Final = Path(__file__).parents[1] / "docs" / "benchmarks.md"
_BEGIN: Final = "<!-- tables: python -m benchmarks.tables -->"
_END: Final = "<!-- end of tables -->"


@click.command(help=__doc__)
@click.argument("json_file", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--page", default=_PAGE, type=click.Path(exists=True, path_type=Path), help="Another page.")
def main(json_file: Path, page: Path) -> None:
    """Read the figures, write the page."""
    kept = json.loads(json_file.read_text())
    for scenario in SCENARIOS:
        if missing := DURABILITY.keys() - kept["turns"].get(scenario.name, {}).keys():
            raise click.ClickException(f"{json_file}: {scenario.name}: no figures of {', '.join(sorted(missing))}")
    before, begin, rest = page.read_text().partition(_BEGIN)
    _, end, behind = rest.partition(_END)
    if not begin or not end:
        raise click.ClickException(f"{page} has no line {_BEGIN!r}, or none {_END!r} behind it")
    page.write_text("\n".join([before + begin, "", *_lines(kept), "", end + behind]))
    click.echo(f"wrote {page}")


def _lines(kept: dict[str, Any]) -> Iterator[str]:
    yield f"{kept['machine']}; medians and ranges of {kept['rounds']} rounds."
    for scenario in SCENARIOS:
        yield from ("", f"### {scenario.name}", "")
        yield from _table(COLUMNS, rows_of(kept, scenario.name))
    yield from ("", "### One message at a time, and the store alone", "")
    yield "Rows of the same size into the same tables by nothing but the driver, a commit each."
    yield ""
    yield from _table(("broker", "1 x 1 msg/s", "store alone", "ratio"), limit_rows_of(kept))
    yield from ("", "### Durability and memory", "")
    memory = [[name, kept["durability"][name], f"{mib:,.0f}"] for name, mib in kept["memory_mib"].items()]
    yield from _table(("broker", "has done when it says stored", "peak MiB"), memory)


def _table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield "|---|" + "---:|" * (len(columns) - 1)
    for row in rows:
        yield f"| {' | '.join(row)} |"


if __name__ == "__main__":
    main()
