"""What is subscribed to: from the arguments of `subscribe` to what the broker is asked for. Pure."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias, TypedDict

from jdbcstore.broker.subscription_request import AcknowledgeMode, SubscriptionRequest
from jdbcstore.client.mailbox import Mailbox
from jdbcstore.client.outgoing_message import destination_of
from jdbcstore.destination import Destination

__all__ = ["Mode", "SubscribeOptions", "subscription_request"]

#: How messages are acknowledged: see `jdbcstore.AcknowledgeMode`.
Mode: TypeAlias = AcknowledgeMode | Literal["auto", "cumulative", "individual"]

_PRIORITIES: Final = range(-128, 128)


class SubscribeOptions(TypedDict, total=False):
    """What may be said about a subscription besides where its messages come from.

    ============== ================================================================================================
    `mode`         how messages are acknowledged: ``individual`` (the default), each alone, by `acknowledge`;
                   ``cumulative``, by `acknowledge` with all that came before on this subscription; ``auto``, by
                   being received
    `selector`     a SQL-92 condition on properties: ``colour = 'red' AND weight > 2500``
    `prefetch`     how many messages may be here unacknowledged; None for what the destination's policy says
    `durable`      makes a subscription to a topic, or to topics by a wildcard, durable under this name and the
                   connection's client id: it gets also what is published while nobody uses it
    `exclusive`    wants its queue for itself, the others stand by; None for what the policy says
    `priority`     -128 to 127: while a subscription of a higher one can take messages it gets none of a queue
    `no_local`     leave out what this connection has sent
    `retroactive`  a new durable subscription begins with the oldest message that is stored
    ============== ================================================================================================
    """

    mode: Mode
    selector: str | None
    prefetch: int | None
    durable: str | None
    exclusive: bool | None
    priority: int
    no_local: bool
    retroactive: bool


def subscription_request(
    destination: Destination | str, mailbox: Mailbox, options: SubscribeOptions, *, is_browser: bool = False
) -> SubscriptionRequest:
    """What the broker is asked for.

    Raises:
        ConfigurationError: the destination is none.
        ValueError: an option is not what it can be.
    """
    source = destination_of(destination)
    mode = AcknowledgeMode(options.get("mode", AcknowledgeMode.INDIVIDUAL))
    priority = options.get("priority", 0)
    if priority not in _PRIORITIES:
        raise ValueError(f"priority has to be a whole number from -128 to 127, got {priority!r}")
    return SubscriptionRequest(
        key=mailbox.key,
        destination=source,
        # Mode auto of the broker acknowledges what was handed over to us; ours, what was handed over to the program.
        mode=AcknowledgeMode.INDIVIDUAL if mode is AcknowledgeMode.AUTO else mode,
        label=str(source),
        tag=mailbox,
        selector=options.get("selector"),
        prefetch=_prefetch(options.get("prefetch")),
        is_browser=is_browser,
        subscription_name=options.get("durable"),
        is_exclusive=options.get("exclusive"),
        priority=priority,
        no_local=options.get("no_local", False),
        is_retroactive=options.get("retroactive", False),
    )


def _prefetch(prefetch: int | None) -> int | None:
    """At least one: nobody pulls here."""
    return None if prefetch is None else max(prefetch, 1)
