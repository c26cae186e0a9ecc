"""What the sessions of all protocols have in common: a client is heard in order, in slices, and written to once a turn.

::

    bytes ─▶ receive ─▶ _listen ─▶ _read (the protocol) ─▶ _hear ─▶ a handler for each event
    bytes ◀─ write ◀─ talk ◀─ whatever there is to say

Who is *held* is not heard: what he has said already waits in order. Acknowledgements that arrive together are one
write, and so may be messages: they are settled before whatever comes behind them, and at the end.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from time import perf_counter
from typing import TYPE_CHECKING, Any, ClassVar, Final, Generic, Protocol, TypeVar

from jdbcstore.broker.client import Client
from jdbcstore.broker.delivery import Consumer, Delivery
from jdbcstore.broker.pending_acks import DeliveryNames
from jdbcstore.broker.rotation import SLICE_S
from jdbcstore.transport.wire import Wire

if TYPE_CHECKING:
    from jdbcstore.broker.broker import Broker

__all__ = ["Conversation", "ProtocolCore"]

E = TypeVar("E")

#: Frames that are read before they are done.
_FRAMES_AT_ONCE: Final = 100

#: Message bytes that are written at once, and when there is little memory. A client that does not read has so many
#: bytes waiting for it, or one message.
_OUTPUT_BYTES: Final = 1 << 20
_OUTPUT_BYTES_SHORT: Final = 64 << 10


class ProtocolCore(Protocol):
    """One connection of a protocol without a socket: bytes in, events out."""

    @property
    def has_more(self) -> bool:
        """Whether it stopped before it had read everything."""

    @property
    def held_bytes(self) -> int:
        """Bytes from the client that have not become an event yet."""

    @property
    def missing_bytes(self) -> int:
        """Bytes that the client has announced for an unfinished frame, and has not sent."""


class Conversation(ABC, Generic[E]):
    """One client.

    Args:
        broker: whom it talks to.
        wire: its socket.
        names: gives deliveries the names by which the client will acknowledge them.
        core: its protocol.

    Attributes:
        client: what it is to the broker.
    """

    protocol: str
    #: What is done with each kind of event.
    _HANDLERS: ClassVar[Mapping[type[Any], Callable[[Any, Any], None]]]
    #: The events that acknowledge messages.
    _ACKS: ClassVar[Collection[type[Any]]]
    #: The events whose messages may be gathered.
    _GATHERED: ClassVar[Collection[type[Any]]]

    def __init__(self, broker: Broker, wire: Wire, names: DeliveryNames, core: ProtocolCore) -> None:
        self._broker = broker
        self._options = broker.options
        self._memory = broker.memory
        self._wire = wire
        self._arrivals = wire.arrivals
        self._core = core
        self.client = Client(broker, self, names)
        #: Whether it is going to be heard again, and to be written to, by itself.
        self._is_next = self._is_talking = False
        #: Whether the client is not listened to any more; what it said before an error of the protocol is done first.
        self._is_deaf = False
        self._unfinished_bytes = 0
        self._room_bytes = _OUTPUT_BYTES
        #: When the slice ends in which it is heard.
        self._deadline_s = 0.0
        #: Events that arrived while the client was held back.
        self._unheard: list[E] = []

    def __repr__(self) -> str:
        return f"<session {self.client.connection_id} {self._wire.peer}>"

    @property
    def peer(self) -> str:
        """The client's address."""
        return self._wire.peer

    # -- the protocol ------------------------------------------------------------------------------------------------

    @abstractmethod
    def _read(self, data: bytes, frames_max: int) -> Sequence[E]:
        """What the client says with these bytes, and with those before; `ProtocolCore.has_more` tells if that was not
        all."""

    @abstractmethod
    def _size_of(self, event: E) -> int:
        """Bytes that an event keeps while it waits."""

    @abstractmethod
    def _output(self) -> bytes:
        """What there is to say, once."""

    @property
    @abstractmethod
    def _has_output(self) -> bool:
        """Whether there is anything to say."""

    @property
    @abstractmethod
    def _is_said(self) -> bool:
        """Whether the socket closes when everything is written."""

    @abstractmethod
    def _failed(self, error: Exception, event: E | None) -> None:
        """A handler has raised this."""

    # -- what the broker says, the rest of it --------------------------------------------------------------------------

    @abstractmethod
    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send a message to the client."""

    @abstractmethod
    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """A request has taken effect, or has failed."""

    @abstractmethod
    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything."""

    @abstractmethod
    def dismiss(self, text: str) -> None:
        """End the connection with a last word."""

    @abstractmethod
    def closed(self) -> None:
        """The client is gone."""

    def pause(self) -> None:
        """Do not read from the client."""
        self._wire.pause()

    def resume(self) -> None:
        """Hear what was not heard yet, then read again."""
        self._listen_again()

    def cut(self, reason: str) -> None:
        """Close the socket now."""
        self._wire.end(reason)

    def probe(self, told: Callable[[bool], object]) -> None:
        """Find out whether the client's machine answers."""
        self._wire.probe(told)

    # -- bytes in ------------------------------------------------------------------------------------------------

    def receive(self, data: bytes) -> None:
        """Bytes have arrived."""
        if self.client.is_held or self._unheard or self._core.has_more:
            self._read(data, 0)  # heard when the client may go on
        elif self._arrivals.has_time or not self.client.is_open:  # what strangers say is not kept
            self._listen(data)
        else:
            self._read(data, 0)
            self._listen_again()
        if (held := self._core.held_bytes) or self._unfinished_bytes or self._unheard:
            self._count_unfinished(held)
        # A turn of the loop costs: one that would write nothing is left out, unless somebody waits for memory.
        if self._has_output or self._is_said or self._memory.has_waiting:
            self.talk()

    def hear_no_more(self) -> bool:
        """The client says nothing more. It hears the answers to what it has said, and then the socket closes.

        Returns:
            Whether that is done here; otherwise there is nothing to wait for.
        """
        is_waiting = self.client.hang_up(self._say_the_rest)
        if not is_waiting:
            self.write()
        return is_waiting

    def _say_the_rest(self) -> None:
        self.write()
        self._wire.close()

    def _count_unfinished(self, held: int) -> None:
        """Of what the client has sent so many bytes are here and are no frame yet; others wait to be heard."""
        waiting = sum([self._size_of(event) for event in self._unheard])
        self._unfinished_bytes = held + waiting
        if self._has_unheard:
            self.client.account.backlog_is(held + waiting)
        else:
            self.client.account.frame_is(held, self._core.missing_bytes)

    def _count_read(self) -> None:
        """What was unfinished and is heard now counts where it is going to be kept, and not here as well."""
        if self._unfinished_bytes:
            self.client.account.left_unfinished(self._core.held_bytes)

    def _listen(self, data: bytes = b"") -> None:
        """Do what the client asks for, in order, as far as it may go on, and for one slice at most: if it has asked for
        more than can be done in that time, the others are next."""
        client = self.client
        deadline_s = perf_counter() + SLICE_S
        if self._unheard:
            unheard, self._unheard = self._unheard, []
            self._count_read()
            self._hear(unheard, deadline_s)
        while not (client.is_held or self._unheard or self._is_deaf):
            events = self._read(data, _FRAMES_AT_ONCE)
            self._count_read()
            self._hear(events, deadline_s)
            del events  # they may be large
            if not self._core.has_more:
                break
            data = b""
            if perf_counter() > deadline_s:
                break
        if client.consumers.acknowledged or client.producer.gathered is not None:
            self._do(type(self)._settle, None)
        if self._has_unheard and not client.is_held:
            self._listen_again()

    @property
    def _has_unheard(self) -> bool:
        """Whether the client has said more than was done."""
        return not self._is_deaf and bool(self._unheard or self._core.has_more)

    def _hear(self, events: Iterable[E], deadline_s: float) -> None:
        """Do what the client asks for, until it is held back, or its slice is over."""
        handlers, client, acks = self._HANDLERS, self.client, self._ACKS
        self._deadline_s = deadline_s
        is_late = False
        remaining = iter(events)
        for event in remaining:
            is_ack = event.__class__ in acks
            if is_late and is_ack:
                self._unheard += [event, *remaining]
                return
            if (client.consumers.acknowledged and not is_ack) or (
                client.producer.gathered is not None and event.__class__ not in self._GATHERED
            ):
                self._do(type(self)._settle, None)  # before what the client said after it
                if client.is_held:
                    self._unheard += [event, *remaining]
                    return
            if self._is_deaf:
                return  # what stands behind a refused login, or another fatal error, is not done
            self._do(handlers[event.__class__], event)
            is_late = perf_counter() > deadline_s
            # What is said right after an ACK is heard with it, however late it is: a message would pass a DISCONNECT.
            if client.is_held or self._unheard or (is_late and not is_ack):
                self._unheard.extend(remaining)

    def _do(self, handler: Callable[[Any, Any], None], event: E | None) -> None:
        """Handle an event; what goes wrong is told to the client."""
        try:
            handler(self, event)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is told, and costs one client
            self._failed(error, event)  # no name here may keep it: it knows this frame, and would keep the message

    def _settle(self, _: None) -> None:
        client = self.client
        client.producer.settle()
        if client.consumers.acknowledged:
            client.consumers.settle()

    def _again(self, event: E) -> None:
        """The client has to wait, or its slice is over: this is heard later, before all that comes behind it."""
        self._unheard.insert(0, event)

    def _listen_again(self) -> None:
        """Read no more, and go on in another turn of the loop: once, whoever asks for it, or the client would have
        several slices."""
        self._wire.pause()
        if not self._is_next:
            self._is_next = True
            self._arrivals.later(self._hear_rest)

    def _hear_rest(self) -> None:
        self._is_next = False
        client = self.client
        if not client.is_held and not client.is_closed:
            self._listen()
            self._count_unfinished(self._core.held_bytes)
            if not client.is_held and not self._has_unheard:
                self._wire.resume()
            self.talk()

    # -- bytes out -----------------------------------------------------------------------------------------------

    def talk(self) -> None:
        """Write what there is to say at the end of this turn of the loop."""
        if not self._is_talking:
            self._is_talking = True
            self.client.talk()

    def write(self) -> None:
        """Write what there is to say. What went to subscriptions in mode auto is settled if the socket took it."""
        self._is_talking = False
        client = self.client
        if client.is_closed:
            return
        data = self._output()
        is_full = self._room_bytes < 0 and not client.is_over
        if is_full:
            client.consumers.is_choked = False
        if data:
            self._wire.write(data)
        self._room_bytes = _OUTPUT_BYTES_SHORT if self._memory.is_short else _OUTPUT_BYTES
        if self._is_said:
            self._wire.close()
        elif client.consumers.is_choked:
            return
        elif is_full:
            self._broker.loop.call_soon(self._go_on)
        else:
            client.consumers.flushed()

    def _delivered(self, size: int) -> None:
        """So many bytes of a message are going to be written."""
        self._room_bytes -= size
        if self._room_bytes < 0:
            self.client.consumers.is_choked = True  # until the socket has taken this
        if not self._is_talking:
            self.talk()

    def _go_on(self) -> None:
        """The socket has taken what was delivered at once: deliver more."""
        if not self.client.consumers.is_choked and not self.client.is_closed:
            self.unchoke()

    def unchoke(self) -> None:
        """Everything written has left."""
        if not self.client.is_over:
            self.client.consumers.unchoke()

    def _end(self) -> None:
        """The last word is said: the client is not listened to any more."""
        self._is_deaf = True
        self.client.end()
        self.talk()
