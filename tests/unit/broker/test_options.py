"""Options of the broker and the configuration file."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore import BrokerOptions, ConfigurationError
from jdbcstore.addresses import parse_address
from jdbcstore.config.configuration import DEFAULT_URL, Configuration, read_configuration


@pytest.mark.parametrize(
    ("bind", "address"),
    [
        ("127.0.0.1:61613", ("127.0.0.1", 61613)),
        ("broker.example:1", ("broker.example", 1)),
        ("[::1]:61613", ("::1", 61613)),
        (":61613", ("", 61613)),
        ("0.0.0.0:0", ("0.0.0.0", 0)),
    ],
)
def test_an_address_is_read(bind: str, address: tuple[str, int]) -> None:
    assert parse_address(bind) == address


@pytest.mark.parametrize("bind", ["", "host", "host:", "host:x", "host:65536", "::1:61613", "host:-1", "host:٣"])
def test_an_address_that_is_none_is_refused(bind: str) -> None:
    with pytest.raises(ConfigurationError, match="HOST:PORT"):
        BrokerOptions(bind=bind)


@pytest.mark.parametrize(
    "option",
    [
        {"prefetch_queue": 0},
        {"connect_timeout_s": 0},
        {"body_bytes_max": -1},
        {"page_messages_max": 500, "window_messages_max": 100},
        {"dead_letter_queue": "x" * 300},
        {"dead_letter_queue": "A,B"},
        {"dead_letter_queue": "DLQ.>"},
        {"dead_letter_queue": ""},
        {"prefetch_queue": True},
        {"offline_durable_subscriber_timeout_s": -1.0},
        {"offline_durable_subscriber_task_schedule_s": 0},
    ],
)
def test_an_impossible_option_is_refused(option: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError):
        BrokerOptions(**option)  # type: ignore[arg-type]  # on purpose


def written(folder: Path, text: str) -> Path:
    path = folder / "broker.toml"
    path.write_text(text)
    return path


def test_an_empty_file_is_the_defaults(tmp_path: Path) -> None:
    assert read_configuration(written(tmp_path, "")) == Configuration()
    assert Configuration().url == DEFAULT_URL


def test_a_file_sets_options(tmp_path: Path) -> None:
    path = written(
        tmp_path,
        """
        [broker]
        bind = "0.0.0.0:1"
        prefetch_queue = 10
        connect_timeout_s = 5
        concurrent_store_and_dispatch_queues = false
        [broker.users]
        admin = "secret"
        [store]
        url = "memory:"
        batch_rows_max = 7
        lease_ms = 2000
        [log]
        level = "debug"
        format = "json"
        """,
    )
    configuration = read_configuration(path)
    assert (configuration.url, configuration.store.batch_rows_max) == ("memory:", 7)
    assert configuration.store.lock.lease_ms == 2000
    assert (configuration.broker.bind, configuration.broker.prefetch_queue) == ("0.0.0.0:1", 10)
    assert (configuration.broker.users, configuration.broker.connect_timeout_s) == ({"admin": "secret"}, 5)
    assert (configuration.log.level, configuration.log.format) == ("debug", "json")


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("[brokr]", "unknown table: brokr"),
        ("[broker]\nprefetch = 1", r"unknown option in \[broker\]: prefetch"),
        ("[broker]\nprefetch_queue = 'x'", "broker.prefetch_queue must be a whole number"),
        ("[broker]\nprefetch_queue = true", "broker.prefetch_queue must be a whole number"),
        ("[broker]\nprefetch_queue = 0", "prefetch_queue must be a whole number of at least 1"),
        ("[broker]\nconnect_timeout_s = '1'", "broker.connect_timeout_s must be a number"),
        ("[broker]\nusers = 'x'", "must be a table of login"),
        ("[broker.users]\nadmin = 1", "must be a table of login"),
        ("[store]\nurl = 1", "store.url must be a string"),
        ("[store]\ntable_prefix = 'a b'", "table_prefix"),
        ("[store]\nlock = 5", r"unknown option in \[store\]: lock"),
        ("[store]\nlease_ms = 5", "lease_ms must be at least 1000"),
        ("[log]\nlevel = 'loud'", "log.level must be one of"),
        ("broker = 1", r"\[broker\] must be a table"),
        ("[broker", "is not TOML"),
    ],
)
def test_a_mistake_in_a_file_is_told_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        read_configuration(written(tmp_path, text))
    assert "broker.toml" in str(caught.value)
