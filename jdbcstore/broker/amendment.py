"""What the broker changes of messages that clients send, if its options say so."""

from __future__ import annotations

from collections.abc import Callable

from jdbcstore.broker.access import Access
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.message import Message

__all__ = ["amendment"]


def amendment(options: BrokerOptions, access: Access, now_ms: Callable[[], int]) -> Callable[[Message], None] | None:
    """What changes each message of a client, before anything else is done with it; None if nothing is to be changed.

    Args:
        options: what is to be changed.
        access: knows who the client is.
        now_ms: the broker's clock, epoch milliseconds.
    """
    changes: list[Callable[[Message], None]] = []
    if options.populate_jmsx_user_id:
        changes.append(lambda message: _name_user(message, access))
    if options.force_persistent:
        changes.append(_persist)
    if options.time_stamping:
        changes.append(lambda message: _stamp(message, options, now_ms()))
    if not changes:
        return None

    def amend(message: Message) -> None:
        for change in changes:
            change(message)

    return amend


def _name_user(message: Message, access: Access) -> None:
    """The message says who has sent it."""
    user = access.principal
    message.user_id = None if user is None else user.name


def _persist(message: Message) -> None:
    """Temporary destinations keep nothing that lasts."""
    if message.destination is None or not message.destination.is_temporary:
        message.persistent = True


def _stamp(message: Message, options: BrokerOptions, now_ms: int) -> None:
    """The message was sent now, by the broker's clock, and lives as long as its sender says, or the options. One that
    says no time of its own keeps none."""
    if message.timestamp <= 0:
        return
    lives_ms = message.expiration - message.timestamp if message.expiration > 0 else options.zero_expiration_override_ms
    if options.ttl_ceiling_ms:
        lives_ms = min(lives_ms, options.ttl_ceiling_ms)
    if options.time_stamping_future_only and now_ms + lives_ms <= message.expiration:
        return
    if lives_ms > 0:
        message.expiration = now_ms + lives_ms
    message.timestamp = now_ms
