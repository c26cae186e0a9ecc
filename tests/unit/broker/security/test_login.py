"""Login modules: whom they let in, how they decide together, and how failures slow down."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from jdbcstore import ConfigurationError, LoginRefused
from jdbcstore.broker.security.login import (
    CertificateLogin,
    Credentials,
    Flag,
    GuestLogin,
    Guests,
    Identity,
    LoginStack,
    PasscodeLogin,
    Step,
)
from jdbcstore.broker.security.passcodes import hash_passcode
from jdbcstore.broker.security.slowness import Slowness
from jdbcstore.broker.security.users import GivenUsers, UserFiles, Users, groups_by_user

JOE = Credentials("joe", "secret")
GROUPS = groups_by_user({"buyers": "joe, ann", "admins": "ann,,"})


@dataclass(frozen=True)
class Says:
    """A module that always says the same."""

    word: str

    def login(self, credentials: Credentials) -> Identity | None:
        if self.word == "no":
            raise LoginRefused("no")
        return Identity(self.word, frozenset((self.word,))) if self.word else None

    def renew(self, identity: Identity) -> Identity:
        return identity

    def look(self) -> bool:
        return False


def stack(*steps: tuple[str, Flag]) -> LoginStack:
    return LoginStack([Step(Says(word), flag) for word, flag in steps])


REQUIRED, REQUISITE, SUFFICIENT, OPTIONAL = Flag.REQUIRED, Flag.REQUISITE, Flag.SUFFICIENT, Flag.OPTIONAL


@pytest.mark.parametrize(
    ("steps", "groups"),
    [
        ([("a", REQUIRED)], "a"),
        ([("a", REQUIRED), ("b", REQUIRED)], "ab"),
        ([("a", REQUIRED), ("no", REQUIRED)], None),
        ([("no", REQUIRED), ("a", SUFFICIENT)], None),
        ([("no", REQUISITE), ("a", REQUIRED)], None),
        ([("a", SUFFICIENT), ("b", REQUIRED)], "a"),
        ([("no", SUFFICIENT), ("b", REQUIRED)], "b"),
        ([("", SUFFICIENT), ("no", REQUIRED)], None),
        ([("no", OPTIONAL), ("b", REQUIRED)], "b"),
        ([("a", OPTIONAL), ("no", REQUIRED)], None),
        ([("a", REQUIRED), ("no", SUFFICIENT)], "a"),
        ([("no", SUFFICIENT), ("no", OPTIONAL)], None),
        ([("", REQUIRED)], None),
        ([("", REQUIRED), ("a", OPTIONAL)], "a"),
        ([], None),
    ],
)
def test_modules_decide_together(steps: list[tuple[str, Flag]], groups: str | None) -> None:
    if groups is None:
        with pytest.raises(LoginRefused):
            stack(*steps).login(JOE)
        return
    grant = stack(*steps).login(JOE)
    assert (grant.principal.name, grant.principal.groups) == (groups[0], frozenset(groups))
    assert stack(*steps).renew(grant) == grant


@pytest.mark.parametrize("stored", [str, hash_passcode], ids=["plain", "hashed"])
def test_login_and_passcode_have_to_be_right(stored: Callable[[str], str]) -> None:
    module = PasscodeLogin(GivenUsers(Users({"joe": stored("secret")}, GROUPS)))
    assert module.login(JOE).groups == {"buyers", "*"}
    for login, passcode in [("joe", "no"), ("joe", None), ("ann", "secret"), (None, "secret"), (None, None), ("", "")]:
        with pytest.raises(LoginRefused):
            module.login(Credentials(login, passcode))


def test_secrets_are_in_no_text() -> None:
    users = Users({"joe": "secret"})
    identity = PasscodeLogin(GivenUsers(users)).login(JOE)
    assert "secret" not in f"{JOE!r} {users!r} {identity!r} {GivenUsers(users)!r}"


def test_a_user_without_a_group_is_somebody_unless_activemqs_simple_plugin_has_him() -> None:
    users = GivenUsers(Users({"joe": "secret"}))
    assert PasscodeLogin(users).login(JOE).groups == {"*"}
    assert PasscodeLogin(users, everybody_has_a_group=False).login(JOE).groups == set()


@pytest.mark.parametrize(
    ("guests", "login", "passcode", "is_in"),
    [
        (Guests.EVERYBODY, "joe", "x", True),
        (Guests.WITHOUT_PASSCODE, "joe", None, True),
        (Guests.WITHOUT_PASSCODE, "joe", "", False),
        (Guests.WITHOUT_LOGIN, None, None, True),
        (Guests.WITHOUT_LOGIN, "joe", None, False),
        (Guests.WITHOUT_LOGIN, None, "x", False),
    ],
)
def test_guests(guests: Guests, login: str | None, passcode: str | None, is_in: bool) -> None:
    identity = GuestLogin("guest", "guests", guests).login(Credentials(login, passcode))
    assert (identity is not None) is is_in
    assert identity is None or identity.groups == {"guests", "*"}


@pytest.mark.parametrize(
    ("subject", "login"),
    [
        ("CN=joe, OU=a, O=b", "joe"),
        ("CN=joe,OU=a,O=b", "joe"),
        ("CN=ann, O=b", "ann"),
        ("CN=ann2, O=b", None),
        ("cn=joe, ou=a, o=b", None),
        (None, None),
    ],
)
def test_certificates(subject: str | None, login: str | None) -> None:
    module = CertificateLogin(
        GivenUsers(Users({"joe": "CN=joe, OU=a,O=b", "ann": "/CN=ann,.*/", "bad": "/(/"}, GROUPS))
    )
    credentials = Credentials("whoever", "whatever", subject)
    if login is None:
        with pytest.raises(LoginRefused):
            module.login(credentials)
        return
    identity = module.login(credentials)
    assert identity.name == login
    assert "buyers" in identity.groups
    assert module.renew(identity) == identity


def write(path: Path, text: str) -> None:
    """As a careful program does it."""
    new = path.with_suffix(".new")
    new.write_text(text)
    new.chmod(0o600)
    os.replace(new, path)


def test_files_are_read_again_when_they_have_come_to_rest(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    users, groups = tmp_path / "users.properties", tmp_path / "groups.properties"
    write(users, "joe=secret\nann=ENC(haiVv8EzjOOY+Rms4cErBg==)\n# a comment\n")
    write(groups, "buyers=joe\n")
    module = PasscodeLogin(UserFiles(users, groups, decrypt=lambda text: f"<{text[:3]}>"))
    joe, ann = module.login(JOE), module.login(Credentials("ann", "<hai>"))
    assert joe.groups == {"buyers", "*"}
    assert not module.look()
    write(groups, "buyers=joe\nadmins=joe\n")
    assert not module.look()  # it has just changed, perhaps it will again
    assert module.renew(joe) == joe
    assert module.look()
    assert not module.look()
    renewed = module.renew(joe)
    assert renewed is not None
    assert renewed.groups == {"buyers", "admins", "*"}
    write(users, "joe=other\n")
    assert [module.look(), module.look()] == [False, True]
    assert module.renew(joe) is None
    assert module.renew(ann) is None
    caplog.set_level(logging.ERROR)
    for text in ("joe=$argon2id$broken\n", "joe=\\uXYZ"):
        write(users, text)
        assert [module.look(), module.look(), module.look()] == [False, False, False]
        assert "users stay as they were" in caplog.text
        caplog.clear()
        assert module.login(Credentials("joe", "other")).name == "joe"
    users.unlink()
    assert [module.look(), module.look()] == [False, False]
    assert "No such file" in caplog.text
    assert module.login(Credentials("joe", "other")).name == "joe"


def test_files_that_cannot_be_read_at_first_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read .*nowhere"):
        UserFiles(tmp_path / "nowhere", None)
    (tmp_path / "users").write_text("joe=$argon2id$broken")
    with pytest.raises(ConfigurationError, match="users: user joe: the hash of the passcode is damaged"):
        UserFiles(tmp_path / "users", None)


def test_a_file_that_everybody_may_read_is_told(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / "users"
    path.write_text("joe=secret")
    path.chmod(0o644)
    UserFiles(path, None)
    assert "chmod 600" in caplog.text


def test_failures_slow_down_the_next_attempts() -> None:
    slowness = Slowness(5.0)
    delays = []
    for _ in range(10):
        delays.append(slowness.delay_s("10.0.0.1", "joe", 0.0))
        slowness.failed("10.0.0.1", "joe", 0.0)
    assert delays == [0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0]
    assert slowness.delay_s("10.0.0.1", "ann", 0.0) == 0
    assert slowness.delay_s("10.0.0.2", "joe", 0.0) == 0
    assert slowness.delay_s("10.0.0.1", "joe", 301.0) == 0
    slowness.succeeded("10.0.0.1", "joe")
    assert slowness.delay_s("10.0.0.1", "joe", 0.0) == 0


def test_many_failures_of_an_address_or_for_a_login_slow_down_mildly() -> None:
    slowness = Slowness(5.0)
    for number in range(100):
        slowness.failed("10.0.0.1", f"user{number}", 0.0)
        slowness.failed(f"10.0.1.{number}", "admin", 0.0)
    assert slowness.delay_s("10.0.0.1", "ann", 0.0) == 1.0
    assert slowness.delay_s("10.9.9.9", "admin", 0.0) == 1.0
    assert slowness.delay_s("10.9.9.9", "ann", 0.0) == 0


def test_failures_take_bounded_memory() -> None:
    slowness = Slowness(5.0)
    for number in range(20_000):
        slowness.failed(str(number), "x" * 10_000 + str(number), 0.0)
    assert len(slowness._counts) == 10_000
