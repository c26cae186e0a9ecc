"""Messages for a store that is used without a broker: new ones, with ids of their own."""

from __future__ import annotations

import secrets
import socket
import time
from collections.abc import Mapping
from itertools import count

from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import BytesMessage, Message, TextMessage
from jdbcstore.primitives import Value

__all__ = ["Producer"]


class Producer:
    """One for each start of a program.

    Args:
        name: of the program, for who reads message ids.
    """

    def __init__(self, name: str) -> None:
        now_ms = int(time.time() * 1000)
        self._id = ProducerId(f"ID:{socket.gethostname()}-{name}-{now_ms}-{secrets.token_hex(4)}:1", 1, 1)
        self._numbers = count(1)

    def message(self, queue: Queue, body: str | bytes, properties: Mapping[str, Value], priority: int = 4) -> Message:
        """A persistent message.

        Raises:
            CodecError: a property cannot be one.
        """
        message: Message
        if isinstance(body, str):
            message = TextMessage()
            message.text = body
        else:
            message = BytesMessage(content=bytes(body))
        message.destination = queue
        message.message_id = MessageId(self._id, next(self._numbers))
        message.producer_id = self._id
        message.persistent = True
        message.priority = priority
        message.timestamp = message.broker_in_time = int(time.time() * 1000)
        message.properties = properties
        return message
