"""What a transport implements for one client, so that the broker can talk back (`jdbcstore.broker.client`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from jdbcstore.broker.delivery import Consumer, Delivery

__all__ = ["ClientCallbacks", "Gone"]


class ClientCallbacks(Protocol):
    """The transport's side of one client. Everything is called in the event loop, and returns soon.

    Only `deliver` may raise; what it raises costs the message, which becomes a dead letter.
    """

    @property
    def protocol(self) -> str:
        """What the client speaks, as a person calls it, for causes of dead letters."""

    @property
    def peer(self) -> str:
        """The client's address, for logs and errors."""

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Send `Delivery.message` to the client, for the subscription `consumer`.

        The delivery is what `ClientConsumers.acknowledge` and `reject` want; `Delivery.key` is the name that
        `DeliveryNames` gave it. The message belongs to others, too: it is not to be changed, and not to be kept.
        """

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """A request has taken effect (a message is committed), or has failed.

        Args:
            request: what the transport gave with the request. With None only errors are told, among them those that no
                request is to blame for: a subscription that the client may not have any more, a browser that failed.
            error: None, or why it failed.
            is_fatal: whether the client cannot be served any more.
        """

    def browsed(self, consumer: Consumer) -> None:
        """A browser has shown everything."""

    def pause(self) -> None:
        """Make no request until `resume`, and do not read from the client: it is to wait."""

    def resume(self) -> None:
        """Go on, in another turn of the loop: with what was refused by False, then with what came after it."""

    def write(self) -> None:
        """`Client.talk` was called: this turn of the loop ends, write what there is to say, in one go."""

    def dismiss(self, text: str) -> None:
        """Tell the client a last word and end the connection; nothing more reaches it.

        `Client.end` and `Client.close` are called by the transport, the latter in another turn of the loop: this may
        be called in the middle of a delivery.
        """

    def cut(self, reason: str) -> None:
        """End the connection at once, without a word; the reason is for the log. `Client.close` follows."""

    def probe(self, told: Callable[[bool], object]) -> None:
        """Find out whether the client's machine answers; `told` is called once."""

    def closed(self) -> None:
        """The client is gone, as `Client.close` was called: forget what it had sent."""


class Gone:
    """The transport's side of a client that is gone: nothing reaches it.

    Args:
        protocol, peer: as they were.
    """

    __slots__ = ("peer", "protocol")

    def __init__(self, protocol: str, peer: str) -> None:
        self.protocol = protocol
        self.peer = peer

    def deliver(self, consumer: Consumer, delivery: Delivery) -> None:
        """Nobody gets it."""

    def completed(self, request: object, error: BaseException | None, *, is_fatal: bool = False) -> None:
        """Nobody waits for it."""

    def browsed(self, consumer: Consumer) -> None:
        """Nobody looks."""

    def pause(self) -> None:
        """Nobody is read."""

    def resume(self) -> None:
        """Likewise."""

    def write(self) -> None:
        """There is nothing to say."""

    def dismiss(self, text: str) -> None:
        """It is over."""

    def cut(self, reason: str) -> None:
        """Likewise."""

    def probe(self, told: Callable[[bool], object]) -> None:
        """Nobody answers."""
        told(False)

    def closed(self) -> None:
        """There is nothing to forget."""
