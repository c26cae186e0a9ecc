"""The composition root: the one place that knows every class and puts them together."""

from __future__ import annotations

import socket
from dataclasses import replace
from typing import TypeVar

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.given import authentication_of
from jdbcstore.config.configuration import Configuration
from jdbcstore.config.urls import open_spool, open_store
from jdbcstore.store.contract import VIRTUAL_TOPIC_CONSUMERS
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.journal.amq.options import AMQOptions
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.store.journal.leveldb.options import LevelDBOptions
from jdbcstore.store.journal.mkahadb.options import MKahaDBOptions
from jdbcstore.store.lease import LockerOptions
from jdbcstore.transport.network import NetworkBroker

__all__ = ["build_broker"]


def build_broker(configuration: Configuration) -> NetworkBroker:
    """A broker as configured, not started yet.

    Raises:
        ConfigurationError: the store's URL is wrong, or a file with a key or certificate cannot be used.
    """
    name = configuration.broker.broker_name
    name = socket.gethostname() if name == BrokerOptions().broker_name else name
    lock, kahadb = configuration.store.lock, configuration.kahadb
    if lock.lease_holder_id == LockerOptions().lease_holder_id:  # tell an operator more than that
        lock = replace(lock, lease_holder_id=name)
    if kahadb.lease_holder_id == KahaDBOptions().lease_holder_id:
        kahadb = replace(kahadb, lease_holder_id=name)
    options: JdbcOptions | KahaDBOptions = replace(configuration.store, lock=lock)
    if configuration.url.startswith("kahadb:"):
        options = kahadb
    elif configuration.url.startswith("amq:"):
        options = AMQOptions(lease_holder_id=name)
    elif configuration.url.startswith("mkahadb:"):
        options = MKahaDBOptions(lease_holder_id=name)
    elif configuration.url.startswith("leveldb:"):
        options = LevelDBOptions(lease_holder_id=name)
    store = open_store(configuration.url, _remembering(options, configuration))
    return NetworkBroker(
        store,
        configuration.broker,
        open_spool,
        configuration.destination_policies,
        configuration.redelivery_policies,
        configuration.tls,
        authentication_of(configuration.broker, configuration.login_stack, configuration.encrypted_login_stack),
        configuration.authorization,
        configuration.virtual_destinations,
    )


Options = TypeVar("Options", bound=JdbcOptions | KahaDBOptions)


def _remembering(options: Options, configuration: Configuration) -> Options:
    """Let the store remember the queues of the virtual topics that are declared, unless somebody says which."""
    declared = configuration.virtual_destinations.virtual_topics
    if not declared or options.virtual_topic_consumers != VIRTUAL_TOPIC_CONSUMERS.physical_name:
        return options
    has_default = configuration.broker.use_virtual_topics
    queues = [
        virtual.queues for virtual in configuration.virtual_destinations.all_virtual_topics(has_default=has_default)
    ]
    return replace(options, virtual_topic_consumers=",".join(queue.physical_name for queue in queues))
