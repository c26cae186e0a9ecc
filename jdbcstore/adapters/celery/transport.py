"""One connection of kombu: to the broker that is master, wherever that is.

Connecting tries all brokers in turn; with several, or with a broker inside of a program, for as long as a failover may
take (``failover_timeout_s``). A connection that is lost is kombu's business: it connects again, and declares and
consumes as before; what was not acknowledged is delivered again.
"""

from __future__ import annotations

import ssl
import time
from contextlib import suppress
from typing import Any, Final

from kombu.asynchronous import get_event_loop, set_event_loop
from kombu.transport import virtual

from jdbcstore.adapters.celery.bindings import Bindings
from jdbcstore.adapters.celery.broadcasts import Broadcasts
from jdbcstore.adapters.celery.channel import Channel, QueueKind
from jdbcstore.adapters.celery.embedded import address_of
from jdbcstore.adapters.celery.names import Names
from jdbcstore.adapters.celery.switchboard import Switchboard
from jdbcstore.adapters.celery.wakeup import Wakeup
from jdbcstore.adapters.stomp_link import (
    DEFAULT_PORT,
    Address,
    LinkLost,
    LinkOptions,
    RequestRefused,
    StompLink,
    parse_addresses,
)
from jdbcstore.version import VERSION

__all__ = ["Transport"]

_FAILOVER_TIMEOUT_S: Final = 30.0
_DEFAULTS: Final = LinkOptions()
_PAUSE_S: Final = 0.1
#: After the first message of a new subscription others that had waited are on their way; they are handed over in their
#: order of priority.
_GATHER_S: Final = 0.02


class Transport(virtual.Transport):
    """kombu's transport ``jdbcstore``.

    Options (``transport_options``, Celery's ``broker_transport_options``):

    ====================== =========================================================================================
    ``failover_timeout_s`` how long to look for a master, in seconds; 30, and 0 if there is one broker alone
    ``confirm_publish``    whether publishing waits until the message is in the store; True
    ``request_timeout_s``  how long an answer may take, in seconds; 60
    ``schedule_from_s``    tasks for later than this, in seconds, wait in the broker, others in the worker; 0
    ``deadletter_queue``   for messages to an exchange without a queue for them
    ====================== =========================================================================================
    """

    Channel = Channel
    default_port = DEFAULT_PORT
    driver_type = "stomp"
    driver_name = "jdbcstore"
    connection_errors: tuple[type[Exception], ...] = (*virtual.Transport.connection_errors, LinkLost, OSError)
    channel_errors: tuple[type[Exception], ...] = (*virtual.Transport.channel_errors, RequestRefused)
    recoverable_connection_errors = connection_errors
    recoverable_channel_errors = channel_errors
    implements = virtual.Transport.implements.extend(
        asynchronous=True, exchange_type=frozenset(["direct", "topic", "fanout"]), heartbeats=True
    )

    client: Any
    link: StompLink
    switchboard: Switchboard
    bindings: Bindings
    broadcasts: Broadcasts
    names: Names

    def __init__(self, client: Any, **options: Any) -> None:
        super().__init__(client, **options)
        #: The queues that were declared.
        self.queues: dict[str, QueueKind] = {}
        #: Of the event loop that delivers; None if none does.
        self._wakeup: Wakeup | None = None

    def driver_version(self) -> str:
        return VERSION

    # -- connecting ----------------------------------------------------------------------------------------------

    def establish_connection(self) -> Transport:
        """Connect to the master.

        Raises:
            LinkLost: there is none.
            LoginRefused: it does not let us in.
        """
        self.names = Names(None if self._is_embedded else self.client.virtual_host)
        self.link = self._connected()
        self.switchboard = Switchboard(self.link)
        self.bindings = Bindings(self.switchboard, self.names)
        self.broadcasts = Broadcasts(self.switchboard, self.names)
        self.queues.clear()
        self._avail_channels.append(self.create_channel(self))
        return self

    @property
    def _is_embedded(self) -> bool:
        return "://" in (self.client.hostname or "")

    def _connected(self) -> StompLink:
        options = self._link_options()
        is_alone = not self._is_embedded and len(self._addresses()) == 1
        timeout_s = self.client.transport_options.get("failover_timeout_s", 0 if is_alone else _FAILOVER_TIMEOUT_S)
        deadline_s = time.monotonic() + timeout_s
        while True:
            try:
                return self._linked(options)
            except LinkLost:
                if time.monotonic() >= deadline_s:
                    raise
            time.sleep(_PAUSE_S)

    def _linked(self, options: LinkOptions) -> StompLink:
        *others, last = self._addresses()
        for address in others:
            with suppress(LinkLost):
                return StompLink(address, options)
        return StompLink(last, options)

    def _addresses(self) -> list[Address]:
        hostname = self.client.hostname or "localhost"
        if self._is_embedded:
            return [address_of(hostname)]
        return parse_addresses(hostname, self.client.port or DEFAULT_PORT)

    def _link_options(self) -> LinkOptions:
        client = self.client
        password = client.password() if callable(client.password) else client.password
        beat_ms = int((client.heartbeat or 0) * 1000)
        return LinkOptions(
            login=client.userid,
            passcode=password,
            send_ms=beat_ms,
            expect_ms=min(beat_ms or _DEFAULTS.expect_ms, _DEFAULTS.expect_ms),
            connect_timeout_s=client.connect_timeout or _DEFAULTS.connect_timeout_s,
            request_timeout_s=client.transport_options.get("request_timeout_s", _DEFAULTS.request_timeout_s),
            tls=_tls_context(client.ssl),
        )

    def verify_connection(self, connection: Transport) -> bool:
        return self.link.is_open

    def close_connection(self, connection: Transport) -> None:
        """Say goodbye; the broker has all acknowledgements when this returns."""
        self._forget_channels()
        self.link.close()

    def _collect(self, connection: Transport | None) -> None:
        """The connection is broken, or belongs to another process: let go of it without a word."""
        self._forget_channels()
        if connection is not None:
            self.link.abort()

    def _forget_channels(self) -> None:
        """Channels end with their connection, and need not say so. An event loop forgets its sockets by itself."""
        for channel in [*self._avail_channels, *self.channels]:
            channel.closed = True
            channel.connection = None
        self._avail_channels.clear()
        self.channels.clear()
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            wakeup.close()

    # -- delivering ----------------------------------------------------------------------------------------------

    def drain_events(self, connection: Transport, timeout: float | None = None) -> None:
        """Deliver what is here; wait for something if there is nothing.

        Raises:
            TimeoutError: nothing came in time.
            LinkLost: the connection is lost.
        """
        deadline_s = None if timeout is None else time.monotonic() + timeout
        while not self._hand_over():
            for channel in self.channels:
                channel.grant()
            remaining_s = None if deadline_s is None else max(deadline_s - time.monotonic(), 0.0)
            if not self.switchboard.wait(self._has_ready, remaining_s):
                raise TimeoutError(f"no message within {timeout:g} s")
            self._gather()

    def _has_ready(self) -> bool:
        return any(channel.ready() for channel in self.channels)

    def _gather(self) -> None:
        if any(channel.is_fresh for channel in self.channels):
            while self.link.wait(lambda: bool(self.link.messages), _GATHER_S):
                self.switchboard.route()

    def _hand_over(self) -> bool:
        self.switchboard.route()
        ready = [(delivery, channel) for channel in list(self.channels) for delivery in channel.ready()]
        # What came by a topic goes first: a command that revokes a task, say, before the task.
        ready.sort(key=lambda pair: (pair[0].consumption is not None, -pair[0].priority))
        handed_over = [channel.hand_over(delivery) for delivery, channel in ready if not channel.closed]
        return any(handed_over)

    # -- kombu's event loop --------------------------------------------------------------------------------------

    def register_with_event_loop(self, connection: Transport, loop: Any) -> None:
        """Deliver whenever the socket can be read, or something else has made room."""
        if get_event_loop() is None:
            # kombu forgets its loop when Celery resets it after a lost connection. A worker that ends looks for it
            # there, to go on with heart-beats while its last tasks run.
            set_event_loop(loop)
        self._wakeup = wakeup = Wakeup()
        loop.add_reader(self.link.fileno(), self._on_readable)
        loop.add_reader(wakeup.fileno(), self._on_wakeup)
        self.has_room()

    def unregister_from_event_loop(self, connection: Transport, loop: Any) -> None:
        wakeup, self._wakeup = self._wakeup, None
        if wakeup is not None:
            loop.remove(self.link.fileno())
            loop.remove(wakeup.fileno())
            wakeup.close()

    def _on_readable(self) -> None:
        if self._wakeup is None:
            return  # the connection was given up since the loop saw this
        with suppress(TimeoutError):  # it was a heart-beat, or a part of a message
            self.drain_events(self, timeout=0)

    def _on_wakeup(self) -> None:
        if self._wakeup is not None:
            self._wakeup.clear()
            self._on_readable()

    def has_room(self) -> None:
        """Something may be delivered that did not just come."""
        wakeup = self._wakeup
        if wakeup is not None:
            wakeup.wake()  # it may be another thread that says so: nothing is looked at here

    def get_heartbeat_interval(self, connection: Transport) -> float:
        return float(self.client.heartbeat or 0)

    def heartbeat_check(self, connection: Transport, rate: int = 2) -> None:
        """Send a heart-beat if it is time to.

        Raises:
            LinkLost: the broker was silent for too long.
        """
        self.link.tick()


def _tls_context(wanted: Any) -> ssl.SSLContext | None:
    """A context from kombu's ``ssl``: True, or ``ca_certs``, ``certfile``, ``keyfile``, ``cert_reqs``."""
    if not wanted:
        return None
    chosen = wanted if isinstance(wanted, dict) else {}
    context = ssl.create_default_context(cafile=chosen.get("ca_certs") or chosen.get("ssl_ca_certs"))
    demand: Any = chosen.get("cert_reqs", chosen.get("ssl_cert_reqs", ssl.CERT_REQUIRED))
    if demand == ssl.CERT_NONE or chosen.get("ssl_check_hostname") is False:
        context.check_hostname = False
        context.verify_mode = demand
    certificate = chosen.get("certfile") or chosen.get("ssl_certfile")
    if certificate:
        context.load_cert_chain(certificate, chosen.get("keyfile") or chosen.get("ssl_keyfile"))
    return context
