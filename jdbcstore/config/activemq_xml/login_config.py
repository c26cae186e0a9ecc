"""``login.config``: which JAAS modules decide who may log in, and in which order.

::

    activemq {
        org.apache.activemq.jaas.PropertiesLoginModule required
            org.apache.activemq.jaas.properties.user="users.properties"
            org.apache.activemq.jaas.properties.group="groups.properties"
            reload=true;
    };

Files of users are looked for beside ``login.config``, unless ``baseDir`` says where.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from jdbcstore.broker.security.jasypt import decrypt
from jdbcstore.broker.security.login import (
    CertificateLogin,
    Flag,
    GuestLogin,
    Guests,
    LoginModule,
    LoginStack,
    PasscodeLogin,
    Step,
)
from jdbcstore.broker.security.users import UserFiles
from jdbcstore.errors import ConfigurationError

__all__ = ["LoginConfig", "read_login_config"]

_TOKEN: Final = re.compile(
    r"""\s+ | //[^\n]* | \#[^\n]* | /\*.*?\*/
    | "(?P<text>[^"\n]*)"
    | (?P<sign>[{};=])
    | (?P<word>[^\s"{};=]+)""",
    re.VERBOSE | re.DOTALL,
)
_PACKAGE: Final = "org.apache.activemq.jaas."
_FLAGS: Final = {flag.value: flag for flag in Flag}
_FILE_BYTES_MAX: Final = 1 << 20
#: How many tokens an entry of a module begins with: its class and its flag.
_UNUSED: Final = {"debug", "reload", "decrypt", "baseDir", "algorithm"}


@dataclass(frozen=True, slots=True)
class _Entry:
    """A module as the file names it."""

    name: str
    flag: Flag
    options: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LoginConfig:
    """What the file says.

    Args:
        path: of the file.
        entries: by the name of the configuration.
    """

    path: Path
    entries: Mapping[str, tuple[_Entry, ...]]

    def stack(self, name: str) -> LoginStack:
        """The login modules of one configuration, with their files read.

        Raises:
            ConfigurationError: there is no such configuration, or a module or a file in it cannot be used.
        """
        entries = self.entries.get(name) or self.entries.get("other")
        if entries is None:
            raise ConfigurationError(f"{self.path} has no {name}; there are {', '.join(self.entries) or 'none'}")
        return LoginStack([Step(self._module(entry), entry.flag) for entry in entries])

    def _module(self, entry: _Entry) -> LoginModule:
        make = _MODULES.get(entry.name.removeprefix(_PACKAGE))
        if make is None or not entry.name.startswith(_PACKAGE):
            raise ConfigurationError(
                f"{self.path}: the module {entry.name} is not supported; there are {', '.join(_MODULES)}"
            )
        return make(self.path, entry)


def read_login_config(path: Path, property_of: Callable[[str], str | None]) -> LoginConfig:
    """Read the file.

    Args:
        path: of the file.
        property_of: gives the value of a system property, for ``${name}``.

    Raises:
        ConfigurationError: it cannot be read; the text says where.
    """
    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise ConfigurationError(f"{path} is too large, {_FILE_BYTES_MAX} bytes may be")
        text = path.read_text("utf-8")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path} is not UTF-8: {error}") from error
    return LoginConfig(path, _Parser(path, text, property_of).configurations())


class _Parser:
    def __init__(self, path: Path, text: str, property_of: Callable[[str], str | None]) -> None:
        self._path = path
        self._property_of = property_of
        self._tokens = self._split(text)
        self._line = 1
        self._token = ""
        self._step()

    def configurations(self) -> dict[str, tuple[_Entry, ...]]:
        found: dict[str, tuple[_Entry, ...]] = {}
        while self._token:
            name = self._take_word("the name of a configuration")
            self._take("{")
            entries = []
            while self._token != "}":
                entries.append(self._entry())
            self._step()
            self._take(";")
            if name in found:
                raise self._error(f"{name} is there twice")
            found[name] = tuple(entries)
        return found

    def _entry(self) -> _Entry:
        name = self._take_word("the class of a module")
        flag = self._take_word("required, requisite, sufficient or optional")
        if flag.lower() not in _FLAGS:
            raise self._error(f"{flag!r} is not required, requisite, sufficient or optional")
        options: dict[str, str] = {}
        while self._token != ";":
            option = self._take_word("an option, or ;")
            self._take("=")
            options[option] = self._expanded(self._take_word("a value"))
        self._step()
        return _Entry(name, _FLAGS[flag.lower()], options)

    def _expanded(self, value: str) -> str:
        def known(found: re.Match[str]) -> str:
            text = "/" if found[1] == "/" else self._property_of(found[1])
            if text is None:
                raise self._error(f"nobody knows the system property {found[0]}")
            return text

        return re.sub(r"\$\{([^}]*)\}", known, value)

    # -- tokens --------------------------------------------------------------------------------------------------

    def _split(self, text: str) -> Iterator[tuple[str, int]]:
        position, line = 0, 1
        while position < len(text):
            found = _TOKEN.match(text, position)
            if found is None:
                self._line = line
                raise self._error(f"{text[position : position + 20]!r} cannot be read")
            if found.lastgroup is not None:
                token = found[found.lastgroup]
                yield (token if found.lastgroup == "sign" else f"'{token}"), line
            line += found[0].count("\n")
            position = found.end()

    def _step(self) -> None:
        self._token, self._line = next(self._tokens, ("", self._line))

    def _take(self, sign: str) -> None:
        if self._token != sign:
            raise self._error(f"{sign} is expected, not {self._token.removeprefix(chr(39)) or 'the end'}")
        self._step()

    def _take_word(self, what: str) -> str:
        if not self._token.startswith("'"):
            raise self._error(f"{what} is expected, not {self._token or 'the end'}")
        word = self._token[1:]
        self._step()
        return word

    def _error(self, text: str) -> ConfigurationError:
        return ConfigurationError(f"{self._path}:{self._line}: {text}")


# -- modules -------------------------------------------------------------------------------------------------------


def _passcodes(path: Path, entry: _Entry) -> LoginModule:
    return PasscodeLogin(_files(path, entry, "properties", holds_passcodes=True))


def _certificates(path: Path, entry: _Entry) -> LoginModule:
    return CertificateLogin(_files(path, entry, "textfiledn", holds_passcodes=False))


def _guest(path: Path, entry: _Entry) -> LoginModule:
    user, group = f"{_PACKAGE}guest.user", f"{_PACKAGE}guest.group"
    _check(path, entry, {user, group, "debug", "credentialsInvalidate"})
    guests = Guests.WITHOUT_PASSCODE if _is_true(entry, "credentialsInvalidate") else Guests.EVERYBODY
    return GuestLogin(entry.options.get(user, "guest"), entry.options.get(group, "guests"), guests)


_MODULES: Final[Mapping[str, Callable[[Path, _Entry], LoginModule]]] = {
    "PropertiesLoginModule": _passcodes,
    "TextFileCertificateLoginModule": _certificates,
    "GuestLoginModule": _guest,
}


def _files(path: Path, entry: _Entry, kind: str, *, holds_passcodes: bool) -> UserFiles:
    user, group = f"{_PACKAGE}{kind}.user", f"{_PACKAGE}{kind}.group"
    _check(path, entry, {user, group, *_UNUSED})
    algorithm = entry.options.get("algorithm", "PBEWithMD5AndDES")
    if algorithm.lower() != "pbewithmd5anddes":
        raise ConfigurationError(f"{path}: {algorithm} is not supported: PBEWithMD5AndDES is, and hashed passcodes are")
    folder = path.parent / entry.options.get("baseDir", "")
    users, groups = (entry.options.get(name) for name in (user, group))
    if users is None:
        raise ConfigurationError(f"{path}: {entry.name} needs {user}")
    return UserFiles(
        folder / users,
        None if groups is None else folder / groups,
        decrypt=decrypt,
        holds_passcodes=holds_passcodes,
        is_read_again=_is_true(entry, "reload"),
    )


def _is_true(entry: _Entry, option: str) -> bool:
    return entry.options.get(option, "").lower() == "true"


def _check(path: Path, entry: _Entry, known: set[str]) -> None:
    unknown = [option for option in entry.options if option not in known]
    if unknown:
        raise ConfigurationError(
            f"{path}: {entry.name} has no option {', '.join(unknown)}; there are {', '.join(sorted(known))}"
        )
