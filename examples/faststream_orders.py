"""FastStream (``pip install faststream-stomp``): orders in, invoices out.

Start a broker with ``jdbcstore broker`` and run ``python examples/faststream_orders.py``. An order is acknowledged when
its invoice is stored. A handler that fails refuses its message, which is then in ``ActiveMQ.DLQ``.
"""

from __future__ import annotations

import asyncio
import os

import faststream
import faststream_stomp
import stompman

server = stompman.ConnectionParameters(
    host=os.environ.get("STOMP_HOST", "127.0.0.1"),
    port=int(os.environ.get("STOMP_PORT", "61613")),
    login="shop",
    passcode="secret",
)
# A receipt comes when the message is committed.
broker = faststream_stomp.StompBroker(stompman.Client([server]), receipt_timeout=10.0)
app = faststream.FastStream(broker)
DURABLE = {"persistent": "true"}
invoices: list[str] = []


@broker.subscriber("/queue/orders")
async def price(apples: str) -> None:
    """An order becomes an invoice."""
    await broker.publish(f"{int(apples) * 1.2:.2f}", "/queue/invoices", headers=DURABLE)


@broker.subscriber("/queue/invoices")
async def collect(invoice: str) -> None:
    """End when there are three."""
    invoices.append(invoice)
    if len(invoices) == 3:
        print("invoices:", *sorted(invoices))
        app.exit()


@app.after_startup
async def order() -> None:
    """Send three orders."""
    for apples in (3, 5, 2):
        await broker.publish(str(apples), "/queue/orders", headers=DURABLE)


if __name__ == "__main__":
    asyncio.run(app.run())
