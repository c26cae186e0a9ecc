"""What tables are called."""

from __future__ import annotations

import pytest

from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.table_names import TableNames

OWN = TableNames("P_", "AMQ", "AMQ_ACKS2", "amq_lock")


@pytest.mark.parametrize(
    ("plain", "full"),
    [
        ("ACTIVEMQ_MSGS", "P_AMQ"),
        ("ACTIVEMQ_MSGS_MIDX", "P_AMQ_MIDX"),
        ("ACTIVEMQ_ACKS", "P_AMQ_ACKS2"),  # begins as the messages' does
        ("ACTIVEMQ_ACKS_XIDX", "P_AMQ_ACKS2_XIDX"),
        ("ACTIVEMQ_LOCK", "P_amq_lock"),
        ("JDBCSTORE_TERM", "P_JDBCSTORE_TERM"),
    ],
)
def test_names_there_and_back(plain: str, full: str) -> None:
    assert OWN.full(plain) == full
    assert OWN.plain(full.lower()) == plain


def test_a_column_goes_with_its_table() -> None:
    assert OWN.full("ACTIVEMQ_ACKS.XID") == "P_AMQ_ACKS2.XID"


def test_a_text_is_a_prefix() -> None:
    assert TableNames.of("P_").full("ACTIVEMQ_MSGS") == "P_ACTIVEMQ_MSGS"
    assert TableNames.of(OWN) is OWN


@pytest.mark.parametrize(
    "names",
    [
        ("a b",),
        ("", ""),
        ("", "1_MSGS"),
        ("", "MSGS;"),
        ("", "x" * 41),
        ("", "JDBCSTORE_TERM"),
        ("", "Same", "SAME"),
        ("", "ACTIVEMQ_LOCK"),
    ],
)
def test_what_cannot_be_a_name(names: tuple[str, ...]) -> None:
    with pytest.raises(ConfigurationError):
        TableNames(*names)
