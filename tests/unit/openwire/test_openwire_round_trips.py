"""Any value that the tables allow survives being written and read, in every wire version that knows it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, XATransactionId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal, unmarshal, unmarshal_message
from jdbcstore.openwire.commands import StackTraceElement, Throwable
from jdbcstore.openwire.fields import COMMANDS, VERSION_MAX, Command, Field, Kind
from tests.examples import examples

TABLES = {command.cls: command for command in COMMANDS}
LEAVES = tuple(command.cls for command in COMMANDS if 100 <= command.type_id <= 124)

# Java strings are UTF-16: a high and a low surrogate next to each other are one character.
texts = st.text(st.characters(exclude_categories=()), max_size=12).map(
    lambda text: text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
)
NUMBERS = {
    Kind.FLAG: st.booleans(),
    Kind.I8: st.integers(-(1 << 7), (1 << 7) - 1),
    Kind.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    Kind.I64: st.integers(-(1 << 63), (1 << 63) - 1),
    Kind.CONST8: st.binary(min_size=8, max_size=8),
}
stack_lines = st.builds(
    StackTraceElement,
    class_name=st.none() | texts,
    method=st.none() | texts,
    file=st.none() | texts,
    line=NUMBERS[Kind.I32],
)


def throwables(stack_traces: bool) -> st.SearchStrategy[Throwable]:
    plain = {"class_name": st.none() | texts, "message": st.none() | texts}
    if not stack_traces:
        return st.builds(Throwable, **plain)
    stacked = {**plain, "stack": st.lists(stack_lines, max_size=3).map(tuple)}
    cause = st.builds(Throwable, **stacked)
    return st.builds(Throwable, **stacked, cause=st.none() | cause)


def values_of(cls: type, version: int, stack_traces: bool, depth: int) -> st.SearchStrategy[Any]:
    fields = {field.name: values_for(field, version, stack_traces, depth) for field in TABLES[cls].fields_at(version)}
    if issubclass(cls, Destination):
        return st.builds(cls.decoded, texts.filter(bool))
    return st.builds(cls, **fields)


def values_for(field: Field, version: int, stack_traces: bool, depth: int) -> st.SearchStrategy[Any]:
    if field.kind.is_fixed:
        return NUMBERS[field.kind]
    if field.kind is Kind.TEXT:
        return st.none() | texts
    if field.kind is Kind.BYTES:
        return st.none() | st.binary(max_size=40)
    if field.kind is Kind.THROWABLE:
        return st.none() | throwables(stack_traces)
    classes = [cls for cls in field.of or LEAVES if TABLES[cls].since <= version]
    if depth == 0 and any(cls not in LEAVES for cls in classes):
        return st.none()
    value = st.sampled_from(classes).flatmap(lambda cls: values_of(cls, version, stack_traces, depth - 1))
    if field.kind is Kind.ARRAY:
        return st.none() | st.lists(st.none() | value, max_size=3).map(tuple)
    return st.none() | value


def tree(value: Any) -> Any:
    """`value` in a form that compares field by field."""
    if isinstance(value, tuple):
        return tuple(tree(element) for element in value)
    command = TABLES.get(type(value))
    if command is None:
        return value
    return command.cls, *(tree(getattr(value, field.name)) for field in command.fields)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command.cls.__name__)
@settings(max_examples=examples(3), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_value_survives(command: Command, data: st.DataObject) -> None:
    version = data.draw(st.integers(command.since, VERSION_MAX))
    value = data.draw(values_of(command.cls, version, data.draw(st.booleans()), depth=2))
    written = marshal(value, version)
    read = unmarshal(written, version)
    assert tree(read) == tree(value)
    assert marshal(read, version) == written
    assert int.from_bytes(written[:4], "big") == len(written) - 4


def test_transaction_ids_of_rows_are_told_apart() -> None:
    connection = ConnectionId("c")
    first, second = LocalTransactionId(1, connection), LocalTransactionId(2, connection)
    distributed = XATransactionId(1, b"g" * 64, b"b" * 64)
    longest = LocalTransactionId(3, ConnectionId("c" * 0xFFFF))
    ids = (first, first, second, None, second, distributed, distributed, first, longest, longest, second)
    rows = [marshal(Message(transaction_id=one, original_transaction_id=other)) for one, other in pairwise(ids)]
    read = [unmarshal_message(row) for row in rows]
    assert [(one.transaction_id, one.original_transaction_id) for one in read] == list(pairwise(ids))
