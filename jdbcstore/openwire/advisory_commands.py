"""The commands by which advisories tell of `jdbcstore.advisory`'s subjects.

Source: ActiveMQ's AdvisoryBroker.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from jdbcstore.advisory import (
    ConnectionSubject,
    ConsumerSubject,
    DestinationSubject,
    ProducerSubject,
    RemovalSubject,
    SubscriptionRemovalSubject,
)
from jdbcstore.openwire.commands import (
    BaseCommand,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)

__all__ = ["ADVISORY_COMMANDS"]

_ADDED: Final = 0
_REMOVED: Final = 1


def _destination(subject: DestinationSubject) -> DestinationInfo:
    return DestinationInfo(
        connection_id=subject.connection_id,
        destination=subject.destination,
        operation_type=_REMOVED if subject.is_removed else _ADDED,
    )


def _connection(subject: ConnectionSubject) -> ConnectionInfo:
    said = subject.command if isinstance(subject.command, ConnectionInfo) else ConnectionInfo()
    return replace(
        said,
        connection_id=subject.connection_id,
        client_id=subject.client_id,
        user_name=subject.user or said.user_name,
        password="",
        failover_reconnect=False,
        client_ip=f"tcp://{subject.peer}",
    )


def _consumer(subject: ConsumerSubject) -> ConsumerInfo:
    said = subject.command
    if isinstance(said, ConsumerInfo):
        is_as_asked = max(said.prefetch_size, 0) == subject.prefetch
        return replace(
            said,
            destination=subject.destination,
            prefetch_size=said.prefetch_size if is_as_asked else subject.prefetch,
        )
    return ConsumerInfo(
        consumer_id=subject.consumer_id,
        client_id=subject.client_id,
        destination=subject.destination,
        prefetch_size=subject.prefetch,
        selector=subject.selector,
        subscription_name=subject.subscription_name,
        no_local=subject.is_no_local,
        retroactive=subject.is_retroactive,
        browser=subject.is_browser,
        exclusive=subject.is_exclusive,
        priority=subject.priority,
    )


def _producer(subject: ProducerSubject) -> ProducerInfo:
    said = subject.command if isinstance(subject.command, ProducerInfo) else ProducerInfo()
    return replace(said, producer_id=subject.producer_id, destination=subject.destination)


def _removal(subject: RemovalSubject) -> RemoveInfo:
    return RemoveInfo(object_id=subject.id)


def _subscription_removal(subject: SubscriptionRemovalSubject) -> RemoveSubscriptionInfo:
    return RemoveSubscriptionInfo(
        connection_id=subject.connection_id,
        client_id=subject.client_id,
        subscription_name=subject.subscription_name,
    )


#: What makes the command of a subject, by the subject's class.
ADVISORY_COMMANDS: Final[Mapping[type, Callable[[Any], BaseCommand]]] = {
    DestinationSubject: _destination,
    ConnectionSubject: _connection,
    ConsumerSubject: _consumer,
    ProducerSubject: _producer,
    RemovalSubject: _removal,
    SubscriptionRemovalSubject: _subscription_removal,
}
