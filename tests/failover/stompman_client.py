"""A program on stompman, which knows two addresses and connects again by itself.

Arguments and output are those of `tests.failover.stomp_py_client`. stompman has no receipts for acknowledgements, so
``acked`` means sent; and it has one message on its way at a time.
"""

from __future__ import annotations

import asyncio
import logging
import sys

import stompman

LIVE, HELD = "/queue/LIVE", "/queue/HELD"


def say(*words: object) -> None:
    print(*words, flush=True)


class Program:
    """Everything that the program does."""

    def __init__(self, ports: list[int], producer: str) -> None:
        self.producer = producer
        self.finishing = asyncio.Event()
        self.taken: set[int] = set()
        self.held: set[str] = set()
        self.last = 0
        self.client = stompman.Client(
            [stompman.ConnectionParameters(host="127.0.0.1", port=port, login="", passcode="") for port in ports],
            heartbeat=stompman.Heartbeat(20_000, 20_000),
            connect_retry_attempts=100,
            on_error_frame=lambda frame: say("error", frame.headers.get("message")),
        )

    async def run(self) -> None:
        """Until a line is read, and then until everything is done."""
        headers = {"activemq.prefetchSize": "50"}
        async with self.client:
            live = await self.client.subscribe_with_manual_ack(LIVE, self.take, headers=headers)
            held = await self.client.subscribe_with_manual_ack(HELD, self.hold, headers=headers)
            reading = asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
            reading.add_done_callback(lambda line: self.finishing.set())
            say("connected", "?")
            await self.send()
            while len(self.taken) < self.last:
                await asyncio.sleep(0.02)
            say("done")
            await live.unsubscribe()
            await held.unsubscribe()

    async def send(self) -> None:
        """Send numbered messages, each until it has its receipt."""
        while not self.finishing.is_set():
            self.last += 1
            headers = {
                "persistent": "true",
                "producer-id": self.producer,
                "producer-sequence": str(self.last),
            }
            while True:
                try:
                    await self.client.send(
                        str(self.last).encode(), LIVE, headers=headers, add_content_length=False, receipt_timeout=10
                    )
                except (stompman.SendReceiptError, stompman.FailedAllWriteAttemptsError):
                    continue
                break
            say("receipted", self.last)

    async def take(self, frame: stompman.AckableMessageFrame) -> None:
        """A message of LIVE."""
        number = frame.body.decode()
        say("got", number, frame.headers.get("JMSXDeliveryCount", "1"))
        await frame.ack()
        self.taken.add(int(number))
        say("acked", number)

    async def hold(self, frame: stompman.AckableMessageFrame) -> None:
        """A message of HELD: the first time it is left alone."""
        body = frame.body.decode()
        say("held", body, frame.headers.get("JMSXDeliveryCount", "1"))
        if body in self.held:
            await frame.ack()
        self.held.add(body)


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    asyncio.run(Program([int(port) for port in sys.argv[1:3]], sys.argv[3]).run())
