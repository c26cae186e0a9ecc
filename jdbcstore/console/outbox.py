"""``jdbcstore outbox list|retry|delete``: messages of applications' transactions that the broker could not take in."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime

import click

from jdbcstore.config.inspection import check_url
from jdbcstore.config.urls import store_location
from jdbcstore.console.output import print_rows
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.jdbc.connection import opened
from jdbcstore.store.jdbc.refused_messages import RefusedMessage, RefusedMessages

__all__ = ["outbox"]


@click.group()
def outbox() -> None:
    """See which messages of the outbox were refused, and let them go again."""


@outbox.command("list")
@click.argument("url")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per message.")
def list_(url: str, as_json: bool) -> None:
    """Show the refused messages of the outbox in the store at URL, the oldest first. Nothing is changed.

    What nobody can read is marked; of others the broker's log says why: "a message is refused".

    \b
    Example:
        jdbcstore outbox list postgresql://user:secret@db/shop
    """
    with _refused(url, reads_only=True) as refused:
        print_rows(
            refused,
            as_json=as_json,
            columns=("ID", "DESTINATION", "SENT", "BYTES", "WHY"),
            row=lambda one: (
                *(one.message_id, one.destination, _time(one.sent_ms), one.size_bytes),
                one.damage or "see the broker's log",
            ),
            empty="no message was refused",
            record=_described,
        )


@outbox.command()
@click.argument("url")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that were refused.")
def retry(url: str, ids: tuple[str, ...], is_all: bool) -> None:
    """Let the broker take in the refused messages ID... of the store at URL, when their cause is gone.

    The broker looks at them within a second. What it refuses again is listed again.

    \b
    Example:
        jdbcstore outbox retry postgresql://user:secret@db/shop --all
    """
    _decide(url, ids, is_all, RefusedMessages.release, "waiting again")


@outbox.command()
@click.argument("url")
@click.argument("ids", metavar="[ID]...", nargs=-1)
@click.option("--all", "is_all", is_flag=True, help="All that were refused.")
def delete(url: str, ids: tuple[str, ...], is_all: bool) -> None:
    """Remove the refused messages ID... of the store at URL for good.

    \b
    Example:
        jdbcstore outbox delete sqlite:///shop.db ID:outbox-6a1-2b:1:1:1
    """
    _decide(url, ids, is_all, RefusedMessages.delete, "removed")


def _decide(
    url: str,
    ids: tuple[str, ...],
    is_all: bool,
    decide: Callable[[RefusedMessages, Collection[str] | None], list[str]],
    outcome: str,
) -> None:
    if is_all == bool(ids):
        raise click.UsageError("say which messages by their ids, or --all")
    with _refused(url, reads_only=False) as refused:
        changed = decide(refused, None if is_all else frozenset(ids))
    for id in changed:
        click.echo(f"{id} is {outcome}")
    missing = sorted(frozenset(ids).difference(changed))
    if missing:
        raise ConfigurationError(
            f"not among the refused messages: {', '.join(missing)}; jdbcstore outbox list shows them"
        )
    if not changed:
        click.echo("no message was refused")


@contextmanager
def _refused(url: str, *, reads_only: bool) -> Iterator[RefusedMessages]:
    check_url(url)
    with opened(store_location(url, reads_only=reads_only)) as store:
        yield RefusedMessages(store)


def _time(time_ms: int) -> str:
    return datetime.fromtimestamp(time_ms / 1000, UTC).astimezone().isoformat(sep=" ", timespec="seconds")


def _described(one: RefusedMessage) -> dict[str, object]:
    return {
        "messageId": one.message_id,
        "destination": one.destination,
        "sentMs": one.sent_ms,
        "bytes": one.size_bytes,
        "damage": one.damage,
    }
