"""Traces of messages for OpenTelemetry (extra ``otel``): `Traces` makes spans, `TraceExport` sends them away.

A message belongs to the trace that its property ``traceparent`` names (W3C Trace Context, with ``tracestate``), and
keeps it, so that the span of a producer, those of the broker and that of the consumer are one trace, also when a
restart lies between them. A message without that property begins a trace, and is given one if that trace is sampled.
Names and attributes are OpenTelemetry's semantic conventions for messaging.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Mapping, Sequence
from importlib.metadata import entry_points
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from jdbcstore.broker.tracing import Batch, Span, Step
from jdbcstore.destination import Destination
from jdbcstore.errors import CodecError, ConfigurationError
from jdbcstore.identifiers import TransactionId
from jdbcstore.message import Message
from jdbcstore.version import VERSION

__all__ = ["TraceExport", "Traces"]

log = logging.getLogger(__name__)

_PROPERTY: Final = "traceparent"
_PROPERTY_BYTES: Final = _PROPERTY.encode()
_STATE: Final = "tracestate"
#: What `OTEL_TRACES_EXPORTER` calls by another name than the packages do.
_EXPORTERS: Final = {"otlp": "otlp_proto_http"}
#: How many messages of a transaction its commit is linked to, as many as the SDK keeps.
_LINKS_MAX: Final = 128
#: How long the last spans may take when the broker has stopped.
_LAST_S: Final = 5.0

_propagator: Final = TraceContextTextMapPropagator()


class Traces:
    """Spans of what becomes of messages: `jdbcstore.broker.tracing.Tracing`.

    Args:
        provider: who takes them; None for the one that the program has chosen.
    """

    def __init__(self, provider: trace.TracerProvider | None = None) -> None:
        self._tracer = trace.get_tracer("jdbcstore", VERSION, provider)

    def send(self, message: Message) -> Span:
        """A message has arrived: part of its trace, or the beginning of one."""
        span = self._span("send", message, SpanKind.SERVER, "send", _context(message))
        if not _is_traced(message) and span.is_recording():
            _propagate(message, span)
        return _Open(span)

    def batch(self, messages: Sequence[Message], transaction_id: TransactionId | None) -> Batch:
        """Messages are handed to the store: part of the first one's trace, linked to the others."""
        return _Batch(self._tracer, messages)

    def deliver(self, message: Message, destination: Destination, redeliveries: int) -> Span:
        """A message goes to a consumer: part of its trace, if it has one."""
        if not _is_traced(message):
            return _NOTHING
        span = self._span("deliver", message, SpanKind.INTERNAL, "receive", _context(message))
        span.set_attribute("messaging.destination.subscription.name", str(destination))
        span.set_attribute("jdbcstore.redeliveries", redeliveries)
        return _Open(span)

    def acknowledge(self, message: Message, *, is_refused: bool) -> Span:
        """A consumer is done with a message: part of its trace, if it has one."""
        if not _is_traced(message):
            return _NOTHING
        return _Open(self._span("nack" if is_refused else "ack", message, SpanKind.SERVER, "settle", _context(message)))

    def _span(
        self, operation: str, message: Message, kind: SpanKind, operation_type: str, context: Context | None
    ) -> trace.Span:
        name = "" if message.destination is None else str(message.destination)
        attributes: dict[str, str | int] = {
            "messaging.system": "activemq",
            "messaging.operation.name": operation,
            "messaging.operation.type": operation_type,
            "messaging.destination.name": name,
            "messaging.message.id": str(message.message_id),
            "messaging.message.body.size": len(message.content or b""),
        }
        # An empty context: whatever else the program traces has nothing to do with this message.
        parent = Context() if context is None else context
        return self._tracer.start_span(f"{operation} {name}", parent, kind, attributes)


class TraceExport:
    """Sends spans away as the environment says (``OTEL_…``), until the broker has stopped; a companion of it.

    Args:
        broker_name: names this instance of the service, unless the environment does.

    Attributes:
        provider: takes spans.

    Raises:
        ConfigurationError: the environment asks for what is not installed, or wrong.
    """

    def __init__(self, broker_name: str) -> None:
        resource = Resource.create({"service.name": "jdbcstore", "service.instance.id": broker_name, **_environment()})
        try:
            self.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
            exporter = _exporter()
            if exporter is not None:
                self.provider.add_span_processor(BatchSpanProcessor(exporter))
        except ValueError as error:
            raise ConfigurationError(f"tracing cannot begin, look at the variables OTEL_…: {error}") from error

    async def start(self) -> None:
        """Nothing has to begin."""

    async def stop(self) -> None:
        """Send what is left, but do not wait long for a collector that does not answer."""
        done = asyncio.Event()
        loop = asyncio.get_running_loop()

        def end() -> None:
            self.provider.shutdown()
            loop.call_soon_threadsafe(done.set)

        threading.Thread(target=end, name="jdbcstore-last-spans", daemon=True).start()
        try:
            await asyncio.wait_for(done.wait(), _LAST_S)
        except TimeoutError:
            log.warning("spans were not taken by the collector, they are lost")


class _Batch:
    """Messages that are handed to the store together: how many, and their traces."""

    __slots__ = ("_count", "_links", "_parent", "_tracer")

    def __init__(self, tracer: trace.Tracer, messages: Sequence[Message]) -> None:
        contexts = [context for message in messages[: _LINKS_MAX + 1] if (context := _context(message)) is not None]
        self._tracer = tracer
        self._count = len(messages)
        self._parent = contexts[0] if contexts else Context()
        self._links = [Link(trace.get_current_span(context).get_span_context()) for context in contexts[1:]]

    def begin(self, step: Step) -> Span:
        attributes: dict[str, str | int] = {
            "messaging.system": "activemq",
            "messaging.operation.name": step,
            "messaging.batch.message_count": self._count,
        }
        return _Open(self._tracer.start_span(step, self._parent, attributes=attributes, links=self._links))


class _Open:
    """A span that has begun."""

    __slots__ = ("_span",)

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def end(self, error: BaseException | None = None) -> None:
        if error is not None and self._span.is_recording():
            self._span.set_status(Status(StatusCode.ERROR, str(error)))
            self._span.set_attribute("error.type", type(error).__name__)
        self._span.end()


class _Nothing:
    """The span of what is not traced."""

    def end(self, error: BaseException | None = None) -> None:
        """There is nothing to end."""


_NOTHING: Final = _Nothing()


def _is_traced(message: Message) -> bool:
    """Whether a message names its trace, as far as that can be told without decoding it."""
    return message.marshalled_properties is not None and _PROPERTY_BYTES in message.marshalled_properties


def _context(message: Message) -> Context | None:
    """The trace that a message belongs to; None for none, also if what it says about it cannot be read."""
    if not _is_traced(message):
        return None
    try:
        properties = message.properties
    except CodecError:  # it is carried as it is
        return None
    carrier = {name: value for name in (_PROPERTY, _STATE) if isinstance(value := properties.get(name), str)}
    context = _propagator.extract(carrier, Context())
    return context if trace.get_current_span(context).get_span_context().is_valid else None


def _propagate(message: Message, span: trace.Span) -> None:
    """Have a message say that it belongs to the trace of a span."""
    carrier: dict[str, str] = {}
    _propagator.inject(carrier, trace.set_span_in_context(span, Context()))
    try:
        message.properties = {**message.properties, **carrier}
    except CodecError:  # properties that nobody can read are carried as they are
        return


def _environment() -> Mapping[str, str]:
    """What the environment says about the service, which goes before what we say."""
    given = dict(
        part.split("=", 1) for part in os.environ.get("OTEL_RESOURCE_ATTRIBUTES", "").split(",") if "=" in part
    )
    found = {name.strip(): value.strip() for name, value in given.items()}
    if service := os.environ.get("OTEL_SERVICE_NAME"):
        found["service.name"] = service
    return {name: found[name] for name in ("service.name", "service.instance.id") if name in found}


def _exporter() -> SpanExporter | None:
    """Who sends spans away, as ``OTEL_TRACES_EXPORTER`` says; by default OTLP over HTTP. None for nobody."""
    name = os.environ.get("OTEL_TRACES_EXPORTER") or "otlp"
    if name == "none":
        return None
    found = entry_points(group="opentelemetry_traces_exporter", name=_EXPORTERS.get(name, name))
    if not found:
        known = sorted(entry_points(group="opentelemetry_traces_exporter").names)
        raise ValueError(f"OTEL_TRACES_EXPORTER is {name!r}, there are otlp, none, {', '.join(known)}")
    made = next(iter(found)).load()()
    if not isinstance(made, SpanExporter):
        raise TypeError(f"{made!r} exports no spans")
    return made
