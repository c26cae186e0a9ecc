"""The certificate by which a client has proved who it is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

__all__ = ["PeerCertificate", "distinguished_name"]

#: OpenSSL's long names, and Java's keywords for the same.
_KEYWORDS: Final = {
    "commonName": "CN",
    "countryName": "C",
    "domainComponent": "DC",
    "dnQualifier": "DNQ",
    "emailAddress": "EMAILADDRESS",
    "generationQualifier": "GENERATION",
    "givenName": "GIVENNAME",
    "initials": "INITIALS",
    "localityName": "L",
    "organizationName": "O",
    "organizationalUnitName": "OU",
    "serialNumber": "SERIALNUMBER",
    "stateOrProvinceName": "ST",
    "streetAddress": "STREET",
    "surname": "SURNAME",
    "title": "T",
    "userId": "UID",
}
_SPECIAL: Final = frozenset(',+=\n<>#;\\"')

Rdns = tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True, slots=True)
class PeerCertificate:
    """A client's certificate, which an authority that is trusted has signed.

    Args:
        subject: whose it is, as Java writes it: ``CN=till 4, O=Shop, C=DE``.
        issuer: who signed it, in the same way.
        serial_number: the issuer's number for it, hexadecimal.
        not_after: until when it is good, ``Nov 22 12:00:00 2027 GMT``.
    """

    subject: str
    issuer: str
    serial_number: str
    not_after: str

    @classmethod
    def of(cls, decoded: Mapping[str, Any]) -> PeerCertificate:
        """From what `ssl.SSLObject.getpeercert` returns."""
        return cls(
            distinguished_name(decoded["subject"]),
            distinguished_name(decoded["issuer"]),
            decoded["serialNumber"],
            decoded["notAfter"],
        )


def distinguished_name(names: Rdns) -> str:
    """A name as Java's ``getSubjectDN().getName()`` writes it, which ActiveMQ compares: the last part comes first."""
    return ", ".join(" + ".join(f"{_keyword(kind)}={_quoted(value)}" for kind, value in rdn) for rdn in reversed(names))


def _keyword(kind: str) -> str:
    return _KEYWORDS.get(kind) or f"OID.{kind}"


def _quoted(value: str) -> str:
    if len(value) > 1 and value[0] == value[-1] == '"':
        return value
    text = value.replace("\\", "\\\\").replace('"', '\\"')
    blanks = value.replace("\n", " ")
    needs = not _SPECIAL.isdisjoint(value) or blanks != blanks.strip(" ") or "  " in blanks
    return f'"{text}"' if needs else text
