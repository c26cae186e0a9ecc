"""stompman (``pip install stompman``), the asyncio client: orders in one transaction, read with acknowledgements.

Start a broker with ``jdbcstore broker``, then ``python examples/stompman_orders.py``. Give it master and standby, and
it finds the one that serves.
"""

from __future__ import annotations

import asyncio
import os

import stompman

HOST = os.environ.get("STOMP_HOST", "127.0.0.1")
PORTS = [int(port) for port in os.environ.get("STOMP_PORT", "61613").split(",")]
SERVERS = [stompman.ConnectionParameters(host=HOST, port=port, login="shop", passcode="secret") for port in PORTS]
DURABLE = {"persistent": "true"}


async def main() -> None:
    """Send three orders, all or none, and read them."""
    done = asyncio.Event()
    orders: list[str] = []

    async def handle(frame: stompman.AckableMessageFrame) -> None:
        orders.append(frame.body.decode())
        await frame.ack()  # if we die before this, somebody gets it again
        if len(orders) == 3:
            done.set()

    async with stompman.Client(SERVERS, heartbeat=stompman.Heartbeat(5000, 5000)) as client:
        async with client.begin() as transaction:
            for apples in (3, 5, 2):
                await transaction.send(f"{apples} apples".encode(), "/queue/stompman.orders", headers=DURABLE)
        subscription = await client.subscribe_with_manual_ack("/queue/stompman.orders", handle)
        await asyncio.wait_for(done.wait(), 30)
        await subscription.unsubscribe()
    print("orders:", *orders, sep=" | ")


if __name__ == "__main__":
    asyncio.run(main())
