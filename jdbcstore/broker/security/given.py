"""Authentication as the broker's options ask for it."""

from __future__ import annotations

import ipaddress
from pathlib import Path

from jdbcstore.broker.addresses import parse_listeners
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.jasypt import decrypt
from jdbcstore.broker.security.login import CertificateLogin, Flag, GuestLogin, Guests, LoginStack, PasscodeLogin, Step
from jdbcstore.broker.security.users import GivenUsers, UserFiles, Users, UserSource, groups_by_user
from jdbcstore.errors import ConfigurationError

__all__ = ["authentication_of", "is_open_to_the_network"]


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


def is_open_to_the_network(bind: str) -> bool:
    """Whether an address to listen on can be reached from other machines."""
    return any(_is_open(listener.host) for listener in parse_listeners(bind))


def _is_open(host: str) -> bool:
    if host == "localhost":
        return False
    try:
        return not ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return True
