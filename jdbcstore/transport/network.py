"""A broker that clients reach over the network."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from jdbcstore.addresses import Protocol, parse_listeners
from jdbcstore.broker.broker import Broker
from jdbcstore.broker.destination_policy import DestinationPolicy, RedeliveryPolicy
from jdbcstore.broker.options import BrokerOptions
from jdbcstore.broker.security.authentication import Authentication
from jdbcstore.broker.security.authorization import AuthorizationMap
from jdbcstore.broker.security.given import warn_of_strangers
from jdbcstore.broker.server import Server
from jdbcstore.broker.tracing import Tracings
from jdbcstore.broker.virtual_destinations import VirtualDestinations
from jdbcstore.errors import ConfigurationError
from jdbcstore.store.contract import PersistenceAdapter
from jdbcstore.store.memory import MemoryPersistenceAdapter
from jdbcstore.transport.listener import NewSession, SocketServer
from jdbcstore.transport.openwire.session import OpenWireSession
from jdbcstore.transport.stomp.session import StompSession
from jdbcstore.transport.tls import ServerTls, TlsOptions

if TYPE_CHECKING:
    from jdbcstore.management.desk import Desk
    from jdbcstore.transport.web.server import WebServer

__all__ = ["NetworkBroker"]

#: What clients of the listeners of `BrokerOptions.bind` may speak.
_SESSIONS: Final[Mapping[Protocol, NewSession]] = {
    Protocol.STOMP: StompSession,
    Protocol.OPENWIRE: OpenWireSession,
}


class NetworkBroker(Broker):
    """A message broker over a store, for clients of STOMP and OpenWire: `jdbcstore.Broker`.

    Args:
        adapter, options, spool, policies, redelivery_policies, authentication, authorization, virtual_destinations: as
            `jdbcstore.broker.broker.Broker`.
        tls: for the listeners of `BrokerOptions.bind` with TLS, ``stomp+ssl://`` for example.

    Raises:
        ConfigurationError: a listener needs TLS, and a certificate or key cannot be used; or there is authorisation
            without users.
    """

    def __init__(
        self,
        adapter: PersistenceAdapter,
        options: BrokerOptions | None = None,
        spool: Callable[[], PersistenceAdapter] = MemoryPersistenceAdapter,
        policies: Iterable[DestinationPolicy] = (),
        redelivery_policies: Iterable[RedeliveryPolicy] = (),
        tls: TlsOptions | None = None,
        authentication: Authentication | None = None,
        authorization: AuthorizationMap | None = None,
        virtual_destinations: VirtualDestinations | None = None,
    ) -> None:
        options = options or BrokerOptions()
        needs_tls = any(listener.is_tls for listener in parse_listeners(options.bind))
        #: The certificate and what belongs to it; None if no listener needs one.
        self.tls = ServerTls(tls or TlsOptions()) if needs_tls else None
        super().__init__(
            adapter,
            options,
            spool,
            policies,
            redelivery_policies,
            authentication=authentication,
            authorization=authorization,
            virtual_destinations=virtual_destinations,
        )

        if options.tracing:
            self._add_tracing(options.broker_name)
        self.web: WebServer | None = None
        if options.web_bind:
            self._add_web(options)
        elif options.health_bind:
            with suppress(ImportError):  # the health address tells less without the extra
                self._add_desk()

    def _add_tracing(self, broker_name: str) -> None:
        """Let OpenTelemetry follow messages; a provider that the program has chosen is its own business."""
        try:
            from opentelemetry.trace import ProxyTracerProvider, get_tracer_provider

            from jdbcstore.management.traces import TraceExport, Traces
        except ImportError as error:
            raise ConfigurationError(
                f'tracing needs more packages ({error.name} is missing): pip install "jdbcstore[otel]"'
            ) from error
        if isinstance(get_tracer_provider(), ProxyTracerProvider):
            export = TraceExport(broker_name)
            self.companions.append(export)
            traces = Traces(export.provider)
        else:
            traces = Traces()
        self.tracing = traces if self.tracing is None else Tracings(traces, self.tracing)

    def _add_desk(self) -> Desk:
        """Let somebody look at it. What that needs is imported here: it is an extra."""
        from jdbcstore.management.desk import Desk
        from jdbcstore.transport.web.metrics import Metrics

        desk = Desk(self)
        self.metrics = Metrics(desk).exposed
        self.companions.append(desk)
        return desk

    def _add_web(self, options: BrokerOptions) -> None:
        try:
            from jdbcstore.transport.web.server import WebServer

            desk = self._add_desk()
        except ImportError as error:
            raise ConfigurationError(
                f'web_bind needs more packages ({error.name} is missing): pip install "jdbcstore[web]"'
            ) from error
        self.web = WebServer(desk, options.web_bind, options.web_token_file, options.web_hosts)
        self.companions.append(self.web)

    async def start(self) -> None:
        warn_of_strangers(self.options.bind, self.authentication)
        await super().start()

    def new_server(self) -> Server:
        return SocketServer(self, _SESSIONS, self.tls)

    def reload(self) -> None:
        if self.tls is not None:
            asyncio.get_running_loop().run_in_executor(None, self.tls.reload)
