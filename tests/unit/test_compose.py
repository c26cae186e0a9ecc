"""docker-compose.yml: valid, and what it tells the broker is what the broker understands. No engine runs here."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from jdbcstore.addresses import parse_address
from jdbcstore.config.urls import open_store, store_options

CHECKOUT = Path(__file__).parents[2]
BROKERS = {
    "postgresql": ["broker-1", "broker-2"],
    "mysql": ["mysql-broker-1", "mysql-broker-2"],
}
ACCOUNTS = {
    "postgresql": ["POSTGRES_USER", "POSTGRES_PASSWORD", "POSTGRES_DB"],
    "mysql": ["MYSQL_USER", "MYSQL_PASSWORD", "MYSQL_DATABASE"],
}
#: Pairs whose database is more than one service.
ON_CLUSTERS = {
    "patroni": ["patroni-broker-1", "patroni-broker-2"],
    "galera": ["galera-broker-1", "galera-broker-2"],
}
PAIRS = [(database, broker) for database, brokers in BROKERS.items() for broker in brokers]

Service = dict[str, Any]  # YAML


def compose(*arguments: str) -> str:
    """What docker-compose answers about our file."""
    program = shutil.which("docker-compose")
    assert program is not None, "docker-compose is not installed: run `make test-servers`"
    run = subprocess.run(
        [program, "--project-directory", str(CHECKOUT), "-f", str(CHECKOUT / "docker-compose.yml"), *arguments],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.fixture(scope="module")
def services() -> dict[str, Service]:
    """Every service of every profile, as docker-compose understands it."""
    profiles = [word for name in ("mysql", *ON_CLUSTERS) for word in ("--profile", name)]
    parsed: dict[str, Service] = yaml.safe_load(compose(*profiles, "config"))["services"]
    return parsed


def option(service: Service, name: str) -> str:
    command: list[str] = service["command"]
    return command[command.index(name) + 1]


def test_without_a_profile_two_brokers_run_on_postgresql(services: dict[str, Service]) -> None:
    enabled = {name for name, service in services.items() if "profiles" not in service}
    assert enabled == {"broker-1", "broker-2", "postgresql"}


@pytest.mark.parametrize(("database", "broker"), PAIRS)
def test_a_broker_gets_a_command_that_it_understands(services: dict[str, Service], database: str, broker: str) -> None:
    program = "import sys; from jdbcstore.cli import main; sys.argv[0] = 'jdbcstore'; main()"
    command = [sys.executable, "-c", program, *services[broker]["command"], "--help"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)
    assert run.returncode == 0, run.stderr
    assert "--url" in run.stdout


@pytest.mark.parametrize(("database", "broker"), PAIRS)
def test_a_broker_stores_in_the_database_of_its_service(
    services: dict[str, Service], database: str, broker: str
) -> None:
    url = option(services[broker], "--url")
    open_store(url)  # raises for what is no store's URL; does not connect
    assert url.startswith(f"{database}+")
    assert f"@{database}:" in url
    assert services[broker]["depends_on"] == {database: {"condition": "service_healthy"}}
    environment: dict[str, str] = services[database]["environment"]
    user, password, name = (environment[variable] for variable in ACCOUNTS[database])
    assert f"://{user}:{password}@" in url
    assert url.endswith(f"/{name}")


@pytest.mark.parametrize("database", BROKERS)
def test_the_brokers_of_a_pair_are_master_and_standby_of_one_store(services: dict[str, Service], database: str) -> None:
    first, second = (option(services[broker], "--url") for broker in BROKERS[database])
    assert first == second
    assert "locker=" not in first
    names = [services[broker]["hostname"] for broker in BROKERS[database]]
    assert names == BROKERS[database], "the lock's holder is told by them"


@pytest.mark.parametrize(("database", "broker"), PAIRS)
def test_a_standby_counts_as_healthy(services: dict[str, Service], database: str, broker: str) -> None:
    host, port = parse_address(services[broker]["environment"]["JDBCSTORE_HEALTH_BIND"])
    assert f"http://{host}:{port}/live" in services[broker]["healthcheck"]["test"][-1]


@pytest.mark.parametrize(("database", "broker"), PAIRS)
def test_a_broker_is_reached_from_this_machine_only(services: dict[str, Service], database: str, broker: str) -> None:
    host, port = parse_address(option(services[broker], "--bind"))
    assert host == "0.0.0.0"
    (published,) = services[broker]["ports"]
    assert published.startswith("127.0.0.1:")
    assert published.removesuffix("/tcp").endswith(f":{port}")


def test_every_port_is_published_once(services: dict[str, Service]) -> None:
    published = [port for service in services.values() for port in service.get("ports", [])]
    assert len(published) == len(set(published)) == len(PAIRS) + sum(map(len, ON_CLUSTERS.values()))


def test_every_service_has_a_health_check_and_comes_back(services: dict[str, Service]) -> None:
    for name, service in services.items():
        assert service["healthcheck"]["test"], name
        assert service["restart"] == "unless-stopped", name


@pytest.mark.parametrize("database", BROKERS)
def test_the_data_of_a_database_is_in_a_named_volume(services: dict[str, Service], database: str) -> None:
    (volume,) = services[database]["volumes"]
    assert volume.startswith(f"{database}-data:/var/lib/{database}")


def test_the_brokers_on_patroni_know_all_nodes_and_want_a_quorum(services: dict[str, Service]) -> None:
    first, second = (option(services[broker], "--url") for broker in ON_CLUSTERS["patroni"])
    assert first == second
    url, options = store_options(first)
    assert options.require_replication == "quorum"
    nodes = [f"patroni-{number}" for number in (1, 2, 3)]
    assert url.query["host"] == tuple(f"{node}:5432" for node in nodes)
    for broker in ON_CLUSTERS["patroni"]:
        assert services[broker]["depends_on"] == {node: {"condition": "service_healthy"} for node in nodes}
    for node in nodes:
        environment: dict[str, str] = services[node]["environment"]
        assert environment["PATRONI_NAME"] == node
        assert environment["PATRONI_POSTGRESQL_CONNECT_ADDRESS"] == f"{node}:5432"
        assert environment["JDBCSTORE_PASSWORD"] == url.password
        assert services[node]["volumes"] == [f"{node}-data:/var/lib/postgresql/patroni:rw"]


def test_the_brokers_on_galera_know_all_nodes_and_want_a_quorum(services: dict[str, Service]) -> None:
    first, second = (option(services[broker], "--url") for broker in ON_CLUSTERS["galera"])
    assert first == second
    url, options = store_options(first)
    assert options.require_replication == "quorum"
    nodes = [f"galera-{number}" for number in (1, 2, 3)]
    assert url.query["host"] == tuple(f"{node}:3306" for node in nodes)
    for node in nodes:
        assert services[node]["command"] == [node]
        assert services[node]["environment"]["MARIADB_PASSWORD"] == url.password
        assert services[node]["volumes"] == [f"{node}-data:/var/lib/mysql:rw"]
