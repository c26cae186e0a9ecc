"""``${name}`` and ``${name:default}`` in values, as Spring and ActiveMQ's start script fill them in.

A name is looked up in the property files that the configuration names, in Java's system properties as the start script
sets them (``activemq.base``, ``activemq.conf``, ``activemq.data``, ``activemq.home`` and every ``-D`` of
``ACTIVEMQ_OPTS``), and in the environment. Values may hold placeholders themselves; how much a value may grow that way
is bounded.
"""

from __future__ import annotations

import getpass
import shlex
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import javaproperties

from jdbcstore.broker.security.jasypt import decrypt
from jdbcstore.errors import ConfigurationError

__all__ = ["Placeholders", "locate", "read_properties", "system_properties"]

_LOOKUPS_MAX: Final = 1000
_DEPTH_MAX: Final = 50
_VALUE_CHARS_MAX: Final = 1 << 16
_FILE_BYTES_MAX: Final = 1 << 20


def system_properties(path: Path, environment: Mapping[str, str]) -> dict[str, str]:
    """The system properties of a Java process that the start script would start with this file.

    Args:
        path: of ``activemq.xml``. Without ``ACTIVEMQ_CONF`` its folder is ``activemq.conf``; the folder above that, or
            the same one if it is not called ``conf``, is ``activemq.base``; ``data`` in there is ``activemq.data``.
        environment: ``ACTIVEMQ_BASE``, ``ACTIVEMQ_CONF``, ``ACTIVEMQ_DATA``, ``ACTIVEMQ_HOME``, ``ACTIVEMQ_OPTS``.

    Raises:
        ConfigurationError: a quotation mark in ``ACTIVEMQ_OPTS`` is not closed.
    """
    folder = path.absolute().parent
    conf = Path(environment.get("ACTIVEMQ_CONF", folder))
    base = Path(environment.get("ACTIVEMQ_BASE", folder.parent if folder.name == "conf" else folder))
    properties = {
        "activemq.conf": str(conf),
        "activemq.base": str(base),
        "activemq.home": environment.get("ACTIVEMQ_HOME", str(base)),
        "activemq.data": environment.get("ACTIVEMQ_DATA", str(base / "data")),
        "user.dir": str(Path.cwd()),
        "java.io.tmpdir": tempfile.gettempdir(),
    }
    for name, variable in (("user.home", "HOME"), ("user.name", "USER")):
        if variable in environment:
            properties[name] = environment[variable]
    if "user.name" not in properties:
        with suppress(KeyError, OSError):  # a user without a name, in a container
            properties["user.name"] = getpass.getuser()
    try:
        words = shlex.split(environment.get("ACTIVEMQ_OPTS", ""))
    except ValueError as error:
        raise ConfigurationError(f"the environment variable ACTIVEMQ_OPTS cannot be read: {error}") from error
    for word in words:
        if word.startswith("-D"):
            name, _, value = word[2:].partition("=")
            properties[name] = value
    return properties


def locate(location: str, conf: Path) -> Path:
    """The file that Spring's resource location names: ``file:PATH``, ``classpath:NAME`` or a path.

    Args:
        location: the location, its placeholders resolved.
        conf: the folder that ActiveMQ has on its class path, and where paths that are not absolute begin.

    Raises:
        ConfigurationError: it is somewhere else than in the file system.
    """
    for prefix in ("classpath*:", "classpath:"):
        if location.startswith(prefix):
            return conf / location.removeprefix(prefix).lstrip("/")
    if location.startswith("file:"):
        path = location.removeprefix("file:")
        return conf / ("/" + path.lstrip("/") if path.startswith("//") else path)
    if ":" in location.partition("/")[0]:
        raise ConfigurationError(f"{location!r} is not read: only files are, file:PATH or classpath:NAME")
    return conf / location


def read_properties(path: Path, encoding: str = "iso-8859-1") -> dict[str, str]:
    """The properties of a Java property file.

    Raises:
        ConfigurationError: it cannot be read.
        FileNotFoundError: it is not there.
    """
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise ConfigurationError(f"{path} is too large for a property file, {_FILE_BYTES_MAX} bytes may be")
        return dict(javaproperties.loads(path.read_text(encoding)))
    except FileNotFoundError:
        raise
    except (OSError, LookupError, ValueError) as error:
        raise ConfigurationError(f"cannot read the properties in {path}: {error}") from error


@dataclass(slots=True)
class Placeholders:
    """Resolves placeholders.

    Args:
        system: Java's system properties.
        environment: variables of the process.
    """

    system: Mapping[str, str]
    environment: Mapping[str, str]
    #: Looked up in turn, each under the name as it is, and the environment also under NAME_AS_VARIABLE.
    _sources: list[Mapping[str, str]] = field(default_factory=list, init=False)
    _leave_unknown: bool = field(default=False, init=False)

    def add(self, properties: Mapping[str, str], *, system: str = "fallback", leave_unknown: bool = False) -> None:
        """Look names up in these properties, too.

        Args:
            properties: of files or of the configuration itself.
            system: ``fallback``: they go before system properties and environment; ``override``: after them;
                ``never``: instead of them, as far as they have the name.
            leave_unknown: let a placeholder stand as it is when nobody knows its name.
        """
        rest = [self.system, self.environment]
        order = {"fallback": [properties, *rest], "override": [*rest, properties], "never": [properties]}
        self._sources += order[system]
        self._leave_unknown |= leave_unknown

    def resolve(self, text: str) -> str:
        """The text with every placeholder replaced.

        Raises:
            ConfigurationError: nobody knows a name, a value refers to itself, is encrypted, or grows beyond all bounds.
        """
        if "#{" in text:
            raise ConfigurationError(
                f"{text!r}: Spring's expressions (#{{…}}) are not evaluated; ${{NAME}} gives a system property or an"
                " environment variable"
            )
        return _Resolution(self).resolve(text, ())

    def lookup(self, name: str) -> str | None:
        """The value of a name, its own placeholders not resolved; None if nobody knows it."""
        for source in (*self._sources, self.system, self.environment):
            if name in source:
                return source[name]
        return self.environment.get(name.upper().replace(".", "_").replace("-", "_"))

    @property
    def leaves_unknown(self) -> bool:
        """Whether an unknown placeholder stands as it is."""
        return self._leave_unknown


class _Resolution:
    """One call of `Placeholders.resolve`."""

    def __init__(self, placeholders: Placeholders) -> None:
        self._placeholders = placeholders
        self._lookups = 0

    def resolve(self, text: str, inside: tuple[str, ...], depth: int = 0) -> str:
        if depth > _DEPTH_MAX:
            raise ConfigurationError(f"{text[:80]!r}: more than {_DEPTH_MAX} placeholders inside each other")
        resolved, position = "", 0
        while (start := text.find("${", position)) >= 0:
            end = _end(text, start)
            if end < 0:
                break
            resolved += text[position:start] + self._value(text[start + 2 : end], inside, depth + 1)
            position = end + 1
            if len(resolved) > _VALUE_CHARS_MAX:
                raise ConfigurationError(f"{text[:80]!r} grows beyond {_VALUE_CHARS_MAX} characters")
        return resolved + text[position:]

    def _decrypted(self, name: str, value: str) -> str:
        try:
            return decrypt(value[4:-1], self._placeholders.environment)
        except ConfigurationError as error:
            raise ConfigurationError(f"${{{name}}} is encrypted by Jasypt: {error}") from error

    def _value(self, content: str, inside: tuple[str, ...], depth: int) -> str:
        content = self.resolve(content, inside, depth)
        name, colon, default = content.partition(":")
        self._lookups += 1
        if self._lookups > _LOOKUPS_MAX:
            raise ConfigurationError(f"${{{content}}} needs more than {_LOOKUPS_MAX} other values")
        for candidate in dict.fromkeys((content, name)):
            if candidate in inside:
                raise ConfigurationError(f"${{{candidate}}} refers to itself: {' → '.join((*inside, candidate))}")
            value = self._placeholders.lookup(candidate)
            if value is not None:
                if value.startswith("ENC(") and value.endswith(")"):
                    value = self._decrypted(candidate, value)
                return self.resolve(value, (*inside, candidate), depth)
        if colon:
            return default
        if self._placeholders.leaves_unknown:
            return f"${{{content}}}"
        raise ConfigurationError(
            f"nobody knows ${{{content}}}: set it as an environment variable, as -D{content}=… in ACTIVEMQ_OPTS, or in"
            f" a property file, or write a default, ${{{content}:…}}"
        )


def _end(text: str, start: int) -> int:
    """Where the placeholder that begins at `start` has its closing brace; -1 if nowhere."""
    depth = 0
    for position in range(start + 1, len(text)):
        if text[position] == "{":
            depth += 1
        elif text[position] == "}":
            depth -= 1
            if depth == 0:
                return position
    return -1
