"""What ActiveMQ's tables are called here: with a prefix, or by other names altogether."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from jdbcstore.errors import ConfigurationError

__all__ = ["TableNames"]

_PREFIX: Final = re.compile(r"[A-Za-z0-9_]{0,40}")
#: PostgreSQL has room for 63 letters, of which an index takes some.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,39}")


@dataclass(frozen=True, slots=True)
class TableNames:
    """The names of one set of tables. Those of its indexes begin with the name of their table, as in ActiveMQ.

    Args:
        prefix: put before every name, of our own tables too; letters, digits and underscores, 40 at most (ActiveMQ:
            ``tablePrefix``).
        messages, acks, lock: in the place of ACTIVEMQ_MSGS, ACTIVEMQ_ACKS and ACTIVEMQ_LOCK (ActiveMQ:
            ``messageTableName``, ``durableSubAcksTableName``, ``lockTableName``).

    Raises:
        ConfigurationError: a name would need quotes, two are the same, or one is that of a table of our own.
    """

    prefix: str = ""
    messages: str = "ACTIVEMQ_MSGS"
    acks: str = "ACTIVEMQ_ACKS"
    lock: str = "ACTIVEMQ_LOCK"

    def __post_init__(self) -> None:
        if not _PREFIX.fullmatch(self.prefix):
            raise ConfigurationError(
                f"table_prefix {self.prefix!r} may have letters, digits and underscores, 40 at most"
            )
        names = [name for _, name in self._pairs()]
        for name in names:
            if not _NAME.fullmatch(name) or name.upper().startswith("JDBCSTORE_"):
                raise ConfigurationError(
                    f"the table name {name!r} may have letters, digits and underscores, 40 at most, must not begin with"
                    " a digit, and those with JDBCSTORE_ are taken"
                )
        if len({name.upper() for name in names}) < len(names):
            raise ConfigurationError(f"the tables need names of their own, got {', '.join(names)}")

    @classmethod
    def of(cls, names: TableNames | str) -> TableNames:
        """The names with a prefix, or these."""
        return names if isinstance(names, TableNames) else cls(names)

    def full(self, name: str) -> str:
        """What something is called here that ActiveMQ calls so by default: a table, a column of it, or an index."""
        for default, own in self._pairs():
            if name == default or name.startswith((f"{default}_", f"{default}.")):
                return self.prefix + own + name[len(default) :]
        return self.prefix + name

    def plain(self, name: str) -> str:
        """What something is called by default, in upper case, that is called so here."""
        plain = name.upper().removeprefix(self.prefix.upper())
        for default, own in sorted(
            self._pairs(), key=lambda pair: -len(pair[1])
        ):  # one may be the beginning of another
            if plain == own.upper() or plain.startswith(f"{own.upper()}_"):
                return default + plain[len(own) :]
        return plain

    def _pairs(self) -> tuple[tuple[str, str], ...]:
        return ("ACTIVEMQ_MSGS", self.messages), ("ACTIVEMQ_ACKS", self.acks), ("ACTIVEMQ_LOCK", self.lock)
