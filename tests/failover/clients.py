"""Producers and consumers that write down all that they try and hear, and go where a broker accepts them.

They run on an event loop in a thread of their own. Each has a connection to one broker at a time; when it breaks, or
when nothing came for a while, heart-beats included, they go to the next broker. A producer then sends again, under the
same identity, what it has no receipt for.
"""

from __future__ import annotations

import asyncio
import random
import ssl
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from types import TracebackType
from typing import NamedTuple, Self

from tests.failover.history import History, What
from tests.failover.witness import mark_of, message_of

__all__ = ["Clients", "Consumer", "Producer", "Transactor"]

Address = tuple[str, int]

#: Sends of one producer that are in flight at most.
WINDOW = 16
#: Messages of one transaction.
MEMBERS = 4
PREFETCH = 30
HEART_BEAT_MS = 500
#: A broker that is silent for so long is left.
SILENCE_S = 2.0
CONNECT_S = 1.5
#: Between two bursts of a producer, at most; the load is some 60 messages/s each.
PAUSE_S = 0.25


class Broken(Exception):
    """The connection is of no use any more."""


class Frame(NamedTuple):
    """A frame of the broker."""

    command: str
    headers: dict[str, str]
    body: str


class Line(asyncio.Protocol):
    """One connection."""

    def __init__(self, name: str, broker: str) -> None:
        self.name = name
        self.broker = broker
        self._loop = asyncio.get_running_loop()
        self._frames: asyncio.Queue[Frame | None] = asyncio.Queue()
        self._data = b""
        self._heard = self._loop.time()
        self._transport: asyncio.Transport | None = None
        self._end = "closed by the broker"

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is there."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Bytes came."""
        self._heard = self._loop.time()
        *frames, self._data = (self._data + data).split(b"\0")
        for frame in frames:
            head, _, body = frame.lstrip(b"\n").decode().partition("\n\n")
            command, *lines = head.split("\n")
            headers = dict(reversed([_header(line) for line in lines]))
            self._frames.put_nowait(Frame(command, headers, body))

    def connection_lost(self, error: Exception | None) -> None:
        """It is gone."""
        if error is not None:
            self._end = f"{type(error).__name__} {error}"
        self._frames.put_nowait(None)

    @property
    def is_open(self) -> bool:
        """Whether what is written may arrive."""
        return self._transport is not None and not self._transport.is_closing()

    def send(self, command: str, body: str = "", **headers: str) -> None:
        """Write a frame; underscores in names of headers become dashes.

        Raises:
            Broken: there is no connection any more.
        """
        if not self.is_open:
            raise Broken(self._end)
        assert self._transport is not None
        lines = [command, *(f"{name.replace('_', '-')}:{value}" for name, value in headers.items())]
        self._transport.write(("\n".join(lines) + "\n\n" + body + "\0").encode())

    async def frame(self, silence_s: float = SILENCE_S) -> Frame:
        """The next frame.

        Raises:
            Broken: there will be none.
        """
        while self._frames.empty():
            left_s = self._heard + silence_s - self._loop.time()
            if left_s <= 0:
                raise Broken(f"silent for {silence_s} s")
            with suppress(TimeoutError):
                async with asyncio.timeout(left_s):
                    return self._checked(await self._frames.get())
        return self._checked(self._frames.get_nowait())

    def _checked(self, frame: Frame | None) -> Frame:
        if frame is None:
            raise Broken(self._end)
        return frame

    def drop(self) -> None:
        """Be gone without a word."""
        if self._transport is not None:
            self._transport.abort()


def _header(line: str) -> tuple[str, str]:
    name, _, value = line.partition(":")
    return name, value.replace("\\c", ":")


class Client:
    """What producers and consumers have in common: a name, brokers to go to, one connection at a time.

    Args:
        name: three characters.
        brokers: where they are, by name.
        history: where everything is written down.
        chance: what it decides by.
    """

    #: What to connect with; None for no TLS.
    tls: ssl.SSLContext | None = None

    def __init__(self, name: str, brokers: Mapping[str, Address], history: History, chance: random.Random) -> None:
        self.name = name
        #: Headers of CONNECT that say who it is.
        self.credentials: dict[str, str] = {}
        self.history = history
        self.chance = chance
        #: Set by the harness: do nothing new.
        self.is_ending = False
        self._brokers = list(brokers.items())
        self._lines = 0

    @property
    def is_done(self) -> bool:
        """Whether it has no more to do."""
        raise NotImplementedError

    async def work(self, line: Line) -> None:
        """Use a connection until there is no more to do."""
        raise NotImplementedError

    async def run(self) -> None:
        """Live until there is no more to do."""
        while not self.is_done:
            line = await self._connect()
            try:
                await self.work(line)
            except Broken as error:
                self._close(line, str(error))
            except asyncio.CancelledError:
                self._close(line, "")
                raise
            else:
                self._close(line, "")

    async def _connect(self) -> Line:
        """A connection to the first broker that lets us in; the one that did it last is asked first."""
        while True:
            for _ in range(len(self._brokers)):
                line = await self._try(*self._brokers[0])
                if line is not None:
                    return line
                self._brokers.append(self._brokers.pop(0))
            await asyncio.sleep(self.chance.uniform(0.02, 0.1))  # nobody listens

    async def _try(self, broker: str, address: Address) -> Line | None:
        name = f"{self.name}#{self._lines}"
        loop, line = asyncio.get_running_loop(), Line(name, broker)
        try:
            async with asyncio.timeout(CONNECT_S):
                await loop.create_connection(lambda: line, *address, ssl=self.tls)
        except OSError:  # a timeout, too, perhaps in the moment in which it is connected
            line.drop()
            return None
        except asyncio.CancelledError:
            line.drop()
            raise
        self._lines += 1
        self.history.record(What.CONNECT, broker=broker, line=name)
        line.send("CONNECT", accept_version="1.2", host="chaos", heart_beat=f"0,{HEART_BEAT_MS}", **self.credentials)
        try:
            answer = await line.frame(CONNECT_S)
        except Broken as error:
            self._close(line, str(error))
            return None
        if answer.command != "CONNECTED":
            self.refused(line, answer)
            self._close(line, "not let in")
            return None
        self.history.record(What.CONNECTED, broker=broker, line=name)
        return line

    def refused(self, line: Line, frame: Frame) -> None:
        """The broker said ERROR."""
        text = frame.headers.get("message", frame.body)[:200]
        self.history.record(What.REFUSED, broker=line.broker, line=line.name, text=text)

    def _close(self, line: Line, why: str) -> None:
        self.history.record(What.CLOSED, broker=line.broker, line=line.name, text=why)
        line.drop()


class Producer(Client):
    """Sends in bursts, with receipts, and again what it has no receipt for; in the old order.

    Args:
        queues: where to send to, in turn; other arguments are those of `Client`.
        is_anonymous: whether it does not tell the broker who it is and how it numbers its messages.
    """

    def __init__(
        self,
        name: str,
        brokers: Mapping[str, Address],
        history: History,
        chance: random.Random,
        queues: Sequence[str],
        *,
        is_anonymous: bool = False,
    ) -> None:
        super().__init__(name, brokers, history, chance)
        self.queues = queues
        self._is_anonymous = is_anonymous
        #: Set by the harness: how many messages a burst has at most.
        self.burst_max = WINDOW
        self._sent = 0
        #: Numbers without a receipt, in order.
        self._pending: list[int] = []

    @property
    def is_done(self) -> bool:
        return self.is_ending and not self._pending

    @property
    def in_flight(self) -> int:
        """Messages, or transactions, without a receipt."""
        return len(self._pending)

    async def work(self, line: Line) -> None:
        for number in self._pending:
            self._send(line, number)
        while not self.is_done:
            if not self._pending:
                await asyncio.sleep(self.chance.uniform(0, PAUSE_S))
                self._send_burst(line)
                continue
            frame = await line.frame()
            if frame.command != "RECEIPT":
                self.refused(line, frame)
                raise Broken("a send was refused")
            message = frame.headers["receipt-id"]
            self._pending.remove(int(message[-7:]))
            self.history.record(What.RECEIPT, broker=line.broker, line=line.name, message=message)

    def _send_burst(self, line: Line) -> None:
        if not self.is_ending:
            for _ in range(self.chance.randint(1, self.burst_max)):
                self._sent += 1
                self._pending.append(self._sent)
                self._send(line, self._sent)

    def _send(self, line: Line, number: int) -> None:
        message = f"{self.name}|{number:07}"
        self.send(line, message, number, receipt=message)

    def send(self, line: Line, message: str, number: int, mark: str = "", **headers: str) -> None:
        """Send one message, under an identity that is always the same."""
        queue = self.queues[number % len(self.queues)]
        self.history.record(What.SEND, broker=line.broker, line=line.name, message=message, queue=queue, mark=mark)
        if not self._is_anonymous:
            headers |= {"producer_id": self.name, "producer_sequence": str(number)}
        body = mark_of(message) + "x" * (number % 200)
        line.send("SEND", body, destination=queue, persistent="true", **headers)


class Transactor(Producer):
    """Sends transactions, one after the other, across its queues; again what it has no receipt for. Aborts some."""

    async def work(self, line: Line) -> None:
        for first in self._pending:
            await self._transact(line, first)
        self._pending.clear()
        while not self.is_ending:
            await asyncio.sleep(self.chance.uniform(0, PAUSE_S))
            first = self._sent + 1
            self._sent += MEMBERS
            if self.chance.random() < 0.1:
                await self._transact(line, first, end="ABORT")  # if that breaks off, it is as good
            else:
                self._pending.append(first)
                await self._transact(line, first)
                self._pending.clear()

    async def _transact(self, line: Line, first: int, end: str = "COMMIT") -> None:
        mark = f"{self.name}:{first}"
        line.send("BEGIN", transaction=mark)
        for number in range(first, first + MEMBERS):
            self.send(line, f"{self.name}|{number:07}", number, mark, transaction=mark)
        if end == "COMMIT":
            self.history.record(What.COMMIT, broker=line.broker, line=line.name, mark=mark)
        line.send(end, transaction=mark, receipt=mark)
        frame = await line.frame()
        if frame.command != "RECEIPT":
            self.refused(line, frame)
            raise Broken("a transaction was refused")
        done = What.COMMITTED if end == "COMMIT" else What.ABORTED
        self.history.record(done, broker=line.broker, line=line.name, mark=mark)


class Consumer(Client):
    """Receives from one queue and acknowledges each message with a receipt, some of them later and out of order.

    Args:
        queue: where to receive from; other arguments are those of `Client`.
    """

    def __init__(
        self, name: str, brokers: Mapping[str, Address], history: History, chance: random.Random, queue: str
    ) -> None:
        super().__init__(name, brokers, history, chance)
        self.queue = queue
        #: Set by the harness: acknowledge nothing for now.
        self.is_holding = False
        #: Acknowledgements without a receipt, by the receipt's id.
        self.unanswered: dict[str, tuple[str, str]] = {}
        self._acks = 0

    @property
    def is_done(self) -> bool:
        return False

    async def work(self, line: Line) -> None:
        self.unanswered.clear()
        line.send(
            "SUBSCRIBE",
            destination=self.queue,
            id="1",
            ack="client-individual",
            **{"activemq.prefetchSize": str(PREFETCH)},
        )
        while True:
            frame = await line.frame()
            if frame.command == "RECEIPT":
                message, mark = self.unanswered.pop(frame.headers["receipt-id"])
                self._record(What.ACKED, line, message, mark)
            elif frame.command == "MESSAGE":
                again = "again" if frame.headers.get("redelivered") == "true" else ""
                message, mark = message_of(frame.body), frame.headers["message-id"]
                self._record(What.DELIVERED, line, message, mark, again)
                later_s = self.chance.uniform(0, 0.4) if self.chance.random() < 0.1 else 0
                self._ack(line, message, mark, frame.headers["ack"], later_s)
            else:
                self.refused(line, frame)
                raise Broken("the subscription was refused")

    def _ack(self, line: Line, message: str, mark: str, ack: str, later_s: float = 0) -> None:
        if later_s or self.is_holding:
            again_s = 0.1 if self.is_holding else 0
            loop = asyncio.get_running_loop()
            loop.call_later(later_s or again_s, self._ack, line, message, mark, ack)
            return
        if not line.is_open:
            return  # `Line.frame` says so soon
        self._acks += 1
        receipt = str(self._acks)
        self.unanswered[receipt] = (message, mark)
        self._record(What.ACK, line, message, mark)
        line.send("ACK", id=ack.replace(":", "\\c"), receipt=receipt)

    def _record(self, what: What, line: Line, message: str, mark: str, text: str = "") -> None:
        self.history.record(
            what, broker=line.broker, line=line.name, message=message, queue=self.queue, mark=mark, text=text
        )


class Clients:
    """Clients at work in a thread. A context manager that ends them.

    Args:
        clients: not at work yet.
    """

    def __init__(self, clients: Sequence[Client]) -> None:
        self.producers = [client for client in clients if isinstance(client, Producer)]
        self.consumers = [client for client in clients if isinstance(client, Consumer)]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="chaos-clients", daemon=True)
        self._producing: list[asyncio.Task[None]] = []
        self._consuming: list[asyncio.Task[None]] = []
        self._failure: BaseException | None = None

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._cancel)
        self._thread.join()
        if self._failure is not None and error is None:
            raise self._failure

    def finish(self) -> None:
        """Let producers begin nothing new."""
        for producer in self.producers:
            producer.is_ending = True

    @property
    def has_finished(self) -> bool:
        """Whether every producer has all its receipts. Raises what a client died of."""
        if self._failure is not None:
            raise self._failure
        return bool(self._producing) and all(task.done() for task in self._producing)

    def calm(self, is_calm: bool) -> None:
        """Let consumers acknowledge nothing and producers send one message at a time; or let everybody go on."""
        for consumer in self.consumers:
            consumer.is_holding = is_calm
        for producer in self.producers:
            producer.burst_max = 1 if is_calm else WINDOW

    @property
    def is_calm(self) -> bool:
        """Whether that is so by now."""
        return self.unanswered == 0 and all(producer.in_flight <= 1 for producer in self.producers)

    @property
    def unanswered(self) -> int:
        """Acknowledgements that consumers wait for."""
        return sum(len(consumer.unanswered) for consumer in self.consumers)

    def _cancel(self) -> None:
        for task in (*self._producing, *self._consuming):
            task.cancel()

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._work())
        except BaseException as error:  # noqa: BLE001  # raised again in the harness's thread
            self._failure = error
        finally:
            self._loop.close()

    async def _work(self) -> None:
        async with asyncio.TaskGroup() as group:
            self._producing = [group.create_task(client.run()) for client in self.producers]
            self._consuming = [group.create_task(client.run()) for client in self.consumers]
