"""``ENC(…)``: passcodes as Java's tools encrypt them, which is Jasypt's ``StandardPBEStringEncryptor``.

ActiveMQ's ``activemq encrypt`` writes them by ``PBEWithMD5AndDES``: the key is made of a password and a salt by a
thousand rounds of MD5 (PKCS #5, PBKDF1), the text is encrypted by DES in CBC mode, and salt and text go into Base64.
That is weak by the standards of today: it hides passcodes from a look over the shoulder, not from somebody who has the
file. ``jdbcstore user add`` writes hashes.

The password is in the environment variable ``ACTIVEMQ_ENCRYPTION_PASSWORD``, as with ActiveMQ.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import os
from collections.abc import Mapping
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["PASSWORD_VARIABLE", "decrypt"]

PASSWORD_VARIABLE: Final = "ACTIVEMQ_ENCRYPTION_PASSWORD"
_ROUNDS: Final = 1000
_BLOCK: Final = 8


def decrypt(text: str, environment: Mapping[str, str] = os.environ) -> str:
    """The plain text of what stands in ``ENC(…)``.

    Args:
        text: what stands between the brackets.
        environment: has the password.

    Raises:
        ConfigurationError: there is no password, it is the wrong one, or the text is damaged.
    """
    password = environment.get(PASSWORD_VARIABLE)
    if not password:
        raise ConfigurationError(f"ENC(…) needs the environment variable {PASSWORD_VARIABLE}")
    try:
        data = base64.b64decode(text, validate=True)
    except binascii.Error as error:
        raise ConfigurationError("ENC(…) does not hold Base64") from error
    salt, encrypted = data[:_BLOCK], data[_BLOCK:]
    if not encrypted or len(encrypted) % _BLOCK:
        raise ConfigurationError("ENC(…) is cut off, or of another algorithm than PBEWithMD5AndDES")
    padded = _decrypt_des(_derive(password, salt), encrypted)
    count = padded[-1]
    if not 1 <= count <= _BLOCK or padded[-count:] != bytes([count]) * count:
        raise ConfigurationError(f"ENC(…) cannot be decrypted: {PASSWORD_VARIABLE} or the algorithm is another")
    try:
        return padded[:-count].decode("utf-8")
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"ENC(…) cannot be decrypted: {PASSWORD_VARIABLE} is another one") from error


def _derive(password: str, salt: bytes) -> bytes:
    """Key and initial vector, 8 bytes each."""
    derived = password.encode("ascii", "replace") + salt
    for _ in range(_ROUNDS):
        derived = hashlib.md5(derived, usedforsecurity=False).digest()
    return derived


def _decrypt_des(derived: bytes, encrypted: bytes) -> bytes:
    try:
        from cryptography.hazmat.primitives.ciphers import Cipher, modes
    except ImportError as error:
        raise ConfigurationError("ENC(…) needs the package cryptography: pip install 'jdbcstore[tls]'") from error
    try:
        from cryptography.hazmat.decrepit.ciphers.algorithms import TripleDES
    except ImportError:
        from cryptography.hazmat.primitives.ciphers.algorithms import TripleDES
    key, vector = derived[:_BLOCK], derived[_BLOCK:]
    # Three times the same key is DES.
    decryptor = Cipher(TripleDES(key * 3), modes.CBC(vector)).decryptor()
    return decryptor.update(encrypted) + decryptor.finalize()
