"""``deploy/``: systemd and Kubernetes accept what is there, and what it tells the broker the broker understands.

No cluster and no systemd runs here: units are judged by ``systemd-analyze``, manifests by Kubernetes' own schemas.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from configparser import RawConfigParser
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner

from jdbcstore.addresses import parse_address
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.cli import cli, run
from jdbcstore.config.configuration import Configuration, read_configuration

DEPLOY = Path(__file__).parents[2] / "deploy"
UNIT = DEPLOY / "systemd" / "jdbcstore.service"
MANIFESTS = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KUBERNETES = ["1.29", "1.37"]  # where ReadWriteOncePod became stable, and the newest that there is

Resource = dict[str, Any]  # YAML


def resources(manifest: Path) -> list[Resource]:
    return list(yaml.safe_load_all(manifest.read_text("utf-8")))


def pod_of(manifest: Path) -> Resource:
    (workload,) = (one for one in resources(manifest) if one["kind"] == "StatefulSet")
    pod: Resource = workload["spec"]["template"]["spec"]
    return pod


def configuration_of(manifest: Path, folder: Path) -> Configuration:
    (given,) = (one for one in resources(manifest) if one["kind"] == "ConfigMap")
    text: str = given["data"]["broker.toml"]
    (folder / "broker.toml").write_text(text, "utf-8")
    return read_configuration(folder / "broker.toml")


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one.stem)
def test_kubernetes_knows_every_field(manifest: Path, version: str) -> None:
    for resource in resources(manifest):
        kubernetes_validate.validate(resource, version, strict=True)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one.stem)
def test_a_pod_runs_a_broker_that_its_probes_and_services_reach(manifest: Path, tmp_path: Path) -> None:
    options = configuration_of(manifest, tmp_path).broker
    (container,) = pod_of(manifest)["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert ports == {"messages": parse_address(options.bind.partition("://")[2])[1], "health": 8162}
    assert parse_address(options.health_bind) == ("0.0.0.0", ports["health"])
    probes = {name: container[f"{name}Probe"]["httpGet"] for name in ("startup", "liveness", "readiness")}
    assert {name: probe["path"] for name, probe in probes.items()} == {
        "startup": "/live",
        "liveness": "/live",
        "readiness": "/ready",
    }
    reached = {
        port["targetPort"] for one in resources(manifest) if one["kind"] == "Service" for port in one["spec"]["ports"]
    }
    assert reached == set(ports)


@pytest.mark.parametrize("manifest", MANIFESTS, ids=lambda one: one.stem)
def test_a_pod_has_every_file_that_its_broker_reads_and_time_to_stop(manifest: Path, tmp_path: Path) -> None:
    configuration = configuration_of(manifest, tmp_path)
    pod = pod_of(manifest)
    (container,) = pod["containers"]
    mounts = [mount["mountPath"] for mount in container["volumeMounts"]]
    files = [configuration.broker.users_file, configuration.store.password_file]
    files += [configuration.url.removeprefix("kahadb:")] if configuration.url.startswith("kahadb:") else []
    for file in filter(None, files):
        assert any(Path(file).is_relative_to(mount) for mount in mounts), file
    assert container["args"][container["args"].index("--config") + 1] in mounts
    assert pod["terminationGracePeriodSeconds"] > 2 * configuration.broker.stop_timeout_s
    understood = CliRunner().invoke(cli, [*container["args"], "--help"])
    assert understood.exit_code == 0, understood.output


def test_the_image_runs_as_the_user_that_the_manifests_name() -> None:
    dockerfile = (DEPLOY.parent / "Dockerfile").read_text("utf-8")
    for manifest in MANIFESTS:
        assert f"\nUSER {pod_of(manifest)['securityContext']['runAsUser']}\n" in dockerfile


def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is not installed: run `make test-servers`"
    unit = tmp_path / UNIT.name
    here = str(Path(sys.executable).with_name("jdbcstore"))
    unit.write_text(UNIT.read_text("utf-8").replace("/opt/jdbcstore/bin/jdbcstore", here), "utf-8")
    run = subprocess.run(
        [program, "verify", "--man=no", str(unit)], capture_output=True, text=True, timeout=120, check=False
    )
    # Units of the machine itself may be wrong, too; what is said of ours names it.
    assert run.returncode == 0, run.stderr
    assert UNIT.name not in run.stderr


def test_systemd_waits_for_the_broker_and_does_not_repeat_what_cannot_be_mended() -> None:
    parser = RawConfigParser(strict=False)
    parser.optionxform = str  # type: ignore[assignment,method-assign]  # systemd's names are in mixed case
    parser.read(UNIT)
    service = parser["Service"]
    assert float(service["TimeoutStopSec"]) > 2 * BrokerOptions().stop_timeout_s
    wrong = run(["broker", "--config", "/nowhere/broker.toml"])
    assert wrong == int(service["RestartPreventExitStatus"])


def test_the_page_for_operators_names_every_file() -> None:
    page = (DEPLOY.parent / "docs" / "operating.md").read_text("utf-8")
    for file in [UNIT, *MANIFESTS]:
        assert str(file.relative_to(DEPLOY.parent)) in page
