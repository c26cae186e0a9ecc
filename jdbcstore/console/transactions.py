"""``jdbcstore transactions list|commit|rollback``: XA transactions whose outcome nobody has told.

A transaction manager that prepared work tells its outcome when it comes back. When it never will, somebody has to
decide by hand; afterwards the store does not know the transaction any more.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

import click

from jdbcstore.config.inspection import check_url, looking_into
from jdbcstore.config.urls import open_store
from jdbcstore.console.output import print_json, print_table
from jdbcstore.destination import Destination
from jdbcstore.errors import ConfigurationError, UnknownTransaction
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.contract import PreparedTransaction, SupportsTransactions, TransactionStore
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.xid import xid_of_text, xid_text

__all__ = ["transactions"]


@dataclass(frozen=True, slots=True)
class InDoubt:
    """A transaction in doubt.

    Args:
        xid: as the other commands take it.
        adds, removes: messages, by destination.
        acknowledges: messages, by destination, client id and subscription name.
    """

    xid: str
    adds: dict[str, int]
    removes: dict[str, int]
    acknowledges: dict[str, int]

    @classmethod
    def of(cls, found: PreparedTransaction) -> InDoubt:
        """For people."""
        return cls(
            xid_text(found.transaction_id),
            _counted(message.destination for message in found.added),
            _counted(destination for destination, _ in found.removed),
            dict(
                Counter(
                    f"{destination} of {key.client_id}/{key.subscription_name}"
                    for destination, key, _ in found.acknowledged
                )
            ),
        )


@click.group()
def transactions() -> None:
    """Look at XA transactions in doubt, and decide about them.

    \b
    XID is FORMAT:GLOBAL:BRANCH, as 'list' shows it: a number and two rows of hexadecimal digits.
    """


@transactions.command("list")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def list_(url: str, as_json: bool) -> None:
    """Show what is in doubt in the store at URL, also while a broker runs on it. Nothing is changed.

    \b
    Example:
        jdbcstore transactions list postgresql://user:secret@db/activemq
    """
    with looking_into(url) as adapter:
        found = [InDoubt.of(one) for one in _store(adapter).prepared_transactions()]
    if as_json:
        print_json([asdict(one) for one in found])
        return
    rows = [(one.xid, _words(one.adds), _words(one.removes), _words(one.acknowledges)) for one in found]
    print_table(("XID", "ADDS", "REMOVES", "ACKNOWLEDGES"), rows, empty="nothing is in doubt")


@transactions.command()
@click.argument("url")
@click.argument("xid")
@click.option("--yes", is_flag=True, help="Do not ask.")
def commit(url: str, xid: str, yes: bool) -> None:
    """Commit a transaction in doubt: what it adds is delivered, what it removes or acknowledges is gone.

    Stop the broker before; the command takes its lock, and refuses while a master runs.
    """
    _decide(url, xid, "commit", yes=yes)


@transactions.command()
@click.argument("url")
@click.argument("xid")
@click.option("--yes", is_flag=True, help="Do not ask.")
def rollback(url: str, xid: str, yes: bool) -> None:
    """Roll a transaction in doubt back: what it adds is gone, what it removes or acknowledges is delivered again.

    Stop the broker before; the command takes its lock, and refuses while a master runs.
    """
    _decide(url, xid, "roll back", yes=yes)


def _decide(url: str, xid: str, verb: str, *, yes: bool) -> None:
    transaction_id = xid_of_text(xid)
    with _master_of(url) as store:
        found = _found(store, transaction_id)
        for what, counted in (("adds", found.adds), ("removes", found.removes), ("acknowledges", found.acknowledges)):
            if counted:
                click.echo(f"{what} {_words(counted)}", err=True)
        if not yes:
            click.confirm(f"Really {verb} {found.xid}? Its transaction manager must not decide otherwise.", abort=True)
        (store.commit_prepared if verb == "commit" else store.rollback_prepared)(transaction_id).result()
    click.echo(f"{found.xid} is {'committed' if verb == 'commit' else 'rolled back'}")


def _found(store: TransactionStore, transaction_id: XATransactionId) -> InDoubt:
    for one in store.prepared_transactions():
        if one.transaction_id == transaction_id:
            return InDoubt.of(one)
    raise UnknownTransaction(f"{xid_text(transaction_id)} is not in doubt; 'jdbcstore transactions list' shows what is")


@contextmanager
def _master_of(url: str) -> Iterator[TransactionStore]:
    """The transactions of a store that nobody else writes meanwhile. Raises `LockHeld` while somebody does."""
    check_url(url)
    options = JdbcOptions(
        create_tables_on_startup=False, vacuum_rows=0, cleanup_period_ms=0, virtual_topic_consumers=""
    )
    with open_store(url, options) as adapter:
        yield _store(adapter)


def _store(adapter: object) -> TransactionStore:
    if not isinstance(adapter, SupportsTransactions):
        raise ConfigurationError("this kind of store keeps no XA transactions")
    return adapter.transaction_store()


def _counted(destinations: Iterator[Destination | None]) -> dict[str, int]:
    return dict(Counter(str(destination) for destination in destinations))


def _words(counted: dict[str, int]) -> str:
    return ", ".join(f"{count} in {name}" for name, count in counted.items()) or "-"
