"""Authentication as the broker's options ask for it."""

from __future__ import annotations

import ipaddress
import logging
from pathlib import Path

from jdbcstore.addresses import parse_listeners
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.jasypt import decrypt
from jdbcstore.broker.security.login import CertificateLogin, Flag, GuestLogin, Guests, LoginStack, PasscodeLogin, Step
from jdbcstore.broker.security.users import GivenUsers, UserFiles, Users, UserSource, groups_by_user
from jdbcstore.errors import ConfigurationError

__all__ = ["authentication_of", "warn_of_strangers"]

log = logging.getLogger(__name__)


def authentication_of(
    options: BrokerOptions, stack: LoginStack | None = None, encrypted: LoginStack | None = None
) -> Authentication | None:
    """Who may log in; None for everybody.

    Args:
        options: their users go before `stack`.
        stack: login modules.
        encrypted: those for clients that come by TLS, if they are others.

    Raises:
        ConfigurationError: a file of users cannot be read.
    """
    if options.users is not None or options.users_file or options.certificate_users_file:
        stack, encrypted = _stack(options), None
    if stack is None:
        return None
    return Authentication(
        stack, encrypted=encrypted, delay_max_s=options.login_delay_max_s, remember_s=options.login_remember_s
    )


def _stack(options: BrokerOptions) -> LoginStack:
    steps = []
    if options.anonymous_access_allowed:
        guests = GuestLogin(options.anonymous_user, options.anonymous_group, Guests.WITHOUT_LOGIN)
        steps.append(Step(guests, Flag.SUFFICIENT))
    groups_file = Path(options.groups_file) if options.groups_file else None
    if options.certificate_users_file:
        by_certificate = UserFiles(Path(options.certificate_users_file), groups_file, holds_passcodes=False)
        steps.append(Step(CertificateLogin(by_certificate), Flag.SUFFICIENT))
        if options.users is None and not options.users_file:
            return LoginStack(steps)
    source: UserSource
    if options.users_file:
        if options.users is not None or options.groups is not None:
            raise ConfigurationError("users_file and users are two lists of users: leave one of them out")
        source = UserFiles(Path(options.users_file), groups_file, decrypt=decrypt)
    else:
        source = GivenUsers(Users(options.users or {}, groups_by_user(options.groups or {})))
    steps.append(Step(PasscodeLogin(source)))
    return LoginStack(steps)


def warn_of_strangers(bind: str, authentication: Authentication | None) -> None:
    """Say in the log what others than this machine can do, or read, where the broker listens.

    Args:
        bind: `BrokerOptions.bind`.
        authentication: who may log in; None for everybody.
    """
    reachable = [listener for listener in parse_listeners(bind) if _is_open(listener.host)]
    in_clear = ", ".join(str(listener) for listener in reachable if not listener.is_tls)
    if authentication is None and reachable:
        log.warning(
            "who reaches %s may read and write everything: set users, or bind 127.0.0.1; see docs/security.md", bind
        )
    elif in_clear:
        log.warning(
            "passcodes and messages travel in clear on %s: use listeners with TLS, or bind 127.0.0.1; see docs/tls.md",
            in_clear,
        )


def _is_open(host: str) -> bool:
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True
