"""The composition root: the one place that knows every class and puts them together."""

from __future__ import annotations

import socket
from dataclasses import replace

from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.given import authentication_of
from jdbcstore.config.configuration import Configuration
from jdbcstore.config.urls import open_spool, open_store
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
    store = open_store(configuration.url, options)
    return NetworkBroker(
        store,
        configuration.broker,
        open_spool,
        configuration.destination_policies,
        configuration.redelivery_policies,
        configuration.tls,
        authentication_of(configuration.broker, configuration.login_stack, configuration.encrypted_login_stack),
        configuration.authorization,
    )
