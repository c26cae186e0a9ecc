"""Names of destinations: parsed, printed, compared, matched."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic, parse_destination
from jdbcstore.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("queue://A.B", Queue, "A.B"),
        ("topic://prices.>", Topic, "prices.>"),
        ("temp-queue://ID:h-1-2-3:1:1", TempQueue, "ID:h-1-2-3:1:1"),
        ("temp-topic://t", TempTopic, "t"),
        ("A", Queue, "A"),
        ("  queue:// A  ", Queue, "A"),
        ("queue://A?consumer.prefetchSize=1", Queue, "A"),
        ("/queue/A", Queue, "/queue/A"),
        ("Queue://A", Queue, "Queue://A"),
    ],
)
def test_name_is_parsed(text: str, kind: type[Destination], name: str) -> None:
    destination = parse_destination(text)
    assert type(destination) is kind
    assert destination.physical_name == name


def test_name_without_prefix_is_of_the_default_kind() -> None:
    assert parse_destination("A", default=Topic) == Topic("A")
    assert parse_destination("queue://A", default=Topic) == Queue("A")


@pytest.mark.parametrize("text", ["", "  ", "queue://", "topic://  ", "queue://?a=b"])
def test_empty_name_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        parse_destination(text)


@pytest.mark.parametrize("text", ["queue://A", "topic://A.B", "temp-queue://A", "temp-topic://A"])
def test_qualified_name_parses_to_the_same_destination(text: str) -> None:
    destination = parse_destination(text)
    assert destination.qualified_name == str(destination) == text
    assert parse_destination(destination.qualified_name) == destination


def test_kinds_know_what_they_are() -> None:
    kinds = [(kind.is_queue, kind.is_temporary, kind("x").is_topic) for kind in (Queue, Topic, TempQueue, TempTopic)]
    assert kinds == [(True, False, False), (False, False, True), (True, True, False), (False, True, True)]


def test_equality_is_kind_and_name() -> None:
    assert Queue("A") == Queue("A")
    assert len({Queue("A"), Queue("A"), Topic("A"), TempQueue("A"), Queue("a")}) == 4
    assert Queue("A,B") != Topic("A,B")
    assert Queue("A") != "queue://A"


def test_destination_cannot_be_changed() -> None:
    with pytest.raises(AttributeError, match="cannot be changed"):
        Queue("A").physical_name = "B"


def test_composite_lists_each_element_once_and_keeps_their_kinds() -> None:
    composite = Queue("A, B,topic://C,queue://A,,B")
    assert composite.is_composite
    assert composite.elements() == (Queue("A"), Queue("B"), Topic("C"))
    assert str(composite) == "A, B,topic://C,queue://A,,B"


def test_plain_destination_is_its_only_element() -> None:
    assert Topic("A").elements() == (Topic("A"),)


@pytest.mark.parametrize(
    ("pattern", "name", "covered"),
    [
        ("A.*", "A.B", True),
        ("A.*", "A", False),
        ("A.*", "A.B.C", False),
        ("A.>", "A.B.C", True),
        ("A.>", "A", True),
        (">", "A.B", True),
        ("*.B", "A.B", True),
        ("*.B", "A.C", False),
        ("A.B", "A.B", True),
        ("A.*x", "A.Bx", False),
    ],
)
def test_wildcards(pattern: str, name: str, covered: bool) -> None:
    assert Topic(pattern).matches(Topic(name)) is covered


def test_wildcard_covers_its_own_kind_only() -> None:
    assert not Queue(">").matches(Topic("A"))
    assert not Queue(">").matches(TempQueue("A"))


def test_star_within_an_element_is_no_wildcard() -> None:
    assert not Queue("A*").is_wildcard
    assert Queue("A.*").is_wildcard


def test_decoded_name_is_kept_as_it_is() -> None:
    assert Queue.decoded(" A?b ").physical_name == " A?b "


def test_pickled_destination_is_found_in_another_process() -> None:
    # Hashes of strings differ between processes: one that travelled in the pickle would never be found again.
    code = (
        "import pickle, sys; from jdbcstore.destination import Queue;"
        "assert pickle.load(sys.stdin.buffer) in {Queue('A')}"
    )
    subprocess.run([sys.executable, "-c", code], input=pickle.dumps(Queue("A")), check=True)
