"""``jdbcstore transactions list|commit|rollback``: XA transactions whose outcome nobody has told.

A transaction manager that prepared work tells its outcome when it comes back. When it never will, somebody has to
decide by hand; afterwards the store does not know the transaction any more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Final

import click

from jdbcstore.config.inspection import existing_store, looking_into
from jdbcstore.console.face import Face
from jdbcstore.console.output import confirm, print_json, print_table
from jdbcstore.console.place import Place, place_options
from jdbcstore.errors import ConfigurationError, UnknownTransaction
from jdbcstore.identifiers import XATransactionId, xid_of_text, xid_text
from jdbcstore.management.views import PreparedView
from jdbcstore.store.contract import SupportsTransactions, TransactionStore
from jdbcstore.store.jdbc.options import JdbcOptions

__all__ = ["transactions"]

_COUNTED: Final = ("adds", "removes", "acknowledges")
_TOLD: Final = ("xid", *_COUNTED)
_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


@click.group()
def transactions() -> None:
    """Look at XA transactions in doubt, and decide about them.

    \b
    XID is FORMAT:GLOBAL:BRANCH, as 'list' shows it: a number and two rows of hexadecimal digits.
    """


@transactions.command("list")
@place_options
@click.argument("url", required=False)
@click.option("--json", "as_json", is_flag=True, help="One JSON array.")
def list_(place: Place, url: str | None, as_json: bool) -> None:
    """Show what is in doubt: with a running broker, or in the store at URL. Nothing is changed.

    \b
    Examples:
        jdbcstore transactions list
        jdbcstore transactions list postgresql://user:secret@db/activemq
    """
    if url is not None:
        place.named(url)
    if place.store is None:
        with place.face() as face:
            found = _of_broker(face)
    else:
        with looking_into(place.store) as adapter:
            found = _of_store(_store(adapter))
    if as_json:
        print_json([{name: getattr(one, name) for name in _TOLD} for one in found])
        return
    rows = [(one.xid, _words(one.adds), _words(one.removes), _words(one.acknowledges)) for one in found]
    print_table(("XID", "ADDS", "REMOVES", "ACKNOWLEDGES"), rows, empty="nothing is in doubt")


@transactions.command()
@place_options
@click.argument("words", metavar="[URL] XID", nargs=-1)
@_YES
def commit(place: Place, words: tuple[str, ...], yes: bool) -> None:
    """Commit a transaction in doubt: what it adds is delivered, what it removes or acknowledges is gone.

    With a URL stop the broker before; the command takes the store's lock, and refuses while a master runs.

    \b
    Example:
        jdbcstore transactions commit 55:474c4f42414c:4252 --broker http://broker:8161 --token-file token
    """
    _decide(place, place.split(words, "XID"), "commit", yes=yes)


@transactions.command()
@place_options
@click.argument("words", metavar="[URL] XID", nargs=-1)
@_YES
def rollback(place: Place, words: tuple[str, ...], yes: bool) -> None:
    """Roll a transaction in doubt back: what it adds is gone, what it removes or acknowledges is delivered again.

    With a URL stop the broker before; the command takes the store's lock, and refuses while a master runs.
    """
    _decide(place, place.split(words, "XID"), "rollback", yes=yes)


def _decide(place: Place, xid: str, verb: str, *, yes: bool) -> None:
    transaction_id = xid_of_text(xid)
    if place.store is None:
        with place.face() as face:
            found = _require(_of_broker(face), transaction_id)
            _make_sure(found, verb, yes=yes)
            face.act(f"{verb}-prepared", xid=found.xid)
    else:
        with _master_of(place.store) as store:
            found = _require(_of_store(store), transaction_id)
            _make_sure(found, verb, yes=yes)
            (store.commit_prepared if verb == "commit" else store.rollback_prepared)(transaction_id).result()
    click.echo(f"{found.xid} is {'committed' if verb == 'commit' else 'rolled back'}")


def _make_sure(found: PreparedView, verb: str, *, yes: bool) -> None:
    """Say what a decision is about, and ask."""
    for what in _COUNTED:
        if counted := getattr(found, what):
            click.echo(f"{what} {_words(counted)}", err=True)
    if not yes:
        confirm(f"really {verb} {found.xid}? Its transaction manager must not decide otherwise.")


def _of_broker(face: Face) -> list[PreparedView]:
    return [PreparedView(**row) for row in face.view("prepared")]


def _of_store(store: TransactionStore) -> list[PreparedView]:
    return [PreparedView.of(one) for one in store.prepared_transactions()]


def _require(prepared: Iterable[PreparedView], transaction_id: XATransactionId) -> PreparedView:
    xid = xid_text(transaction_id)
    for one in prepared:
        if one.xid == xid:
            return one
    raise UnknownTransaction(f"{xid} is not in doubt; 'jdbcstore transactions list' shows what is")


@contextmanager
def _master_of(url: str) -> Iterator[TransactionStore]:
    """The transactions of a store that nobody else writes meanwhile. Raises `LockHeld` while somebody does."""
    options = JdbcOptions(vacuum_rows=0, cleanup_period_ms=0, virtual_topic_consumers="")
    with existing_store(url, options) as adapter:
        yield _store(adapter)


def _store(adapter: object) -> TransactionStore:
    if not isinstance(adapter, SupportsTransactions):
        raise ConfigurationError("this kind of store keeps no XA transactions")
    return adapter.transaction_store()


def _words(counted: Mapping[str, int]) -> str:
    return ", ".join(f"{count} in {name}" for name, count in counted.items()) or "-"
