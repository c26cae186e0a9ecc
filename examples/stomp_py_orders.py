"""stomp.py (``pip install stomp.py``), the client with threads: confirmed sends, and one acknowledgement each.

Start a broker with ``jdbcstore broker``, then ``python examples/stomp_py_orders.py``.
"""

from __future__ import annotations

import os
import queue
import threading
from typing import Any

import stomp

QUEUE = "/queue/stomp.py.orders"


class Listener(stomp.ConnectionListener):
    """Hands over what comes, from the thread of the connection."""

    def __init__(self) -> None:
        self.messages: queue.Queue[Any] = queue.Queue()
        self.confirmed: dict[str, threading.Event] = {}

    def on_message(self, frame: Any) -> None:
        """A message; it is ours until we acknowledge it."""
        self.messages.put(frame)

    def on_receipt(self, frame: Any) -> None:
        """The message is committed."""
        self.confirmed[frame.headers["receipt-id"]].set()


def main() -> None:
    """Send three orders, wait until they are stored, read them."""
    listener = Listener()
    place = os.environ.get("STOMP_HOST", "127.0.0.1"), int(os.environ.get("STOMP_PORT", "61613"))
    connection = stomp.Connection12([place], heartbeats=(5000, 5000))
    connection.set_listener("orders", listener)
    connection.connect("shop", "secret", wait=True)
    for apples in (3, 5, 2):
        receipt = f"order-{apples}"
        listener.confirmed[receipt] = threading.Event()
        connection.send(QUEUE, f"{apples} apples", headers={"persistent": "true"}, receipt=receipt)
        if not listener.confirmed[receipt].wait(30):
            raise TimeoutError(f"{receipt} was not confirmed: send it again")
    connection.subscribe(QUEUE, id="1", ack="client-individual", headers={"activemq.prefetchSize": "10"})
    orders = [listener.messages.get(timeout=30) for _ in range(3)]
    for order in orders:
        connection.ack(order.headers["ack"])
    connection.disconnect()
    print("orders:", *[order.body for order in orders], sep=" | ")


if __name__ == "__main__":
    main()
