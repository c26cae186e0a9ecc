"""The management face by names: each call takes arguments by their names, and returns what JSON can have.

So one table serves programs over HTTP and the command line, which may call a broker of its own. docs/management.md
lists it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jdbcstore.destination import parse_destination
from jdbcstore.errors import ConfigurationError
from jdbcstore.management.archive import archived, restored
from jdbcstore.management.described import described
from jdbcstore.management.management import Management
from jdbcstore.management.operations import Operation
from jdbcstore.management.values import Arguments, filter_of, message_of, page_as_json
from jdbcstore.store.jobs import HELD_MS

__all__ = ["ACTIONS", "VIEWS", "Call"]

_COUNT_MAX: Final = 1000

#: A call of the face, with its arguments; what it returns `jdbcstore.management.values.as_json` makes JSON.
Call: TypeAlias = Callable[[Management, Arguments], Awaitable[Any]]


# -- views -------------------------------------------------------------------------------------------------------------


def _count(arguments: Arguments, default: int = 100) -> int:
    return max(1, min(arguments.number("count", default) or default, _COUNT_MAX))


async def _broker(face: Management, arguments: Arguments) -> Any:
    return face.broker()


async def _destinations(face: Management, arguments: Arguments) -> Any:
    if arguments.flag("fresh"):
        await face.freshen()
    rows, total = await face.destinations(
        kind=arguments.text("kind", ""),
        text=arguments.text("text", ""),
        sort=arguments.text("sort", "name"),
        is_descending=arguments.flag("descending"),
        offset=max(arguments.number("offset", 0) or 0, 0),
        count=_count(arguments),
        with_temporary=arguments.flag("temporary"),
    )
    return {"destinations": rows, "total": total, "looked_ms": face.looked_ms}


async def _destination(face: Management, arguments: Arguments) -> Any:
    name = arguments.text("destination")
    return {"destination": face.destination(name), "subscriptions": await face.subscriptions(name)}


async def _messages(face: Management, arguments: Arguments) -> Any:
    after = arguments.text("after", "") or None
    page = await face.browse(arguments.text("destination"), filter_of(arguments), after, _count(arguments))
    return page_as_json(page, is_full=arguments.flag("full"))


async def _message(face: Management, arguments: Arguments) -> Any:
    number, message_id = arguments.number("number", 0) or 0, arguments.text("message_id", "")
    if not number and not message_id:
        raise ConfigurationError("give a number, or a message_id")
    message = await face.message(arguments.text("destination"), number=number, message_id=message_id)
    if message is None:
        return {"message": None}
    return {"message": described(message), "archived": archived(message)}


async def _export(face: Management, arguments: Arguments) -> Any:
    after = arguments.text("after", "") or None
    page = await face.browse(arguments.text("destination"), filter_of(arguments), after, _count(arguments))
    lines = [archived(view.message) for view in page.messages]
    return {"lines": lines, "after": page.after, "unreadable": [list(one) for one in page.unreadable]}


async def _connections(face: Management, arguments: Arguments) -> Any:
    return _some(await face.connections(), arguments)


async def _producers(face: Management, arguments: Arguments) -> Any:
    return _some(await face.producers(), arguments)


async def _subscriptions(face: Management, arguments: Arguments) -> Any:
    return _some(await face.subscriptions(arguments.text("destination", "")), arguments)


async def _slow_consumers(face: Management, arguments: Arguments) -> Any:
    return _some(await face.slow_consumers(), arguments)


def _some(views: Sequence[Any], arguments: Arguments) -> Any:
    """Some of a list, by offset and count, with a text in one of their fields."""
    text = arguments.text("text", "").lower()
    if text:
        views = [
            view
            for view in views
            if any(text in str(getattr(view, name)).lower() for name in view.__dataclass_fields__)
        ]
    offset = max(arguments.number("offset", 0) or 0, 0)
    return {"rows": views[offset : offset + _count(arguments)], "total": len(views)}


async def _store(face: Management, arguments: Arguments) -> Any:
    return {"store": await face.store(), "memory": face.memory(), "terms": face.terms()}


async def _diagnosis(face: Management, arguments: Arguments) -> Any:
    return await face.diagnosis()


async def _history(face: Management, arguments: Arguments) -> Any:
    return face.history(arguments.number("after_ms"))


async def _scheduled(face: Management, arguments: Arguments) -> Any:
    after_ms, job_id = arguments.number("after_ms"), arguments.text("after_id", "")
    after = None if after_ms is None else (min(after_ms, HELD_MS), job_id)  # a browser knows no such number exactly
    rows, end = await face.scheduled(after, _count(arguments))
    return {"rows": rows, "after": end}


async def _prepared(face: Management, arguments: Arguments) -> Any:
    return await face.prepared()


async def _loads(face: Management, arguments: Arguments) -> Any:
    return await face.loads()


async def _log(face: Management, arguments: Arguments) -> Any:
    return face.log(_count(arguments, 200))


async def _audit(face: Management, arguments: Arguments) -> Any:
    return face.audit(_count(arguments, 200))


async def _operations(face: Management, arguments: Arguments) -> Any:
    return face.operations()


async def _operation(face: Management, arguments: Arguments) -> Any:
    return face.operation(arguments.text("operation_id"))


VIEWS: Final[Mapping[str, Call]] = {
    "broker": _broker,
    "destinations": _destinations,
    "destination": _destination,
    "messages": _messages,
    "export": _export,
    "message": _message,
    "connections": _connections,
    "producers": _producers,
    "subscriptions": _subscriptions,
    "slow-consumers": _slow_consumers,
    "store": _store,
    "diagnosis": _diagnosis,
    "history": _history,
    "scheduled": _scheduled,
    "prepared": _prepared,
    "loads": _loads,
    "log": _log,
    "audit": _audit,
    "operations": _operations,
    "operation": _operation,
}


# -- actions -----------------------------------------------------------------------------------------------------------


async def _send(face: Management, arguments: Arguments) -> Any:
    return {"message_id": await face.send(message_of(arguments))}


async def _import(face: Management, arguments: Arguments) -> Any:
    lines = arguments.objects("lines")
    messages = [restored(line) for line in lines]
    target = arguments.text("target", "")
    for message in messages if target else ():
        message.destination = parse_destination(target)
    run, portion = arguments.text("run", ""), arguments.number("portion", 0) or 0
    return {"stored": await face.restore(messages, run, portion)}


async def _move(face: Management, arguments: Arguments) -> Any:
    place = arguments.text("destination"), arguments.text("target")
    return await _begun(face, arguments, face.move(*place, filter_of(arguments), is_dry_run=arguments.flag("dry_run")))


async def _copy(face: Management, arguments: Arguments) -> Any:
    place = arguments.text("destination"), arguments.text("target")
    return await _begun(face, arguments, face.copy(*place, filter_of(arguments), is_dry_run=arguments.flag("dry_run")))


async def _delete(face: Management, arguments: Arguments) -> Any:
    chosen = filter_of(arguments)
    if chosen.is_everything:
        raise ConfigurationError("delete needs to know which messages: purge removes all of them")
    operation = face.delete(arguments.text("destination"), chosen, is_dry_run=arguments.flag("dry_run"))
    return await _begun(face, arguments, operation)


async def _purge(face: Management, arguments: Arguments) -> Any:
    operation = face.purge(arguments.text("destination"), is_dry_run=arguments.flag("dry_run"))
    return await _begun(face, arguments, operation)


async def _retry(face: Management, arguments: Arguments) -> Any:
    operation = face.retry(arguments.text("destination"), filter_of(arguments), is_dry_run=arguments.flag("dry_run"))
    return await _begun(face, arguments, operation)


async def _change(face: Management, arguments: Arguments) -> Any:
    operation = face.change(
        arguments.text("destination"),
        filter_of(arguments),
        priority=arguments.number("priority"),
        expiration_ms=arguments.number("expiration_ms"),
        is_dry_run=arguments.flag("dry_run"),
    )
    return await _begun(face, arguments, operation)


async def _begun(face: Management, arguments: Arguments, operation: Operation) -> Any:
    """An operation as it has begun; as it has ended, if the caller waits."""
    return await face.finished(operation) if arguments.flag("wait") else operation.view()


async def _cancel(face: Management, arguments: Arguments) -> Any:
    return face.cancel(arguments.text("operation_id"))


async def _pause(face: Management, arguments: Arguments) -> Any:
    await face.pause(arguments.text("destination"), arguments.text("side", "consumers"))
    return _DONE


async def _resume(face: Management, arguments: Arguments) -> Any:
    await face.resume(arguments.text("destination"), arguments.text("side", "both"))
    return _DONE


async def _create(face: Management, arguments: Arguments) -> Any:
    await face.create(arguments.text("destination"))
    return _DONE


async def _delete_destination(face: Management, arguments: Arguments) -> Any:
    return {"done": True, "purged": await face.delete_destination(arguments.text("destination"))}


async def _remove_subscription(face: Management, arguments: Arguments) -> Any:
    await face.remove_subscription(arguments.text("client_id"), arguments.text("name"))
    return _DONE


async def _disconnect(face: Management, arguments: Arguments) -> Any:
    await face.disconnect(arguments.text("connection_id"))
    return _DONE


async def _remove_scheduled(face: Management, arguments: Arguments) -> Any:
    if arguments.flag("all"):
        return {"done": True, "removed": await face.remove_all_scheduled()}
    return {"done": True, "removed": await face.remove_scheduled(arguments.text("job_id"))}


async def _commit_prepared(face: Management, arguments: Arguments) -> Any:
    await face.decide(arguments.text("xid"), commits=True)
    return _DONE


async def _rollback_prepared(face: Management, arguments: Arguments) -> Any:
    await face.decide(arguments.text("xid"), commits=False)
    return _DONE


async def _drain(face: Management, arguments: Arguments) -> Any:
    await face.drain(is_on=arguments.flag("on", default=True))
    return _DONE


async def _hand_over(face: Management, arguments: Arguments) -> Any:
    await face.hand_over()
    return _DONE


_DONE: Final = {"done": True}

ACTIONS: Final[Mapping[str, Call]] = {
    "send": _send,
    "import": _import,
    "move": _move,
    "copy": _copy,
    "delete": _delete,
    "purge": _purge,
    "retry": _retry,
    "change": _change,
    "cancel": _cancel,
    "pause": _pause,
    "resume": _resume,
    "create": _create,
    "delete-destination": _delete_destination,
    "remove-subscription": _remove_subscription,
    "disconnect": _disconnect,
    "remove-scheduled": _remove_scheduled,
    "commit-prepared": _commit_prepared,
    "rollback-prepared": _rollback_prepared,
    "drain": _drain,
    "hand-over": _hand_over,
}
