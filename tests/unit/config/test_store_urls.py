"""Store URLs as people in a hurry write them: what was meant is said, and no password is shown."""

from __future__ import annotations

import pytest

from jdbcstore.config.urls import store_url
from jdbcstore.errors import ConfigurationError


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://joe:s3c@ret@db/activemq",
        "postgresql://joe:s3c@ret:wd/x@db:5432/activemq",
        "mysql://joe:s3c@ret@one,two/activemq",
    ],
)
def test_an_at_sign_in_a_password_is_told_without_the_password(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"more than one @: .*write %40 for @") as refused:
        store_url(text)
    assert not any(part in str(refused.value) for part in ("s3c", "ret"))


def test_an_at_sign_that_is_written_as_it_should_be_is_one() -> None:
    url = store_url("postgresql://joe:p%40ss%3Aw%2Frd@db/activemq")
    assert (url.host, url.password) == ("db", "p@ss:w/rd")
    url = store_url("postgresql://joe@shop:pass@db/activemq")  # a user's name that has one, as hosters give them
    assert (url.host, url.username) == ("db", "joe@shop")


def test_a_file_whose_name_is_no_text_is_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"b\\udcffd\.db' is no UTF-8: give the file another name"):
        store_url("sqlite:///b\udcffd.db")


@pytest.mark.parametrize("text", ["sqlite:///shop@home/a@b.db", "postgresql://joe:x@db/shop@home"])
def test_an_at_sign_behind_the_host_means_nothing(text: str) -> None:
    assert str(store_url(text).database).endswith(text.rpartition("/")[2])


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("postgersql://db/a", "postgresql"),
        ("kahdb:data", "kahadb"),
        ("jdbc:postgresql://db/a", "postgresql://db/a"),
        ("jdbc:mysql://db/a?user=joe&password=s3cret", "mysql://db/a?…"),
        ("jdbc:mysql://joe:s3cret?s3cret@db/a", "mysql://…"),
        ("jdbc:mysql://db/a?password=s3cret@s3cret", "mysql://…"),
        ("jdbc:mysql://joe:s3cret://s3cret@db/a", "mysql://…@db/a"),
        ("jdbc:sqlite:a.db", "sqlite:///a.db"),
        ("sqlite:a.db", "sqlite:///a.db"),
    ],
)
def test_what_was_meant_is_asked(text: str, meant: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        store_url(text)
    assert f", did you mean {meant}? Use " in str(refused.value)
    assert "s3cret" not in str(refused.value)
