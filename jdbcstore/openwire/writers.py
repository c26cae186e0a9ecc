"""Compiles the field tables to functions that write frames.

A function writes one type in one wire version: its parts are computed without a call per field and joined once. Fields
of fixed width that stand together are one `struct`, with those that are hardly ever set while all of these are null.
Encodings of producer ids and destinations are kept in the values themselves.

Values are checked as they are written: numbers for their range, flags for being flags, objects for a class that the
field may have.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, Final, TypeAlias

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ProducerId
from jdbcstore.modified_utf8 import encode_modified_utf8
from jdbcstore.openwire.advisory_commands import ADVISORY_COMMANDS
from jdbcstore.openwire.commands import BaseCommand, StackTraceElement, Throwable
from jdbcstore.openwire.fields import COMMANDS, DESTINATION, Command, Field, Kind
from jdbcstore.openwire.readers import NESTING_MAX
from jdbcstore.openwire.source import Malformed, Part, Source, struct_of

__all__ = ["Writer", "Writers", "command_of"]

#: Of (value, levels of nesting left); gives the type id and the fields.
Writer: TypeAlias = Callable[[Any, int], bytes]


_COMMANDS: Final = {command.cls: command for command in COMMANDS}

#: Types whose values carry their encoding, presence flag and type id included, in an attribute.
_REMEMBERED: Final = (ProducerId, *DESTINATION)

_TEXT_BYTES_MAX: Final = 0xFFFF


def command_of(cls: type, version: int) -> Command:
    """The OpenWire type of a class. Raises `Malformed` if the wire version has none."""
    command = _COMMANDS.get(cls)
    if command is None:
        raise Malformed(f"{cls.__name__} is no OpenWire type")
    if command.since > version:
        raise Malformed(f"wire version {version} has no {cls.__name__}")
    return command


class Writers(dict[type, Writer]):
    """The writers of one wire version by class, compiled when first asked for.

    Args:
        version: wire version, 1 to 12.
    """

    def __init__(self, version: int) -> None:
        self.version = version

    def __missing__(self, cls: type) -> Writer:
        if (make := ADVISORY_COMMANDS.get(cls)) is not None:
            writer = self[cls] = self._advisory_writer(make)
            return writer
        writer = self[cls] = _Compiler(command_of(cls, self.version), self).writer()
        return writer

    def _advisory_writer(self, make: Callable[[Any], BaseCommand]) -> Writer:
        def write(subject: object, depth: int) -> bytes:
            command = make(subject)
            return self[type(command)](command, depth)

        return write


class _Compiler:
    """Turns one command's table into a writer."""

    def __init__(self, command: Command, writers: Writers) -> None:
        self.command = command
        self.fields = command.fields_at(writers.version)
        self.source = Source(f"write_{command.cls.__name__}_v{writers.version}", "v, depth")
        self.names = 0
        self.scope: dict[str, Any] = {
            "BYTE": {False: 0, True: 1},
            "eight": _eight,
            "LENGTH": struct_of("Bi").pack,
            "COUNT": struct_of("Bh").pack,
            "Malformed": Malformed,
            "WRITE": writers,
            "encode": _encode,
            "join": b"".join,
            "write_text": _write_text,
            "write_throwable": _write_throwable,
        }

    def writer(self) -> Writer:
        if any(field.kind in (Kind.OBJECT, Kind.ARRAY) for field in self.fields):
            with self.source.block("if depth < 0:"):
                self.source.line(f"raise Malformed('objects nest deeper than {NESTING_MAX}')")
        pieces = [self._constant(bytes([self.command.type_id]))]
        for together, group in groupby(self.fields, key=lambda field: field.kind.is_fixed or field.mostly_null):
            fields = tuple(group)
            if together and any(field.mostly_null for field in fields):
                pieces.append(self._mostly_null(fields))
            else:
                pieces += self._one_by_one(fields)
        self.source.line(f"return join(({', '.join(pieces)},))")
        return self.source.compile(self.scope)

    def _constant(self, value: object) -> str:
        name = f"K{len(self.scope)}"
        self.scope[name] = value
        return name

    def _name(self) -> str:
        self.names += 1
        return f"p{self.names}"

    def _one_by_one(self, fields: Sequence[Field]) -> list[str]:
        pieces = []
        for is_fixed, group in groupby(fields, key=lambda field: field.kind.is_fixed):
            if is_fixed:
                pieces.append(self._fixed(tuple(group), ""))
            else:
                pieces += [piece for field in group for piece in self._variable(field)]
        return pieces

    def _fixed(self, fields: Sequence[Field], piece: str) -> str:
        """Pack the fixed fields among `fields`, with a zero for each of the others."""
        piece = piece or self._name()
        pack = self._constant(struct_of("x" if field.mostly_null else field.kind.value for field in fields).pack)
        fixed = [field for field in fields if not field.mostly_null]
        values = [_FIXED_VALUES.get(field.kind, "v.{}").format(field.name) for field in fixed]
        self.source.line(f"{piece} = {pack}({', '.join(values)})", *map(Part, fixed))
        return piece

    def _mostly_null(self, fields: Sequence[Field]) -> str:
        piece = self._name()
        nothing = " and ".join(f"v.{field.name} is None" for field in fields if field.mostly_null)
        with self.source.block(f"if {nothing}:"):
            self._fixed(fields, piece)
        with self.source.block("else:"):
            self.source.line(f"{piece} = join(({', '.join(self._one_by_one(fields))},))")
        return piece

    def _variable(self, field: Field) -> list[str]:
        source, part = self.source, Part(field)
        piece = self._name()
        pieces = [piece]
        source.line(f"x = v.{field.name}")
        with source.block("if x is None:"):
            source.line(f"{piece} = {self._constant(bytes(1))}")
            if field.kind is Kind.BYTES:
                source.line("x = b''")
        if field.kind is Kind.TEXT:
            with source.block("else:"):
                source.line(f"{piece} = write_text(x)", part)
        elif field.kind is Kind.BYTES:
            data = self._name()
            with source.block("else:"):
                with source.block("if x.__class__ is not bytes:"):
                    with source.block("if not isinstance(x, (bytearray, memoryview)):"):
                        source.line("raise Malformed(f'bytes expected, not {x!r:.100}')", part)
                    source.line("x = bytes(x)")
                source.line(f"{piece} = LENGTH(1, len(x))", part)
            source.line(f"{data} = x")
            pieces.append(data)
        elif field.kind is Kind.OBJECT:
            self._object(field, piece)
        elif field.kind is Kind.ARRAY:
            with source.block("else:"):
                self._array(field, piece)
        else:
            with source.block("else:"):
                source.line(f"{piece} = write_throwable(x, depth - 1)", part)
        return pieces

    def _object(self, field: Field, piece: str) -> None:
        source, part = self.source, Part(field)
        if field.of:
            one = len(field.of) == 1
            allowed = self._constant(field.of[0] if one else frozenset(field.of))
            with source.block(f"elif x.__class__ {'is not' if one else 'not in'} {allowed}:"):
                names = " or ".join(cls.__name__ for cls in field.of)
                source.line(f"raise Malformed(f'{names} expected, not {{x!r:.100}}')", part)
        with source.block("else:"):
            if field.of and all(cls in _REMEMBERED for cls in field.of):
                source.line(f"{piece} = x.encoded or encode(x, WRITE)", part)
            else:
                source.line(f"{piece} = b'\\1' + WRITE[x.__class__](x, depth - 1)", part)

    def _array(self, field: Field, piece: str) -> None:
        source, part = self.source, Part(field)
        source.line("i = None")
        with source.block("if not isinstance(x, (tuple, list)):"):
            source.line("raise Malformed(f'a list or tuple expected, not {x!r:.100}')", part)
        with source.block("if len(x) > 0x7fff:"):
            source.line("raise Malformed(f'{len(x)} elements, 32767 are the most')", part)
        source.line("xs = [COUNT(1, len(x))]", part)
        with source.block("for i, e in enumerate(x):"):
            with source.block("if e is None:"):
                source.line("xs.append(b'\\0')")
            if field.of:
                names = " or ".join(cls.__name__ for cls in field.of)
                with source.block(f"elif e.__class__ not in {self._constant(frozenset(field.of))}:"):
                    source.line(f"raise Malformed(f'{names} expected, not {{e!r:.100}}')", part)
            with source.block("else:"):
                source.line("xs.append(b'\\1' + WRITE[e.__class__](e, depth - 1))", part)
        source.line(f"{piece} = join(xs)")


#: What goes into a struct where the attribute itself would not be checked by it.
_FIXED_VALUES: Final = {Kind.FLAG: "BYTE[v.{}]", Kind.CONST8: "eight(v.{})"}

_TEXT = struct_of("BH")


def _write_text(text: object) -> bytes:
    if not isinstance(text, str):
        raise Malformed(f"a text expected, not {text!r:.100}")
    data = encode_modified_utf8(text)
    if len(data) > _TEXT_BYTES_MAX:
        raise Malformed(f"a text of {len(data)} bytes, {_TEXT_BYTES_MAX} is the longest")
    return _TEXT.pack(1, len(data)) + data


def _eight(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != 8:
        raise Malformed(f"8 bytes expected, not {value!r:.100}")
    return value


def _encode(value: ProducerId | Destination, writers: Writers) -> bytes:
    encoded = b"\x01" + writers[type(value)](value, 0)
    object.__setattr__(value, "encoded", encoded)
    return encoded


_COUNT = struct_of("h")
_LINE = struct_of("i")


def _write_throwable(throwable: object, depth: int) -> bytes:
    """An exception, with its stack and cause if it has a stack."""
    if throwable is None:
        return b"\x00"
    if not isinstance(throwable, Throwable):
        raise Malformed(f"a Throwable expected, not {throwable!r:.100}")
    if depth < 0:
        raise Malformed(f"objects nest deeper than {NESTING_MAX}")
    parts = [b"\x01", _write_nullable_text(throwable.class_name), _write_nullable_text(throwable.message)]
    if throwable.stack is not None:
        if len(throwable.stack) > 0x7FFF:
            raise Malformed(f"a stack of {len(throwable.stack)} lines, 32767 are the most")
        parts.append(_COUNT.pack(len(throwable.stack)))
        parts += map(_write_stack_line, throwable.stack)
        parts.append(_write_throwable(throwable.cause, depth - 1))
    return b"".join(parts)


def _write_stack_line(element: StackTraceElement) -> bytes:
    texts = (_write_nullable_text(text) for text in (element.class_name, element.method, element.file))
    return b"".join((*texts, _LINE.pack(element.line)))


def _write_nullable_text(text: str | None) -> bytes:
    return b"\x00" if text is None else _write_text(text)
