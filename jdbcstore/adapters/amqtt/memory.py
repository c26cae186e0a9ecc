"""What an MQTT broker has to remember, in one of our stores; no MQTT library is needed to read it.

================== ======================================================================================
``amqtt.sessions`` a text message for each persistent session: JSON with its will and its subscriptions
``amqtt.retained`` a bytes message for each topic with a retained message; properties ``topic``, ``qos``
``amqtt.queued``   a bytes message for each QoS 1 or 2 message that a session has not confirmed; properties
                   ``client_id``, ``topic``, ``qos``
================== ======================================================================================

What replaces another one is stored in the commit that removes the other one. Everything is submitted at once, in the
order of the calls, and is durable when the `Completion` succeeds; nothing here waits. One thread calls.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from jdbcstore.adapters.producer import Producer
from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.primitives import Value
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import Commit, MessageStore, PersistenceAdapter

__all__ = ["WILL_FIELDS", "BrokerMemory", "Queued", "Retained"]

#: What is kept of a session as amqtt has it.
WILL_FIELDS: Final = ("will_flag", "will_qos", "will_retain", "will_topic", "keep_alive")
_SESSION_FIELDS: Final = {"client_id", "subscriptions", "will_message", *WILL_FIELDS}
_SESSIONS: Final = Queue("amqtt.sessions")
_RETAINED: Final = Queue("amqtt.retained")
_QUEUED: Final = Queue("amqtt.queued")


@dataclass(frozen=True, slots=True)
class Retained:
    """The last message of a topic."""

    topic: str
    data: bytes
    qos: int


@dataclass(frozen=True, slots=True)
class Queued:
    """A message that a session has not confirmed; `message` is what the store has."""

    client_id: str
    topic: str
    data: bytes
    qos: int
    message: Message


class BrokerMemory:
    """The three queues of a store.

    Args:
        adapter: of the store, started.
    """

    def __init__(self, adapter: PersistenceAdapter) -> None:
        self._adapter = adapter
        self._producer = Producer("amqtt")
        self._sessions = adapter.queue_message_store(_SESSIONS)
        self._retained = adapter.queue_message_store(_RETAINED)
        self._queued = adapter.queue_message_store(_QUEUED)
        #: What stands in the store at present, by client id and by topic.
        self._session_rows: dict[str, Message] = {}
        self._retained_rows: dict[str, Message] = {}

    # -- at the start --------------------------------------------------------------------------------------------

    def sessions(self) -> Iterator[dict[str, Any]]:
        """The sessions as they were stored last; each has a ``client_id``."""
        for message in self._sessions.recover():
            session = _session(message)
            self._session_rows[session["client_id"]] = message
            yield session

    def retained(self) -> Iterator[Retained]:
        """The retained messages."""
        for message in self._retained.recover():
            topic, qos = _place(message)
            self._retained_rows[topic] = message
            yield Retained(topic, _data(message), qos)

    def queued(self) -> Iterator[Queued]:
        """What sessions have not confirmed, in the order in which it was published."""
        for message in self._queued.recover():
            topic, qos = _place(message)
            yield Queued(str(message.properties.get("client_id")), topic, _data(message), qos, message)

    # -- while it runs -------------------------------------------------------------------------------------------

    def put_session(self, session: dict[str, Any]) -> Completion[None] | None:
        """Remember a session, in the place of what was known of it."""
        client_id = session["client_id"]
        message = self._producer.message(_SESSIONS, json.dumps(session), {"client_id": client_id})
        return self._replace(self._sessions, self._session_rows, client_id, message)

    def forget_session(self, client_id: str) -> Completion[None] | None:
        """Forget a session; None if none was known. What is queued for it is the caller's business."""
        return self._replace(self._sessions, self._session_rows, client_id, None)

    def put_retained(self, retained: Retained) -> Completion[None] | None:
        """Remember the last message of a topic; one without data is none."""
        message = None
        if retained.data:
            place: dict[str, Value] = {"topic": retained.topic, "qos": retained.qos}
            message = self._producer.message(_RETAINED, retained.data, place)
        return self._replace(self._retained, self._retained_rows, retained.topic, message)

    def _replace(
        self, store: MessageStore, rows: dict[str, Message], key: str, message: Message | None
    ) -> Completion[None] | None:
        former = rows.pop(key, None)
        if message is None and former is None:
            return None
        if message is not None:
            rows[key] = message
        removes = [(store, former.message_id)] if former is not None and former.message_id is not None else []
        return self._adapter.commit_together(
            Commit(adds=[] if message is None else [(store, message)], removes=removes)
        )

    def put_queued(self, client_id: str, topic: str, data: bytes, qos: int) -> tuple[Queued, Completion[int]]:
        """Remember a message until its session confirms it."""
        properties: dict[str, Value] = {"client_id": client_id, "topic": topic, "qos": qos}
        message = self._producer.message(_QUEUED, data, properties)
        return Queued(client_id, topic, data, qos, message), self._queued.add_message(message)

    def forget_queued(self, *queued: Queued) -> Completion[None]:
        """They are confirmed, or their session is gone."""
        ids = [one.message.message_id for one in queued if one.message.message_id is not None]
        return self._queued.remove_message(*ids)


def _session(message: Message) -> dict[str, Any]:
    text = message.text if isinstance(message, TextMessage) else None
    try:
        session = json.loads(text or "{}")
    except ValueError:
        session = None
    if not isinstance(session, dict) or not session.keys() >= _SESSION_FIELDS:
        raise CodecError(_foreign(message, "session"))
    return session


def _place(message: Message) -> tuple[str, int]:
    topic, qos = message.properties.get("topic"), message.properties.get("qos")
    if not isinstance(topic, str) or not isinstance(qos, int):
        raise CodecError(_foreign(message, "message of MQTT: it has no topic or no qos"))
    return topic, qos


def _data(message: Message) -> bytes:
    if not isinstance(message, BytesMessage):
        raise CodecError(_foreign(message, "bytes message"))
    return message.body


def _foreign(message: Message, what: str) -> str:
    return (
        f"message {message.message_id} of {message.destination} is no {what}: somebody else has written it; remove it,"
        " and start again"
    )
