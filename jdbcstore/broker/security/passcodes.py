"""Passcodes: hashed by Argon2id (RFC 9106), or in plain as ActiveMQ's files have them.

The parameters are those that OWASP names for servers: 19 MiB, two passes, one lane, some 20 ms of one core. A hash says
by which parameters it was made, so they can change without harm to hashes that are there.
"""

from __future__ import annotations

from functools import lru_cache
from hmac import compare_digest
from typing import TYPE_CHECKING, Final

from jdbcstore.errors import ConfigurationError

if TYPE_CHECKING:
    from argon2 import PasswordHasher

__all__ = ["check_stored", "hash_passcode", "is_hash", "is_right", "nobodys_hash"]

_PREFIX: Final = "$argon2"
_MEMORY_KIB: Final = 19 * 1024
_PASSES: Final = 2
#: A stored hash that asks for more would let one login take the machine.
_MEMORY_KIB_MAX: Final = 1 << 20
_PASSES_MAX: Final = 20
_LANES_MAX: Final = 16


@lru_cache(maxsize=1)
def _hasher() -> PasswordHasher:
    from argon2 import PasswordHasher  # a broker without hashed passcodes starts without it

    return PasswordHasher(time_cost=_PASSES, memory_cost=_MEMORY_KIB, parallelism=1)


def hash_passcode(passcode: str) -> str:
    """The hash of a passcode, with a salt of its own. Takes some 20 ms."""
    hashed: str = _hasher().hash(_bytes(passcode))
    return hashed


def is_hash(stored: str) -> bool:
    """Whether a stored passcode is a hash, whatever it is worth."""
    return stored.startswith(_PREFIX)


def check_stored(stored: str) -> None:
    """Refuse a hash that cannot be used.

    Raises:
        ConfigurationError: it is damaged, or by parameters beyond all measure. The text does not repeat it.
    """
    if not is_hash(stored):
        return
    from argon2 import extract_parameters
    from argon2.exceptions import InvalidHashError

    try:
        parameters = extract_parameters(stored)
    except InvalidHashError as error:
        raise ConfigurationError("the hash of the passcode is damaged: write it by `jdbcstore user add`") from error
    for what, value, most in (
        ("memory (KiB)", parameters.memory_cost, _MEMORY_KIB_MAX),
        ("passes", parameters.time_cost, _PASSES_MAX),
        ("lanes", parameters.parallelism, _LANES_MAX),
    ):
        if value > most:
            raise ConfigurationError(f"the hash of the passcode asks for {value} {what}, {most} may be")


def is_right(stored: str, passcode: str) -> bool:
    """Whether a passcode is the stored one, hashed or in plain. With a hash it takes as long as the hash says."""
    if not is_hash(stored):
        return compare_digest(_bytes(stored), _bytes(passcode))
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return bool(_hasher().verify(stored, _bytes(passcode)))
    except (VerificationError, InvalidHashError):
        return False


@lru_cache(maxsize=1)
def nobodys_hash() -> str:
    """A hash that belongs to nobody: checked for unknown logins, so that they take as long as known ones."""
    from secrets import token_urlsafe

    return hash_passcode(token_urlsafe())


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")
