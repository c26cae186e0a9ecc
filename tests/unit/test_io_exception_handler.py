"""ActiveMQ's handlers of store errors, read from the configuration file, become options of the broker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from jdbcstore import BrokerOptions, ConfigurationError
from jdbcstore.config.configuration import Configuration, read_configuration

DEFAULT, LEASE, JDBC = "defaultIOExceptionHandler", "leaseLockerIOExceptionHandler", "JDBCIOExceptionHandler"


def read(tmp_path: Path, handler: str, *lines: str, broker: str = "") -> Configuration:
    file = tmp_path / "broker.toml"
    table = "\n".join((f'type = "{handler}"', *lines))
    file.write_text(f"[broker]\n{broker}\n[io_exception_handler]\n{table}\n")
    return read_configuration(file)


@pytest.mark.parametrize(
    ("handler", "lines", "on_store_failure"),
    [
        (DEFAULT, [], "ignore"),
        (DEFAULT, ["ignoreSQLExceptions = false"], "stop"),
        (DEFAULT, ["ignoreSQLExceptions = false", "stopStartConnectors = true"], "suspend"),
        (DEFAULT, ["stopStartConnectors = true"], "ignore"),
        (DEFAULT, ["ignoreSQLExceptions = false", "ignoreAllErrors = true"], "ignore"),
        (LEASE, [], "suspend"),
        (LEASE, ["stopStartConnectors = false"], "stop"),
        (LEASE, ["ignoreSQLExceptions = true"], "ignore"),
        (LEASE, ["ignoreAllErrors = true"], "ignore"),
        (JDBC, [], "suspend"),
        (JDBC, ["stopStartConnectors = false"], "stop"),
    ],
)
def test_what_happens_when_the_store_fails_is_as_with_activemq(
    tmp_path: Path, handler: str, lines: list[str], on_store_failure: str
) -> None:
    read_ = read(tmp_path, handler, *lines)
    assert read_.broker == BrokerOptions(on_store_failure=on_store_failure)
    assert not read_.notes


def test_the_case_of_a_handlers_name_does_not_matter(tmp_path: Path) -> None:
    for name in ("LeaseLockerIOExceptionHandler", "jDBCIOExceptionHandler"):
        assert read(tmp_path, name).broker.on_store_failure == "suspend"


def test_the_period_is_milliseconds_and_stays_ours_unless_given(tmp_path: Path) -> None:
    assert read(tmp_path, LEASE).broker.resume_check_sleep_s == BrokerOptions().resume_check_sleep_s
    assert read(tmp_path, LEASE, "resumeCheckSleepPeriod = 250").broker.resume_check_sleep_s == 0.25
    assert read(tmp_path, LEASE, broker="resume_check_sleep_s = 3").broker.resume_check_sleep_s == 3


def test_exit_on_shutdown_ends_the_process_that_lost_its_lease(tmp_path: Path) -> None:
    assert read(tmp_path, LEASE, "systemExitOnShutdown = true").broker.on_lease_lost == "stop"
    assert read(tmp_path, LEASE, "systemExitOnShutdown = false").broker.on_lease_lost == "standby"
    assert read(tmp_path, LEASE, broker="on_lease_lost = 'stop'").broker.on_lease_lost == "stop"


@pytest.mark.parametrize(
    ("line", "value"),
    [
        ("ignoreNoSpaceErrors = false", "False"),
        ('noSpaceMessage = "disk full"', "'disk full'"),
        ('sqlExceptionMessage = "ORA-"', "'ORA-'"),
    ],
)
def test_what_means_nothing_here_is_accepted_with_a_note(tmp_path: Path, line: str, value: str) -> None:
    read_ = read(tmp_path, LEASE, line)
    assert read_.broker == BrokerOptions()
    name = line.partition(" ")[0]
    assert [note.partition(":")[0] for note in read_.notes] == [
        f"io_exception_handler.{name} = {value} means nothing here"
    ]


def test_activemqs_defaults_spelt_out_need_no_note(tmp_path: Path) -> None:
    lines = ["ignoreNoSpaceErrors = true", 'noSpaceMessage = "space"', 'sqlExceptionMessage = ""']
    assert not read(tmp_path, LEASE, *lines).notes


@pytest.mark.parametrize(
    ("handler", "line", "told"),
    [
        (LEASE, "resumeCheckSleep = 1", "unknown option in [io_exception_handler]: resumeCheckSleep; there are type, "),
        (LEASE, "ignore_all_errors = true", "there are type, ignoreAllErrors, "),
        (LEASE, 'ignoreAllErrors = "true"', "ignoreAllErrors must be true or false, got 'true'"),
        (LEASE, "resumeCheckSleepPeriod = true", "must be a whole number of milliseconds, got True"),
        (LEASE, "resumeCheckSleepPeriod = 0", "resumeCheckSleepPeriod must be at least 1, got 0"),
        (LEASE, "noSpaceMessage = 1", "noSpaceMessage must be a string, got 1"),
        ("ioExceptionHandler", "", f"type must be one of {DEFAULT}, {LEASE}, {JDBC}, got 'ioExceptionHandler'"),
    ],
)
def test_what_is_unknown_or_wrong_is_refused_and_told_what_there_is(
    tmp_path: Path, handler: str, line: str, told: str
) -> None:
    with pytest.raises(ConfigurationError) as refused:
        read(tmp_path, handler, line)
    assert told in str(refused.value)
    assert str(refused.value).startswith(str(tmp_path / "broker.toml"))


def test_a_handler_needs_its_type(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text("[io_exception_handler]\nignoreAllErrors = true\n")
    with pytest.raises(ConfigurationError, match="type must be one of"):
        read_configuration(tmp_path / "broker.toml")


@pytest.mark.parametrize(
    ("broker", "line"),
    [
        ("on_store_failure = 'ignore'", ""),
        ("on_lease_lost = 'standby'", "systemExitOnShutdown = true"),
        ("resume_check_sleep_s = 2", "resumeCheckSleepPeriod = 5000"),
    ],
)
def test_what_contradicts_the_brokers_own_options_is_refused(tmp_path: Path, broker: str, line: str) -> None:
    name = broker.partition(" ")[0]
    with pytest.raises(ConfigurationError, match=rf"broker\.{name} = .* contradicts .* leave one of them out"):
        read(tmp_path, LEASE, line, broker=broker)
    assert read(tmp_path, DEFAULT, broker="on_store_failure = 'ignore'").broker.on_store_failure == "ignore"


def test_a_note_stands_in_the_log_of_the_process(tmp_path: Path) -> None:
    read(tmp_path, LEASE, 'sqlExceptionMessage = "ORA-"', broker='bind = "127.0.0.1:0"')
    started = subprocess.Popen(
        [sys.executable, "-m", "jdbcstore", "broker", "--url", "memory:", "--config", "broker.toml"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert started.stderr is not None
        first = started.stderr.readline()
    finally:
        started.terminate()
        started.communicate(timeout=100)
    assert "level=WARNING logger=jdbcstore.console.broker io_exception_handler.sqlExceptionMessage = 'ORA-'" in first
