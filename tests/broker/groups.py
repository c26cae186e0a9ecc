"""Several consumers of one queue, and what each of them gets."""

from __future__ import annotations

import selectors
import time
from collections.abc import Mapping, Sequence

from tests.broker.client import Client, Frame

__all__ = ["ConsumerGroup", "send_group"]


def send_group(sender: Client, destination: str, texts: str, *, receipt: bool = True, **headers: str) -> None:
    """Send a persistent message for each word; its letters, or what stands before a dot, name its group."""
    for text in texts.split():
        group = text.partition(".")[0] if "." in text else text.rstrip("0123456789")
        more = {"destination": destination, "persistent": "true", "JMSXGroupID": group, **headers}
        if receipt:
            sender.done("SEND", more, text)
        else:
            sender.send("SEND", more, text)


class ConsumerGroup:
    """Consumers by name, each with a connection of its own.

    Args:
        clients: connected ones.
        headers: of their SUBSCRIBE.
    """

    def __init__(self, clients: dict[str, Client], headers: Mapping[str, Mapping[str, str]]) -> None:
        self.clients = clients
        self._headers = headers

    def subscribe(self, destination: str, *names: str) -> None:
        """Subscribe one after the other, all if none is named. They acknowledge one by one.

        A real broker opens a subscription after its RECEIPT, but before it reads the next frame: whoever has the second
        answer is open.
        """
        for name in names or self.clients:
            headers = {"destination": destination, "id": "1", "ack": "client-individual", **self._headers[name]}
            self.clients[name].done("SUBSCRIBE", headers)
            self.clients[name].done("BEGIN", {"transaction": "open"})
            self.clients[name].done("ABORT", {"transaction": "open"})

    def collect(self, count: int, timeout_s: float = 60.0) -> dict[str, list[Frame]]:
        """Wait for so many messages, for whomever."""
        got: dict[str, list[Frame]] = {name: [] for name in self.clients}
        deadline_s = time.monotonic() + timeout_s
        with selectors.DefaultSelector() as selector:
            for name, client in self.clients.items():
                selector.register(client.socket, selectors.EVENT_READ, name)
            while sum(map(len, got.values())) < count:
                for name, client in self.clients.items():
                    while client.has_frame():
                        got[name].append(client.message())
                if sum(map(len, got.values())) < count:
                    ready = selector.select(deadline_s - time.monotonic())
                    assert ready, f"{self.told(got)} of {count} messages have come"
                    for key, _ in ready:
                        self.clients[key.data].take_in()
        return got

    def given(self, sender: Client, destination: str, texts: str) -> dict[str, str]:
        """Send like `send_group`, each when the one before has come. Returns who got what.

        A real broker looks at its consumers once for all messages that it has at that moment; which they are depends on
        the machine.
        """
        got: dict[str, list[Frame]] = {name: [] for name in self.clients}
        for text in texts.split():
            send_group(sender, destination, text)
            for name, messages in self.collect(1).items():
                got[name] += messages
        return self.told(got)

    def texts(self, count: int) -> dict[str, str]:
        """The same, only what they say."""
        return self.told(self.collect(count))

    @staticmethod
    def told(got: Mapping[str, Sequence[Frame]]) -> dict[str, str]:
        """What messages say, by consumer."""
        return {name: " ".join(message.text for message in messages) for name, messages in got.items()}

    def ack(self, name: str, messages: Sequence[Frame]) -> None:
        """A consumer acknowledges messages, and waits until that is done."""
        client = self.clients[name]
        for message in messages[:-1]:
            client.ack(message)
        if messages:
            client.done("ACK", client.named(messages[-1]))

    def drop(self, name: str) -> None:
        """A consumer is gone without a word."""
        self.clients.pop(name).drop()
