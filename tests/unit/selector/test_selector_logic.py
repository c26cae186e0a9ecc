"""Three-valued logic: the tables of SQL and JMS, and which conditions are unknown."""

from __future__ import annotations

import pytest

from jdbcstore.message import Message
from jdbcstore.primitives import Value
from jdbcstore.selector import Selector

TRUE, FALSE, UNKNOWN = "yes = 1", "yes = 2", "absent = 1"
VALUES: dict[str, bool | None] = {TRUE: True, FALSE: False, UNKNOWN: None}


def message(**properties: Value) -> Message:
    """A message with these properties."""
    made = Message()
    made.properties = properties
    return made


def value(selector: str, **properties: Value) -> bool | None:
    """What a selector is for a message with these properties."""
    return Selector.parse(selector).evaluate(message(yes=1, **properties))


@pytest.mark.parametrize(
    ("left", "right", "both", "either"),
    [
        (TRUE, TRUE, True, True),
        (TRUE, FALSE, False, True),
        (TRUE, UNKNOWN, None, True),
        (FALSE, TRUE, False, True),
        (FALSE, FALSE, False, False),
        (FALSE, UNKNOWN, False, None),
        (UNKNOWN, TRUE, None, True),
        (UNKNOWN, FALSE, False, None),
        (UNKNOWN, UNKNOWN, None, None),
    ],
)
def test_and_and_or(left: str, right: str, both: bool | None, either: bool | None) -> None:
    assert value(f"{left} AND {right}") is both
    assert value(f"{left} OR {right}") is either
    assert value(f"NOT ({left} AND {right})") is (None if both is None else not both)
    assert value(f"NOT ({left} OR {right})") is (None if either is None else not either)


@pytest.mark.parametrize("one", VALUES)
@pytest.mark.parametrize("two", VALUES)
@pytest.mark.parametrize("three", VALUES)
def test_of_three_the_order_does_not_matter(one: str, two: str, three: str) -> None:
    found = {VALUES[one], VALUES[two], VALUES[three]}
    assert value(f"{one} AND {two} AND {three}") is (False if False in found else None if None in found else True)
    assert value(f"{one} OR {two} OR {three}") is (True if True in found else None if None in found else False)


def test_not() -> None:
    assert value(f"NOT ({TRUE})") is False
    assert value(f"NOT ({FALSE})") is True
    assert value(f"NOT ({UNKNOWN})") is None


def test_only_what_is_true_matches() -> None:
    for condition, expected in VALUES.items():
        assert Selector.parse(condition).matches(message(yes=1)) is (expected is True)


@pytest.mark.parametrize(
    "selector",
    [
        "absent",
        "NOT absent",
        "NULL",
        "absent = 'x'",
        "absent <> 'x'",
        "absent > 1",
        "1 > absent",
        "absent BETWEEN 1 AND 2",
        "absent NOT BETWEEN 1 AND 2",
        "1 BETWEEN absent AND 2",
        "absent LIKE 'x'",
        "absent NOT LIKE 'x'",
        "absent IN ('x')",
        "absent NOT IN ('x')",
        "yes IN ('1')",
        "yes NOT IN ('1')",
        "absent + 1 = 1",
        "-absent = 1",
        "nothing = 1",
    ],
)
def test_a_property_that_is_absent_or_null_makes_a_condition_unknown(selector: str) -> None:
    assert value(selector, nothing=None) is None


@pytest.mark.parametrize(
    ("selector", "expected"),
    [
        ("absent IS NULL", True),
        ("absent IS NOT NULL", False),
        ("nothing IS NULL", True),
        ("yes IS NULL", False),
        ("yes IS NOT NULL", True),
        (f"({UNKNOWN}) IS NULL", True),
        ("absent + yes IS NULL", True),
        # as ActiveMQ has it: what is absent is unknown on the left only
        ("'x' = absent", False),
        ("'x' <> absent", True),
        ("absent = nothing", True),
        # a bound that is absent leaves the other to decide
        ("yes BETWEEN absent AND 0", False),
        ("yes NOT BETWEEN absent AND 0", True),
        # types that cannot be compared are false, not unknown
        ("yes = 'x'", False),
        ("yes <> 'x'", True),
        ("yes LIKE '1'", False),
        ("yes NOT LIKE '1'", True),
        ("yes", False),
        ("NOT yes", True),
    ],
)
def test_where_something_absent_or_unlike_is_not_unknown(selector: str, expected: bool) -> None:
    assert value(selector, nothing=None) is expected
