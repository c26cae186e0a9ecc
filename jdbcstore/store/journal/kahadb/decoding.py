"""Bytes of a record to a command.

The format is protobuf's, with three quirks that its libraries do not know: the local transaction id has two fields of
number 1, a text and a number, told apart by their wire type; nothing is required; and texts are Java's, so what is not
UTF-8 is replaced, not refused. Fields that are not in the table are stepped over. (A broker does not: it takes their
values for tags. None writes such fields.)

**Why not a library.** Google's (protobuf 7, its parser in C) copes if the field with the local transaction is left raw.
Until the command is there with its destination, it takes 1.2 µs for an AddMessage of 1.3 kB and 1.1 µs for a
RemoveMessage of 270 bytes; the functions made here take 0.9 and 0.7 µs, because they remember destinations and
transactions by their bytes (Python 3.11, one core). So the library would bring a dependency, its version into every
Spark job, and no speed.

**How.** For each command one function is compiled from its table. It expects fields in ascending order, as brokers
write them, and looks for no end before the last one: a record that is then exactly used up was read right. Any other
record, damaged or only unusual, is read again field by field, in any order and with every check.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator
from enum import Enum
from typing import Any, Final, TypeAlias, cast

from jdbcstore.destination import Destination, Queue, TempQueue, TempTopic, Topic
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, TransactionId, XATransactionId
from jdbcstore.store.journal.commands import COMMANDS, AddMessage, Command

__all__ = [
    "DESTINATION_KINDS",
    "FIELD_KINDS",
    "READERS",
    "REMEMBERED_BYTES_MAX",
    "REMEMBERED_MAX",
    "Kind",
    "Malformed",
    "Reader",
    "varint",
]

#: Reads a command's fields: ``(data, start, end)``. It may look at what stands behind `end`, and does not care for it.
Reader: TypeAlias = Callable[[bytes, int, int], Command]


class Malformed(Exception):
    """A record that is no command; the text says what is wrong."""


class Kind(Enum):
    """How a field is encoded."""

    NUMBER = 0
    FLAG = 1
    TEXT = 2
    BYTES = 3
    DESTINATION = 4
    TRANSACTION = 5
    ADD = 6

    @property
    def wire_type(self) -> int:
        """Protobuf's: what a reader has to know to step over the field."""
        return _VARINT if self in (Kind.NUMBER, Kind.FLAG) else _LENGTH_DELIMITED


_VARINT: Final = 0
_LENGTH_DELIMITED: Final = 2
_FIXED: Final = {1: 8, 5: 4}

#: By a field's annotation.
FIELD_KINDS: Final[dict[Any, Kind]] = {
    int: Kind.NUMBER,
    bool: Kind.FLAG,
    str | None: Kind.TEXT,
    bytes | None: Kind.BYTES,
    Destination | None: Kind.DESTINATION,
    TransactionId | None: Kind.TRANSACTION,
    AddMessage | None: Kind.ADD,
}


# --- field by field, with every check ---------------------------------------------------------------------------------


def varint(data: bytes, o: int) -> tuple[int, int]:
    """An unsigned number of 64 bits at `o`, and where it ends.

    Raises:
        IndexError: the data ends before.
        Malformed: more than ten bytes.
    """
    value = shift = 0
    while True:
        byte = data[o]
        o += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, o
        shift += 7
        if shift == 70:
            raise Malformed("a number of more than ten bytes")


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Tag and value of all fields: an unsigned number or bytes."""
    o, end = 0, len(data)
    try:
        while o < end:
            tag, o = varint(data, o)
            wire_type = tag & 7
            if wire_type == _VARINT:
                value, o = varint(data, o)
                yield tag, value
                continue
            if wire_type == _LENGTH_DELIMITED:
                length, o = varint(data, o)
            elif wire_type in _FIXED:
                length = _FIXED[wire_type]
            else:
                raise Malformed(f"a field of wire type {wire_type}")
            if length > end - o:
                raise Malformed(f"field {tag >> 3} has {length} bytes where {end - o} remain")
            yield tag, data[o : o + length]
            o += length
    except IndexError:
        raise Malformed("it ends within a field") from None


def _checked(cls: type[Command], kinds: list[Kind], data: bytes) -> Command:
    values: dict[str, Any] = {}
    for tag, value in _fields(data):
        place = (tag >> 3) - 1
        if 0 <= place < len(kinds) and kinds[place].wire_type == tag & 7:
            name = cls._fields[place]
            try:
                values[name] = _VALUE_OF[kinds[place]](value)
            except Malformed as error:
                raise Malformed(f"{name}: {error}") from None
    return cls(**values)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


# --- destinations and transactions, remembered by their bytes ---------------------------------------------------------

#: How many destinations, transactions and other things are remembered.
REMEMBERED_MAX: Final = 4096
#: Longer ones are not: clients choose names, and remembering them must not cost memory.
REMEMBERED_BYTES_MAX: Final = 512

_DESTINATIONS: Final[dict[bytes, Destination]] = {}
_TRANSACTIONS: Final[dict[bytes, TransactionId]] = {}
#: By their number.
DESTINATION_KINDS: Final = (Queue, Topic, TempQueue, TempTopic)


def _remember(known: dict[bytes, Any], encoded: bytes, value: object) -> None:
    if len(encoded) > REMEMBERED_BYTES_MAX:
        return
    if len(known) >= REMEMBERED_MAX:
        known.clear()
    known[encoded] = value


def _destination(data: bytes) -> Destination:
    kind, name = 0, ""
    for tag, value in _fields(data):
        if tag == _number(1):
            kind = cast(int, value)
        elif tag == _bytes(2):
            name = _text(cast(bytes, value))
    if kind >= len(DESTINATION_KINDS):
        raise Malformed(f"a destination of type {kind}, 0 to 3 expected")
    if not name:
        raise Malformed("a destination without a name")
    destination = DESTINATION_KINDS[kind].decoded(name)
    _remember(_DESTINATIONS, data, destination)
    return destination


def _transaction(data: bytes) -> TransactionId:
    transaction: TransactionId | None = None
    for tag, value in _fields(data):
        if tag == _bytes(1):
            transaction = _local_transaction(cast(bytes, value))
        elif tag == _bytes(2):
            transaction = _xa_transaction(cast(bytes, value))
    if transaction is None:
        raise Malformed("a transaction that is neither local nor XA")
    _remember(_TRANSACTIONS, data, transaction)
    return transaction


def _local_transaction(data: bytes) -> LocalTransactionId:
    connection: ConnectionId | None = None
    number = 0
    for tag, value in _fields(data):
        if tag == _bytes(1):
            connection = ConnectionId(_text(cast(bytes, value)))
        elif tag == _number(1):
            number = _signed(cast(int, value))
    return LocalTransactionId(number, connection)


def _xa_transaction(data: bytes) -> XATransactionId:
    format_id, branch, global_id = 0, b"", b""
    for tag, value in _fields(data):
        if tag == _number(1):
            format_id = _signed(cast(int, value))
        elif tag == _bytes(2):
            branch = cast(bytes, value)
        elif tag == _bytes(3):
            global_id = cast(bytes, value)
    return XATransactionId(format_id, global_id, branch)


def _number(field: int) -> int:
    return field << 3 | _VARINT


def _bytes(field: int) -> int:
    return field << 3 | _LENGTH_DELIMITED


def _add(data: bytes) -> Command:
    return READERS[COMMANDS.index(AddMessage)](data, 0, len(data))


_VALUE_OF: Final[dict[Kind, Callable[[Any], object]]] = {
    Kind.NUMBER: _signed,
    Kind.FLAG: bool,
    Kind.TEXT: _text,
    Kind.BYTES: bytes,
    Kind.DESTINATION: _destination,
    Kind.TRANSACTION: _transaction,
    Kind.ADD: _add,
}


# --- the compiled functions -------------------------------------------------------------------------------------------

_BEFORE: Final = """
def read(data, o, end):
    start = o
    {defaults}
    try:
"""
_LENGTH: Final = """
        if data[o] == {tag}:
            n = data[o + 1]
            s = o + 2
            if n > 127:
                n, s = varint(data, o + 1)
            o = s + n
            {value}
"""
_NUMBER: Final = """
        if data[o] == {tag}:
            n = data[o + 1]
            if n < 128:
                o += 2
            else:
                n, o = varint(data, o + 1)
            {value}
"""
_AFTER: Final = """
    except IndexError:
        pass  # the data ends; whether the record does is seen below
    except (UnicodeDecodeError, Malformed):
        return checked(data[start:end])
    if o != end:
        return checked(data[start:end])
    return new(CLASS, ({values},))
"""
_REMEMBERED: Final = """x = data[s:o]
            v{i} = {known}.get(x)
            if v{i} is None:
                v{i} = {make}(x)"""
_VALUES: Final = {
    Kind.NUMBER: "v{i} = signed(n) if n > 127 else n",
    Kind.FLAG: "v{i} = n != 0",
    Kind.TEXT: "v{i} = data[s:o].decode()",
    Kind.BYTES: "v{i} = data[s:o]",
    Kind.DESTINATION: _REMEMBERED.replace("{known}", "DESTINATIONS").replace("{make}", "destination"),
    Kind.TRANSACTION: _REMEMBERED.replace("{known}", "TRANSACTIONS").replace("{make}", "transaction"),
    Kind.ADD: "v{i} = add(data[s:o])",
}


def _compiled(cls: type[Command]) -> Reader:
    hints = typing.get_type_hints(cls)
    kinds = [FIELD_KINDS[hints[name]] for name in cls._fields]
    source = [_BEFORE.format(defaults="; ".join(f"v{i} = DEFAULTS[{name!r}]" for i, name in enumerate(cls._fields)))]
    for i, kind in enumerate(kinds):
        template = _NUMBER if kind.wire_type == _VARINT else _LENGTH
        source.append(template.format(tag=(i + 1) << 3 | kind.wire_type, value=_VALUES[kind].format(i=i)))
    source.append(_AFTER.format(values=", ".join(f"v{i}" for i in range(len(kinds)))))
    scope: dict[str, Any] = {
        "CLASS": cls,
        "DEFAULTS": cls._field_defaults,
        "DESTINATIONS": _DESTINATIONS,
        "TRANSACTIONS": _TRANSACTIONS,
        "Malformed": Malformed,
        "add": _add,
        "checked": lambda data: _checked(cls, kinds, data),
        "destination": _destination,
        "new": tuple.__new__,
        "signed": _signed,
        "transaction": _transaction,
        "varint": varint,
    }
    exec(compile("".join(source), f"<kahadb {cls.__name__}>", "exec"), scope)
    reader: Reader = scope["read"]
    return reader


#: By a command's number in a record.
READERS: Final[tuple[Reader, ...]] = tuple(_compiled(cls) for cls in COMMANDS)
