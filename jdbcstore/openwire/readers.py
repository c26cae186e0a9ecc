"""Compiles the field tables to functions that read frames.

A function reads one type in one wire version: straight-line code without a call per field. Fields of fixed width that
stand together are one `struct`; the fields of a message that are hardly ever set are tested together with them, and
only if one is set are they read singly. Producer ids and destinations come again and again: their bytes are looked up
in a bounded table before they are read. Of transaction ids the last one is remembered: many messages in a row have it.

Reading is strict, so that writing what was read gives the same bytes: flags are 0 or 1, text is what Java writes, an
object is of a class that the field may have. Lengths are compared with what remains before anything is cut out.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ProducerId
from jdbcstore.modified_utf8 import decode_modified_utf8
from jdbcstore.openwire.commands import StackTraceElement, Throwable
from jdbcstore.openwire.fields import COMMANDS, DESTINATION, TRANSACTION, Command, Field, Kind
from jdbcstore.openwire.source import Malformed, Part, Source, struct_of

__all__ = ["NESTING_MAX", "Reader", "Readers"]

#: How deep objects of a frame may nest; real ones nest four deep at most.
NESTING_MAX: Final = 32

#: How many encodings of producer ids and of destinations are remembered, and how long one may be.
REMEMBERED_MAX: Final = 8192
REMEMBERED_BYTES_MAX: Final = 512

#: Of (data, offset, end of data, levels of nesting left); gives the value and the offset behind it.
Reader: TypeAlias = Callable[[bytes, int, int, int], tuple[Any, int]]

#: Bytes behind the text of the types whose encodings are remembered: they are a text and numbers.
_REMEMBERED_TAIL: Final[dict[type, int]] = {ProducerId: 16} | dict.fromkeys(DESTINATION, 0)

_BY_ID: Final = {command.type_id: command for command in COMMANDS}
_IDS: Final = {command.cls: command.type_id for command in COMMANDS}


class Readers(dict[int, Reader]):
    """The readers of one wire version by type id, compiled when first asked for.

    Args:
        version: wire version, 1 to 12.
        stack_traces: whether exceptions carry their stack traces.
    """

    def __init__(self, version: int, stack_traces: bool) -> None:
        self.version = version
        self.stack_traces = stack_traces

    def __missing__(self, type_id: int) -> Reader:
        command = _BY_ID.get(type_id)
        if command is None:
            raise Malformed(f"{type_id} is no type id")
        if command.since > self.version:
            raise Malformed(f"wire version {self.version} has no type {type_id}")
        reader = self[type_id] = _Compiler(command, self).reader()
        return reader


class _Compiler:
    """Turns one command's table into a reader."""

    def __init__(self, command: Command, readers: Readers) -> None:
        self.command = command
        self.fields = command.fields_at(readers.version)
        traced = "_with_stack_traces" if readers.stack_traces else ""
        self.source = Source(f"read_{command.cls.__name__}_v{readers.version}{traced}", "data, o, end, depth")
        self.scope: dict[str, Any] = {
            "BOOL": (False, True),
            "CLASS": command.cls,
            "LENGTH": struct_of("I").unpack_from,
            "COUNT": struct_of("h").unpack_from,
            "Malformed": Malformed,
            "READ": readers,
            "new": object.__new__,
            "read_throwable": _read_throwable_with_stack if readers.stack_traces else _read_throwable,
            "remember": _remember,
            "text": decode_modified_utf8,
        }
        # Frozen values are made from local variables, the others are filled in place.
        cls = command.cls
        self.is_frozen = issubclass(cls, Destination) or cls.__dataclass_params__.frozen  # type: ignore[attr-defined]  # a dataclass

    def reader(self) -> Reader:
        source, cls = self.source, self.command.cls
        if any(field.kind in (Kind.OBJECT, Kind.ARRAY) for field in self.fields):
            with source.block("if depth < 0:"):
                source.line(f"raise Malformed('objects nest deeper than {NESTING_MAX}')")
        if not self.is_frozen:
            source.line("v = new(CLASS)")
            self._absent_fields()
        for together, group in groupby(self.fields, key=lambda field: field.kind.is_fixed or field.mostly_null):
            fields = tuple(group)
            if together and any(field.mostly_null for field in fields):
                self._mostly_null(fields)
            else:
                self._one_by_one(fields)
        if issubclass(cls, Destination):
            with source.block("if not physical_name:"):
                source.line("raise Malformed('a destination without a name')", Part(self.fields[0]))
            source.line("return CLASS.decoded(physical_name), o")
        elif self.is_frozen:
            source.line(f"return CLASS({', '.join(field.name for field in self.fields)}), o")
        else:
            source.line("return v, o")
        return source.compile(self.scope)

    def _target(self, field: Field) -> str:
        return field.name if self.is_frozen else f"v.{field.name}"

    def _constant(self, value: object) -> str:
        name = f"K{len(self.scope)}"
        self.scope[name] = value
        return name

    def _absent_fields(self) -> None:
        present = {field.name for field in self.fields}
        for slot in dataclasses.fields(self.command.cls):
            if slot.name not in present:
                self.source.line(f"v.{slot.name} = {self._constant(slot.default)}")

    def _one_by_one(self, fields: Sequence[Field]) -> None:
        for is_fixed, group in groupby(fields, key=lambda field: field.kind.is_fixed):
            if is_fixed:
                self._fixed(tuple(group))
            else:
                for field in group:
                    self._variable(field)

    def _fixed(self, fields: Sequence[Field]) -> None:
        if len(fields) == 1 and fields[0].kind is Kind.FLAG:
            self.source.line(f"{self._target(fields[0])} = BOOL[data[o]]", Part(fields[0]))
            self.source.line("o += 1")
            return
        unpack = struct_of(field.kind.value for field in fields)
        parts = _parts(fields)
        targets = [f"f{i}" if field.kind is Kind.FLAG else self._target(field) for i, field in enumerate(fields)]
        self.source.line(f"{', '.join(targets)}, = {self._constant(unpack.unpack_from)}(data, o)", *parts)
        for i, part in enumerate(parts):
            if part.field.kind is Kind.FLAG:
                self.source.line(f"{self._target(part.field)} = BOOL[f{i}]", part)
        self.source.line(f"o += {unpack.size}")

    def _mostly_null(self, fields: Sequence[Field]) -> None:
        """Read `fields` as if all that may be null were; if that was wrong, read them one by one."""
        source = self.source
        unpack = struct_of("B" if field.mostly_null else field.kind.value for field in fields)
        targets = [
            f"f{i}" if field.mostly_null or field.kind is Kind.FLAG else self._target(field)
            for i, field in enumerate(fields)
        ]
        nullable = [f"f{i}" for i, field in enumerate(fields) if field.mostly_null]
        with source.block(f"if o + {unpack.size} <= end:"):
            source.line(f"{', '.join(targets)}, = {self._constant(unpack.unpack_from)}(data, o)")
            source.line(f"some = {' or '.join(nullable)}")
        with source.block("else:"):
            source.line("some = 1")
        with source.block("if some:"):
            self._one_by_one(fields)
        with source.block("else:"):
            nulls = "".join(f"{self._target(field)} = " for field in fields if field.mostly_null)
            source.line(f"{nulls}None")
            for i, part in enumerate(_parts(fields)):
                if part.field.kind is Kind.FLAG:
                    source.line(f"{self._target(part.field)} = BOOL[f{i}]", part)
            source.line(f"o += {unpack.size}")

    def _variable(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("p = data[o]", part)
        with source.block("if p == 1:"):
            {
                Kind.TEXT: self._text,
                Kind.BYTES: self._bytes,
                Kind.OBJECT: self._object,
                Kind.ARRAY: self._array,
                Kind.THROWABLE: self._throwable,
            }[field.kind](field)
        with source.block("elif p:"):
            source.line("raise Malformed(f'a flag of {p}, 0 or 1 expected')", part)
        with source.block("else:"):
            source.line(f"{self._target(field)} = None")
            source.line("o += 1")

    def _text(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("s = o + 3")
        source.line("n = s + (data[o + 1] << 8 | data[o + 2])", part)
        with source.block("if n > end:"):
            source.line("raise Malformed(f'a text of {n - s} bytes where {end - s} remain')", part)
        source.line(f"{self._target(field)} = text(data[s:n], s)", part)
        source.line("o = n")

    def _bytes(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("s = o + 5")
        source.line("n = s + LENGTH(data, o + 1)[0]", part)
        with source.block("if n > end:"):
            source.line("raise Malformed(f'{n - s} bytes announced where {end - s} remain')", part)
        source.line(f"{self._target(field)} = data[s:n]")
        source.line("o = n")

    def _object(self, field: Field) -> None:
        source, part = self.source, Part(field)
        tails = {_REMEMBERED_TAIL.get(cls) for cls in field.of}
        if len(tails) == 1 and None not in tails:
            # Presence, type and presence of the text take a byte each, the text's length two.
            known = self._constant(_KNOWN[field.of])
            source.line(f"n = o + {5 + (tails.pop() or 0)} + (data[o + 3] << 8 | data[o + 4])", part)
            source.line(f"x = {known}.get(data[o:n])")
            with source.block("if x is None:"):
                self._checked_type(field)
                source.line("x, n = READ[t](data, o + 2, end, depth - 1)", part)
                source.line(f"remember({known}, x, data[o:n])")
            source.line(f"{self._target(field)} = x")
            source.line("o = n")
        elif field.of == TRANSACTION:
            last = self._constant([(b"\0", None)])  # no object begins so
            source.line(f"s, x = {last}[0]")
            with source.block("if data.startswith(s, o):"):
                source.line("o += len(s)")
            with source.block("else:"):
                source.line("s = o")
                self._checked_type(field)
                source.line("x, o = READ[t](data, o + 2, end, depth - 1)", part)
                with source.block(f"if o - s <= {REMEMBERED_BYTES_MAX}:"):
                    source.line(f"{last}[0] = data[s:o], x")
            source.line(f"{self._target(field)} = x")
        else:
            self._checked_type(field)
            source.line(f"{self._target(field)}, o = READ[t](data, o + 2, end, depth - 1)", part)

    def _checked_type(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("t = data[o + 1]", part)
        if field.of:
            ids = sorted(_IDS[cls] for cls in field.of)
            with source.block(f"if t != {ids[0]}:" if len(ids) == 1 else f"if t not in {set(ids)}:"):
                source.line(f"raise Malformed(f'an object of type {{t}}, expected {_listed(ids)}')", part)

    def _array(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("i = None")
        source.line("c = COUNT(data, o + 1)[0]", part)
        with source.block("if not 0 <= c <= end - o - 3:"):
            source.line("raise Malformed(f'an array of {c} elements in {end - o - 3} bytes')", part)
        source.line("o += 3")
        source.line("xs = []")
        with source.block("for i in range(c):"):
            source.line("p = data[o]", part)
            with source.block("if p == 1:"):
                self._checked_type(field)
                source.line("x, o = READ[t](data, o + 2, end, depth - 1)", part)
            with source.block("elif p:"):
                source.line("raise Malformed(f'a flag of {p}, 0 or 1 expected')", part)
            with source.block("else:"):
                source.line("x = None")
                source.line("o += 1")
            source.line("xs.append(x)")
        source.line(f"{self._target(field)} = tuple(xs)")

    def _throwable(self, field: Field) -> None:
        self.source.line(f"{self._target(field)}, o = read_throwable(data, o, end, depth - 1)", Part(field))


def _parts(fields: Sequence[Field]) -> list[Part]:
    parts, distance = [], 0
    for field in fields:
        parts.append(Part(field, distance))
        distance += field.kind.width if field.kind.is_fixed else 1
    return parts


def _listed(ids: Sequence[int]) -> str:
    return " or ".join(str(type_id) for type_id in ids)


# --- remembered encodings ---------------------------------------------------------------------------------------------

#: By the classes that a field may have: encoding, flag and type id included, to value.
_KNOWN: Final[dict[tuple[type, ...], dict[bytes, Any]]] = {(ProducerId,): {}, DESTINATION: {}}


def _remember(known: dict[bytes, Any], value: ProducerId | Destination, encoded: bytes) -> None:
    object.__setattr__(value, "encoded", encoded)
    if len(encoded) > REMEMBERED_BYTES_MAX:
        return  # clients choose names: remembering them must not cost memory
    if len(known) >= REMEMBERED_MAX:
        known.clear()
    known[encoded] = value


# --- exceptions -------------------------------------------------------------------------------------------------------

_COUNT = struct_of("h")
_LINE = struct_of("i")
_TEXT_LENGTH = struct_of("H")


def _read_text(data: bytes, o: int, end: int) -> tuple[str | None, int]:
    if not _read_flag(data, o):
        return None, o + 1
    start = o + 3
    stop = start + _TEXT_LENGTH.unpack_from(data, o + 1)[0]
    if stop > end:
        raise Malformed(f"a text of {stop - start} bytes where {end - start} remain")
    return decode_modified_utf8(data[start:stop], start), stop


def _read_flag(data: bytes, o: int) -> bool:
    if data[o] > 1:
        raise Malformed(f"a flag of {data[o]}, 0 or 1 expected")
    return data[o] == 1


def _read_throwable(data: bytes, o: int, end: int, depth: int) -> tuple[Throwable | None, int]:
    if not _read_flag(data, o):
        return None, o + 1
    class_name, o = _read_text(data, o + 1, end)
    message, o = _read_text(data, o, end)
    return Throwable(class_name=class_name, message=message), o


def _read_throwable_with_stack(data: bytes, o: int, end: int, depth: int) -> tuple[Throwable | None, int]:
    if depth < 0:
        raise Malformed(f"objects nest deeper than {NESTING_MAX}")
    throwable, o = _read_throwable(data, o, end, depth)
    if throwable is None:
        return None, o
    count = _COUNT.unpack_from(data, o)[0]
    o += 2
    if not 0 <= count <= end - o:
        raise Malformed(f"a stack of {count} lines in {end - o} bytes")
    stack = []
    for _ in range(count):
        class_name, o = _read_text(data, o, end)
        method, o = _read_text(data, o, end)
        file, o = _read_text(data, o, end)
        stack.append(
            StackTraceElement(class_name=class_name, method=method, file=file, line=_LINE.unpack_from(data, o)[0])
        )
        o += _LINE.size
    throwable.stack = tuple(stack)
    throwable.cause, o = _read_throwable_with_stack(data, o, end, depth - 1)
    return throwable, o
