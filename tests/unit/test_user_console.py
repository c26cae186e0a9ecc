"""``jdbcstore user``: users in property files."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from jdbcstore import ConfigurationError
from jdbcstore.broker.security.login import Credentials, PasscodeLogin
from jdbcstore.broker.security.passcodes import is_right
from jdbcstore.broker.security.users import UserFiles
from jdbcstore.console.user import user


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("JDBCSTORE_USERS_FILE", str(tmp_path / "users.properties"))
    monkeypatch.setenv("JDBCSTORE_GROUPS_FILE", str(tmp_path / "groups.properties"))
    return tmp_path


def run(*arguments: str, passcode: str = "secret\n") -> Result:
    result = CliRunner().invoke(user, arguments, input=passcode)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def groups_of(folder: Path, login: str, passcode: str) -> set[str]:
    source = UserFiles(folder / "users.properties", folder / "groups.properties")
    return set(PasscodeLogin(source).login(Credentials(login, passcode)).groups)


def test_users_are_added_changed_listed_and_removed(folder: Path) -> None:
    run("add", "alice", "--group", "admins", "--group", "users")
    run("add", "bob ü=:#", "--group", "users", passcode=" pass \n")
    assert groups_of(folder, "alice", "secret") == {"admins", "users", "*"}
    assert groups_of(folder, "bob ü=:#", " pass ") == {"users", "*"}
    assert "changed" in run("add", "alice", passcode="other\n").output
    assert groups_of(folder, "alice", "other") == {"admins", "users", "*"}
    assert json.loads(run("list", "--json").output) == {
        "users": [
            {"login": "alice", "groups": ["admins", "users"], "passcode": "hashed"},
            {"login": "bob ü=:#", "groups": ["users"], "passcode": "hashed"},
        ]
    }
    run("remove", "alice")
    assert run("list").output == "bob ü=:#\tusers\thashed\n"
    assert "alice" not in (folder / "groups.properties").read_text()


def test_what_is_there_keeps_its_comments_and_its_mode(folder: Path) -> None:
    path = folder / "users.properties"
    path.write_text("# from ActiveMQ\nsystem=manager\nann=ENC(x)\n")
    path.chmod(0o640)
    run("add", "alice")
    assert path.read_text().startswith("# from ActiveMQ\nsystem=manager\nann=ENC(x)\nalice=$argon2id$")
    assert path.stat().st_mode & 0o777 == 0o640
    assert "system\t-\tplain" in run("list", "--groups-file", "/dev/null").output
    assert [name.name for name in folder.iterdir()] == ["users.properties"]


def test_a_new_file_is_for_its_owner(folder: Path) -> None:
    run("add", "alice")
    assert (folder / "users.properties").stat().st_mode & 0o777 == 0o600


def test_a_passcode_comes_from_a_file(folder: Path) -> None:
    (folder / "passcode").write_text("from the file\nsecond line\n")
    run("add", "alice", "--passcode-file", str(folder / "passcode"), passcode="")
    (folder / "groups.properties").touch()
    assert groups_of(folder, "alice", "from the file") == {"*"}


def test_a_hash_is_printed() -> None:
    assert is_right(run("hash").output.strip(), "secret")


@pytest.mark.parametrize(
    ("arguments", "passcode", "told"),
    [
        (["add", "a,b"], "x", "cannot be a login"),
        (["add", " a"], "x", "cannot be a login"),
        (["add", "a\nb"], "x", "cannot be a login"),
        (["add", "a", "--group", "x,y"], "x", "cannot be a group"),
        (["add", "a"], "", "the passcode is empty"),
        (["add", "a", "--users-file", "/nowhere/users"], "x", "cannot write /nowhere/users"),
        (["remove", "a"], "", "cannot read"),
        (["list"], "", "cannot read"),
    ],
)
def test_what_is_wrong_is_told(folder: Path, arguments: list[str], passcode: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told):
        run(*arguments, passcode=passcode)
    assert list(folder.iterdir()) == []


def test_who_is_not_there_cannot_be_removed(folder: Path) -> None:
    run("add", "alice")
    with pytest.raises(ConfigurationError, match="has no user bob"):
        run("remove", "bob")
