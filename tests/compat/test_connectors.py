"""The Java client and STOMP clients at every kind of listener."""

from __future__ import annotations

import json
import subprocess
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from jdbcstore import Broker, BrokerOptions, running
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.tls import TlsOptions
from tests.broker.client import Client
from tests.certificates import Authority
from tests.compat.activemq import quick_start
from tests.compat.test_tls import keytool

pytestmark = pytest.mark.timeout(400)

PASSWORD = "changeit"
BINDS = ("openwire", "auto", "auto+ssl", "ssl")
WIRE = "wireFormat.tightEncodingEnabled=false&wireFormat.cacheEnabled=false"


def connect(class_path: str, urls: list[str], *options: str) -> dict[str, Any]:
    """What came back by each address, or why nothing did."""
    done = subprocess.run(
        ["java", *quick_start(class_path), *options, "-cp", class_path, "Connections", *urls],
        capture_output=True,
        text=True,
        timeout=100,
        check=True,
    )
    lines = map(json.loads, done.stdout.splitlines())
    return {line["url"]: line.get("body", line.get("error")) for line in lines}


def test_java_clients_come_by_every_listener_and_stomp_clients_by_auto(class_path: str, tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    identity = authority.identity("broker")
    trusted = tmp_path / "trusted.p12"
    keytool(
        *("-importcert", "-noprompt", "-alias", "it", "-file", str(authority.certificate)),
        *("-keystore", str(trusted), "-storepass", PASSWORD, "-storetype", "PKCS12"),
    )
    tls = TlsOptions(certificate=str(identity.certificate), key=str(identity.key))
    options = BrokerOptions(bind=" ".join(f"{scheme}://127.0.0.1:0" for scheme in BINDS))
    broker = Broker(MemoryPersistenceAdapter(), options, tls=tls)
    with running(broker), ExitStack() as stack:
        ports = {scheme: port for scheme, (_, port) in zip(BINDS, broker.addresses, strict=True)}
        urls = [
            f"tcp://127.0.0.1:{ports['openwire']}",
            f"nio://127.0.0.1:{ports['openwire']}",
            f"tcp://127.0.0.1:{ports['openwire']}?{WIRE}",
            f"tcp://127.0.0.1:{ports['openwire']}?wireFormat.version=3",
            f"tcp://127.0.0.1:{ports['auto']}",
            f"failover:(tcp://127.0.0.1:{ports['auto']})",
            f"auto://127.0.0.1:{ports['auto']}",
            f"ssl://127.0.0.1:{ports['ssl']}",
            f"nio+ssl://127.0.0.1:{ports['auto+ssl']}",
            f"ssl://127.0.0.1:{ports['auto+ssl']}",
        ]
        trust = (f"-Djavax.net.ssl.trustStore={trusted}", f"-Djavax.net.ssl.trustStorePassword={PASSWORD}")
        assert connect(class_path, urls, *trust) == {url: f"by {url}" for url in urls}
        client = stack.enter_context(Client(("127.0.0.1", ports["auto"])))
        assert client.connect().command == "CONNECTED"
        client.publish("/queue/A", "by STOMP")
        client.subscribe("/queue/A")
        assert client.message().text == "by STOMP"


@pytest.mark.parametrize("limit", ["connections_max", "connections_per_address_max"])
def test_there_are_only_so_many_connections(class_path: str, limit: str) -> None:
    binds = ("openwire", "auto")
    options = BrokerOptions(bind=" ".join(f"{scheme}://127.0.0.1:0" for scheme in binds), **{limit: 1})  # type: ignore[arg-type]
    broker = Broker(MemoryPersistenceAdapter(), options)
    with running(broker), ExitStack() as stack:
        urls = [f"tcp://127.0.0.1:{port}" for _, port in broker.addresses]
        client = stack.enter_context(Client(broker.addresses[1]))
        assert client.connect().command == "CONNECTED"
        assert all(body != f"by {url}" for url, body in connect(class_path, urls).items())
