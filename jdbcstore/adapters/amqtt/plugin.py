"""amqtt's sessions, subscriptions, retained messages and unconfirmed messages in one of our stores.

What amqtt tells a plug-in, and when, bounds what can be kept:

* A publisher has its PUBACK *before* a plug-in hears of the message. What a crash meets in between is lost.
* Events run as tasks that nobody waits for. They begin in the order in which they were fired, so everything is
  submitted to the store before the first ``await``; then their order in the store is that of the events.
* There is no event for "delivered". A message of a persistent session is stored when it is queued, or when its PUBLISH
  is sent; it is removed with its PUBACK or PUBCOMP. So after a crash it is sent again, perhaps for the second time.
* Clients that log in anonymously have no persistent sessions in amqtt.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections import deque
from dataclasses import dataclass
from typing import Any

from amqtt.broker import RetainedApplicationMessage
from amqtt.mqtt.puback import PubackPacket
from amqtt.mqtt.pubcomp import PubcompPacket
from amqtt.mqtt.publish import PublishPacket
from amqtt.plugins.base import BasePlugin

from jdbcstore.adapters.amqtt.memory import WILL_FIELDS, BrokerMemory, Queued, Retained
from jdbcstore.config.urls import open_store
from jdbcstore.errors import JdbcStoreError
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import PersistenceAdapter

__all__ = ["JdbcSessionPlugin"]

log = logging.getLogger(__name__)


class JdbcSessionPlugin(BasePlugin):
    """Persistence for amqtt's broker; give it ``url``, that of a store, which it has for itself.

    Raises:
        ConfigurationError: the URL is wrong, or its driver is not installed.
        StoreError: the store cannot be opened.
        CodecError: something in it is none of ours.
        LockHeld: another program has it.
    """

    @dataclass
    class Config:
        """Configuration variables."""

        url: str = "sqlite:///amqtt.db"
        """URL of a store: ``sqlite:///…``, ``postgresql://…``, ``mysql://…``, ``mariadb://…``, ``kahadb:DIRECTORY``."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        # All that can fail is here, and not at an event: amqtt would start without us, and let clients in.
        self._adapter: PersistenceAdapter = open_store(self.config.url)
        self._adapter.start()
        self._memory = BrokerMemory(self._adapter)
        try:
            self._recovered = self._read()
        except BaseException:
            self._adapter.stop()
            raise
        self._sessions: dict[str, dict[str, Any]] = {}
        #: What a session has not been sent since it connected, and what it has not confirmed, by packet id.
        self._waiting: dict[str, deque[Queued]] = {}
        self._unconfirmed: dict[str, dict[int, Queued]] = {}

    # -- the broker's life ---------------------------------------------------------------------------------------

    def _read(self) -> tuple[list[dict[str, Any]], list[Retained], list[Queued]]:
        memory = self._memory
        return list(memory.sessions()), list(memory.retained()), list(memory.queued())

    async def on_broker_pre_start(self) -> None:
        """Give the broker what it knew, before anybody can connect."""
        sessions, retained, queued = self._recovered
        self._recovered = [], [], []
        for stored in sessions:
            await self._restore(stored)
        for message in retained:
            self.context.retained_messages[message.topic] = RetainedApplicationMessage(
                None, message.topic, message.data, message.qos
            )
        orphans: list[Queued] = []  # their session was forgotten, and they were not
        for one in queued:
            session = self.context.get_session(one.client_id)
            if session is None:
                orphans.append(one)
                continue
            self._waiting.setdefault(one.client_id, deque()).append(one)
            await session.retained_messages.put(RetainedApplicationMessage(None, one.topic, one.data, one.qos))
        if orphans:
            await self._durable(self._memory.forget_queued(*orphans))
        log.info("restored sessions=%d retained=%d queued=%d", len(sessions), len(retained), len(queued))

    async def _restore(self, stored: dict[str, Any]) -> None:
        client_id = stored["client_id"]
        await self.context.add_subscription(client_id, None, None)
        for topic, qos in stored["subscriptions"].items():
            await self.context.add_subscription(client_id, topic, qos)
        session = self.context.get_session(client_id)
        session.clean_session = False
        for name in WILL_FIELDS:
            setattr(session, name, stored[name])
        session.will_message = None if stored["will_message"] is None else base64.b64decode(stored["will_message"])
        self._sessions[client_id] = stored

    async def close(self) -> None:
        """Finish what was submitted, and close the store."""
        await asyncio.to_thread(self._adapter.stop)

    # -- sessions ------------------------------------------------------------------------------------------------

    async def on_broker_client_connected(self, client_id: str, client_session: Any) -> None:
        """Remember a persistent session; forget what was known of a clean one."""
        if client_session.clean_session in (None, True) or client_session.is_anonymous:
            await self._forget(client_id)
            return
        stored = self._sessions.setdefault(client_id, {"client_id": client_id, "subscriptions": {}})
        stored.update({name: getattr(client_session, name) for name in WILL_FIELDS})
        will = client_session.will_message
        stored["will_message"] = None if will is None else base64.b64encode(bytes(will)).decode()
        # Confirmations belong to packets of the former connection; amqtt sends what it has not heard of again.
        again = self._unconfirmed.pop(client_id, {})
        self._waiting.setdefault(client_id, deque()).extendleft(reversed(again.values()))
        await self._durable(self._memory.put_session(stored))

    async def _forget(self, client_id: str) -> None:
        self._sessions.pop(client_id, None)
        queued = [*self._waiting.pop(client_id, ()), *self._unconfirmed.pop(client_id, {}).values()]
        done = [self._memory.forget_session(client_id)]
        if queued:
            done.append(self._memory.forget_queued(*queued))
        for completion in done:
            await self._durable(completion)

    async def on_broker_client_subscribed(self, client_id: str, topic: str, qos: int) -> None:
        """Remember a subscription of a persistent session."""
        stored = self._sessions.get(client_id)
        if stored is not None:
            stored["subscriptions"][topic] = qos
            await self._durable(self._memory.put_session(stored))

    async def on_broker_client_unsubscribed(self, client_id: str, topic: str) -> None:
        """Forget a subscription."""
        stored = self._sessions.get(client_id)
        if stored is not None and stored["subscriptions"].pop(topic, None) is not None:
            await self._durable(self._memory.put_session(stored))

    # -- messages ------------------------------------------------------------------------------------------------

    async def on_broker_retained_message(self, *, client_id: str | None, retained_message: Any) -> None:
        """Remember the last message of a topic, or one for a session that is away."""
        topic, data, qos = retained_message.topic, bytes(retained_message.data or b""), retained_message.qos or 0
        if client_id is None:
            await self._durable(self._memory.put_retained(Retained(topic, data, qos)))
        elif client_id in self._sessions:
            queued, stored = self._memory.put_queued(client_id, topic, data, qos)
            self._waiting.setdefault(client_id, deque()).append(queued)
            await self._durable(stored)

    async def on_mqtt_packet_sent(self, packet: Any, session: Any = None) -> None:
        """A PUBLISH of QoS 1 or 2 is unconfirmed from now on."""
        client_id = None if session is None else session.client_id
        if not isinstance(packet, PublishPacket) or not packet.qos or client_id not in self._sessions:
            return
        unconfirmed = self._unconfirmed.setdefault(client_id, {})
        if packet.packet_id in unconfirmed:
            return  # sent again
        topic, data = packet.topic_name, bytes(packet.data or b"")
        waiting = self._waiting.setdefault(client_id, deque())
        for queued in waiting:
            if queued.topic == topic and queued.data == data:
                waiting.remove(queued)
                unconfirmed[packet.packet_id] = queued
                return
        unconfirmed[packet.packet_id], stored = self._memory.put_queued(client_id, topic, data, packet.qos)
        await self._durable(stored)

    async def on_mqtt_packet_received(self, packet: Any, session: Any = None) -> None:
        """PUBACK and PUBCOMP confirm a message."""
        if session is None or not isinstance(packet, PubackPacket | PubcompPacket):
            return
        queued = self._unconfirmed.get(session.client_id, {}).pop(packet.packet_id, None)
        if queued is not None:
            await self._durable(self._memory.forget_queued(queued))

    @staticmethod
    async def _durable(completion: Completion[Any] | None) -> None:
        """Wait for a write. amqtt would not look at an error, so it is told here."""
        if completion is None:
            return
        loop, done = asyncio.get_running_loop(), asyncio.Event()
        completion.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
        await done.wait()
        try:
            completion.result()
        except JdbcStoreError:
            log.exception("a change was not stored, and is lost if the broker ends now")
