"""Who asks: a token, a login as clients have it, a session of a browser, or nobody in particular.

* ``Authorization: Bearer TOKEN`` is for programs; the token may do everything.
* ``Authorization: Basic …`` is a login of the broker's users, for programs that know nothing else. Where the broker has
  no users it means nothing: tools that were made for ActiveMQ send ``admin:admin`` to everybody.
* A cookie is a session, begun by `Identities.begin`. What changes anything must also show the session's own token in a
  header, which no other site can.
* Nobody in particular may look, where the broker lets everybody in; where it has users, nobody may do anything.

Wrong tokens and logins slow down whoever tries: logins as `jdbcstore.broker.security.authentication` does it for
clients, tokens by address.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import secrets
from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from starlette.requests import Request

from jdbcstore.broker.broker import Broker
from jdbcstore.broker.security.login import Credentials, Grant
from jdbcstore.errors import LoginRefused
from jdbcstore.management.rights import VISITOR, Rights

__all__ = ["COOKIE", "CSRF_HEADER", "Forbidden", "Identities", "TooManyAttempts", "may_change_by_get"]

COOKIE: Final = "jdbcstore_session"
CSRF_HEADER: Final = "x-csrf-token"
_SAFE: Final = ("GET", "HEAD", "OPTIONS")
_SESSION_S: Final = 8 * 3600.0
_SESSIONS_MAX: Final = 1000
#: Wrong tokens of one address in a minute.
_ATTEMPTS_MAX: Final = 10
_ATTEMPTS_S: Final = 60.0
_ADDRESSES_MAX: Final = 1000
#: Who has shown the token.
_TOKEN: Final = Rights("token", may_act=True)


class Forbidden(Exception):
    """The request came from another site, or from nobody knows where."""


class TooManyAttempts(Exception):
    """Too many wrong tokens came from this address."""


@dataclass(eq=False)
class _Session:
    rights: Rights
    grant: Grant | None
    csrf: str
    used_s: float


class Identities:
    """Knows who asks, for one broker.

    Args:
        broker: has the users and the rights.
        token: what programs show.
    """

    def __init__(self, broker: Broker, token: str) -> None:
        self._broker = broker
        self._token = token.encode()
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._attempts: OrderedDict[str, list[float]] = OrderedDict()

    async def rights_of(self, request: Request) -> Rights | None:
        """What the sender of a request may do; None if it has to log in.

        Raises:
            LoginRefused, TooManyAttempts: what it shows is wrong.
            Forbidden: a session, without the session's token.
        """
        scheme, _, shown = request.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer":
            self._check_token(shown.strip(), _address(request))
            return _TOKEN
        if scheme.lower() == "basic" and self._broker.authentication is not None:
            login, passcode = _basic(shown)
            return self._granted(await self._login(login, passcode, _address(request)))
        session = self._session(request)
        if session is not None:
            is_own = hmac.compare_digest(request.headers.get(CSRF_HEADER, "").encode(), session.csrf.encode())
            if request.method not in _SAFE and not is_own:
                raise Forbidden(f"this needs the header {CSRF_HEADER} with the session's token")
            return session.rights
        return VISITOR if self._broker.authentication is None else None

    # -- sessions ------------------------------------------------------------------------------------------------

    async def begin(self, request: Request, token: str, login: str, passcode: str) -> str:
        """Begin a session with a token, or a login; returns its name, which is the cookie's value.

        Raises:
            LoginRefused, TooManyAttempts: it is wrong.
        """
        grant = None
        if token:
            self._check_token(token, _address(request))
            rights = _TOKEN
        else:
            if self._broker.authentication is None:
                raise LoginRefused("this broker has no users: log in with the token that it has printed at its start")
            grant = await self._login(login, passcode, _address(request))
            rights = self._granted(grant)
        name = secrets.token_urlsafe(32)
        self._sessions[name] = _Session(rights, grant, secrets.token_urlsafe(32), self._broker.loop.time())
        while len(self._sessions) > _SESSIONS_MAX:
            self._sessions.popitem(last=False)
        return name

    def end(self, request: Request) -> None:
        """End the session that a request belongs to."""
        self._sessions.pop(request.cookies.get(COOKIE, ""), None)

    def csrf_of(self, request: Request) -> str:
        """The token of a request's session; empty if there is none."""
        session = self._session(request)
        return "" if session is None else session.csrf

    def _session(self, request: Request) -> _Session | None:
        name = request.cookies.get(COOKIE, "")
        session = self._sessions.get(name)
        if session is None:
            return None
        now_s = self._broker.loop.time()
        if now_s - session.used_s > _SESSION_S or not self._renew(session):
            del self._sessions[name]
            return None
        session.used_s = now_s
        return session

    def _renew(self, session: _Session) -> bool:
        """Go by what the users are now; False if its user is gone or another one."""
        authentication = self._broker.authentication
        if session.grant is None or authentication is None:
            return session.grant is None
        grant = authentication.renew(session.grant, is_encrypted=False)
        if grant is None:
            return False
        if grant is not session.grant:
            session.grant, session.rights = grant, self._granted(grant)
        return True

    # -- what is shown -------------------------------------------------------------------------------------------

    def _granted(self, grant: Grant) -> Rights:
        principal = grant.principal
        return Rights(principal.name, may_act=True, principal=principal, authorization=self._broker.authorization)

    async def _login(self, login: str, passcode: str, address: str) -> Grant:
        authentication = self._broker.authentication
        decided: asyncio.Future[Grant | LoginRefused] = self._broker.loop.create_future()

        def told(outcome: Grant | LoginRefused) -> None:
            if not decided.done():
                decided.set_result(outcome)

        if authentication is None:
            raise LoginRefused("this broker has no users: log in with the token that it has printed at its start")
        task = authentication.login(Credentials(login, passcode), address, told)
        try:
            outcome = await decided
        except asyncio.CancelledError:
            if task is not None:
                task.cancel()
            raise
        if isinstance(outcome, LoginRefused):
            raise outcome
        return outcome

    def _check_token(self, shown: str, address: str) -> None:
        """Raise LoginRefused if it is another one, TooManyAttempts if that happens too often."""
        now_s = self._broker.loop.time()
        attempts = [at_s for at_s in self._attempts.pop(address, []) if now_s - at_s < _ATTEMPTS_S]
        try:
            if len(attempts) >= _ATTEMPTS_MAX:
                raise TooManyAttempts("too many wrong tokens came from this address: wait a minute")
            if not hmac.compare_digest(shown.encode(), self._token):
                attempts.append(now_s)
                raise LoginRefused(
                    "the token is wrong: give that of web_token_file, or the one that was printed at the start"
                )
        finally:
            if attempts:
                self._attempts[address] = attempts
            while len(self._attempts) > _ADDRESSES_MAX:
                self._attempts.popitem(last=False)


def may_change_by_get(request: Request) -> bool:
    """Whether a GET may change anything: not if a page of another site can have had a browser send it, with the cookie
    or the login that the browser knows. No such page can show a token, or set a header."""
    shown = request.headers
    if shown.get("authorization", "").partition(" ")[0].lower() == "bearer":
        return True
    return CSRF_HEADER in shown or not any(name in shown for name in ("cookie", "referer", "origin", "sec-fetch-site"))


def _basic(shown: str) -> tuple[str, str]:
    try:
        login, _, passcode = base64.b64decode(shown.strip(), validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError) as error:
        raise LoginRefused("the header Authorization has to be Basic and LOGIN:PASSCODE in base64") from error
    return login, passcode


def _address(request: Request) -> str:
    return "?" if request.client is None else request.client.host
