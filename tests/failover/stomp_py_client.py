"""A program on stomp.py, as its users write one: two addresses, and a listener that connects again.

``stomp_py_client.py PORT PORT PRODUCER``. It numbers its messages, has a few of them on their way at a time, sends
again after each new connection what it has no receipt for, and consumes what it sent. What it holds of queue HELD it
acknowledges only on later connections. A line on standard input lets it finish. What it prints, a line each:

=========================== =======================================================
``connected PORT``          the sender has a connection
``receipted NUMBER``        a message is stored
``got NUMBER COUNT``        a message came; COUNT is its JMSXDeliveryCount, or 1
``acked NUMBER``            its acknowledgement is stored
``held BODY COUNT``         a message of HELD came
``done``                    everything is receipted, received and acknowledged
=========================== =======================================================
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from contextlib import suppress
from typing import Any

import stomp

LIVE, HELD = "/queue/LIVE", "/queue/HELD"
WINDOW = 20

printing = threading.Lock()
finishing = threading.Event()


def say(*words: object) -> None:
    with printing:
        print(*words, flush=True)


class Reconnecting(stomp.ConnectionListener):  # type: ignore[misc]  # stomp.py has no types
    """Connects, and connects again whenever the connection is lost."""

    def __init__(self, ports: list[int]) -> None:
        self.connection = stomp.Connection12(
            [("127.0.0.1", port) for port in ports], reconnect_attempts_max=1, timeout=5
        )  # without heart-beats: stomp.py forgets them on its second connection, and would be taken for dead
        self.connection.set_listener("", self)
        self.connections = 0
        self.is_leaving = False

    def connect(self) -> None:
        while True:
            try:
                self.connection.connect(wait=True)
                self.connections += 1
                self.connected()
            except (stomp.exception.StompException, OSError, AttributeError):
                # AttributeError: stomp.py's socket is gone while it still uses it.
                time.sleep(0.1)
            else:
                return

    def connected(self) -> None:
        """There is a new connection."""

    def on_disconnected(self) -> None:
        if not self.is_leaving:
            self.connect()

    def leave(self) -> None:
        self.is_leaving = True
        self.connection.disconnect(receipt="bye")


class Sender(Reconnecting):
    """Sends numbered messages; what has no receipt is sent again, in order, before anything new."""

    def __init__(self, ports: list[int], producer: str) -> None:
        super().__init__(ports)
        self.ports = ports
        self.producer = producer
        self.lock = threading.Condition()
        self.unanswered: dict[int, None] = {}
        self.is_ready = False
        self.last = 0

    def connected(self) -> None:
        host_and_port = self.connection.transport.current_host_and_port
        with self.lock:
            for number in list(self.unanswered):
                self.transmit(number)
            self.is_ready = True
            self.lock.notify_all()
        say("connected", host_and_port[1] if host_and_port else "?")

    def on_disconnected(self) -> None:
        with self.lock:
            self.is_ready = False
        super().on_disconnected()

    def on_receipt(self, frame: Any) -> None:
        receipt = frame.headers["receipt-id"]
        if receipt.isdigit():
            with self.lock:
                self.unanswered.pop(int(receipt), None)
                self.lock.notify_all()
            say("receipted", receipt)

    def on_error(self, frame: Any) -> None:
        say("error", frame.headers.get("message"))

    def transmit(self, number: int) -> None:
        headers = {"persistent": "true", "producer-id": self.producer, "producer-sequence": str(number)}
        self.connection.send(LIVE, str(number), headers=headers, receipt=str(number))

    def run(self) -> None:
        self.connect()
        while not finishing.is_set():
            with self.lock:
                self.lock.wait_for(lambda: self.is_ready and len(self.unanswered) < WINDOW, timeout=0.1)
                if not self.is_ready or len(self.unanswered) >= WINDOW:
                    continue
                self.last += 1
                self.unanswered[self.last] = None
                try:
                    self.transmit(self.last)
                except (stomp.exception.StompException, OSError, AttributeError):
                    self.is_ready = False  # the listener hears of it
            time.sleep(0.002)
        with self.lock:
            self.lock.wait_for(lambda: not self.unanswered)


class Consumer(Reconnecting):
    """Takes what was sent."""

    def __init__(self, ports: list[int]) -> None:
        super().__init__(ports)
        self.taken: set[int] = set()
        #: Acknowledgements whose receipts this connection waits for.
        self.unanswered: set[str] = set()

    @property
    def count(self) -> int:
        """How many messages were taken, -1 while an acknowledgement may still fail."""
        return -1 if self.unanswered else len(self.taken)

    def connected(self) -> None:
        self.unanswered.clear()
        for name, queue in (("live", LIVE), ("held", HELD)):
            self.connection.subscribe(queue, name, "client-individual", {"activemq.prefetchSize": "50"})

    def on_message(self, frame: Any) -> None:
        count = frame.headers.get("JMSXDeliveryCount", "1")
        if frame.headers["subscription"] == "live":
            say("got", frame.body, count)
            self.taken.add(int(frame.body))
            self.unanswered.add(frame.body)
            self.acknowledge(frame.headers["ack"], frame.body)
        else:
            say("held", frame.body, count)
            if self.connections > 1:
                self.acknowledge(frame.headers["ack"], "")

    def acknowledge(self, ack: str, receipt: str) -> None:
        with suppress(stomp.exception.StompException, OSError, AttributeError):  # then it comes again
            self.connection.ack(ack, receipt=receipt or None)

    def on_receipt(self, frame: Any) -> None:
        receipt = frame.headers["receipt-id"]
        if receipt.isdigit():
            say("acked", receipt)
            self.unanswered.discard(receipt)


def main() -> None:
    logging.disable(logging.CRITICAL)
    ports, producer = [int(port) for port in sys.argv[1:3]], sys.argv[3]
    sender, consumer = Sender(ports, producer), Consumer(ports)
    consumer.connect()
    sending = threading.Thread(target=sender.run)
    sending.start()
    sys.stdin.readline()
    finishing.set()
    sending.join()
    while consumer.count < sender.last:
        time.sleep(0.1)
    say("done")
    sender.leave()
    consumer.leave()


if __name__ == "__main__":
    main()
