"""Which queues are bound to an exchange, for all who publish to it, also when nobody runs who declared them.

The bindings of exchange E are messages of the queue ``kombu.bindings.E``. They are browsed and never consumed, until a
queue is deleted. A publisher reads them once; the topic of the same name tells it of changes.

Bindings to fanout exchanges, and of queues that go with their connection, are none of these: they are subscriptions to
the exchange's topic (`jdbcstore.adapters.celery.subscribers`).
"""

from __future__ import annotations

import json

from jdbcstore.adapters.celery.names import Names
from jdbcstore.adapters.celery.switchboard import Switchboard
from jdbcstore.stomp.frames import Frame

__all__ = ["Binding", "Bindings"]

#: A routing key (a pattern, if the exchange is a topic) and the name of a queue.
Binding = tuple[str, str]


class Bindings:
    """Those of all exchanges, as one connection knows them.

    Args:
        switchboard: of the connection.
        names: of its virtual host.
    """

    def __init__(self, switchboard: Switchboard, names: Names) -> None:
        self._switchboard = switchboard
        self._names = names
        self._known: dict[str, set[Binding]] = {}
        self._watched: set[str] = set()

    def of(self, exchange: str) -> set[Binding]:
        """The bindings of an exchange.

        Raises:
            LinkLost: the connection is gone.
        """
        self._watch(exchange)
        self._switchboard.wait(lambda: False, 0)  # changes that were told already
        known = self._known.get(exchange)
        if known is None:
            known = self._known[exchange] = set()
            known |= {_binding(frame) for frame in self._switchboard.browse(self._names.bindings(exchange))}
        return known  # a change that came meanwhile has removed it from what is known

    def _watch(self, exchange: str) -> None:
        if exchange not in self._watched:
            changes = self._names.binding_changes(exchange)
            self._switchboard.subscribe(changes, lambda _: self._known.pop(exchange, None), {"ack": "auto"})
            self._watched.add(exchange)

    def add(self, exchange: str, binding: Binding) -> None:
        """Bind a queue, if it is not; in the store when this returns."""
        if binding in self.of(exchange):
            return
        routing_key, queue = binding
        headers = {"destination": self._names.bindings(exchange), "persistent": "true", "queue": queue}
        body = json.dumps({"routing_key": routing_key, "queue": queue}).encode()
        self._switchboard.link.request(("SEND", {**headers, "routing_key": routing_key}, body))
        self._tell(exchange)

    def remove(self, exchange: str, queue: str, routing_key: str | None = None) -> None:
        """Unbind a queue; all its bindings to the exchange, or those of one routing key."""
        selector = f"queue = {_quoted(queue)}"
        gone = {found for found in self.of(exchange) if found[1] == queue and routing_key in (None, found[0])}
        if routing_key is not None:
            selector += f" AND routing_key = {_quoted(routing_key)}"
        if gone:
            self._switchboard.drop(self._names.bindings(exchange), len(gone), selector)
            self._tell(exchange)

    def _tell(self, exchange: str) -> None:
        changes = {"destination": self._names.binding_changes(exchange), "persistent": "false"}
        self._known.pop(exchange, None)
        self._switchboard.link.request(("SEND", changes, b""))


def _binding(frame: Frame) -> Binding:
    return frame.headers.get("routing_key", ""), frame.headers.get("queue", "")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
