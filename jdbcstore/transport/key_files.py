"""Files with keys and certificates: PEM, and the key stores of Java, as far as they are PKCS#12.

OpenSSL reads PEM from files only, so what comes out of a key store goes to it through a file without a name: it is
never on a disk.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["load_identity", "load_trusted"]

_PEM: Final = b"-----BEGIN "
_JKS: Final = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")


def load_identity(context: ssl.SSLContext, certificate: str, key: str = "", password: str = "") -> None:
    """Let a context prove who we are.

    Args:
        context: takes the certificate.
        certificate: a PEM file with the certificate and those that lead to the authority, in this order; or a PKCS#12
            file, with the key.
        key: a PEM file with the key; empty if it is in `certificate`.
        password: of the key or of the key store; empty for none.

    Raises:
        ConfigurationError: a file cannot be read, or is not what it should be; the text says what to do.
    """
    content = _content(certificate)
    if content is None:
        _load_chain(context, certificate, key, password)
        return
    with _nameless(_identity_of(certificate, content, password)) as path:
        _load_chain(context, path, "", "", certificate)


def load_trusted(context: ssl.SSLContext, path: str, password: str = "") -> None:
    """Let a context trust the authorities in a file, PEM or PKCS#12. Raises as `load_identity`."""
    content = _content(path)
    pem = Path(path).read_bytes() if content is None else _certificates_of(path, content, password)
    try:
        context.load_verify_locations(cadata=pem.decode("latin-1"))
    except ssl.SSLError as error:
        raise ConfigurationError(f"there is no certificate in {path} ({error.reason or error})") from error


def _load_chain(context: ssl.SSLContext, path: str, key: str, password: str, shown: str = "") -> None:
    try:
        # An empty text in place of a password: OpenSSL would ask the terminal for one.
        context.load_cert_chain(path, key or None, password)
    except ssl.SSLError as error:
        files = f"{shown or path} and {key}" if key else shown or path
        said = error.reason or str(error)
        if "PEM lib" in said:  # is all that Python says of it
            said = "BAD_DECRYPT" if b"ENCRYPTED" in Path(key or path).read_bytes() else "NO_START_LINE"
        reason = _REASONS.get(said, said.lower().replace("_", " "))
        raise ConfigurationError(f"cannot use the certificate and the key in {files}: {reason}") from error
    except OSError as error:
        raise ConfigurationError(f"cannot read {key or path}: {error.strerror}") from error


_REASONS: Final = {
    "KEY_VALUES_MISMATCH": "the key is not the certificate's",
    "KEY_TYPE_MISMATCH": "the key is not the certificate's",
    "BAD_DECRYPT": "the password of the key is missing or wrong",
    "NO_START_LINE": "it must be PEM with the certificate, and with its key unless that has a file of its own",
    "EE_KEY_TOO_SMALL": "the key is too short",
}


def _content(path: str) -> bytes | None:
    """What is in a key store; None for a PEM file."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from error
    if content.startswith(_JKS):
        raise ConfigurationError(
            f"{path} is a key store in Java's old format; convert it: keytool -importkeystore -srckeystore {path}"
            f" -destkeystore {Path(path).with_suffix('.p12')} -deststoretype PKCS12"
        )
    return None if _PEM in content else content


def _identity_of(path: str, content: bytes, password: str) -> bytes:
    key, certificates = _opened(path, content, password)
    if not key or not certificates:
        raise ConfigurationError(f"{path} has no key with its certificate")
    return b"".join((key, *certificates))


def _certificates_of(path: str, content: bytes, password: str) -> bytes:
    return b"".join(_opened(path, content, password)[1])


def _opened(path: str, content: bytes, password: str) -> tuple[bytes, list[bytes]]:
    """The key of a PKCS#12 file, empty if it has none, and its certificates, the key's first; all of it PEM."""
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError as error:
        raise ConfigurationError(
            f"{path} is a key store: pip install 'jdbcstore[tls]', or make PEM of it: openssl pkcs12 -in {path}"
        ) from error
    try:
        store = pkcs12.load_pkcs12(content, password.encode())
    except ValueError as error:
        raise ConfigurationError(
            f"cannot read {path}: its password is wrong, or it is neither PEM nor PKCS#12"
        ) from error
    certificates = [store.cert, *store.additional_certs] if store.cert else store.additional_certs
    key = b"" if store.key is None else store.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return key, [one.certificate.public_bytes(Encoding.PEM) for one in certificates]


@contextmanager
def _nameless(content: bytes) -> Iterator[str]:
    """A file that only this process can open, by the path that is the value; gone at the end of the block."""
    if hasattr(os, "memfd_create"):
        with open(os.memfd_create("jdbcstore-key"), "wb") as file:
            file.write(content)
            file.flush()
            yield f"/proc/self/fd/{file.fileno()}"
        return
    with tempfile.NamedTemporaryFile() as file:  # readable for its owner alone
        file.write(content)
        file.flush()
        yield file.name
