"""Login modules, and how several decide together.

Each module says who somebody is, refuses him, or has nothing to say. A `LoginStack` asks them in order and goes by
their flags, which are those of JAAS:

============== =================================================== ==============================
flag           when the module lets somebody in                    when it refuses him
============== =================================================== ==============================
required       the next ones are asked, too                        the next ones are asked, he is out
requisite      the next ones are asked, too                        he is out
sufficient     he is in, unless a required one before refused him  the next ones are asked
optional       the next ones are asked, too                        the next ones are asked
============== =================================================== ==============================

He is in if no required and no requisite one has refused him and one has let him in. His groups are those of all modules
that did; his name is what the first of them calls him.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Final, Protocol

from jdbcstore.broker.security.passcodes import is_right, nobodys_hash
from jdbcstore.broker.security.principal import EVERYBODY, Principal
from jdbcstore.broker.security.users import Users, UserSource
from jdbcstore.errors import LoginRefused

__all__ = [
    "CertificateLogin",
    "Credentials",
    "Flag",
    "Grant",
    "GuestLogin",
    "Guests",
    "Identity",
    "LoginModule",
    "LoginStack",
    "PasscodeLogin",
    "Step",
]


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a client shows to be let in.

    Args:
        login, passcode: None if it has sent none.
        subject: the name in its certificate, which the broker's TLS has checked: ``CN=joe, O=Orders``; None without.
        is_encrypted: whether it came by TLS.
    """

    login: str | None
    passcode: str | None = field(repr=False)
    subject: str | None = None
    is_encrypted: bool = False


@dataclass(frozen=True, slots=True)
class Identity:
    """What a module knows of somebody that it lets in.

    Args:
        name: of the user.
        groups: of the user.
        evidence: what the users said when he was let in: when they say something else, he has to log in again.
    """

    name: str
    groups: frozenset[str]
    evidence: str = field(default="", repr=False)


class LoginModule(Protocol):
    """Decides about clients. May block; is called in threads."""

    def login(self, credentials: Credentials) -> Identity | None:
        """Who this is; None if the module has nothing to say. Raises LoginRefused."""

    def renew(self, identity: Identity) -> Identity | None:
        """The same one by what is known now; None if he has to log in again. Does not block."""

    def look(self) -> bool:
        """Look for changes of what it goes by; whether there are any."""


@dataclass(frozen=True, slots=True)
class PasscodeLogin:
    """By login and passcode.

    Args:
        source: who is known.
        everybody_has_a_group: whether ``*`` in lists of groups means users without a group, too.
    """

    source: UserSource
    everybody_has_a_group: bool = True

    def login(self, credentials: Credentials) -> Identity:
        """Who this is. Raises LoginRefused."""
        users, login, passcode = self.source.users, credentials.login, credentials.passcode
        stored = None if login is None else users.known.get(login)
        if login is None or stored is None:
            if users.has_hashes:
                is_right(nobodys_hash(), passcode or "")  # time must not tell who is known
            raise LoginRefused("the login is not known")
        if not is_right(stored, passcode or ""):
            raise LoginRefused("the passcode is wrong")
        return self._identity(users, login, stored)

    def renew(self, identity: Identity) -> Identity | None:
        """The same user with the groups of now; None if he is not there or has another passcode."""
        users = self.source.users
        if users.known.get(identity.name) != identity.evidence:
            return None
        return self._identity(users, identity.name, identity.evidence)

    def look(self) -> bool:
        """Whether the users have changed."""
        return self.source.look()

    def _identity(self, users: Users, login: str, stored: str) -> Identity:
        groups = users.groups_of(login)
        if groups or self.everybody_has_a_group:
            groups |= {EVERYBODY}
        return Identity(login, groups, stored)


class CertificateLogin:
    """By the name in the client's certificate, as ActiveMQ's ``TextFileCertificateLoginModule``.

    A user's value is the name, ``joe=CN=joe, OU=orders, O=Example``, or a regular expression ``joe=/CN=joe,.*/``.

    Args:
        source: login → name.
    """

    def __init__(self, source: UserSource) -> None:
        self._source = source

    def login(self, credentials: Credentials) -> Identity:
        """Who this is. Raises LoginRefused."""
        if credentials.subject is None:
            raise LoginRefused("there is no client certificate")
        users, subject = self._source.users, _same_spelling(credentials.subject)
        for login, expected in users.known.items():
            if not _is_expression(expected) and _same_spelling(expected) == subject:
                return self._identity(users, login, expected)
        for login, expected in users.known.items():
            if _is_expression(expected) and _matches(expected, credentials.subject):
                return self._identity(users, login, expected)
        raise LoginRefused("nobody has this client certificate")

    def renew(self, identity: Identity) -> Identity | None:
        """The same user with the groups of now; None if another certificate is his."""
        users = self._source.users
        if users.known.get(identity.name) != identity.evidence:
            return None
        return self._identity(users, identity.name, identity.evidence)

    def look(self) -> bool:
        """Whether the users have changed."""
        return self._source.look()

    @staticmethod
    def _identity(users: Users, login: str, expected: str) -> Identity:
        return Identity(login, users.groups_of(login) | {EVERYBODY}, expected)


def _is_expression(text: str) -> bool:
    return len(text) > 2 and text[0] == text[-1] == "/"


def _matches(expression: str, subject: str) -> bool:
    try:
        return re.fullmatch(expression[1:-1], subject) is not None
    except re.error:
        return False


_COMMA: Final = re.compile(r"\s*,\s*")


def _same_spelling(subject: str) -> str:
    """Java writes ``CN=a, O=b`` or ``CN=a,O=b``: both are the same name."""
    return _COMMA.sub(",", subject.strip())


class Guests(Enum):
    """Whom a `GuestLogin` lets in."""

    EVERYBODY = "everybody"
    #: ActiveMQ's ``credentialsInvalidate``.
    WITHOUT_PASSCODE = "without_passcode"
    #: ActiveMQ's ``anonymousAccessAllowed``.
    WITHOUT_LOGIN = "without_login"


@dataclass(frozen=True, slots=True)
class GuestLogin:
    """Lets in who has not to say who he is.

    Args:
        name, group: what he is called, and the group that he has.
        guests: whom.
    """

    name: str
    group: str
    guests: Guests

    def login(self, credentials: Credentials) -> Identity | None:
        """The guest; None if this is none."""
        if self.guests is not Guests.EVERYBODY and credentials.passcode is not None:
            return None
        if self.guests is Guests.WITHOUT_LOGIN and credentials.login is not None:
            return None
        return Identity(self.name, frozenset((self.group, EVERYBODY)))

    def renew(self, identity: Identity) -> Identity:
        """He may stay."""
        return identity

    def look(self) -> bool:
        """Nothing changes."""
        return False


class Flag(Enum):
    """What becomes of a module's word."""

    REQUIRED = "required"
    REQUISITE = "requisite"
    SUFFICIENT = "sufficient"
    OPTIONAL = "optional"


@dataclass(frozen=True, slots=True)
class Step:
    """A module and its flag."""

    module: LoginModule
    flag: Flag = Flag.REQUIRED


@dataclass(frozen=True, slots=True)
class Grant:
    """Somebody was let in.

    Args:
        principal: who he is.
        identities: by the step: what its module said; None if it did not let him in.
    """

    principal: Principal
    identities: tuple[Identity | None, ...]


@dataclass(frozen=True, slots=True)
class LoginStack:
    """Modules that decide together.

    Args:
        steps: in the order in which they are asked.
    """

    steps: Sequence[Step]

    def login(self, credentials: Credentials) -> Grant:
        """Let somebody in. May block for as long as hashing takes.

        Raises:
            LoginRefused: he is out; the text says why, for the log and for nobody else.
        """
        identities: list[Identity | None] = []
        refusal: LoginRefused | None = None
        is_out = False
        for step in self.steps:
            try:
                identity = step.module.login(credentials)
            except LoginRefused as error:
                identity, refusal = None, refusal or error
                is_out = is_out or step.flag in (Flag.REQUIRED, Flag.REQUISITE)
                if step.flag is Flag.REQUISITE:
                    break
            identities.append(identity)
            if identity is not None and step.flag is Flag.SUFFICIENT and not is_out:
                break
        if is_out or not any(identities):
            raise refusal or LoginRefused("nobody has let him in")
        return _grant(identities)

    def renew(self, grant: Grant) -> Grant | None:
        """A grant by what is known now; None if the client has to log in again."""
        identities: list[Identity | None] = []
        for step, identity in zip(self.steps, grant.identities, strict=False):
            renewed = None if identity is None else step.module.renew(identity)
            if identity is not None and renewed is None:
                return None
            identities.append(renewed)
        return _grant(identities)

    def look(self) -> bool:
        """Look for changes; whether there are any."""
        changes = [step.module.look() for step in self.steps]  # all of them, so not inside any()
        return any(changes)


def _grant(identities: Sequence[Identity | None]) -> Grant:
    known = [identity for identity in identities if identity is not None]
    groups = frozenset().union(*(identity.groups for identity in known))
    return Grant(Principal(known[0].name, groups), tuple(identities))
