"""``jdbcstore lock status|release``: who is master of a store, and what to do when a lock is stuck.

Looking changes nothing and works beside any broker, also on tables that only a Java broker has used.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from typing import Final

import click
from sqlalchemy import inspect, text

from jdbcstore.config.inspection import check_url
from jdbcstore.config.urls import is_journal_url, journal_options, store_location
from jdbcstore.console.output import print_json
from jdbcstore.errors import ConfigurationError, JdbcStoreError, SchemaMismatch
from jdbcstore.store.jdbc.connection import Opened, opened
from jdbcstore.store.jdbc.lockers import signal_name
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.store.journal.shared_file_lock import SharedFileLocker

__all__ = ["LockReport", "lock"]

#: No broker of ours takes a lease so long unless it was told to.
_LONG_MS: Final = 60_000


@dataclass(frozen=True, slots=True)
class LockReport:
    """Who is master.

    Args:
        state: ``held`` by a lease that is good, ``expired``, ``locked`` by a session with an exclusive lock on the row
            or table, ``file`` of a directory locked by a process, or ``free``.
        holder: whom the row names; None when it names nobody.
        expires_in_ms: for how long the lease of `holder` is still good by the database's clock; negative when it ran
            out.
        term: of the last of our brokers that was master, None without our table of terms.
        last_holder: that broker. It differs from `holder` while a Java broker is master.
        replication: where a commit is when it is answered: ``none`` (this server), ``any`` (one more) or ``quorum``.
        replicas: the settings and standbys that make it so.
        weaknesses: what makes an answered commit less than it seems, one sentence each.
    """

    state: str
    holder: str | None
    expires_in_ms: int | None
    term: int | None
    last_holder: str | None
    replication: str = "none"
    replicas: str = ""
    weaknesses: tuple[str, ...] = ()

    @property
    def lines(self) -> list[str]:
        """The report for people."""
        told = {
            "held": self._held,
            "expired": self._expired,
            "locked": self._locked,
            "file": self._file,
            "free": self._free,
        }[self.state]()
        if self.state == "file":
            return told
        if self.term is None:
            told.append("There is no table of terms: no broker of ours has been master of these tables.")
        elif self.last_holder is not None and self.last_holder != self.holder:
            told.append(f"The last of our brokers that was master is {self.last_holder}, in term {self.term}.")
        return told + self._replicas()

    def _replicas(self) -> list[str]:
        where = {"any": "one more server", "quorum": "more than half of the servers"}.get(self.replication)
        told = [] if where is None else [f"A commit that is answered is on {where}: {self.replicas}."]
        return told + [f"Careful: {weakness}." for weakness in self.weaknesses]

    def _held(self) -> list[str]:
        told = [f"{self.holder} is master{self._of_term()}; its lease is good for another {self._time()}."]
        if self.holder != self.last_holder:
            told.append(
                "It is no broker of ours: a Java broker with lease-database-locker, which goes by its own clock."
            )
        if (self.expires_in_ms or 0) > _LONG_MS:
            told.append(
                "That is long. If this broker is surely dead, others need not wait:"
                f" jdbcstore lock release URL --holder '{self.holder}'"
            )
        return told

    def _expired(self) -> list[str]:
        return [f"The lease of {self.holder}{self._of_term()} ran out {self._time()} ago. Whoever asks next is master."]

    def _locked(self) -> list[str]:
        return [
            "A session has an exclusive lock on the row of ACTIVEMQ_LOCK: the master is a broker with database-locker,"
            " ours or a Java broker. The lock goes with that session."
        ]

    def _file(self) -> list[str]:
        return [f"{self.holder} is master; its lock is that of a file, which ends with its process."]

    def _free(self) -> list[str]:
        return ["Nobody is master."]

    def _of_term(self) -> str:
        return f" in term {self.term}" if self.holder == self.last_holder else ""

    def _time(self) -> str:
        return f"{abs(self.expires_in_ms or 0) / 1000:.1f} s"


@click.group()
def lock() -> None:
    """See who is master of a store, and let go of a lock that is stuck.

    URL is that of the store: sqlite:///data/broker.db, postgresql://USER:PASSWORD@HOST/DATABASE, mysql://…,
    mariadb://… or that of a directory, kahadb:DIRECTORY
    """


@lock.command()
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
def status(url: str, as_json: bool) -> None:
    """Show who is master of the store at URL, in which term, and for how long. Nothing is changed.

    \b
    Examples:
        jdbcstore lock status postgresql://user:secret@db/activemq
        jdbcstore lock status sqlite:///data/jdbcstore.db --json
    """
    report = _directory_report(url) if is_journal_url(url) else _database_report(url)
    if as_json:
        print_json(asdict(report))
    else:
        click.echo("\n".join(report.lines))


@lock.command()
@click.argument("url")
@click.option("--holder", required=True, metavar="NAME", help="Whose lock, as 'lock status' shows it.")
@click.option("--yes", is_flag=True, help="Do not ask.")
def release(url: str, holder: str, yes: bool) -> None:
    """Clear the lease of a broker that is dead, so that others need not wait for its end.

    A lease of ours runs out by itself within seconds. This is for one that does not: a Java broker whose clock was an
    hour ahead, and that crashed, has left one for an hour.
    """
    if is_journal_url(url):
        raise ConfigurationError(
            "the lock of a directory goes with the process of the master, there is nothing to release: see"
            f" 'jdbcstore lock status {url}', and end that process"
        )
    store_location(url).options.require_primary("who clears a lease")
    with _looking(url, reads_only=False) as look:
        report = look.report()
        if report.holder != holder:
            raise JdbcStoreError(f"nothing was done: the lock is not {holder}'s. {' '.join(report.lines)}")
        for line in (*report.lines, *_danger(report)):
            click.echo(line, err=True)
        if not yes:
            click.confirm(f"Clear the lease of {holder}?", abort=True, err=True)
        if not look.release(holder):
            raise JdbcStoreError(f"nothing was done: meanwhile the lock is not {holder}'s any more")
    click.echo(f"The lease of {holder} is cleared. Whoever asks next is master.")


def _database_report(url: str) -> LockReport:
    with _looking(url, reads_only=True) as look:
        return look.report()


def _directory_report(url: str) -> LockReport:
    """Who has the file ``lock`` of a directory locked: ours and Java brokers take the same lock."""
    check_url(url)
    status = SharedFileLocker(journal_options(url)[0]).status()
    state = "free" if status.holder is None else "file"
    return LockReport(state, status.holder, None, status.term or None, None)


def _danger(report: LockReport) -> list[str]:
    if report.holder == report.last_holder:
        return [
            "If that broker is alive it loses its mastership: its clients are dropped, and it writes nothing any more."
        ]
    return [
        "If that broker is alive, two masters will write until it renews the next time: a Java broker does not look"
        " before it writes. Messages may be lost or delivered twice. Make sure that its process has ended."
    ]


class _Look:
    """A look at one set of tables."""

    def __init__(self, store: Opened) -> None:
        self._connection = store.connection
        self._tables = Tables.on(store.connection, store.location.options.table_names)
        self._dialect = store.dialect
        self._statements = store.statements

    def report(self) -> LockReport:
        """Who is master now."""
        catalogue = inspect(self._connection)
        if not catalogue.has_table(self._tables.lock.name):
            raise SchemaMismatch(f"there is no table {self._tables.lock.name}: no broker has used this database yet")
        row = self._connection.execute(text(self._statements.lock_row)).first()
        if row is None:
            raise SchemaMismatch(f"{self._tables.lock.name} has no row. Run: jdbcstore schema upgrade URL")
        name, expires_in_ms = row[0], None if row[0] is None or row[1] is None else int(row[1])
        if name is not None and expires_in_ms is not None and expires_in_ms >= 0:
            state = "held"
        elif self._dialect.is_row_locked(self._connection):  # tried only where no lease is good
            state = "locked"
        else:
            state = "free" if name is None else "expired"
        term, last_holder = None, None
        if catalogue.has_table(self._tables.term.name):
            found = self._connection.execute(text(self._statements.term_row)).first()
            term, last_holder = (int(found[0]), found[1]) if found else (None, None)
        replicas = self._dialect.replication(self._connection)
        return LockReport(
            state, name, expires_in_ms, term, last_holder, str(replicas.level), replicas.told, replicas.weaknesses
        )

    def release(self, holder: str) -> bool:
        """Clear the row if it names this holder; whether it did."""
        done = self._connection.execute(text(self._statements.lease_release), {"holder": holder}).rowcount == 1
        if done:
            self._dialect.give_signal(self._connection, signal_name(self._connection.engine.url, self._statements))
        return done


@contextmanager
def _looking(url: str, *, reads_only: bool) -> Iterator[_Look]:
    """Look into the store at a URL."""
    check_url(url)
    with opened(store_location(url, reads_only=reads_only)) as store:
        yield _Look(store)
