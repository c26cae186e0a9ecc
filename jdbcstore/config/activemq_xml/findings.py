"""What was found in a configuration file: errors, warnings, and which line said what is used."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["Finding", "Findings", "Place", "PlacedError", "Used"]

#: What quotes a file must not be as long as the file.
_TEXT_CHARS_MAX: Final = 1000


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """A line of a file; printed as ``activemq.xml:57``.

    Args:
        file: the name for people, without its folder.
        line: from 1; 0 for the file as a whole.
    """

    file: str
    line: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" if self.line else self.file


class PlacedError(ConfigurationError):
    """A `ConfigurationError` that knows its line better than who catches it.

    Args:
        place: the line.
        text: what is wrong.
    """

    def __init__(self, place: Place, text: str) -> None:
        super().__init__(f"{place}: {text}")
        self.place = place
        self.text = text


@dataclass(frozen=True, slots=True)
class Finding:
    """Something to tell: an error keeps the broker from starting, a warning does not.

    Args:
        place: where it is.
        is_error: whether it is an error.
        text: a sentence without its full stop.
    """

    place: Place
    is_error: bool
    text: str

    def __str__(self) -> str:
        return f"{self.place}: {self.text}"


@dataclass(frozen=True, slots=True)
class Used:
    """An option of ours that a line of the file gave.

    Args:
        option: with its table: ``broker.bind``, ``store.table_prefix``, ``store.lock.lease_ms``, ``store.url``.
        value: for people; passwords are left out.
        place: the line.
        source: the attribute or property that said it.
    """

    option: str
    value: str
    place: Place
    source: str


@dataclass(slots=True)
class Findings:
    """Collects. Reading goes on after an error, so that one look at the file shows them all."""

    found: list[Finding] = field(default_factory=list)
    used: list[Used] = field(default_factory=list)

    @property
    def errors(self) -> list[Finding]:
        """The errors, in the order of the file."""
        return [finding for finding in self._in_order() if finding.is_error]

    @property
    def warnings(self) -> list[Finding]:
        """The warnings, in the order of the file."""
        return [finding for finding in self._in_order() if not finding.is_error]

    def error(self, place: Place, text: str) -> None:
        """Something keeps the broker from starting."""
        self._add(Finding(place, True, text))

    def warning(self, place: Place, text: str) -> None:
        """Something is not as the file says."""
        self._add(Finding(place, False, text))

    def use(self, option: str, value: object, place: Place, source: str) -> None:
        """A line of the file became an option of ours."""
        shown = str(value).lower() if isinstance(value, bool) else str(value)
        self.used.append(Used(option, shown, place, source))

    def errors_at(self, place: Place) -> AbstractContextManager[None, bool]:
        """A `ConfigurationError` inside is an error of this line, or of its own; the rest of the block is skipped."""
        return _ErrorsAt(self, place)

    def _add(self, finding: Finding) -> None:
        if len(finding.text) > _TEXT_CHARS_MAX:
            finding = replace(finding, text=f"{finding.text[:_TEXT_CHARS_MAX]}…")
        if finding not in self.found:  # what is referred to twice is told once
            self.found.append(finding)

    def _in_order(self) -> list[Finding]:
        files = list(dict.fromkeys(finding.place.file for finding in self.found))
        return sorted(self.found, key=lambda finding: (files.index(finding.place.file), finding.place.line))


@dataclass(frozen=True, slots=True)
class _ErrorsAt:
    findings: Findings
    place: Place

    def __enter__(self) -> None:
        pass

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if isinstance(error, PlacedError):
            self.findings.error(error.place, error.text)
        elif isinstance(error, ConfigurationError):
            self.findings.error(self.place, str(error))
        else:
            return False
        return True
