"""The steps of what concerns several stores: each is done in all of them before the next one begins."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from typing import Any

from jdbcstore.errors import JdbcStoreError, LeaseLost, StoreError
from jdbcstore.identifiers import XATransactionId
from jdbcstore.store.journal.mkahadb.child import Child
from jdbcstore.store.journal.work import Decide

__all__ = ["decided_in_each", "force_periodic", "order_of", "prepared_in_each", "written"]


def written(child: Child, parts: Sequence[Any]) -> None:
    """Write to a store, in a batch of its own, and wait for the disk. Raises `StoreError`, `LeaseLost`."""
    child.committer.write(*parts, is_alone=True).result()


def force_periodic(children: Sequence[Child]) -> None:
    """A step over several stores is on the disk before the next one, also with ``PERIODIC``: else a power failure may
    keep the later step of one store without the earlier step of another. Raises `StoreError`, `LeaseLost`."""
    for child in children:
        if child.options.journal_disk_sync_strategy == "PERIODIC":
            child.committer.force()


def order_of(children: Sequence[Child]) -> ExitStack:
    """Nobody else gives numbers in these stores until it is closed, by whatever thread."""
    held = ExitStack()
    for child in children:
        child.order.acquire()
        held.callback(child.order.release)
    return held


def prepared_in_each(xid: XATransactionId, parts: Sequence[tuple[Child, Sequence[Any]]]) -> None:
    """Prepare in each store, or in none. Raises `StoreError`, `LeaseLost`."""
    try:
        for child, prepare in parts:
            written(child, prepare)
        force_periodic([child for child, _ in parts])  # before anybody decides
    except (StoreError, LeaseLost):
        for child, _ in parts:
            with suppress(JdbcStoreError):
                if xid in child.reading().prepared():
                    written(child, [Decide(xid, (), commits=False)])
        raise


def decided_in_each(work: Sequence[tuple[Child, Decide]]) -> None:
    """Write the outcome of a transaction to each store. Raises `StoreError`, `LeaseLost`."""
    for child, decide in work:
        written(child, [decide])
    force_periodic([child for child, _ in work])
