"""A hook of MkDocs: links from pages to files that are not in the site.

Pages are read in the repository, too, where ``../jdbcstore/broker/options.py`` is a link. In the site such a link leads
to the module's place in the API reference, or becomes plain text where it has none. A file that is not there is a
warning, and so an error.
"""

from __future__ import annotations

import logging
import re
from functools import cache
from pathlib import Path
from typing import Any, Final

log = logging.getLogger("mkdocs.hooks.site_links")

ROOT: Final = Path(__file__).parents[1]
_OUTSIDE: Final = re.compile(r"\[([^\]]+)\]\(((?:\.\./)+[\w./-]+|[\w./-]+\.ipynb)(#[\w-]+)?\)")
_DIRECTIVE: Final = re.compile(r"^::: ([\w.]+)$", re.MULTILINE)


@cache
def _reference() -> dict[str, str]:
    """Each module of the API reference, and the page that has it."""
    pages = (ROOT / "docs" / "api").glob("*.md")
    return {module: page.name for page in pages for module in _DIRECTIVE.findall(page.read_text("utf-8"))}


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Replace links that lead out of the site."""
    folder = (ROOT / "docs" / page.file.src_uri).parent

    def replaced(link: re.Match[str]) -> str:
        target = (folder / link[2]).resolve()
        if target.is_relative_to(ROOT / "docs") and target.suffix == ".md":
            return link[0]
        if not target.exists():
            log.warning("%s links to %s, which is not there: mend the link", page.file.src_uri, link[2])
        module = ".".join(target.relative_to(ROOT).with_suffix("").parts)
        if module in _reference():
            up = "../" * (len(Path(page.file.src_uri).parts) - 1)
            return f"[{link[1]}]({up}api/{_reference()[module]}#{module})"
        return link[1] if "`" in link[1] else f"`{link[1]}`"

    return _OUTSIDE.sub(replaced, markdown)
