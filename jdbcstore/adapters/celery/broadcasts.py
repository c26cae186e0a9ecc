"""Queues that are bound to the topic of an exchange: what came for them, on this connection.

There is one subscription for each queue and exchange. The topic carries all that is published to the exchange; what the
queue's bindings do not want is dropped here.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from functools import partial
from typing import Any, Final

from jdbcstore.adapters.celery.consumption import Delivery
from jdbcstore.adapters.celery.envelope import unmarshal
from jdbcstore.adapters.celery.names import Names
from jdbcstore.adapters.celery.switchboard import Switchboard
from jdbcstore.stomp.frames import Frame

__all__ = ["Broadcasts"]

log = logging.getLogger(__name__)

#: What waits for one queue at most; then the oldest go.
_WAITING_MAX: Final = 10_000


class Broadcasts:
    """Those of one connection.

    Args:
        switchboard: of the connection.
        names: of its virtual host.
    """

    def __init__(self, switchboard: Switchboard, names: Names) -> None:
        self._switchboard = switchboard
        self._names = names
        self._waiting: dict[str, deque[Delivery]] = {}
        #: Subscriptions by queue and exchange, with the exchange's type and the routing keys that are wanted.
        self._bound: dict[tuple[str, str], tuple[str, Any, set[str]]] = {}

    def bind(self, queue: str, ttl_ms: int | None, kind: Any, exchange: str, routing_key: str) -> None:
        """From now on collect what an exchange has for a queue.

        Args:
            ttl_ms: how long the queue keeps messages; None for ever.
            kind: kombu's type of the exchange.
        """
        bound = self._bound.get((queue, exchange))
        if bound is not None:
            bound[2].add(routing_key)
            return
        keys = {routing_key}
        came = partial(self._came, queue, ttl_ms, exchange, kind, keys)
        id = self._switchboard.subscribe(self._names.exchange(exchange), came, {"ack": "auto"})
        self._bound[queue, exchange] = (id, kind, keys)

    def unbind(self, queue: str, exchange: str, routing_key: str) -> bool:
        """Undo `bind`; False if it was not bound so."""
        bound = self._bound.get((queue, exchange))
        if bound is None:
            return False
        bound[2].discard(routing_key)
        if not bound[2]:
            self._switchboard.unsubscribe(self._bound.pop((queue, exchange))[0])
        return True

    def forget(self, queue: str) -> None:
        """The queue is deleted."""
        for key in [key for key in self._bound if key[0] == queue]:
            self._switchboard.unsubscribe(self._bound.pop(key)[0])
        self._waiting.pop(queue, None)

    def _came(self, queue: str, ttl_ms: int | None, exchange: str, kind: Any, keys: set[str], frame: Frame) -> None:
        if kind.type != "fanout":
            routing_key = unmarshal(frame, 0, queue)["properties"]["delivery_info"].get("routing_key", "")
            table = [kind.prepare_bind(queue, exchange, key, None) for key in keys]
            if not kind.lookup(table, exchange, routing_key, None):
                return
        waiting = self.of(queue)
        if len(waiting) >= _WAITING_MAX:
            if len(waiting) == _WAITING_MAX:
                log.warning("a queue is bound and not consumed from, its oldest messages go queue=%s", queue)
            waiting.popleft()
        delivery = Delivery(queue, frame, None)
        if ttl_ms is not None:
            expires_ms = int(time.time() * 1000) + ttl_ms
            delivery.expires_ms = min(delivery.expires_ms or expires_ms, expires_ms)
        waiting.append(delivery)

    def of(self, queue: str) -> deque[Delivery]:
        """What waits for a queue, and is not expired: the broker has forgotten it, so that is for us to see."""
        waiting = self._waiting.setdefault(queue, deque())
        now_ms = time.time() * 1000
        while waiting and 0 < waiting[0].expires_ms <= now_ms:
            waiting.popleft()
        return waiting

    def put_back(self, delivery: Delivery) -> None:
        """It is the next one of its queue again."""
        self.of(delivery.queue).appendleft(delivery)
