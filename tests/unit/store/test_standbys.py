"""What PostgreSQL's settings promise about its standbys."""

from __future__ import annotations

import pytest

from jdbcstore.config.urls import store_options
from jdbcstore.errors import ConfigurationError, NotReplicated
from jdbcstore.store.jdbc.dialect.postgresql.standbys import Waiting, waiting_for
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.replication import Level, Replication


@pytest.mark.parametrize(
    ("names", "waiting"),
    [
        ("", Waiting(0, 0)),
        ("s1", Waiting(1, 1)),
        ("s1, s2", Waiting(1, 2)),
        ('"node-1"', Waiting(1, 1)),
        ("*", Waiting(1, None)),
        ("2 (*)", Waiting(2, None)),
        ("FIRST 2 (s1, s2, s3)", Waiting(2, 3)),
        ('ANY 1 ("node-2","node-3")', Waiting(1, 2)),
        ("any 2(a,b,c,d)", Waiting(2, 4)),
    ],
)
def test_names_of_standbys(names: str, waiting: Waiting) -> None:
    assert waiting_for(names) == waiting


def test_what_is_less_than_required_is_refused_with_what_there_is() -> None:
    found = Replication(Level.NONE, "2 standbys", ("they are asynchronous",))
    found.require(Level.NONE)
    with pytest.raises(NotReplicated, match="quorum, and the database gives none: 2 standbys; they are"):
        found.require(Level.QUORUM)
    Replication(Level.QUORUM, "").require(Level.ANY)


def test_the_option_is_one_of_three() -> None:
    assert JdbcOptions().require_replication == "none"
    _, options = store_options("postgresql://db/activemq?requireReplication=quorum")
    assert options.require_replication == "quorum"
    with pytest.raises(ConfigurationError, match="require_replication 'two' is none of none, any, quorum"):
        store_options("postgresql://db/activemq?require_replication=two")
