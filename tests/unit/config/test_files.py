"""A configuration is TOML or ``activemq.xml``; the environment goes before it, the command line before that."""

from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

import jdbcstore
from jdbcstore import cli
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authorization import Action
from jdbcstore.config.build import build_broker
from jdbcstore.config.configuration import Configuration, LogOptions
from jdbcstore.config.environment import option_variables, with_environment
from jdbcstore.config.files import load_configuration
from jdbcstore.destination import Queue, TempQueue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.lease import LockerOptions
from tests.unit.config.written import document


@pytest.fixture(autouse=True)
def no_options_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who runs the tests may have set some."""
    for name in [name for name in os.environ if name.startswith("JDBCSTORE_")]:
        monkeypatch.delenv(name)


TOML = '[broker]\nprefetch_queue = 7\n[broker.users]\njoe = "secret"\n[store]\nurl = "postgresql://joe:secret@db/a"\n'


def written(folder: Path, text: str, encoding: str = "utf-8", name: str = "configuration") -> Path:
    path = folder / name
    path.write_text(text, encoding)
    return path


@pytest.mark.parametrize("name", ["activemq.xml", "broker.toml"])
def test_what_is_in_a_file_decides_and_not_its_name(tmp_path: Path, name: str) -> None:
    toml = load_configuration(written(tmp_path, TOML, name=name), {})
    assert toml.checked().broker.prefetch_queue == 7
    xml = load_configuration(written(tmp_path, document(), name=name), {})
    assert xml.checked().broker.bind == "0.0.0.0:61613"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-16-le"])
def test_xml_is_known_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    text = "\ufeff" * (encoding == "utf-16-le") + f'<?xml version="1.0" encoding="{encoding[:6]}"?>' + document()
    text = text.replace("utf-8-", "utf-8")
    assert load_configuration(written(tmp_path, text, encoding), {}).checked().broker.bind == "0.0.0.0:61613"


def test_without_a_file_there_are_the_defaults() -> None:
    assert load_configuration(None, {}).checked() == Configuration()


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_configuration(tmp_path / "none", {})
    with pytest.raises(ConfigurationError, match="cannot read"):
        load_configuration(tmp_path, {})


def test_all_errors_are_told_at_once(tmp_path: Path) -> None:
    loaded = load_configuration(written(tmp_path, document(attributes='a="1"\nb="2"')), {})
    with pytest.raises(ConfigurationError) as caught:
        loaded.checked()
    assert [line.partition(":")[2].partition(":")[0] for line in str(caught.value).splitlines()] == ["7", "8"]


# -- environment -----------------------------------------------------------------------------------------------------


def test_every_option_has_a_variable() -> None:
    variables = option_variables()
    assert len(variables) == len({option for option, _ in variables.values()})
    for name, option in {
        "JDBCSTORE_URL": "store.url",
        "JDBCSTORE_BIND": "broker.bind",
        "JDBCSTORE_STORE_RETRY_S": "store.retry_s",
        "JDBCSTORE_STORE_LEASE_MS": "store.lock.lease_ms",
        "JDBCSTORE_LOG_LEVEL": "log.level",
    }.items():
        assert variables[name][0] == option


@pytest.mark.parametrize(
    ("variables", "expected"),
    [
        ({"JDBCSTORE_URL": "memory:"}, Configuration(url="memory:")),
        (
            {"JDBCSTORE_PREFETCH_QUEUE": "7", "JDBCSTORE_CONNECT_TIMEOUT_S": "1.5", "JDBCSTORE_BROKER_NAME": "b1"},
            Configuration(broker=BrokerOptions(prefetch_queue=7, connect_timeout_s=1.5, broker_name="b1")),
        ),
        (
            {"JDBCSTORE_USERS": "joe:a:b guest:", "JDBCSTORE_ANONYMOUS_ACCESS_ALLOWED": "TRUE"},
            Configuration(broker=BrokerOptions(users={"joe": "a:b", "guest": ""}, anonymous_access_allowed=True)),
        ),
        (
            {"JDBCSTORE_STORE_TABLE_PREFIX": "X_", "JDBCSTORE_STORE_LEASE_MS": "2000"},
            Configuration(store=JdbcOptions(table_prefix="X_", lock=LockerOptions(lease_ms=2000))),
        ),
        ({"JDBCSTORE_LOG_FORMAT": "json"}, Configuration(log=LogOptions(format="json"))),
        ({"JDBCSTORE_CONFIG": "x", "PATH": "/bin", "_JDBCSTORE_X": "1"}, Configuration()),
    ],
)
def test_variables_become_options(variables: dict[str, str], expected: Configuration) -> None:
    configuration, used, warnings = with_environment(Configuration(), variables)
    assert configuration == expected
    assert set(used.values()) == set(variables) - {"JDBCSTORE_CONFIG", "PATH", "_JDBCSTORE_X"}
    assert warnings == []


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("JDBCSTORE_PREFETCH_QUEUE", "many", "'many' is not a whole number"),
        ("JDBCSTORE_PREFETCH_QUEUE", "0", "at least 1"),
        ("JDBCSTORE_CONNECT_TIMEOUT_S", "soon", "'soon' is not a number"),
        ("JDBCSTORE_ANONYMOUS_ACCESS_ALLOWED", "1", "neither true nor false"),
        ("JDBCSTORE_USERS", "joe", "LOGIN:PASSCODE"),
        ("JDBCSTORE_STORE_LEASE_MS", "5", "at least 1000"),
        ("JDBCSTORE_LOG_LEVEL", "loud", "log.level must be one of"),
    ],
)
def test_a_variable_that_is_wrong_is_an_error(name: str, value: str, what: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(None, {name: value})
    assert str(caught.value).startswith(f"environment variable {name}: ")
    assert what in str(caught.value)


@pytest.mark.parametrize("is_first", [True, False])
def test_two_variables_that_belong_together_may_come_in_any_order(is_first: bool) -> None:
    pair = {"JDBCSTORE_PAGE_MESSAGES_MAX": "5000", "JDBCSTORE_WINDOW_MESSAGES_MAX": "9000"}
    variables = dict(sorted(pair.items(), reverse=is_first))
    configuration = load_configuration(None, variables).configuration
    assert (configuration.broker.page_messages_max, configuration.broker.window_messages_max) == (5000, 9000)


@pytest.mark.parametrize("is_first", [True, False])
def test_two_variables_that_do_not_go_together_are_both_named(is_first: bool) -> None:
    pair = {"JDBCSTORE_PAGE_MESSAGES_MAX": "9000", "JDBCSTORE_WINDOW_MESSAGES_MAX": "5000", "JDBCSTORE_BIND": "h:1"}
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(None, dict(sorted(pair.items(), reverse=is_first)))
    assert str(caught.value) == (
        "environment variables JDBCSTORE_PAGE_MESSAGES_MAX, JDBCSTORE_WINDOW_MESSAGES_MAX:"
        " page_messages_max must not be larger than window_messages_max"
    )


def test_a_misspelt_variable_is_a_warning() -> None:
    assert load_configuration(None, {"JDBCSTORE_PREFETCH_QEUE": "7"}).warnings == (
        "environment variable JDBCSTORE_PREFETCH_QEUE is no option, did you mean JDBCSTORE_PREFETCH_QUEUE?",
    )


def test_variables_go_before_the_file(tmp_path: Path) -> None:
    kaha = document(store="<persistenceAdapter><kahaDB/></persistenceAdapter>", connectors="", beans="")
    loaded = load_configuration(
        written(tmp_path, kaha), {"JDBCSTORE_URL": "memory:", "JDBCSTORE_BIND": "h:1", "JDBCSTORE_PREFETCH_QUEUE": "7"}
    )
    configuration = loaded.checked()
    assert (configuration.url, configuration.broker.bind, configuration.broker.prefetch_queue) == ("memory:", "h:1", 7)
    assert load_configuration(tmp_path / "configuration", {"JDBCSTORE_URL": "memory:"}, {"broker.bind"}).errors == ()
    assert [(origin.option, origin.said_by) for origin in loaded.origins] == [
        ("store.url", "JDBCSTORE_URL"),
        ("broker.bind", "JDBCSTORE_BIND"),
        ("broker.prefetch_queue", "JDBCSTORE_PREFETCH_QUEUE"),
    ]


def test_an_option_has_one_origin(tmp_path: Path) -> None:
    loaded = load_configuration(written(tmp_path, document()), {"JDBCSTORE_BIND": "h:1"})
    assert [(o.value, o.said_by) for o in loaded.origins if o.option == "broker.bind"] == [("h:1", "JDBCSTORE_BIND")]


# -- jdbcstore config check ------------------------------------------------------------------------------------------


def check(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    code = cli.run(["config", "check", *arguments])
    return code, capsys.readouterr().out


def test_check_shows_what_would_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, document(attributes='useJmx="true"'), name="activemq.xml")
    code, out = check(capsys, str(path))
    assert code == 0
    assert out.splitlines() == [
        "store.url = postgresql://joe:***@db:5432/activemq  (activemq.xml:5 bean ds url)",
        "store.locker = database  (activemq.xml:8 <jdbcPersistenceAdapter> without a locker)",
        "broker.bind = 0.0.0.0:61613  (activemq.xml:9 <transportConnector> uri)",
        'warning: activemq.xml:7: <broker> useJmx="true" is not used: there is no JMX; web_bind serves the'
        " MBeans that tools read at /api/jolokia, metrics and a console",
        "no errors, 1 warning",
    ]


def test_check_warns_of_files_that_are_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    users = tmp_path / "users.properties"
    path = written(tmp_path, f'[broker]\nusers_file = "{users}"\n[store]\nurl = "sqlite:///a.db"\n', name="broker.toml")
    code, out = check(capsys, str(path))
    assert code == 0
    assert f"warning: broker.users_file: there is no file {users}, without which no broker starts" in out.splitlines()
    users.touch()
    assert "no errors, no warnings" in check(capsys, str(path))[1]


def test_check_shows_toml_too_and_no_passcodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, str(written(tmp_path, TOML, name="broker.toml")))
    assert code == 0
    assert out.splitlines() == [
        "store.url = postgresql://joe:***@db/a  (broker.toml)",
        "broker.users = joe  (broker.toml)",
        "broker.prefetch_queue = 7  (broker.toml)",
        "no errors, no warnings",
    ]


def test_check_fails_where_a_broker_would(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = written(tmp_path, document(connectors="", attributes='x="1"'), name="activemq.xml")
    code, out = check(capsys, str(path))
    assert code == 2
    assert out.splitlines()[-1] == "2 errors, no warnings"
    code, out = check(capsys, str(path), "--json")
    assert code == 2
    assert len(json.loads(out)["errors"]) == 2
    assert cli.run(["broker", "--config", str(path)]) == 2
    assert "activemq.xml:7: <broker> has no x" in capsys.readouterr().err


# -- KahaDB ----------------------------------------------------------------------------------------------------------

KAHADB = """
[store]
url = "kahadb:data/kahadb?checkpointInterval=100"
[kahadb]
journal_max_file_length_bytes = 16777216
journal_disk_sync_strategy = "periodic"
"""


def test_a_kahadb_is_configured_by_its_url_a_table_and_variables(tmp_path: Path) -> None:
    variables = {"JDBCSTORE_KAHADB_CLEANUP_INTERVAL_MS": "77", "JDBCSTORE_KAHADB_CHECKPOINT_INTERVAL_MS": "88"}
    configuration = load_configuration(written(tmp_path, KAHADB), variables).checked()
    store = build_broker(configuration).adapter
    assert isinstance(store, KahaDBPersistenceAdapter)
    assert store.directory == Path("data/kahadb")
    expected = KahaDBOptions(
        journal_max_file_length_bytes=16 << 20,
        journal_disk_sync_strategy="PERIODIC",
        cleanup_interval_ms=77,
        checkpoint_interval_ms=100,  # the URL goes before
        lease_holder_id=store.options.lease_holder_id,
    )
    assert store.options == expected
    assert store.options.lease_holder_id == socket.gethostname()


def test_activemqs_file_makes_a_broker_on_its_directory(tmp_path: Path) -> None:
    text = '<persistenceAdapter><kahaDB directory="/var/lib/kahadb" journalMaxFileLength="16mb"/></persistenceAdapter>'
    configuration = load_configuration(written(tmp_path, document(store=text, beans="")), {}).checked()
    store = build_broker(configuration).adapter
    assert isinstance(store, KahaDBPersistenceAdapter)
    assert store.directory == Path("/var/lib/kahadb")
    assert store.options.journal_max_file_length_bytes == 16 << 20


@pytest.mark.parametrize(
    ("text", "error"),
    [
        (
            "[kahadb]\njournal_max_file_lenght_bytes = 1",
            "unknown option in [kahadb]: journal_max_file_lenght_bytes, did you mean journal_max_file_length_bytes?",
        ),
        ('[kahadb]\ncheckpoint_interval_ms = "5s"', "kahadb.checkpoint_interval_ms must be a whole number, got '5s'"),
        ('[kahadb]\npreallocation_scope = "ALL"', "preallocation_scope must be one of ENTIRE_JOURNAL"),
    ],
)
def test_what_is_wrong_with_the_options_of_a_kahadb_is_told(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        load_configuration(written(tmp_path, text), {})
    assert error in str(refused.value)


def test_an_embedded_broker_on_a_kahadb(tmp_path: Path) -> None:
    """Construct, set, start."""
    store = jdbcstore.KahaDBPersistenceAdapter(
        tmp_path, jdbcstore.KahaDBOptions(journal_max_file_length_bytes=16 << 20)
    )
    with jdbcstore.running(jdbcstore.Broker(store, jdbcstore.BrokerOptions(bind="127.0.0.1:0"))):
        assert (tmp_path / "db-1.log").stat().st_size == 16 << 20


AUTHORIZED = """
[broker.users]
joe = "x"
[broker.groups]
buyers = "joe, ann"
[authorization."queue://ORDERS.>"]
read = "buyers, admins"
write = ["sellers"]
[authorization.default]
admin = "*"
[authorization.temporary]
"""


def test_authorisation_is_read(tmp_path: Path) -> None:
    configuration = load_configuration(written(tmp_path, AUTHORIZED), {}).checked()
    assert configuration.broker.groups == {"buyers": "joe, ann"}
    found = configuration.authorization
    assert found is not None
    assert found.groups(Action.READ, Queue("ORDERS.EU")) == frozenset({"buyers", "admins"})
    assert found.groups(Action.WRITE, Queue("ORDERS.EU")) == frozenset({"sellers"})
    assert found.groups(Action.ADMIN, Topic("X")) == frozenset("*")
    assert found.groups(Action.READ, TempQueue("X")) == frozenset()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('[authorization."ORDERS.>"]', 'write "queue://…", "topic://…", "default" or "temporary"'),
        ('[authorization."queue://A"]\nreads = "x"', "unknown option in"),
        ('[authorization."queue://A"]\nread = 7', "must name groups"),
        ("[authorization]\ndefault = 7", "must be a table"),
        ("[broker.groups]\na = 7", "must be a table of group"),
    ],
)
def test_authorisation_that_is_wrong_is_an_error(tmp_path: Path, text: str, told: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_configuration(written(tmp_path, text), {})
    assert told in str(caught.value)
