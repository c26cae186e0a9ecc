"""TLS as Java has it: names of certificates, and key stores that keytool makes."""

from __future__ import annotations

import shutil
import ssl
import subprocess
from pathlib import Path
from typing import cast

import pytest
from cryptography import x509
from cryptography.x509.oid import NameOID, ObjectIdentifier

from jdbcstore import Broker, BrokerOptions, ConfigurationError, running
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.stomp.session import StompSession
from jdbcstore.transport.tls import ServerTls, TlsOptions
from tests.broker.client import Client
from tests.certificates import Authority
from tests.compat.activemq import QUICK_START
from tests.servers.server import ServerMissing
from tests.waiting import wait_until

pytestmark = pytest.mark.timeout(400)

NAMES = """
import java.io.FileInputStream;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
class Names {
    public static void main(String[] files) throws Exception {
        for (String file : files) {
            try (FileInputStream in = new FileInputStream(file)) {
                X509Certificate one = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(in);
                System.out.println(one.getSubjectDN().getName().replace("\\n", "\\\\n"));
            }
        }
    }
}
"""
SUBJECTS = [
    [(NameOID.COUNTRY_NAME, "DE"), (NameOID.ORGANIZATION_NAME, "Shop"), (NameOID.COMMON_NAME, "till 4")],
    [
        (NameOID.COUNTRY_NAME, "DE"),
        (NameOID.STATE_OR_PROVINCE_NAME, "Bayern"),
        (NameOID.LOCALITY_NAME, "München"),
        (NameOID.STREET_ADDRESS, "Am Platz 1"),
        (NameOID.ORGANIZATION_NAME, "Shop, Inc."),
        (NameOID.ORGANIZATIONAL_UNIT_NAME, 'the "best" unit'),
        (NameOID.TITLE, "Dr."),
        (NameOID.SURNAME, "Doe"),
        (NameOID.GIVEN_NAME, "Jo"),
        (NameOID.INITIALS, "J"),
        (NameOID.GENERATION_QUALIFIER, "III"),
        (NameOID.DN_QUALIFIER, "q"),
        (NameOID.SERIAL_NUMBER, "12"),
        (NameOID.EMAIL_ADDRESS, "jo@shop.example"),
        (NameOID.USER_ID, "jo"),
        (NameOID.DOMAIN_COMPONENT, "example"),
        (NameOID.COMMON_NAME, " jo  doe "),
    ],
    [(NameOID.COMMON_NAME, "a+b=c;d<e>f#g\\h")],
    [(NameOID.COMMON_NAME, '"quoted"')],
    [(NameOID.COMMON_NAME, "two  blanks"), (ObjectIdentifier("1.2.3.4"), "unknown to both")],
    [(NameOID.COMMON_NAME, "naïve 文字 😀")],
]


def java(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        raise ServerMissing(f"Java's {name}")
    return found


def keytool(*arguments: str) -> None:
    quick = [f"-J{option}" for option in QUICK_START]
    done = subprocess.run(
        [java("keytool"), *quick, *arguments], capture_output=True, text=True, timeout=150, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_names_are_java_s(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identities = [
        authority.identity(f"subject-{number}", [x509.NameAttribute(kind, value) for kind, value in subject])
        for number, subject in enumerate(SUBJECTS)
    ]
    (tmp_path / "Names.java").write_text(NAMES)
    certificates = [str(identity.certificate) for identity in identities]
    done = subprocess.run(
        [
            java("java"),
            *QUICK_START,
            "-Dfile.encoding=UTF-8",
            "-Dstdout.encoding=UTF-8",
            str(tmp_path / "Names.java"),
            *certificates,
        ],
        capture_output=True,
        encoding="utf-8",
        timeout=150,
        check=True,
    )
    server = authority.identity("broker")
    tls = TlsOptions(
        certificate=str(server.certificate),
        key=str(server.key),
        client_certificate="required",
        ca=str(authority.certificate),
    )
    broker = Broker(MemoryPersistenceAdapter(), BrokerOptions(bind="stomp+ssl://127.0.0.1:0"), tls=tls)
    found = []
    with running(broker) as address:
        for identity in identities:
            context = ssl.create_default_context(cafile=str(authority.certificate))
            context.load_cert_chain(identity.certificate, identity.key)
            with Client(address, tls=context) as client:
                client.connect("1.2")
                client.done("BEGIN", {"transaction": "1"})
                wait_until(lambda: len(broker.clients) == 1, "the one before is gone")
                (connected,) = list(broker.clients)
                certificate = cast(StompSession, connected.callbacks)._wire.peer_certificate
                assert certificate is not None
                found.append(certificate.subject)
                client.done("DISCONNECT")
    assert found == done.stdout.splitlines()


@pytest.mark.parametrize("kind", ["PKCS12", "JKS"])
def test_a_store_of_keytool(tmp_path: Path, kind: str) -> None:
    store, trust = tmp_path / "broker.ks", tmp_path / "broker.ts"
    password = ["-storepass", "changeit", "-keypass", "changeit"]
    keytool("-genkeypair", "-alias", "b", "-keyalg", "EC", "-dname", "CN=b", "-ext", "san=ip:127.0.0.1",
            "-keystore", str(store), "-storetype", kind, *password)  # fmt: skip
    keytool(
        "-exportcert", "-rfc", "-alias", "b", "-keystore", str(store), "-file", str(tmp_path / "b.pem"), *password[:2]
    )
    keytool("-importcert", "-noprompt", "-alias", "ca", "-file", str(tmp_path / "b.pem"), "-keystore", str(trust),
            "-storetype", kind, *password[:2])  # fmt: skip
    options = TlsOptions(
        certificate=str(store),
        key_password="changeit",
        client_certificate="required",
        ca=str(trust),
        ca_password="changeit",
    )
    if kind == "JKS":
        with pytest.raises(ConfigurationError) as error:
            ServerTls(options)
        command = str(error.value).partition("convert it: ")[2].split()
        keytool(*command[1:], "-srcstorepass", "changeit", "-deststorepass", "changeit")
        trust_pem = str(tmp_path / "b.pem")
        options = TlsOptions(certificate=str(store.with_suffix(".p12")), key_password="changeit", ca=trust_pem)
    context = ServerTls(options).context
    assert context.verify_mode is (ssl.CERT_REQUIRED if kind == "PKCS12" else ssl.CERT_NONE)
    assert context.cert_store_stats()["x509"] == (1 if kind == "PKCS12" else 0)
