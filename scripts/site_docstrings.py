"""An extension of Griffe, which reads docstrings for the site: what ours have of reStructuredText becomes Markdown."""

from __future__ import annotations

import re
from typing import Any, Final

import griffe

_LITERAL: Final = re.compile(r"^(.*\S)?::$", re.MULTILINE)
#: A paragraph that begins with a line like ``==== =====``.
_TABLE: Final = re.compile(r"^=+(?: +=+)+\n(?:.+(?:\n|\Z))+", re.MULTILINE)


class SiteDocstrings(griffe.Extension):
    """Changes docstrings on their way into the site."""

    def on_instance(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for each module, class, function and attribute that was read."""
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    """A docstring with ``::`` before code as a colon, and tables as they stand."""
    fenced = _TABLE.sub(lambda table: f"```text\n{table[0].rstrip()}\n```\n", docstring)
    return _LITERAL.sub(lambda found: f"{found[1]}:" if found[1] else "", fenced)
