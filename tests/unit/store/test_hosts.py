"""Several servers in the URL of MySQL and MariaDB."""

from __future__ import annotations

import pytest
from sqlalchemy import make_url

from jdbcstore.config.urls import store_options, store_url
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.dialect.mysql.hosts import Hosts


def test_several_hosts_are_written_as_one_likes() -> None:
    """With commas, or as SQLAlchemy writes them for PostgreSQL."""
    for text in ("mysql://joe:p%2Cq@one:1,two/a?query_timeout_s=5", "mysql://joe:p%2Cq@/a?host=one:1&host=two"):
        url, _ = store_options(text)
        assert (url.host, url.username, url.password, url.database) == (None, "joe", "p,q", "a")
        assert url.query == {"host": ("one:1", "two")}
    assert store_url("mysql://one,two/a").query["host"] == ("one", "two")


@pytest.mark.parametrize("text", ["mysql://joe:x,y@one/a", "sqlite:///a,b.db", "mysql://one/a?ssl_ca=x,y"])
def test_a_comma_elsewhere_means_no_hosts(text: str) -> None:
    assert "host" not in store_url(text).query
    assert store_url(text).set(drivername="x") == make_url(text).set(drivername="x")


def test_what_is_no_list_of_hosts_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not a store URL"):
        store_url("mysql://joe@one:x/a")


@pytest.mark.parametrize(
    ("parameters", "hosts"),
    [
        ({}, [("localhost", 3306)]),
        ({"host": "db"}, [("db", 3306)]),
        ({"host": "db", "port": 7}, [("db", 7)]),
        ({"host": "::1"}, [("::1", 3306)]),
        ({"host": "db:7"}, [("db", 7)]),
        ({"host": ("one:1", "two", "[::1]:3")}, [("one", 1), ("two", 3306), ("::1", 3)]),
        ({"host": "one:1,two", "port": "9"}, [("one", 1), ("two", 9)]),
    ],
)
def test_hosts_have_ports(parameters: dict[str, object], hosts: list[tuple[str, int]]) -> None:
    assert Hosts(parameters).all == hosts


def test_all_connections_go_to_the_server_that_was_met_last() -> None:
    hosts = Hosts({"host": ("met-1:1", "met-2:2", "met-3:3")})
    assert [port for _, port in hosts] == [1, 2, 3]
    hosts.met(("met-2", 2))
    assert [port for _, port in Hosts({"host": ("met-1:1", "met-2:2", "met-3:3")})] == [2, 3, 1]
    assert [port for _, port in Hosts({"host": ("other:1", "met-2:2")})] == [1, 2]
