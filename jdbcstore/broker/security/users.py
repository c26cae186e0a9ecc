"""Users and groups: given with the options, or in two Java property files as ActiveMQ has them.

::

    # users.properties: login = passcode, in plain, hashed by `jdbcstore user add`, or ENC(…)
    alice=$argon2id$v=19$m=19456,t=2,p=1$…
    # groups.properties: group = logins
    admins=alice,bob

Files are looked at once a second. A changed file counts when it has stayed the same from one look to the next, so what
an editor has half written lets nobody in or out; one that cannot be read changes nothing, and the log says so.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol, TypeAlias

from jdbcstore.broker.security.passcodes import check_stored, is_hash
from jdbcstore.errors import ConfigurationError

__all__ = ["GivenUsers", "UserFiles", "UserSource", "Users", "groups_by_user", "read_property_file"]

log = logging.getLogger(__name__)

_FILE_BYTES_MAX: Final = 16 << 20

#: What tells whether a file has changed: inode, size, time of the last change in nanoseconds.
_Stamp: TypeAlias = tuple[int, int, int] | None


@dataclass(frozen=True, slots=True)
class Users:
    """Users at one moment.

    Args:
        known: login → passcode, hashed or in plain; or, of users with certificates, the subject's name.
        groups: login → groups.
    """

    known: Mapping[str, str] = field(default_factory=dict, repr=False)
    groups: Mapping[str, frozenset[str]] = field(default_factory=dict)
    #: Whether a passcode is hashed.
    has_hashes: bool = field(init=False, default=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "has_hashes", any(map(is_hash, self.known.values())))

    def groups_of(self, login: str) -> frozenset[str]:
        """The groups of a user, none if there are none."""
        return self.groups.get(login, frozenset())


def groups_by_user(groups: Mapping[str, str]) -> dict[str, frozenset[str]]:
    """Group → logins with commas between, as login → groups."""
    found: dict[str, set[str]] = {}
    for group, logins in groups.items():
        for login in logins.split(","):
            if login.strip():
                found.setdefault(login.strip(), set()).add(group)
    return {login: frozenset(names) for login, names in found.items()}


def read_property_file(path: Path) -> dict[str, str]:
    """The properties of a Java property file.

    Raises:
        ConfigurationError: it cannot be read; the text says why.
    """
    import javaproperties  # takes a tenth of a broker's start, and few need it

    try:
        if path.stat().st_size > _FILE_BYTES_MAX:
            raise ConfigurationError(f"{path} is too large for a file of users, {_FILE_BYTES_MAX} bytes may be")
        return dict(javaproperties.loads(path.read_text("iso-8859-1")))
    except FileNotFoundError as error:
        hint = "jdbcstore user add LOGIN makes files of users and groups"
        raise ConfigurationError(f"cannot read {path}: {error.strerror} ({hint})") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise ConfigurationError(f"{path} is no property file: {error}") from error


class UserSource(Protocol):
    """Where users come from."""

    @property
    def users(self) -> Users:
        """Those that count now."""

    def look(self) -> bool:
        """Look for changes; whether `users` are others now. May block."""


@dataclass(frozen=True, slots=True)
class GivenUsers:
    """Users that never change. Raises ConfigurationError if a hash is damaged."""

    users: Users

    def __post_init__(self) -> None:
        _check_passcodes("users", self.users.known)

    def look(self) -> bool:
        """Never."""
        return False


class UserFiles:
    """Users in files.

    Args:
        users_file: login → passcode, or subject's name.
        groups_file: group → logins; None for no groups.
        decrypt: makes plain text of ``ENC(…)``.
        holds_passcodes: whether the values are passcodes.
        is_read_again: whether changes count.

    Raises:
        ConfigurationError: a file cannot be read, or a hash in it is damaged.
    """

    def __init__(
        self,
        users_file: Path,
        groups_file: Path | None,
        *,
        decrypt: Callable[[str], str] | None = None,
        holds_passcodes: bool = True,
        is_read_again: bool = True,
    ) -> None:
        self._files = (users_file, groups_file)
        self._decrypt = decrypt
        self._holds_passcodes = holds_passcodes
        self._is_read_again = is_read_again
        self._read_stamps = self._seen_stamps = self._stamps()
        self._users = self._read()
        if holds_passcodes and _is_open_to_others(users_file):
            log.warning("everybody on this machine may read %s: chmod 600 it", users_file)

    @property
    def users(self) -> Users:
        """Those of the last time that the files could be read."""
        return self._users

    def look(self) -> bool:
        """Read the files again if they have changed and are at rest."""
        stamps = self._stamps()
        is_at_rest, self._seen_stamps = stamps == self._seen_stamps, stamps
        if not self._is_read_again or not is_at_rest or stamps == self._read_stamps:
            return False
        self._read_stamps = stamps
        try:
            users = self._read()
        except ConfigurationError as error:
            log.error("users stay as they were error=%r", str(error))  # noqa: TRY400  # the text says it all
            return False
        self._users, before = users, self._users
        log.info("users read again file=%s users=%d", self._files[0], len(users.known))
        return users != before

    def _read(self) -> Users:
        users_file, groups_file = self._files
        known = read_property_file(users_file)
        groups = {} if groups_file is None else read_property_file(groups_file)
        if self._decrypt is not None:
            known = {login: self._plain(users_file, login, value) for login, value in known.items()}
        if self._holds_passcodes:
            _check_passcodes(str(users_file), known)
        return Users(known, groups_by_user(groups))

    def _plain(self, path: Path, login: str, value: str) -> str:
        if self._decrypt is None or not (value.startswith("ENC(") and value.endswith(")")):
            return value
        try:
            return self._decrypt(value[4:-1])
        except ConfigurationError as error:
            raise ConfigurationError(f"{path}: user {login}: {error}") from error

    def _stamps(self) -> tuple[_Stamp, ...]:
        return tuple(None if path is None else _stamp(path) for path in self._files)


def _stamp(path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _is_open_to_others(path: Path) -> bool:
    return bool(path.stat().st_mode & 0o004)


def _check_passcodes(where: str, known: Mapping[str, str]) -> None:
    for login, stored in known.items():
        try:
            check_stored(stored)
        except ConfigurationError as error:
            raise ConfigurationError(f"{where}: user {login}: {error}") from error
