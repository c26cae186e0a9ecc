"""Compiles the field tables to functions that write frames of connections: tight or loose, with or without the cache.

A function writes one type in one `Encoding`, in one pass: data goes to a list of pieces, flags go to the frame's
boolean stream if the encoding is tight, else between the data. Bodies and properties of messages are such pieces as
they are. Tight fields that stand together and have the values that they nearly always have are one piece, and their
flags are known.

Messages make up most of what is written. In loose encoding without the cache they are the bytes of a store's row, and
written by what writes those.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, TypeAlias

from jdbcstore.modified_utf8 import encode_modified_utf8
from jdbcstore.openwire.advisory_commands import ADVISORY_COMMANDS
from jdbcstore.openwire.commands import BaseCommand, Throwable
from jdbcstore.openwire.encoding import EIGHT_BYTES, MARSHAL_AWARE, NO_BYTES, Encoding, numbers_of, usual_flags
from jdbcstore.openwire.fields import MESSAGES, Command, Field, Kind, Usually
from jdbcstore.openwire.object_cache import WriteCache
from jdbcstore.openwire.readers import NESTING_MAX
from jdbcstore.openwire.source import Malformed, Part, Source, struct_of
from jdbcstore.openwire.writers import Writers, command_of

__all__ = ["ConnectionWriter", "ConnectionWriters", "boolean_stream", "connection_writers"]

#: Of (value, levels of nesting left, pieces, flags, cache). Flags are the digits ``0`` and ``1``.
ConnectionWriter: TypeAlias = Callable[[Any, int, list[bytes], bytearray, WriteCache], None]


#: What brokers send.
_USUAL: Final = {Usually.ZERO: NO_BYTES, Usually.TIME: EIGHT_BYTES, Usually.STAMP: EIGHT_BYTES}

#: Flags to digits.
_DIGITS: Final = bytes.maketrans(b"\0\1", b"01")

_STREAM_BYTES_MAX: Final = 0x7FFF
_I16 = struct_of("h")
_LINE = struct_of("i")


@cache
def connection_writers(encoding: Encoding) -> ConnectionWriters:
    """The writers of one encoding."""
    return ConnectionWriters(encoding)


def boolean_stream(flags: bytearray) -> bytes:
    """Flags as they stand in a frame, least significant bit first, behind their number of bytes.

    Raises:
        Malformed: there are too many.
    """
    count = (len(flags) + 7) // 8
    flags.reverse()
    packed = int(flags, 2).to_bytes(count, "little") if flags else b""
    if count < 64:
        return bytes((count,)) + packed
    if count < 256:
        return bytes((0xC0, count)) + packed
    if count > _STREAM_BYTES_MAX:
        raise Malformed(f"a boolean stream of {count} bytes, {_STREAM_BYTES_MAX} are the most")
    return b"\x80" + _I16.pack(count) + packed


class ConnectionWriters(dict[type, ConnectionWriter]):
    """The writers of one encoding by class, compiled when first asked for."""

    def __init__(self, encoding: Encoding) -> None:
        self.encoding = encoding
        #: What writes the same version as stores have it.
        self.stored = Writers(encoding.version)

    def __missing__(self, cls: type) -> ConnectionWriter:
        if (make := ADVISORY_COMMANDS.get(cls)) is not None:
            writer = self[cls] = self._advisory_writer(make)
            return writer
        writer = self[cls] = _Compiler(command_of(cls, self.encoding.version), self).writer()
        return writer

    def _advisory_writer(self, make: Callable[[Any], BaseCommand]) -> ConnectionWriter:
        def write(subject: object, depth: int, out: list[bytes], bits: bytearray, cache: WriteCache) -> None:
            command = make(subject)
            self[type(command)](command, depth, out, bits, cache)

        return write


class _Compiler:
    """Turns one command's table into a writer."""

    def __init__(self, command: Command, writers: ConnectionWriters) -> None:
        self.command = command
        self.encoding = writers.encoding
        self.source = Source(f"write_{command.cls.__name__}_{self.encoding.name}", "v, depth, out, bits, cache")
        self.scope: dict[str, Any] = {
            "AWARE": MARSHAL_AWARE,
            "BIT": {False: 48, True: 49},
            "BYTE": {False: b"\0", True: b"\1"},
            "CONST8": _eight,
            "I8": struct_of("b").pack,
            "I16": _I16.pack,
            "U16": struct_of("H").pack,
            "I32": struct_of("i").pack,
            "U32": struct_of("I").pack,
            "I64": struct_of("q").pack,
            "Malformed": Malformed,
            "TYPE": bytes((command.type_id,)),
            "STORED": writers.stored,
            "WRITE": writers,
            "write_text": _write_tight_text if self.encoding.tight else _write_loose_text,
            "write_throwable": _write_throwable,
            "encoding": self.encoding,
        }

    def writer(self) -> ConnectionWriter:
        source = self.source
        with source.block("if depth < 0:"):
            source.line(f"raise Malformed('objects nest deeper than {NESTING_MAX}')")
        if self.command.cls in MESSAGES and not (self.encoding.tight or self.encoding.cached):
            with source.block("if v.data_structure is None:"):  # else it may hold an exception with its stack trace
                source.line("out.append(STORED[v.__class__](v, depth))")
                source.line("return")
        source.line("out.append(TYPE)")
        fields = self.command.fields_at(self.encoding.version)
        for is_together, run in self.encoding.runs(fields):
            (self._as_usual if is_together else self._one_by_one)(run)
        return source.compile(self.scope)

    def _one_by_one(self, fields: Sequence[Field]) -> None:
        for field in fields:
            self._field(field)

    def _as_usual(self, fields: Sequence[Field]) -> None:
        """Write fields in one go if their values are those that brokers send usually, else one by one."""
        source = self.source
        hinted = [field for field in fields if field.mostly_null or field.usually]
        for place, field in enumerate(hinted):
            number = "== 0" if field.usually is Usually.ZERO else f"> {0xFFFFFFFF}"
            value = "is None" if field.mostly_null else number
            source.line(f"{'and ' if place else 'if ('}v.{field.name} {value}", Part(field))
        with source.block("):"):
            flags = [field for field in fields if field.kind is Kind.FLAG]
            digits = {values: found.translate(_DIGITS) for found, values in usual_flags(fields, _USUAL).items()}
            key = "".join(f"v.{field.name}, " for field in flags) or "()"
            source.line(f"bits += {self._constant(digits)}[{key}]", *map(Part, flags))
            data = numbers_of(fields, _USUAL)
            pack = self._constant(struct_of(field.kind.value for field in data).pack)
            source.line(f"out.append({pack}({', '.join(f'v.{field.name}' for field in data)}))", *map(Part, data))
        with source.block("else:"):
            self._one_by_one(fields)

    def _constant(self, value: object) -> str:
        name = f"K{len(self.scope)}"
        self.scope[name] = value
        return name

    def _flag(self, value: bool) -> None:
        if self.encoding.tight:
            self.source.line(f"bits.append({49 if value else 48})")
        else:
            self.source.line(f"out.append({bytes((value,))!r})")

    def _field(self, field: Field) -> None:
        source, part, value = self.source, Part(field), f"v.{field.name}"
        if field.kind is Kind.FLAG:
            source.line(f"bits.append(BIT[{value}])" if self.encoding.tight else f"out.append(BYTE[{value}])", part)
        elif field.kind is Kind.I64 and self.encoding.tight:
            self._short_number(field)
        elif field.kind.is_fixed:
            source.line(f"out.append({field.kind.name}({value}))", part)
        elif field.kind is Kind.TEXT:
            source.line(f"write_text({value}, out, bits)", part)
        elif field.kind is Kind.THROWABLE:
            source.line(f"write_throwable({value}, depth - 1, out, bits, write_text, encoding)", part)
        else:
            source.line(f"x = {value}")
            {Kind.BYTES: self._bytes, Kind.OBJECT: self._object, Kind.ARRAY: self._array}[field.kind](field)

    def _short_number(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line(f"x = v.{field.name}")
        with source.block("if x == 0:", part):
            source.line("bits += b'00'")
        for condition, flags, pack in (
            (f"elif x > {0xFFFFFFFF} or x < 0:", b"11", "I64"),  # times are
            (f"elif x <= {0xFFFF}:", b"01", "U16"),
            ("else:", b"10", "U32"),
        ):
            with source.block(condition, part):
                source.line(f"bits += {flags!r}")
                source.line(f"out.append({pack}(x))", part)

    def _bytes(self, field: Field) -> None:
        source, part = self.source, Part(field)
        with source.block("if x is None:"):
            self._flag(False)
        with source.block("else:"):
            with source.block("if x.__class__ is not bytes:"):
                with source.block("if not isinstance(x, (bytearray, memoryview)):"):
                    source.line("raise Malformed(f'bytes expected, not {x!r:.100}')", part)
                source.line("x = bytes(x)")
            self._flag(True)
            source.line("out.append(I32(len(x)))", part)
            source.line("out.append(x)")

    def _object(self, field: Field) -> None:
        source, part = self.source, Part(field)
        self._check_class("x", field)
        if not (field.cached and self.encoding.cached):
            self._nullable("x", field)
            return
        source.line("k = cache.get_same(id(x)) or cache.get(x)", part)
        with source.block("if k is not None:"):
            self._flag(False)
            source.line("out.append(k)")
        with source.block("else:"):
            self._flag(True)
            # The slot comes first in the frame; it is taken after those of the object's own fields if tight.
            if self.encoding.tight:
                source.line("j = len(out)")
                source.line("out.append(b'')")
                self._nullable("x", field)
                source.line("out[j] = cache.add(x)", part)
            else:
                source.line("out.append(cache.add(x))", part)
                self._nullable("x", field)

    def _check_class(self, name: str, field: Field) -> None:
        if field.of:
            allowed = self._constant(frozenset(field.of))
            with self.source.block(f"if {name} is not None and {name}.__class__ not in {allowed}:"):
                names = " or ".join(cls.__name__ for cls in field.of)
                self.source.line(f"raise Malformed(f'{names} expected, not {{{name}!r:.100}}')", Part(field))

    def _nullable(self, name: str, field: Field) -> None:
        source, part = self.source, Part(field)
        with source.block(f"if {name} is None:"):
            self._flag(False)
        with source.block("else:"):
            self._flag(True)
            if self.encoding.tight and (not field.of or MARSHAL_AWARE.intersection(field.of)):
                with source.block(f"if {name}.__class__ in AWARE:"):
                    self._flag(False)
            source.line(f"WRITE[{name}.__class__]({name}, depth - 1, out, bits, cache)", part)

    def _array(self, field: Field) -> None:
        source, part = self.source, Part(field)
        source.line("i = None")
        with source.block("if x is None:"):
            self._flag(False)
        with source.block("else:"):
            with source.block("if not isinstance(x, (tuple, list)):"):
                source.line("raise Malformed(f'a list or tuple expected, not {x!r:.100}')", part)
            with source.block("if len(x) > 0x7fff:"):
                source.line("raise Malformed(f'{len(x)} elements, 32767 are the most')", part)
            self._flag(True)
            source.line("out.append(I16(len(x)))", part)
            with source.block("for i, e in enumerate(x):"):
                self._check_class("e", field)
                self._nullable("e", field)


# --- texts, exceptions and constants ----------------------------------------------------------------------------------

_WriteText: TypeAlias = Callable[[object, list[bytes], bytearray], None]

_LENGTH = struct_of("H")
_LOOSE_TEXT_BYTES_MAX: Final = 0xFFFF
#: Java refuses to write this many, although its readers would take more.
_TIGHT_TEXT_BYTES_MAX: Final = 0x7FFE


def _eight(value: object) -> bytes:
    if not isinstance(value, bytes) or len(value) != 8:
        raise Malformed(f"8 bytes expected, not {value!r:.100}")
    return value


def _write_loose_text(text: object, out: list[bytes], bits: bytearray) -> None:
    if text is None:
        out.append(b"\0")
        return
    data = _encoded(text, _LOOSE_TEXT_BYTES_MAX)
    out.append(b"\1" + _LENGTH.pack(len(data)) + data)


def _write_tight_text(text: object, out: list[bytes], bits: bytearray) -> None:
    if text is None:
        bits.append(48)
        return
    data = _encoded(text, _TIGHT_TEXT_BYTES_MAX)
    # NUL takes two bytes beyond ASCII here.
    bits += b"11" if data.isascii() else b"10"
    out.append(_LENGTH.pack(len(data)) + data)


def _encoded(text: object, bytes_max: int) -> bytes:
    if not isinstance(text, str):
        raise Malformed(f"a text expected, not {text!r:.100}")
    data = encode_modified_utf8(text)
    if len(data) > bytes_max:
        raise Malformed(f"a text of {len(data)} bytes, {bytes_max} is the longest")
    return data


def _write_throwable(
    throwable: object, depth: int, out: list[bytes], bits: bytearray, write_text: _WriteText, encoding: Encoding
) -> None:
    """An exception, with its stack and cause if the encoding has them."""
    if throwable is not None and not isinstance(throwable, Throwable):
        raise Malformed(f"a Throwable expected, not {throwable!r:.100}")
    if depth < 0:
        raise Malformed(f"objects nest deeper than {NESTING_MAX}")
    if encoding.tight:
        bits.append(48 if throwable is None else 49)
    else:
        out.append(b"\0" if throwable is None else b"\1")
    if throwable is None:
        return
    write_text(throwable.class_name, out, bits)
    write_text(throwable.message, out, bits)
    if encoding.stack_traces:
        stack = throwable.stack or ()
        if len(stack) > 0x7FFF:
            raise Malformed(f"a stack of {len(stack)} lines, 32767 are the most")
        out.append(_I16.pack(len(stack)))
        for line in stack:
            write_text(line.class_name, out, bits)
            write_text(line.method, out, bits)
            write_text(line.file, out, bits)
            out.append(_LINE.pack(line.line))
        _write_throwable(throwable.cause, depth - 1, out, bits, write_text, encoding)
