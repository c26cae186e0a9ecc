"""``jdbcstore move``, ``copy``, ``retry``, ``change``, ``purge``, ``delete``, ``pause`` …: what an operator does."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

import click

from jdbcstore.console.face import Face, face_options, finish, running_broker_options
from jdbcstore.console.output import confirm, print_json
from jdbcstore.errors import UnknownDestination

__all__ = [
    "cancel",
    "change",
    "copy",
    "create",
    "delete",
    "disconnect",
    "drain",
    "hand_over",
    "move",
    "pause",
    "purge",
    "resume",
    "retry",
    "unsubscribe",
]

#: Made by the first dead letter.
_DEAD_LETTERS = "queue://ActiveMQ.DLQ"
_JSON = click.option("--json", "as_json", is_flag=True, help="What was done as one JSON object.")
_DRY = click.option("--dry-run", is_flag=True, help="Count, and do nothing.")
_YES = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def _chosen(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say which messages."""
    for option in (
        click.option("--limit", type=click.IntRange(min=1), help="No more than so many messages."),
        click.option("--cause", default="", help="Only dead letters with this cause, as --dry-run shows it."),
        click.option("--origin", default="", metavar="DESTINATION", help="Only what came from there."),
        click.option("--id", "message_ids", multiple=True, help="The message with this id; may be repeated."),
        click.option("--selector", "-s", default="", help="Only what this selector matches: \"colour = 'red'\"."),
    ):
        command = option(command)
    return command


def _filter(selector: str, message_ids: tuple[str, ...], origin: str, cause: str, limit: int | None) -> dict[str, Any]:
    chosen = {
        "selector": selector,
        "message_ids": list(message_ids),
        "origin": origin,
        "cause": cause,
        "limit": limit or 0,
    }
    return {name: value for name, value in chosen.items() if value}


def _operate(face: Face, action: str, given: Mapping[str, Any], *, dry_run: bool, asks: bool, as_json: bool) -> None:
    """Count first where somebody is asked, then do it, and say what was done."""
    if dry_run or asks:
        counted = finish(face, face.act(action, **given, dry_run=True))
        if dry_run:
            _tell_counted(counted, as_json)
            return
        confirm(f"{action} {counted['matched']} messages of {given['destination']}?")
    done = finish(face, face.act(action, **given))
    if as_json:
        print_json(done)
        return
    skipped = f", {done['skipped']} stay: a consumer has them, or there is no place for them" if done["skipped"] else ""
    click.echo(f"{action}: {done['done']} messages {done['state']}{skipped}")


def _tell_counted(counted: Mapping[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(counted)
        return
    click.echo(f"{counted['action']}: {counted['matched']} messages match, {counted['bytes']} bytes; nothing was done")
    for origin, cause, count in counted["groups"]:
        if origin:
            click.echo(f"  {count} from {origin}: {cause}")


@click.command()
@face_options
@click.argument("source")
@click.argument("target")
@_chosen
@_DRY
@_JSON
def move(face: Face, source: str, target: str, dry_run: bool, as_json: bool, **chosen: Any) -> None:
    """Move all messages of queue SOURCE, or those that match, to queue TARGET. None is lost, and none is there twice.

    \b
    Examples:
        jdbcstore move queue://ORDERS queue://ORDERS.LATER --selector "priority = 'low'"
        jdbcstore move queue://A queue://B --store sqlite:///data/jdbcstore.db
    """
    given = {"destination": source, "target": target, **_filter(**chosen)}
    _operate(face, "move", given, dry_run=dry_run, asks=False, as_json=as_json)


@click.command()
@face_options
@click.argument("source")
@click.argument("target")
@_chosen
@_DRY
@_JSON
def copy(face: Face, source: str, target: str, dry_run: bool, as_json: bool, **chosen: Any) -> None:
    """Copy all messages of queue SOURCE, or those that match, to queue TARGET."""
    given = {"destination": source, "target": target, **_filter(**chosen)}
    _operate(face, "copy", given, dry_run=dry_run, asks=False, as_json=as_json)


@click.command()
@face_options
@click.argument("source", default=_DEAD_LETTERS)
@_chosen
@_DRY
@_JSON
def retry(face: Face, source: str, dry_run: bool, as_json: bool, **chosen: Any) -> None:
    """Put dead letters of SOURCE back to where they came from. [default: queue://ActiveMQ.DLQ]

    \b
    Examples:
        jdbcstore retry --dry-run
        jdbcstore retry --origin queue://ORDERS
    """
    given = {"destination": source, **_filter(**chosen)}
    try:
        _operate(face, "retry", given, dry_run=dry_run, asks=False, as_json=as_json)
    except UnknownDestination:
        if source != _DEAD_LETTERS:
            raise
        click.echo("there are no dead letters", err=as_json)


@click.command()
@face_options
@click.argument("queue")
@_DRY
@_YES
@_JSON
def purge(face: Face, queue: str, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Remove all messages of QUEUE that no consumer has, for good."""
    _operate(face, "purge", {"destination": queue}, dry_run=dry_run, asks=not yes, as_json=as_json)


@click.command()
@face_options
@click.argument("destination")
@_chosen
@_DRY
@_YES
@_JSON
def delete(face: Face, destination: str, dry_run: bool, yes: bool, as_json: bool, **chosen: Any) -> None:
    """Remove messages of DESTINATION for good; without a selector or ids, the destination itself with all of them.

    Nobody may be using a destination that is deleted.
    """
    wanted = _filter(**chosen)
    if wanted:
        given = {"destination": destination, **wanted}
        _operate(face, "delete", given, dry_run=dry_run, asks=not yes, as_json=as_json)
        return
    shown = face.view("destination", destination=destination)["destination"]
    if dry_run:
        click.echo(f"delete: {destination} with {shown['depth']} messages; nothing was done")
        return
    if not yes:
        confirm(f"delete {destination} with {shown['depth']} messages?")
    done = face.act("delete-destination", destination=destination)
    print_json(done) if as_json else click.echo(f"delete: {destination} is gone")


@click.command()
@face_options
@click.argument("queue")
@click.option("--priority", type=click.IntRange(0, 9), help="Another priority.")
@click.option("--expires-after-s", type=click.FloatRange(min=0.0), help="Seconds from now; 0 for never.")
@_chosen
@_DRY
@_YES
@_JSON
def change(
    face: Face,
    queue: str,
    priority: int | None,
    expires_after_s: float | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
    **chosen: Any,
) -> None:
    """Give the messages of QUEUE, or those that match, another priority or expiration. They go last then.

    \b
    Examples:
        jdbcstore change queue://ORDERS --priority 9 --selector "customer = 'king'"
        jdbcstore change queue://ORDERS --expires-after-s 3600 --dry-run
    """
    if priority is None and expires_after_s is None:
        raise click.UsageError("give --priority or --expires-after-s")
    given = {"destination": queue, "priority": priority, **_filter(**chosen)}
    if expires_after_s is not None:
        given["expiration_ms"] = int((time.time() + expires_after_s) * 1000) if expires_after_s else 0
    _operate(face, "change", given, dry_run=dry_run, asks=not yes, as_json=as_json)


@click.command()
@running_broker_options
@click.argument("operation_id")
def cancel(face: Face, operation_id: str) -> None:
    """End an operation behind the commit that it is at; what it has done stays done. `operations` lists them."""
    done = face.act("cancel", operation_id=operation_id)
    click.echo(f"cancel: {done['action']} of {done['destination']}, {done['done']} messages done")


_SIDE = click.option(
    "--side",
    type=click.Choice(("consumers", "producers", "both")),
    help="Whom to pause. [default: consumers; resume: both]",
)


@click.command()
@face_options
@click.argument("destination")
@_SIDE
def pause(face: Face, destination: str, side: str | None) -> None:
    """Deliver nothing of DESTINATION, or take nothing for it, until it is resumed, also after a restart."""
    face.act("pause", destination=destination, side=side or "consumers")
    click.echo(f"pause: {destination} is paused for {side or 'consumers'}")


@click.command()
@face_options
@click.argument("destination")
@_SIDE
def resume(face: Face, destination: str, side: str | None) -> None:
    """Take a pause back."""
    face.act("resume", destination=destination, side=side or "both")
    click.echo(f"resume: {destination}")


@click.command()
@running_broker_options
@click.argument("destination")
def create(face: Face, destination: str) -> None:
    """Make a queue or topic, which stays although nobody uses it until the broker stops."""
    face.act("create", destination=destination)
    click.echo(f"create: {destination}")


@click.command()
@face_options
@click.argument("client_id")
@click.argument("name")
@_YES
def unsubscribe(face: Face, client_id: str, name: str, yes: bool) -> None:
    """Remove the durable subscription NAME of CLIENT_ID, with what waits for it. Nobody may be using it."""
    if not yes:
        confirm(f"remove the durable subscription {name} of {client_id}?")
    face.act("remove-subscription", client_id=client_id, name=name)
    click.echo(f"unsubscribe: {name} of {client_id} is gone")


@click.command()
@running_broker_options
@click.argument("connection_id")
@_YES
def disconnect(face: Face, connection_id: str, yes: bool) -> None:
    """End a client's connection; what it holds goes back to its queues."""
    if not yes:
        confirm(f"end the connection {connection_id}?")
    face.act("disconnect", connection_id=connection_id)
    click.echo(f"disconnect: {connection_id}")


@click.command()
@running_broker_options
@click.option("--end", "ends", is_flag=True, help="Take messages again.")
def drain(face: Face, ends: bool) -> None:
    """Take no messages from clients any more, so that consumers finish what there is."""
    face.act("drain", on=not ends)
    click.echo("drain: messages are taken again" if ends else "drain: nothing is taken, consumers finish what there is")


@click.command("hand-over")
@running_broker_options
@_YES
def hand_over(face: Face, yes: bool) -> None:
    """Let a standby be master. Without one, this broker is master again after some seconds."""
    if not yes:
        confirm("hand mastership over?")
    face.act("hand-over")
    click.echo("hand-over: a standby may be master now")
