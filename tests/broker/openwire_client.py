"""An OpenWire client that says what it is told to, right or wrong."""

from __future__ import annotations

import socket
import struct
from itertools import count
from types import TracebackType
from typing import Self

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConnectionId, ConsumerId, MessageId, ProducerId, SessionId, TransactionId
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import commands as c
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding
from jdbcstore.openwire.wire_format import WireFormat

__all__ = ["OpenWireClient"]

_numbers = count(1)


class OpenWireClient:
    """A connection with one session.

    Args:
        address: of the broker.
        name: its connection id; None for a new one.
        is_reconnected: whether it comes back from a failover.
        is_open: whether it says who it is.
        is_fault_tolerant: whether it would send again what it heard no answer for.
        cache: slots of its cache; without a cache by default.
        max_frame_size: the largest frame that it takes, in bytes; 0 for any.
        inactivity_ms: how long each side may be silent.
        inactivity_initial_delay_ms: how much longer the first silence may be.
    """

    def __init__(
        self,
        address: tuple[str, int],
        name: str | None = None,
        *,
        is_reconnected: bool = False,
        is_open: bool = True,
        is_fault_tolerant: bool = False,
        cache: int = 0,
        max_frame_size: int = 0,
        inactivity_ms: int = 30_000,
        inactivity_initial_delay_ms: int = 10_000,
    ) -> None:
        self.name = name or f"ID:test-{next(_numbers)}"
        self._socket = socket.create_connection(address, timeout=60)
        self._stream = self._socket.makefile("rb")
        self._codec = ConnectionCodec(Encoding(12))
        self._ids = count(1)
        #: What came while something else was waited for.
        self.came: list[object] = []
        wanted = WireFormat(
            tight_encoding_enabled=False,
            stack_trace_enabled=False,
            cache_enabled=cache > 0,
            cache_size=cache,
            max_frame_size=max_frame_size,
            max_inactivity_ms=inactivity_ms,
            max_inactivity_initial_delay_ms=inactivity_initial_delay_ms,
        )
        self.write(wanted.info())
        info = self.read()
        assert isinstance(info, c.WireFormatInfo)
        #: What the broker can do.
        self.offered = WireFormat.of(info)
        if cache:
            agreed = wanted.agreed(self.offered)
            self._codec = ConnectionCodec(agreed.encoding, agreed.cache_size)
        broker = self.read()
        assert isinstance(broker, c.BrokerInfo)
        assert broker.broker_url
        if is_open:
            info = c.ConnectionInfo(
                connection_id=ConnectionId(self.name),
                client_id=self.name,
                failover_reconnect=is_reconnected,
                fault_tolerant=is_fault_tolerant,
            )
            self.ask(info)
            self.begin()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stream.close()
        self._socket.close()

    def begin(self) -> None:
        """Make the session, and the producer of `message`."""
        self.ask(c.SessionInfo(session_id=self.session_id))
        self.ask(c.ProducerInfo(producer_id=ProducerId(self.name, 1, 1)))

    def write(self, command: object) -> None:
        """Say something."""
        self._socket.sendall(self.bytes_of(command))

    def bytes_of(self, command: object) -> bytes:
        """What says something; to be written in the order in which it is made."""
        return self._codec.marshal(command)

    def timeout_is(self, timeout_s: float) -> None:
        """How long to wait for the broker, to write as to read."""
        self._socket.settimeout(timeout_s)

    def write_bytes(self, data: bytes) -> None:
        """Say whatever it is."""
        self._socket.sendall(data)

    def say_no_more(self) -> None:
        """Close this side of the connection."""
        self._socket.shutdown(socket.SHUT_WR)

    def read(self) -> object:
        """The next command; None when the broker has closed the connection."""
        head = self._stream.read(4)
        if len(head) < 4:
            return None
        return self._codec.unmarshal(self._stream.read(struct.unpack(">i", head)[0]))

    def ask(self, command: c.BaseCommand | Message) -> c.Response:
        """Say something and wait for the answer."""
        command.command_id, command.response_required = next(self._ids), True
        self.write(command)
        while True:
            answer = self.read()
            assert answer is not None, "the broker has closed the connection"
            if isinstance(answer, c.Response) and answer.correlation_id == command.command_id:
                return answer
            self.came.append(answer)

    def next(self) -> object:
        """What came first and was not looked at."""
        return self.came.pop(0) if self.came else self.read()

    def dispatch(self) -> c.MessageDispatch:
        """The next dispatch, perhaps without a message."""
        while not isinstance(command := self.next(), c.MessageDispatch):
            assert command is not None, "the broker has closed the connection"
        return command

    def text(self) -> str | None:
        """The text of the next dispatch; None if it has no message."""
        message = self.dispatch().message
        return message.text if isinstance(message, TextMessage) else None

    def consumer_id(self, number: int = 1) -> ConsumerId:
        """A consumer of the session."""
        return ConsumerId(self.name, 1, number)

    @property
    def session_id(self) -> SessionId:
        """The session."""
        return SessionId(self.name, 1)

    def subscribe(
        self, destination: Destination, prefetch: int = 10, number: int = 1, subscription_name: str | None = None
    ) -> c.Response:
        """Make a consumer; a durable one if its subscription has a name."""
        info = c.ConsumerInfo(
            consumer_id=self.consumer_id(number),
            destination=destination,
            prefetch_size=prefetch,
            subscription_name=subscription_name,
        )
        return self.ask(info)

    def send(self, destination: Destination, text: str, *, persistent: bool = True) -> c.Response:
        """Send a message and wait until it is safe."""
        message = self.message(destination, text)
        message.persistent = persistent
        return self.ask(message)

    def message(self, destination: Destination, text: str) -> TextMessage:
        """A message to be sent, not persistent."""
        producer = ProducerId(self.name, 1, 1)
        message = TextMessage(
            producer_id=producer, destination=destination, message_id=MessageId(producer, next(self._ids))
        )
        message.text = text
        return message

    def acknowledge(
        self,
        first: c.MessageDispatch | None,
        last: c.MessageDispatch,
        kind: int = c.ACK_STANDARD,
        count: int = 1,
        transaction_id: TransactionId | None = None,
    ) -> c.Response:
        """Acknowledge from one delivery on up to another."""
        assert last.message is not None
        first_id = None if first is None or first.message is None else first.message.message_id
        ack = c.MessageAck(
            destination=last.destination,
            consumer_id=last.consumer_id,
            ack_type=kind,
            first_message_id=first_id,
            last_message_id=last.message.message_id,
            message_count=count,
            transaction_id=transaction_id,
        )
        return self.ask(ack)
