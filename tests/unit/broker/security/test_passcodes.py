"""Hashes of passcodes, and what Java's tools have encrypted."""

from __future__ import annotations

import pytest

from jdbcstore import ConfigurationError
from jdbcstore.broker.security.jasypt import decrypt
from jdbcstore.broker.security.passcodes import check_stored, hash_passcode, is_hash, is_right

ENVIRONMENT = {"ACTIVEMQ_ENCRYPTION_PASSWORD": "activemq"}


@pytest.mark.parametrize("passcode", ["secret", "", "pässword €", "\udcff", "x" * 5000])
def test_a_hash_knows_its_passcode_and_no_other(passcode: str) -> None:
    stored = hash_passcode(passcode)
    assert stored.startswith("$argon2id$v=19$m=19456,t=2,p=1$")
    assert is_hash(stored)
    check_stored(stored)
    assert is_right(stored, passcode)
    assert not is_right(stored, passcode + "x")
    assert not is_right(stored, stored)
    assert hash_passcode(passcode) != stored


@pytest.mark.parametrize(("stored", "passcode", "is_same"), [("a", "a", True), ("a", "b", False), ("", "", True)])
def test_a_passcode_in_plain_is_compared(stored: str, passcode: str, is_same: bool) -> None:
    assert is_right(stored, passcode) is is_same


@pytest.mark.parametrize(
    "stored", ["$argon2id$", "$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ", "$argon2x$v=19$m=8,t=1,p=1$a$b"]
)
def test_a_damaged_hash_is_told_and_lets_nobody_in(stored: str) -> None:
    with pytest.raises(ConfigurationError, match="damaged") as told:
        check_stored(stored)
    assert stored not in str(told.value)
    assert not is_right(stored, stored)


def test_a_hash_that_would_take_the_machine_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory"):
        check_stored("$argon2id$v=19$m=2000000000,t=2,p=1$c2FsdHNhbHQ$AAAAAAAAAAAAAAAAAAAAAA")


@pytest.mark.parametrize(
    ("encrypted", "plain"),
    [  # written by Jasypt 1.9.3
        ("haiVv8EzjOOY+Rms4cErBg==", "secret"),
        ("Ir1UCL+GP9rYeFZu52zk0w==", ""),
        ("OmEeM3Yr3M6F4/I3qqYJD2tAuZfu9C1TqJ8azQWsB2E=", "pässword € 123456789"),
    ],
)
def test_what_jasypt_encrypted_is_decrypted(encrypted: str, plain: str) -> None:
    assert decrypt(encrypted, ENVIRONMENT) == plain


@pytest.mark.parametrize(
    ("encrypted", "environment", "text"),
    [
        ("haiVv8EzjOOY+Rms4cErBg==", {}, "needs the environment variable ACTIVEMQ_ENCRYPTION_PASSWORD"),
        ("RS80QzkNveKe8OjqmTW8SQ==", ENVIRONMENT, "cannot be decrypted"),
        ("haiVv8EzjOOY+Rms4cE=", ENVIRONMENT, "cut off"),
        ("no base64!", ENVIRONMENT, "Base64"),
        ("", ENVIRONMENT, "cut off"),
    ],
)
def test_what_cannot_be_decrypted_is_told(encrypted: str, environment: dict[str, str], text: str) -> None:
    with pytest.raises(ConfigurationError, match=text):
        decrypt(encrypted, environment)
