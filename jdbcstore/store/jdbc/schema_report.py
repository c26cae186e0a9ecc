"""What was found in a database: facts first, then what they mean and what to do about each."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

from jdbcstore.store.jdbc.own_tables import CAPABILITIES
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["ACKS_KEY", "Finding", "Remedy", "SchemaKind", "SchemaReport"]

#: The primary key of ACTIVEMQ_ACKS. ActiveMQ since 5.15.15 leaves the last column out on PostgreSQL, by a mistake.
ACKS_KEY: Final = ("CONTAINER", "CLIENT_ID", "SUB_NAME", "PRIORITY")

#: Indexes that ActiveMQ makes and its own SQL can live without; each slows every insert.
_IDLE_INDEXES: Final = ("ACTIVEMQ_MSGS_CIDX", "ACTIVEMQ_MSGS_IIDX", "ACTIVEMQ_MSGS_PIDX")

#: What the store never goes below: a MSG column this wide holds every message that the other limits allow.
_WIDE_BYTES: Final = 1 << 24


class SchemaKind(StrEnum):
    """Who made the tables."""

    NONE = "none"
    """None of the three tables is there."""
    OURS = "jdbcstore"
    """Created or adopted, and as the recorded revision left them."""
    ACTIVEMQ = "activemq"
    """Made by ActiveMQ and not adopted yet."""
    MIXED = "mixed"
    """Our revision is recorded, but somebody made the tables anew or changed them."""
    NEWER = "newer"
    """The recorded revision is unknown: a newer jdbcstore was here."""


class Remedy(StrEnum):
    """What a finding asks for."""

    NOTHING = "note"
    """Good to know."""
    UPGRADE = "upgrade"
    """The store works; ``jdbcstore schema upgrade`` makes it work better."""
    UPGRADE_FIRST = "upgrade first"
    """The store cannot work before ``jdbcstore schema upgrade``."""
    BY_HAND = "by hand"
    """The store cannot work and the upgrade cannot help."""


class Finding(NamedTuple):
    """One thing that is not as in a new schema.

    Args:
        name: a word for machines, stable.
        text: a sentence for people.
        remedy: what it asks for.
    """

    name: str
    text: str
    remedy: Remedy


@dataclass(frozen=True, slots=True)
class SchemaReport:
    """The schema of one set of tables. Facts about a table that is missing read as if it were new.

    Args:
        names: of the tables.
        dialect: SQLAlchemy's name of the database.
        kind: who made the tables.
        revision: the recorded revision of our migrations, None when none is.
        head: the newest revision that this program knows.
        missing_tables: names of ActiveMQ's tables that are not there, without the prefix.
        missing_columns: ``TABLE.COLUMN`` of columns that old versions did not have; the upgrade adds them.
        foreign_columns: ``TABLE.COLUMN`` that are missing or of a useless type; no ActiveMQ ever made that.
        engines: tables of an engine without transactions, as ``TABLE (engine)``.
        message_type: the type of column MSG in the database's words, lower case.
        message_bytes_max: the most bytes that column MSG takes.
        null_priorities: whether rows of before 5.4 have no priority; None when finding out would read the whole table.
        hidden_subscriptions: durable subscriptions of before 5.4 whose row stands at priority 5, where nobody looks.
        acks_key: the primary key columns of ACTIVEMQ_ACKS, empty when it has none.
        binary_xids: tables whose XID column is of a binary type (before 5.9).
        container_is_nullable: whether CONTAINER may be NULL (before 5.15).
        collation: the collation of CONTAINER where the database names one.
        collation_is_binary: whether ``=`` on CONTAINER compares bytes; if not, ``queue://A`` equals ``queue://a``.
        has_lock_row: whether ACTIVEMQ_LOCK has the row with ID 1, without which nobody ever becomes master.
        indexes: names of the indexes of ACTIVEMQ_MSGS and ACTIVEMQ_ACKS, upper case, without the prefix.
        missing_indexes: those that a new schema has and this one has not, named likewise.
        has_paging_index: whether our index on (CONTAINER, PRIORITY DESC, ID) is there.
        capabilities: what our own tables allow, by the names of `own_tables.CAPABILITIES`.
    """

    names: TableNames
    dialect: str
    kind: SchemaKind
    revision: str | None
    head: str
    missing_tables: tuple[str, ...]
    missing_columns: tuple[str, ...]
    foreign_columns: tuple[str, ...]
    engines: tuple[str, ...]
    message_type: str
    message_bytes_max: int
    null_priorities: bool | None
    hidden_subscriptions: int
    acks_key: tuple[str, ...]
    binary_xids: tuple[str, ...]
    container_is_nullable: bool
    collation: str | None
    collation_is_binary: bool
    has_lock_row: bool
    indexes: tuple[str, ...]
    missing_indexes: tuple[str, ...]
    has_paging_index: bool
    capabilities: tuple[str, ...]

    @property
    def upgrade_command(self) -> str:
        """What an operator runs to mend what can be mended."""
        prefix = f" --table-prefix {self.names.prefix}" if self.names.prefix else ""
        return f"jdbcstore schema upgrade{prefix} URL"

    @property
    def has_own_tables(self) -> bool:
        """Whether every table of our own is there."""
        return set(self.capabilities) >= {capability.name for capability in CAPABILITIES}

    @property
    def has_term_row(self) -> bool:
        """Whether our table of terms and its row are there, without which no locker makes a master."""
        return "term" in self.capabilities

    @property
    def has_producers(self) -> bool:
        """Whether our table of producers is there, without which none may number its messages itself."""
        return "producers" in self.capabilities

    @property
    def has_acked(self) -> bool:
        """Whether our table of acknowledgements is there, without which no durable subscription can be used."""
        return "acked" in self.capabilities

    @property
    def has_scheduled(self) -> bool:
        """Whether our table of scheduled messages is there, without which none can be scheduled."""
        return "scheduled" in self.capabilities

    @property
    def has_prepared_acks(self) -> bool:
        """Whether our table of prepared acknowledgements is there, without which no XA transaction can acknowledge
        messages of durable subscriptions."""
        return "prepared_acks" in self.capabilities

    @property
    def has_loads(self) -> bool:
        """Whether our tables of bulk loads are there, without which nothing can be loaded."""
        return "loads" in self.capabilities

    @property
    def is_usable(self) -> bool:
        """Whether a store can work on it as it is."""
        return not any(found.remedy in (Remedy.UPGRADE_FIRST, Remedy.BY_HAND) for found in self.findings())

    @property
    def can_upgrade(self) -> bool:
        """Whether the upgrade would not refuse it."""
        return not any(found.remedy is Remedy.BY_HAND for found in self.findings())

    @property
    def needs_upgrade(self) -> bool:
        """Whether the upgrade would change anything."""
        return any(found.remedy in (Remedy.UPGRADE, Remedy.UPGRADE_FIRST) for found in self.findings())

    @property
    def has_all_of_a_new_schema(self) -> bool:
        """Whether nothing is missing that a new schema has. The collation is not asked: an old one stays."""
        return not (
            self.missing_tables
            or self.missing_columns
            or self.foreign_columns
            or self.engines
            or self.missing_indexes
            or self.binary_xids
            or self.null_priorities
            or set(self.acks_key) != set(ACKS_KEY)
            or self.message_bytes_max < _WIDE_BYTES
            or not self.has_lock_row
        )

    def findings(self) -> list[Finding]:
        """Everything worth a sentence, the worst first."""
        if self.kind is SchemaKind.NONE:
            return [Finding("no_tables", "there are no tables yet", Remedy.UPGRADE_FIRST)]
        order = list(Remedy)
        return sorted(self._findings(), key=lambda found: -order.index(found.remedy))

    def _findings(self) -> list[Finding]:
        found = [*self._of_revision(), *self._of_shape(), *self._of_rows(), *self._of_indexes()]
        if not self.collation_is_binary:
            text = (
                f"names are compared by {self.collation}, which takes some that differ for equal;"
                " the store compares bytes, a Java broker does not"
            )
            found.append(Finding("collation", text, Remedy.NOTHING))
        if self.container_is_nullable:
            found.append(Finding("container_nullable", "CONTAINER may be NULL, as before 5.15", Remedy.NOTHING))
        return found

    def _of_revision(self) -> list[Finding]:
        if self.kind is SchemaKind.NEWER:
            text = (
                f"revision {self.revision} is unknown here (the newest known is {self.head}): upgrade jdbcstore itself"
            )
            return [Finding("newer", text, Remedy.BY_HAND)]
        if self.kind is SchemaKind.ACTIVEMQ:
            return [Finding("not_adopted", "ActiveMQ made these tables and they are not adopted yet", Remedy.UPGRADE)]
        if self.kind is SchemaKind.MIXED:
            text = f"revision {self.revision} is recorded, but the tables were changed or made anew since"
            return [Finding("mixed", text, Remedy.UPGRADE)]
        if self.revision != self.head:
            return [Finding("revision", f"revision {self.revision} is older than {self.head}", Remedy.UPGRADE)]
        return []

    def _of_shape(self) -> list[Finding]:
        found = [
            Finding("missing_table", f"table {self.names.full(table)} is missing", Remedy.UPGRADE_FIRST)
            for table in self.missing_tables
        ]
        found += [
            Finding(
                "missing_column",
                f"column {self.names.full(column)} is missing, as in old versions",
                Remedy.UPGRADE_FIRST,
            )
            for column in self.missing_columns
        ]
        found += [
            Finding(
                "foreign_column", f"column {self.names.full(column)} is not as any ActiveMQ makes it", Remedy.BY_HAND
            )
            for column in self.foreign_columns
        ]
        found += [
            Finding("engine", f"table {self.names.full(table)} has no transactions", Remedy.UPGRADE_FIRST)
            for table in self.engines
        ]
        if self.message_bytes_max < _WIDE_BYTES:
            text = f"column MSG is a {self.message_type}: messages over {self.message_bytes_max} bytes do not fit"
            found.append(Finding("small_messages", text, Remedy.UPGRADE))
        if set(self.acks_key) != set(ACKS_KEY):
            key = ", ".join(self.acks_key) or "nothing"
            text = (
                f"the key of ACTIVEMQ_ACKS is ({key}): a durable subscription to a prioritised topic has one mark"
                " instead of ten, and a Java broker does not see all of its messages"
            )
            found.append(Finding("acks_key", text, Remedy.UPGRADE))
        found += [
            Finding("binary_xid", f"column {self.names.full(table)}.XID is binary, as before 5.9", Remedy.UPGRADE)
            for table in self.binary_xids
        ]
        return found

    def _of_rows(self) -> list[Finding]:
        found = []
        if self.null_priorities:
            text = "messages of before 5.4 have no priority: slower to read, and a Java broker never cleans them up"
            found.append(Finding("null_priorities", text, Remedy.UPGRADE))
        if self.hidden_subscriptions:
            text = f"{self.hidden_subscriptions} durable subscriptions of before 5.4 stand where nobody looks for them"
            found.append(Finding("hidden_subscriptions", text, Remedy.UPGRADE))
        if not self.has_lock_row:
            text = "ACTIVEMQ_LOCK has no row with ID 1: no broker could become master"
            found.append(Finding("lock_row", text, Remedy.UPGRADE))
        found += [
            Finding(capability.name, f"{self.names.full(capability.tables[0].name)} {capability.lack}", Remedy.UPGRADE)
            for capability in CAPABILITIES
            if capability.name not in self.capabilities and self.kind is not SchemaKind.ACTIVEMQ
        ]
        return found

    def _of_indexes(self) -> list[Finding]:
        found = [
            Finding("missing_index", f"index {self.names.full(index)} is missing: reading gets slow", Remedy.UPGRADE)
            for index in self.missing_indexes
        ]
        idle = [self.names.full(index) for index in _IDLE_INDEXES if index in self.indexes]
        if idle:
            text = f"{', '.join(idle)}: only slow inserts down; a Java broker makes them again when it starts"
            found.append(Finding("idle_indexes", text, Remedy.NOTHING))
        return found

    def headline(self) -> str:
        """One sentence: what this is and whether anything is to be done."""
        if not self.can_upgrade:
            verdict = "not usable"
        elif not self.is_usable:
            verdict = "not usable before an upgrade"
        elif self.needs_upgrade:
            verdict = "usable, an upgrade is due"
        else:
            verdict = "ready"
        made = {
            SchemaKind.NONE: "no tables",
            SchemaKind.OURS: f"jdbcstore, revision {self.revision}",
            SchemaKind.ACTIVEMQ: "ActiveMQ, not adopted",
            SchemaKind.MIXED: f"jdbcstore, revision {self.revision}, changed since",
            SchemaKind.NEWER: f"a newer jdbcstore, revision {self.revision}",
        }[self.kind]
        return f"{made}: {verdict}"

    def lines(self) -> list[str]:
        """The report for people: a headline, then a line for each finding."""
        return [self.headline(), *(f"{found.remedy}: {found.text}" for found in self.findings())]

    def as_json(self) -> dict[str, Any]:
        """The report for machines: the facts by name, ``usable``, ``needs_upgrade`` and ``findings``."""
        facts = asdict(self)
        allowed = facts.pop("capabilities")
        return {
            **facts,
            **{capability.fact: capability.name in allowed for capability in CAPABILITIES},
            "usable": self.is_usable,
            "needs_upgrade": self.needs_upgrade,
            "findings": [found._asdict() for found in self.findings()],
        }
