"""The wheel that users get, in an environment of its own: nothing may come from the checkout."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterable
from importlib import metadata
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.broker_process import BrokerProcess

MadeOnce = Callable[[str, Callable[[Path], str]], str]

CHECKOUT = Path(__file__).parents[2]
INSTALL_TIMEOUT_S = 300

pytestmark = pytest.mark.timeout(2 * INSTALL_TIMEOUT_S)  # each may be the one that installs, or waits for that

MIGRATE = """
import sys
from pathlib import Path
import jdbcstore
from sqlalchemy import create_engine
from jdbcstore.store.jdbc.migration import migrations_folder
from jdbcstore.store.jdbc.schema import schema_sql, upgrade_schema

environment = Path(sys.prefix).resolve()
assert environment in Path(jdbcstore.__file__).resolve().parents, jdbcstore.__file__
assert environment in migrations_folder().resolve().parents, migrations_folder()
engine = create_engine("sqlite:///one.db")
report = upgrade_schema(engine)
engine.dispose()
assert report.findings() == [], report.lines()
assert "CREATE TABLE activemq_msgs" in schema_sql("postgresql")
print(report.headline())
"""


@pytest.fixture(scope="session")
def wheel(made_once: MadeOnce) -> Path:
    """The wheel, built from this checkout."""
    return Path(made_once("wheel", build))


@pytest.fixture(scope="session")
def python(wheel: Path, made_once: MadeOnce) -> str:
    """The interpreter of an environment that has the wheel and its dependencies, and nothing else."""
    return made_once("environment", lambda folder: install(wheel, folder))


def build(folder: Path) -> str:
    """Build the wheel; where it is."""
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(CHECKOUT))
    (built,) = folder.glob("*.whl")
    return str(built)


def install(wheel: Path, folder: Path) -> str:
    """Make an environment with the wheel in it, and with the packages that it says it needs; its interpreter."""
    run(sys.executable, "-m", "venv", "--without-pip", str(folder))
    interpreter = str(folder / "bin" / "python")
    pip = (sys.executable, "-m", "pip", "--python", interpreter, "--quiet", "--disable-pip-version-check")
    run(*pip, "install", "--no-deps", "--no-index", str(wheel))
    (packages,) = folder.glob("lib/python*/site-packages")
    (ours,) = metadata.distributions(path=[str(packages)])
    for needed in dependencies(ours, {}).values():
        for name in {file.parts[0] for file in needed.files or ()} - {"..", "__pycache__"}:
            (packages / name).symlink_to(Path(str(needed.locate_file(name))))
    return interpreter


def dependencies(
    distribution: metadata.Distribution, found: dict[str, metadata.Distribution], extras: Iterable[str] = ()
) -> dict[str, metadata.Distribution]:
    """What a distribution needs, and what that needs, as it is installed here: to download it all takes its time."""
    asked = [{"extra": extra} for extra in ("", *extras)]
    for requirement in map(Requirement, distribution.requires or ()):
        name, marker = canonicalize_name(requirement.name), requirement.marker
        if name not in found and (marker is None or any(map(marker.evaluate, asked))):
            found[name] = metadata.distribution(name)
            dependencies(found[name], found, requirement.extras)
    return found


def run(*command: str, cwd: Path | None = None) -> str:
    """Run a command to its good end; what it printed."""
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_has_the_migrations_and_no_tests(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    expected = [f"jdbcstore/migrations/{path.relative_to(CHECKOUT / 'migrations')}" for path in migrations()]
    assert "jdbcstore/migrations/versions/0001_activemq_tables.py" in expected
    assert "jdbcstore/migrations/versions/0002_term.py" in expected
    assert set(expected) <= set(names)
    assert "jdbcstore/py.typed" in names
    assert not [name for name in names if name.startswith(("tests/", "migrations/")) or "__pycache__" in name]


def migrations() -> list[Path]:
    """What is in the checkout's folder."""
    found = [*(CHECKOUT / "migrations").rglob("*.py"), *(CHECKOUT / "migrations").rglob("*.mako")]
    return [path for path in found if "__pycache__" not in path.parts]


@pytest.mark.exhaustive
def test_it_migrates_without_the_checkout(python: str, tmp_path: Path) -> None:
    told = run(python, "-I", "-W", "error", "-c", MIGRATE, cwd=tmp_path)
    assert told.strip() == "jdbcstore, revision 0008: ready"


def test_the_broker_runs_from_it(python: str, tmp_path: Path) -> None:
    program = (str(Path(python).with_name("jdbcstore")),)
    with BrokerProcess("sqlite:///data/store.db", tmp_path, program=program) as broker:
        place = f"127.0.0.1:{broker.port}"
        run(*program, "send", place, "/queue/WHEEL", "hello from the wheel", cwd=tmp_path)
        broker.kill()
    with BrokerProcess("sqlite:///data/store.db", tmp_path, program=program) as broker:
        received = run(*program, "receive", f"127.0.0.1:{broker.port}", "/queue/WHEEL", "--count", "1", cwd=tmp_path)
        assert "hello from the wheel" in received
        assert broker.stop() == 0
