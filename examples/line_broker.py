"""A broker of your own on a store: a protocol of four words, one line each, over TCP.

python examples/line_broker.py sqlite:///lines.db 7000
printf 'PUT ORDERS three apples\nGET ORDERS\n' | nc localhost 7000

PUT queue text ─▶ OK id          stored: after the commit, and not before
GET queue      ─▶ MSG id text    to this client alone until it is acknowledged, or gone; or NONE
ACK id         ─▶ OK             removed: after the commit
anything else  ─▶ ERROR why
"""

from __future__ import annotations

import asyncio
import itertools
import sys
import uuid
from typing import TypeVar

import jdbcstore as js

T = TypeVar("T")
LINE_BYTES_MAX = 1 << 20


class LineBroker:
    """Args: store: started, so this process is its master; it is fenced if it is not any more."""

    def __init__(self, store: js.PersistenceAdapter) -> None:
        self.store = store
        self.producer = js.ProducerId(f"ID:lines-{uuid.uuid4().hex}-1:1", 1, 1)  # the ids of a start are its own
        self.numbers = itertools.count(1)
        self.held: dict[tuple[str, int], object] = {}  # queue and sequence of what a client has, and which client

    async def serve(self, port: int) -> None:
        async with await asyncio.start_server(self.client, "127.0.0.1", port, limit=LINE_BYTES_MAX) as server:
            await server.serve_forever()

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        me = object()
        try:
            while line := await reader.readline():
                writer.write((await self.answer(me, line.decode(errors="replace").rstrip("\r\n"))).encode() + b"\n")
                await writer.drain()
        except (ConnectionError, ValueError) as error:  # ValueError: the line is too long
            print("client is gone:", error, file=sys.stderr)
        finally:
            for key in [key for key, client in self.held.items() if client is me]:
                del self.held[key]  # for others
            writer.close()

    async def answer(self, me: object, line: str) -> str:
        verb, _, rest = line.partition(" ")
        name, _, text = rest.partition(" ")
        try:
            match verb:
                case "PUT" if text:
                    return await self.put(name, text)
                case "GET" if name:
                    return await self.get(me, name)
                case "ACK" if name:
                    return await self.acknowledge(me, *name.rpartition("/")[::2])
        except (js.JdbcStoreError, ValueError) as error:
            return f"ERROR {error}"
        return "ERROR say PUT queue text, GET queue, or ACK id"

    async def put(self, name: str, text: str) -> str:
        message = js.TextMessage(destination=js.Queue(name), producer_id=self.producer)
        message.message_id = js.MessageId(self.producer, next(self.numbers))
        message.text = text
        sequence = await committed(self.store.queue_message_store(js.Queue(name)).add_message(message))
        return f"OK {name}/{sequence}"

    async def get(self, me: object, name: str) -> str:
        queue, cursor = self.store.queue_message_store(js.Queue(name)), js.Cursor()
        while True:
            # Reading blocks: not in the event loop.
            page = await asyncio.to_thread(queue.recover_next_messages, cursor, 100, LINE_BYTES_MAX)
            for message in page.messages:
                key = name, message.message_id.broker_sequence_id if message.message_id else 0
                if key not in self.held and isinstance(message, js.TextMessage):
                    self.held[key] = me
                    return f"MSG {name}/{key[1]} {message.text}"
            if page.cursor == cursor:
                return "NONE"
            cursor = page.cursor

    async def acknowledge(self, me: object, name: str, sequence: str) -> str:
        key = name, int(sequence)
        if self.held.get(key) is not me:
            return f"ERROR you do not have {name}/{sequence}"
        await committed(self.store.queue_message_store(js.Queue(name)).remove_message(js.MessageId(None, 0, key[1])))
        del self.held[key]
        return "OK"


async def committed(completion: js.Completion[T]) -> T:
    """Wait for a commit in the event loop; its callback comes from the thread that commits."""
    loop, done = asyncio.get_running_loop(), asyncio.Event()
    completion.add_done_callback(lambda _: loop.call_soon_threadsafe(done.set))
    await done.wait()
    return completion.result(0)


if __name__ == "__main__":
    with js.open_store(sys.argv[1]) as adapter:
        asyncio.run(LineBroker(adapter).serve(int(sys.argv[2])))
