"""Certificates for tests, as openssl and keytool would make them: an authority, and who it signs."""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
    pkcs12,
)
from cryptography.x509.oid import NameOID

__all__ = ["Authority", "Identity"]

_NOW = datetime.datetime.now(datetime.UTC)
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True)
class Identity:
    """A certificate with its key, in files.

    Attributes:
        certificate: PEM.
        key: PEM, without password.
    """

    certificate: Path
    key: Path

    def pkcs12(self, password: str, authorities: Sequence[Path] = ()) -> Path:
        """The same as a key store."""
        key, certificate = _read(self)
        others = [x509.load_pem_x509_certificate(path.read_bytes()) for path in authorities]
        path = self.certificate.with_suffix(".p12")
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(pkcs12.serialize_key_and_certificates(b"it", key, certificate, others, encryption))
        return path

    def encrypted_key(self, password: str) -> Path:
        """The key with a password."""
        key, _ = _read(self)
        path = self.key.with_suffix(".encrypted")
        encryption = BestAvailableEncryption(password.encode())
        path.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption))
        return path


class Authority:
    """Signs certificates.

    Args:
        folder: for its own, and for all that it signs.
        name: its common name.
    """

    def __init__(self, folder: Path, name: str = "test authority") -> None:
        self._folder = folder
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        certificate = (
            _builder(self._name, self._name, self._key, 3650)
            .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        #: PEM.
        self.certificate = folder / f"{name.replace(' ', '-')}.pem"
        self.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))

    def identity(self, name: str, subject: Sequence[x509.NameAttribute[str]] = (), *, days: int = 365) -> Identity:
        """A certificate for 127.0.0.1, localhost, and whoever `subject` says.

        Args:
            name: of the files, and the common name unless there is a `subject`.
            subject: its parts, from the widest to the narrowest.
            days: for how long it is good; less than 1 has expired.
        """
        key = ec.generate_private_key(ec.SECP256R1())
        parts = subject or [x509.NameAttribute(NameOID.COMMON_NAME, name)]
        places = [x509.DNSName("localhost"), x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
        certificate = (
            _builder(x509.Name(parts), self._name, key, days)
            .add_extension(x509.SubjectAlternativeName(places), critical=False)
            .add_extension(x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()), critical=False)
            .sign(self._key, hashes.SHA256())
        )
        made = Identity(self._folder / f"{name}.pem", self._folder / f"{name}.key")
        made.key.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
        made.certificate.write_bytes(certificate.public_bytes(Encoding.PEM))
        return made


def _builder(
    subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePrivateKey, days: int
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(_NOW - 10 * _DAY)
        .not_valid_after(_NOW + days * _DAY)
    )


def _read(identity: Identity) -> tuple[ec.EllipticCurvePrivateKey, x509.Certificate]:
    key = load_pem_private_key(identity.key.read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    return key, x509.load_pem_x509_certificate(identity.certificate.read_bytes())
