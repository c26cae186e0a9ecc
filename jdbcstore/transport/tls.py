"""TLS for clients: what is chosen, and the contexts that OpenSSL makes of it, renewed while connections go on."""

from __future__ import annotations

import logging
import re
import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from jdbcstore.errors import ConfigurationError
from jdbcstore.transport.key_files import load_identity, load_trusted

__all__ = ["ServerTls", "TlsOptions", "openssl_cipher"]

log = logging.getLogger(__name__)

_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_DEMANDS: Final = {"none": ssl.CERT_NONE, "wanted": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True, kw_only=True)
class TlsOptions:
    """How clients are served that connect with TLS. Files are PEM, or PKCS#12 as Java's ``keytool`` makes it.

    Args:
        certificate: the file with the broker's certificate, and behind it those that lead to the authority. Without it
            there is no TLS.
        key: the file with the certificate's key; empty if the key is in `certificate`.
        key_password: of the key, or of the key store that `certificate` is.
        client_certificate: whether clients have to prove who they are: ``none``, ``wanted`` takes one if there is one,
            ``required`` turns everybody else away (ActiveMQ: ``wantClientAuth``, ``needClientAuth``).
        ca: the file with the authorities whose certificates clients may have. Needed unless `client_certificate` is
            ``none``.
        ca_password: of `ca`, if it is a key store.
        version_min, version_max: ``TLSv1.2`` or ``TLSv1.3``; older ones are not safe.
        ciphers: those that may be used with TLS 1.2, with commas or colons between them, in OpenSSL's words or Java's;
            empty for OpenSSL's choice. Those of TLS 1.3 are all safe and not chosen.
        handshake_timeout_s: how long a client may take to agree on keys.
        handshakes_max: clients that may do so at the same time; more of them wait for their turn, and who takes longer
            than two seconds makes room for them.
        reload_check_period_s: how often the files are looked at; when one has changed all are read again, and new
            connections are served with them. SIGHUP does it at once.
    """

    certificate: str = ""
    key: str = ""
    key_password: str = field(default="", repr=False)
    client_certificate: str = "none"
    ca: str = ""
    ca_password: str = field(default="", repr=False)
    version_min: str = "TLSv1.2"
    version_max: str = "TLSv1.3"
    ciphers: str = ""
    handshake_timeout_s: float = 10.0
    handshakes_max: int = 50
    reload_check_period_s: float = 10.0

    def __post_init__(self) -> None:
        for name, known in (
            ("client_certificate", _DEMANDS),
            ("version_min", _VERSIONS),
            ("version_max", _VERSIONS),
        ):
            if getattr(self, name) not in known:
                raise ConfigurationError(f"tls.{name} must be one of {', '.join(known)}, got {getattr(self, name)!r}")
        for name in ("handshake_timeout_s", "reload_check_period_s"):
            if not getattr(self, name) > 0:
                raise ConfigurationError(f"tls.{name} must be a number greater than 0, got {getattr(self, name)!r}")
        if self.handshakes_max < 1:
            raise ConfigurationError(f"tls.handshakes_max must be at least 1, got {self.handshakes_max}")

    def check(self) -> None:
        """Look whether the options go together.

        Raises:
            ConfigurationError: they do not.
        """
        if not self.certificate:
            raise ConfigurationError(
                "TLS needs a certificate: set tls.certificate, and tls.key if the key is elsewhere"
            )
        if self.version_min > self.version_max:
            raise ConfigurationError(f"tls.version_min {self.version_min} is above version_max {self.version_max}")
        if self.client_certificate != "none" and not self.ca:
            raise ConfigurationError(
                f"tls.client_certificate = {self.client_certificate!r} needs tls.ca: who signs clients' certificates"
            )


class ServerTls:
    """The context that new connections get.

    Args:
        options: checked here.

    Raises:
        ConfigurationError: a file cannot be used, or the options do not go together.
    """

    def __init__(self, options: TlsOptions) -> None:
        options.check()
        self.options = options
        self._state = self._look()
        self.context = _context(options)

    def reload(self) -> None:
        """Read all files again, for connections that come from now on. What cannot be used changes nothing."""
        self._state = self._look()
        try:
            self.context = _context(self.options)
        except ConfigurationError as error:
            log.warning("the former TLS certificate stays in use: %s", error)
            return
        log.info("TLS certificate read again file=%s", self.options.certificate)

    def reload_if_changed(self) -> None:
        """`reload` if a file is another one than the last time."""
        if self._look() != self._state:
            self.reload()

    def _look(self) -> list[tuple[int, int, int] | None]:
        return [_stamp(Path(path)) for path in (self.options.certificate, self.options.key, self.options.ca) if path]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    """What a file that was replaced or written has another one of; None while there is none."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_ino, status.st_size


def _context(options: TlsOptions) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version, context.maximum_version = _VERSIONS[options.version_min], _VERSIONS[options.version_max]
    # A client may not make the broker agree on new keys again and again.
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION | ssl.OP_CIPHER_SERVER_PREFERENCE
    if options.ciphers:
        _set_ciphers(context, re.split(r"[,:\s]+", options.ciphers.strip()))
    load_identity(context, options.certificate, options.key, options.key_password)
    if options.client_certificate != "none":
        load_trusted(context, options.ca, options.ca_password)
    context.verify_mode = _DEMANDS[options.client_certificate]
    return context


def _set_ciphers(context: ssl.SSLContext, names: list[str]) -> None:
    older = {name: openssl for name in names if not (openssl := openssl_cipher(name)).startswith("TLS_")}
    for name, openssl in older.items():  # of several, OpenSSL leaves out in silence what it does not know
        try:
            context.set_ciphers(openssl)
        except ssl.SSLError as error:
            raise ConfigurationError(f"tls.ciphers: OpenSSL has no {name}") from error
    if older:
        context.set_ciphers(":".join(older.values()))
    else:
        context.minimum_version = ssl.TLSVersion.TLSv1_3


def openssl_cipher(name: str) -> str:
    """A cipher suite's name as OpenSSL has it: ``TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256`` is
    ``ECDHE-RSA-AES128-GCM-SHA256``. Others, those of TLS 1.3 among them, stay as they are."""
    kind, separator, rest = name.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    if not separator:
        return name
    rest = re.sub(r"AES_(128|256)", r"AES\1", rest).replace("AES128_CBC", "AES128").replace("AES256_CBC", "AES256")
    rest = rest.replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    prefix = "" if kind == "RSA" else f"{kind}-"
    return (prefix + rest).replace("_", "-")
