"""What a `Selector` offers beside matching: what it looks at, its tree, its memory; and that it is a value."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import CodecError, SelectorError
from jdbcstore.identifiers import BrokerId, MessageId
from jdbcstore.message import Message
from jdbcstore.selector import And, Comparison, Constant, Property, Selector
from jdbcstore.selector.headers import HEADERS


def test_it_tells_which_headers_and_properties_it_looks_at() -> None:
    selector = Selector.parse(
        "JMSPriority > 4 AND (colour LIKE 'r%' OR size NOT BETWEEN low + 1 AND -high) AND JMSX IS NULL"
    )
    assert selector.headers == {"JMSPriority"}
    assert selector.properties == {"colour", "size", "low", "high", "JMSX"}
    assert Selector.parse("TRUE").headers == Selector.parse("TRUE").properties == frozenset()


def test_its_tree_can_be_walked_and_cannot_be_changed() -> None:
    selector = Selector.parse("a = 1 AND b <> 2")
    tree = selector.expression
    assert isinstance(tree, And)
    first, second = tree.operands
    assert first == Comparison("=", Property("a"), Constant(1))
    assert [str(found) for found in tree.walk()] == ["(a = 1) AND (b <> 2)", "a = 1", "a", "1", "b <> 2", "b", "2"]
    for changed in (tree, first, second, selector):
        with pytest.raises(dataclasses.FrozenInstanceError):
            changed.text = "b"  # type: ignore[misc, union-attr]  # what must not be possible


def test_it_is_compared_by_its_text_copied_and_pickled() -> None:
    selector = Selector.parse("a = 1")
    assert selector == Selector.parse("a = 1") != Selector.parse("a  = 1")
    assert len({selector, Selector.parse("a = 1")}) == 1
    assert str(selector) == "a = 1"
    large = Selector.parse(" OR ".join(["a = 1"] * 3000), length_max=30_000, terms_max=10_000)
    message = Message()
    message.properties = {"a": 1}
    for again in (pickle.loads(pickle.dumps(large)), copy.deepcopy(large)):
        assert again == large
        assert again.matches(message)


def test_those_read_lately_are_remembered_but_not_long_ones() -> None:
    assert Selector.parse("remembered = 1") is Selector.parse("remembered = 1")
    assert Selector.parse("remembered = 1") is not Selector.parse("convert_string_expressions:remembered = 1")
    long = f"a = '{'x' * 600}'"
    assert Selector.parse(long) is not Selector.parse(long)
    with pytest.raises(SelectorError):
        Selector.parse("NOT NOT NOT a", depth_max=3)
    assert Selector.parse("NOT NOT NOT a")
    with pytest.raises(SelectorError):
        Selector.parse("NOT NOT NOT a", depth_max=3)


def test_a_message_that_cannot_be_decoded_matches_nothing() -> None:
    damaged = Message(marshalled_properties=b"\x00\x00\x00\x01\x00", priority=7)
    with pytest.raises(CodecError):
        _ = damaged.properties
    assert not Selector.parse("a IS NULL").matches(damaged)
    assert not Selector.parse("a IS NULL OR TRUE").matches(damaged)
    assert not Selector.parse("JMSXUserID IS NULL").matches(damaged)
    assert Selector.parse("JMSPriority = 7").matches(damaged)


def test_properties_set_later_count() -> None:
    message = Message()
    selector = Selector.parse("a = 1")
    assert not selector.matches(message)
    message.set_property("a", 1)
    assert selector.matches(message)


@pytest.mark.parametrize("name", sorted(HEADERS))
def test_every_header_is_there_for_a_bare_message_too(name: str) -> None:
    absent = {
        *("JMSDestination", "JMSReplyTo", "JMSMessageID", "JMSCorrelationID", "JMSType", "JMSXGroupID"),
        *("JMSXUserID", "JMSXProducerTXID"),
    }
    assert Selector.parse(f"{name} IS NULL").evaluate(Message()) is (name in absent)


def test_headers_follow_the_message() -> None:
    message = Message(
        destination=Queue("A"),
        original_destination=Topic("B"),
        reply_to=Queue("C"),
        message_id=MessageId.parse("ID:x-1:2:3:4"),
        redelivery_counter=1,
        broker_path=[BrokerId("one"), None],
    )
    for condition in (
        "JMSDestination = 'topic://B'",
        "JMSReplyTo = 'queue://C'",
        "JMSMessageID = 'ID:x-1:2:3:4'",
        "JMSRedelivered AND JMSXDeliveryCount = 2",
        "JMSActiveMQBrokerPath = '[one, null]'",
        "JMSDeliveryMode = 'PERSISTENT'",
    ):
        assert Selector.parse(condition).matches(message), condition
