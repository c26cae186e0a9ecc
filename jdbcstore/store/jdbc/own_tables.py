"""The tables of our own, declared once: what they are called, their columns, indexes and first rows, and what for.

A Java broker never touches them. Creating, migrating and inspecting a schema, the statements, and what a store finds
itself able to do, all read these declarations. A column is never changed here: a new one takes a migration.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, NamedTuple

__all__ = [
    "ACKED",
    "CAPABILITIES",
    "LOADS",
    "LOAD_PARTS",
    "OUTBOX_JOB",
    "OWN_TABLES",
    "PREPARED_ACKS",
    "PRODUCERS",
    "SCHEDULED",
    "STAGED",
    "TERM",
    "Capability",
    "ColumnKind",
    "OwnColumn",
    "OwnIndex",
    "OwnTable",
]


class ColumnKind(StrEnum):
    """What a column keeps."""

    NUMBER = "number"
    """A whole number of 64 bits."""
    TEXT = "text"
    """Up to 250 characters."""
    WORD = "word"
    """Up to 20 characters."""
    MESSAGE = "message"
    """The bytes of a message."""


class OwnColumn(NamedTuple):
    """A column of a table of our own.

    Args:
        name: in upper case.
        kind: what it keeps.
        nullable: whether it may be NULL.
        default: of the database, as SQL.
    """

    name: str
    kind: ColumnKind
    nullable: bool = False
    default: str | None = None


class OwnIndex(NamedTuple):
    """An index of a table of our own."""

    name: str
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class OwnTable:
    """A table of our own.

    Args:
        name: without the prefix.
        columns: in their order.
        key: the names of those of the primary key.
        indexes: besides that of the key.
        seed: the columns of the row with ID 1 that it has from the beginning; None if it is empty then.
        is_contents: whether its rows belong to what a store has, and go with that into another store.
    """

    name: str
    columns: tuple[OwnColumn, ...]
    key: tuple[str, ...]
    indexes: tuple[OwnIndex, ...] = ()
    seed: Mapping[str, int] | None = field(default=None, hash=False)
    is_contents: bool = False

    @property
    def column_names(self) -> str:
        """For a statement."""
        return ",".join(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Capability:
    """Something that a store can do only with some tables of our own.

    Args:
        name: a word for machines, stable.
        fact: what `SchemaReport` and its JSON call it.
        tables: all of which have to be there, with their indexes and first rows.
        lack: what follows the name of the first table in a sentence about its absence.
    """

    name: str
    fact: str
    tables: tuple[OwnTable, ...]
    lack: str


def _number(name: str, *, nullable: bool = False, default: str | None = None) -> OwnColumn:
    return OwnColumn(name, ColumnKind.NUMBER, nullable, default)


def _text(name: str, *, nullable: bool = False) -> OwnColumn:
    return OwnColumn(name, ColumnKind.TEXT, nullable)


_MESSAGE: Final = OwnColumn("MSG", ColumnKind.MESSAGE, nullable=True)

#: How often one of our brokers became master, and which was the last: changed by every takeover.
TERM: Final = OwnTable(
    "JDBCSTORE_TERM",
    (_number("ID"), _number("TERM"), _text("HOLDER", nullable=True)),
    key=("ID",),
    seed={"ID": 1, "TERM": 0},
)
#: How far the producers came that number their messages themselves.
PRODUCERS: Final = OwnTable(
    "JDBCSTORE_PRODUCERS",
    (_text("PRODUCER"), _number("LAST_SEQ"), _number("LAST_USED_MS")),
    key=("PRODUCER",),
    is_contents=True,
)
#: What durable subscriptions have acknowledged above their marks, as ranges of ids. CONTAINER, CLIENT_ID, SUB_NAME and
#: PRIORITY are those of a row of ACKS, MARK was its mark then; the last two tell whose message the last of the range
#: is.
ACKED: Final = OwnTable(
    "JDBCSTORE_ACKED",
    (
        _text("CONTAINER"),
        _text("CLIENT_ID"),
        _text("SUB_NAME"),
        _number("PRIORITY"),
        _number("FIRST_ID"),
        _number("LAST_ID"),
        _number("MARK"),
        _text("MSGID_PROD", nullable=True),
        _number("MSGID_SEQ", nullable=True),
    ),
    key=("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY", "FIRST_ID"),
    is_contents=True,
)
#: Messages that are to be sent later, one row each; DUE_MS is epoch milliseconds.
SCHEDULED: Final = OwnTable(
    "JDBCSTORE_SCHEDULED",
    (
        _text("JOB_ID"),
        _number("DUE_MS"),
        _number("DELAY_MS"),
        _number("PERIOD_MS"),
        _number("REPEATS"),
        _text("CRON", nullable=True),
        _MESSAGE,
    ),
    key=("JOB_ID",),
    indexes=(OwnIndex("JDBCSTORE_SCHEDULED_DUE", ("DUE_MS", "JOB_ID")),),
    is_contents=True,
)
#: What prepared transactions acknowledge of durable subscriptions, since one column XID in ACKS has room for one
#: transaction. NUMBER counts within the transaction; the ids are as in `ACKED`, the last one being that of the message;
#: SHOWN is 1 if the row of ACKS names this transaction, too.
PREPARED_ACKS: Final = OwnTable(
    "JDBCSTORE_PREPARED_ACKS",
    (
        _text("XID"),
        _number("NUMBER"),
        _text("CONTAINER"),
        _text("CLIENT_ID"),
        _text("SUB_NAME"),
        _number("PRIORITY"),
        _number("FIRST_ID"),
        _number("LAST_ID"),
        _number("MARK"),
        _number("SHOWN"),
        _text("MSGID_PROD", nullable=True),
        _number("MSGID_SEQ", nullable=True),
    ),
    key=("XID", "NUMBER"),
    is_contents=True,
)
#: Bulk loads. STATE and MODE are words of `loads`; HOLDER is the run whose parts count, and the name in ACTIVEMQ_LOCK
#: while it writes by itself; FIRST_ID and LAST_ID are the ids it may have used; REBUILD is 1 while indexes may be
#: missing for its sake; the times are the database's, epoch milliseconds.
LOADS: Final = OwnTable(
    "JDBCSTORE_LOADS",
    (
        _text("JOB"),
        OwnColumn("STATE", ColumnKind.WORD),
        OwnColumn("MODE", ColumnKind.WORD, nullable=True),
        _text("HOLDER", nullable=True),
        _number("FIRST_ID", nullable=True),
        _number("LAST_ID", nullable=True),
        _number("ROWS_LOADED", default="0"),
        _number("ROWS_TAKEN", default="0"),
        _number("ROWS_REFUSED", default="0"),
        _number("REBUILD", default="0"),
        _number("BEGUN_MS"),
        _number("CHANGED_MS"),
    ),
    key=("JOB",),
    indexes=(OwnIndex("JDBCSTORE_LOADS_STATE", ("STATE", "CHANGED_MS")),),
)
#: The parts of loads that are committed; written in the transaction that brings the rows of the part.
LOAD_PARTS: Final = OwnTable(
    "JDBCSTORE_LOAD_PARTS", (_text("JOB"), _number("PART"), _number("ROWS_LOADED")), key=("JOB", "PART")
)
#: Loaded messages that a broker is to take in.
STAGED: Final = OwnTable(
    "JDBCSTORE_STAGED",
    (
        _text("JOB"),
        _number("PART"),
        _number("NUMBER"),
        _text("CONTAINER"),
        _text("MSGID_PROD", nullable=True),
        _number("MSGID_SEQ", nullable=True),
        _number("EXPIRATION", nullable=True),
        _MESSAGE,
        _number("PRIORITY", nullable=True),
    ),
    key=("JOB", "PART", "NUMBER"),
)

#: The JOB of the outbox in `LOADS` and `STAGED` (`jdbcstore.store.jdbc.outbox`); no load may be called so.
OUTBOX_JOB: Final = "#outbox"

#: All, in the order in which they are created.
OWN_TABLES: Final = (TERM, PRODUCERS, ACKED, SCHEDULED, PREPARED_ACKS, LOAD_PARTS, STAGED, LOADS)

#: What a store can do with them.
CAPABILITIES: Final = (
    Capability("term", "has_term_row", (TERM,), "has no row: brokers cannot take turns as master"),
    Capability("producers", "has_producers", (PRODUCERS,), "is missing: what is sent again counts as new"),
    Capability("acked", "has_acked", (ACKED,), "is missing: durable subscriptions cannot be used"),
    Capability("scheduled", "has_scheduled", (SCHEDULED,), "or its index is missing: no message can be scheduled"),
    Capability(
        "prepared_acks",
        "has_prepared_acks",
        (PREPARED_ACKS,),
        "is missing: no XA transaction can acknowledge for topics",
    ),
    Capability(
        "loads",
        "has_loads",
        (LOADS, LOAD_PARTS, STAGED),
        "or what belongs to it is missing: nothing can be loaded in bulk",
    ),
)
