"""Traces of messages: OpenTelemetry's spans, made by a real broker for real clients."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler

from jdbcstore import Broker, BrokerOptions, open_store, running
from jdbcstore.destination import Queue
from jdbcstore.errors import ConfigurationError
from jdbcstore.identifiers import ConnectionId, LocalTransactionId, MessageId, ProducerId, XATransactionId
from jdbcstore.management.traces import TraceExport, Traces
from jdbcstore.message import TextMessage
from jdbcstore.openwire import commands as c
from tests.broker.client import Address, Client
from tests.broker.openwire_client import OpenWireClient
from tests.broker_process import BrokerProcess
from tests.waiting import wait_until

TRACE = "0af7651916cd43dd8448eb211c80319c"
PRODUCER_SPAN = "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PRODUCER_SPAN}-01"


class Traced:
    """A broker whose spans are kept in memory."""

    def __init__(self, address: Address, exporter: InMemorySpanExporter) -> None:
        self.address = address
        self._exporter = exporter

    def spans(self, *names: str) -> list[ReadableSpan]:
        """The spans of these names, once there are that many."""

        def found() -> list[ReadableSpan]:
            return [span for span in self._exporter.get_finished_spans() if span.name in names]

        wait_until(lambda: sorted(span.name for span in found()) == sorted(names))
        return sorted(found(), key=lambda span: names.index(span.name))

    def names(self) -> list[str]:
        """All that are over."""
        return [span.name for span in self._exporter.get_finished_spans()]


@contextmanager
def traced(folder: Path, sampler: Sampler | None = None) -> Iterator[Traced]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    broker = Broker(open_store(f"sqlite:///{folder / 'b.db'}"), BrokerOptions(bind="auto://127.0.0.1:0"))
    broker.tracing = Traces(provider)
    with running(broker) as address:
        yield Traced(address, exporter)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Traced]:
    with traced(tmp_path) as broker:
        yield broker


def trace_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.trace_id:032x}"


def id_of(span: ReadableSpan) -> str:
    assert span.context is not None
    return f"{span.context.span_id:016x}"


def parent_of(span: ReadableSpan) -> str:
    return "" if span.parent is None else f"{span.parent.span_id:016x}"


def test_a_message_keeps_the_trace_that_its_producer_began(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "hello", traceparent=TRACEPARENT, tracestate="vendor=1")
        client.subscribe("/queue/A", ack="client-individual")
        message = client.message()
        client.done("ACK", client.named(message))
    assert message.headers["traceparent"] == TRACEPARENT
    spans = broker.spans("send queue://A", "commit", "deliver queue://A", "ack queue://A")
    assert {trace_of(span) for span in spans} == {TRACE}
    assert {parent_of(span) for span in spans} == {PRODUCER_SPAN}
    send, commit, deliver, ack = spans
    assert send.attributes is not None
    assert send.attributes["messaging.system"] == "activemq"
    assert send.attributes["messaging.destination.name"] == "queue://A"
    assert send.attributes["messaging.message.id"] == message.headers["message-id"]
    assert send.attributes["messaging.message.body.size"] == 4 + len("hello")
    began = [span.start_time or 0 for span in (send, commit, deliver, ack)]
    assert began == sorted(began)
    assert (send.start_time or 0) <= (commit.start_time or 0) <= (commit.end_time or 0) <= (send.end_time or 0)


def test_a_message_without_a_trace_begins_one(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "hello", colour="blue")
        client.subscribe("/queue/A", ack="client")
        message = client.message()
        client.done("ACK", client.named(message))
    spans = broker.spans("send queue://A", "commit", "deliver queue://A", "ack queue://A")
    _, trace, parent, _ = message.headers["traceparent"].split("-")
    assert {trace_of(span) for span in spans} == {trace}
    assert spans[0].parent is None
    assert {parent_of(span) for span in spans[1:]} == {id_of(spans[0])} == {parent}
    assert message.headers["colour"] == "blue"


def test_what_is_not_sampled_is_left_as_it_is(tmp_path: Path) -> None:
    with traced(tmp_path, ALWAYS_OFF) as broker, Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "hello")
        client.subscribe("/queue/A", ack="client")
        message = client.message()
        client.done("ACK", client.named(message))
        assert "traceparent" not in message.headers
        assert broker.names() == []


def test_a_transaction_has_one_commit_with_links_to_its_messages(broker: Traced) -> None:
    other = TRACEPARENT.replace("0af7", "1af7")
    with Client(broker.address) as client:
        client.connect()
        client.done("BEGIN", {"transaction": "t"})
        for traceparent in (TRACEPARENT, other):
            client.publish("/queue/A", "x", transaction="t", traceparent=traceparent)
        assert "commit" not in broker.names()
        client.done("COMMIT", {"transaction": "t"})
    *_, commit = broker.spans("send queue://A", "send queue://A", "commit")
    assert trace_of(commit) == TRACE
    assert [f"{link.context.trace_id:032x}" for link in commit.links] == [other.split("-")[1]]
    assert commit.attributes is not None
    assert commit.attributes["messaging.batch.message_count"] == 2


def test_acknowledgements_in_a_transaction_are_over_with_its_commit(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "x", traceparent=TRACEPARENT)
        client.subscribe("/queue/A", ack="client-individual")
        message = client.message()
        client.done("BEGIN", {"transaction": "t"})
        client.done("ACK", {**client.named(message), "transaction": "t"})
        assert "ack queue://A" not in broker.names()
        client.done("COMMIT", {"transaction": "t"})
        (ack,) = broker.spans("ack queue://A")
        assert trace_of(ack) == TRACE


def test_a_refused_message_has_a_nack_and_its_dead_letter_the_same_trace(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "x", traceparent=TRACEPARENT)
        client.subscribe("/queue/A", ack="client-individual")
        client.done("NACK", client.named(client.message()))
        client.subscribe("/queue/ActiveMQ.DLQ", id="2")
        assert client.message().headers["traceparent"] == TRACEPARENT
    nack, deliver = broker.spans("nack queue://A", "deliver queue://ActiveMQ.DLQ")
    assert {trace_of(nack), trace_of(deliver)} == {TRACE}


def test_a_trace_goes_on_behind_a_restart(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "x", traceparent=TRACEPARENT)
    with traced(tmp_path) as broker, Client(broker.address) as client:
        client.connect()
        client.subscribe("/queue/A", ack="client")
        client.done("ACK", client.named(client.message()))
        spans = broker.spans("deliver queue://A", "ack queue://A")
        assert {trace_of(span) for span in spans} == {TRACE}


def test_a_send_that_is_refused_has_failed(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.send("SEND", {"destination": "/queue/A", "transaction": "none", "traceparent": TRACEPARENT}, "x")
        client.error()
    (span,) = broker.spans("send queue://A")
    assert not span.status.is_ok
    assert span.attributes is not None
    assert span.attributes["error.type"] == "ProtocolError"


@pytest.mark.parametrize("wrong", ["", "nonsense", "00-0-0-01", f"00-{'0' * 32}-{'0' * 16}-01", "ff" + TRACEPARENT[2:]])
def test_a_traceparent_that_is_none_is_carried_as_it_is(broker: Traced, wrong: str) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.publish("/queue/A", "x", traceparent=wrong)
        client.subscribe("/queue/A", ack="client")
        message = client.message()
        assert message.headers["traceparent"] == wrong
        client.done("ACK", client.named(message))
    broker.spans("send queue://A", "commit", "deliver queue://A", "ack queue://A")


def test_a_topic_has_no_acknowledgement_that_anybody_waits_for(broker: Traced) -> None:
    with Client(broker.address) as client:
        client.connect()
        client.subscribe("/topic/T", ack="client")
        client.publish("/topic/T", "x", traceparent=TRACEPARENT)
        client.done("ACK", client.named(client.message()))
        broker.spans("send topic://T", "deliver topic://T")
        assert not [name for name in broker.names() if name.startswith("ack")]


def openwire_message(client: OpenWireClient, number: int, properties: dict[str, str | bytes] | None) -> TextMessage:
    producer = ProducerId(client.name, 1, 1)
    message = TextMessage(producer_id=producer, destination=Queue("A"), message_id=MessageId(producer, number))
    message.text = "hello"
    message.properties = properties or {}
    return message


def test_openwire_messages_are_traced_by_their_property(broker: Traced) -> None:
    with OpenWireClient(broker.address) as client:
        client.ask(c.SessionInfo(session_id=client.session_id))
        client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 1, 1), destination=Queue("A")))
        client.ask(openwire_message(client, 1, {"traceparent": TRACEPARENT}))
        client.subscribe(Queue("A"))
        dispatch = client.dispatch()
        client.acknowledge(dispatch, dispatch)
    assert dispatch.message is not None
    assert dispatch.message.properties == {"traceparent": TRACEPARENT}
    spans = broker.spans("send queue://A", "commit", "deliver queue://A", "ack queue://A")
    assert {trace_of(span) for span in spans} == {TRACE}


def test_openwire_transactions_are_traced(broker: Traced) -> None:
    with OpenWireClient(broker.address) as client:
        client.ask(c.SessionInfo(session_id=client.session_id))
        client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 1, 1), destination=Queue("A")))
        transaction = LocalTransactionId(1, ConnectionId(client.name))
        client.ask(c.TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=transaction, type=0))
        message = openwire_message(client, 1, {"traceparent": TRACEPARENT})
        message.transaction_id = transaction
        client.ask(message)
        client.ask(c.TransactionInfo(connection_id=ConnectionId(client.name), transaction_id=transaction, type=2))
    spans = broker.spans("send queue://A", "commit")
    assert {trace_of(span) for span in spans} == {TRACE}


XID = XATransactionId(1, b"global", b"branch")
OTHER_TRACE = TRACE.replace("0af7", "1af7")
PREPARE, COMMIT, ROLL_BACK = 1, 3, 4


def decide(client: OpenWireClient, step: int) -> None:
    assert not isinstance(client.ask(c.TransactionInfo(transaction_id=XID, type=step)), c.ExceptionResponse)


def prepare(client: OpenWireClient) -> None:
    """A branch that acknowledges one message, and sends two of other traces."""
    client.ask(c.SessionInfo(session_id=client.session_id))
    client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 1, 1)))
    client.ask(openwire_message(client, 1, {"traceparent": TRACEPARENT}))
    client.subscribe(Queue("A"))
    dispatch = client.dispatch()
    decide(client, 0)
    client.acknowledge(dispatch, dispatch, transaction_id=XID)
    for number, trace in ((2, OTHER_TRACE), (3, TRACE)):
        message = openwire_message(client, number, {"traceparent": TRACEPARENT.replace(TRACE, trace)})
        message.destination, message.transaction_id = Queue("B"), XID
        client.ask(message)
    decide(client, PREPARE)


def assert_of_both_traces(span: ReadableSpan) -> None:
    assert trace_of(span) == OTHER_TRACE
    assert [f"{link.context.trace_id:032x}" for link in span.links] == [TRACE]
    assert span.attributes is not None
    assert span.attributes["messaging.batch.message_count"] == 2


@pytest.mark.parametrize(("decision", "name"), [(COMMIT, "commit"), (ROLL_BACK, "rollback")])
def test_both_phases_of_a_distributed_transaction_are_traced(broker: Traced, decision: int, name: str) -> None:
    with OpenWireClient(broker.address) as client:
        prepare(client)
        (span,) = broker.spans("prepare")
        assert_of_both_traces(span)
        before = broker.names()
        assert "ack queue://A" not in before
        with OpenWireClient(broker.address) as manager:
            decide(manager, decision)
        wait_until(lambda: name in broker.names()[len(before) :])
        assert ("ack queue://A" in broker.names()) == (decision == COMMIT)
        assert_of_both_traces(broker.spans(*[name] * broker.names().count(name))[-1])


def test_a_distributed_transaction_that_is_decided_after_a_restart_is_traced(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, OpenWireClient(broker.address) as client:
        prepare(client)
    with traced(tmp_path) as broker, OpenWireClient(broker.address) as manager:
        decide(manager, COMMIT)
        assert_of_both_traces(broker.spans("commit")[0])


def test_properties_that_nobody_can_read_are_carried(broker: Traced) -> None:
    with OpenWireClient(broker.address) as client:
        client.ask(c.SessionInfo(session_id=client.session_id))
        client.ask(c.ProducerInfo(producer_id=ProducerId(client.name, 1, 1), destination=Queue("A")))
        for number, damaged in enumerate((b"\x00\x00\x00\x09traceparent", b"\xff"), 1):
            message = openwire_message(client, number, None)
            message.marshalled_properties = damaged
            assert not isinstance(client.ask(message), c.ExceptionResponse)
    broker.spans("send queue://A", "send queue://A", "commit", "commit")


class Collector(BaseHTTPRequestHandler):
    """Takes spans as a collector does, OTLP over HTTP."""

    taken: list[ExportTraceServiceRequest]

    def do_POST(self) -> None:
        """Keep what comes."""
        request = ExportTraceServiceRequest.FromString(self.rfile.read(int(self.headers["Content-Length"])))
        self.taken.append(request)
        self.send_response(200)
        self.send_header("Content-Type", "application/x-protobuf")
        self.end_headers()

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""


def test_a_broker_sends_its_spans_to_a_collector_also_the_last_ones(tmp_path: Path) -> None:
    class Taking(Collector):
        taken: list[ExportTraceServiceRequest] = []  # noqa: RUF012  # of this test

    with HTTPServer(("127.0.0.1", 0), Taking) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            environment = {
                "JDBCSTORE_TRACING": "true",
                "JDBCSTORE_LOG_EVENTS": "producers",  # goes together
                "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_address[1]}",
                "OTEL_RESOURCE_ATTRIBUTES": "deployment.environment=test",
            }
            with BrokerProcess(f"sqlite:///{tmp_path / 'b.db'}", tmp_path, environment=environment) as broker:
                with Client(("127.0.0.1", broker.port)) as client:
                    client.connect()
                    client.publish("/queue/A", "x", traceparent=TRACEPARENT)
                broker.stop()
                assert "message sent destination=queue://A" in broker.log_file.read_text()
        finally:
            server.shutdown()
            thread.join()
    names: list[str] = []
    for spans in (spans for taken in Taking.taken for spans in taken.resource_spans):
        resource = {attribute.key: attribute.value.string_value for attribute in spans.resource.attributes}
        assert resource["service.name"] == "jdbcstore"
        assert resource["deployment.environment"] == "test"
        names += [span.name for scope in spans.scope_spans for span in scope.spans]
    assert sorted(names) == ["commit", "send queue://A"]


def test_a_collector_that_is_not_there_costs_nothing_but_the_spans(tmp_path: Path) -> None:
    environment = {"JDBCSTORE_TRACING": "true", "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
    with BrokerProcess(f"sqlite:///{tmp_path / 'b.db'}", tmp_path, environment=environment) as broker:
        with Client(("127.0.0.1", broker.port)) as client:
            client.connect()
            client.publish("/queue/A", "x")
        assert broker.stop() == 0


def test_an_exporter_that_is_not_installed_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "zipkin")
    with pytest.raises(ConfigurationError, match=r"OTEL_TRACES_EXPORTER is 'zipkin', there are otlp, none, console"):
        TraceExport("b1")


def test_who_does_not_trace_loads_nothing(tmp_path: Path) -> None:
    program = f"""
import sys
from jdbcstore import Broker, BrokerOptions, open_store, running
with running(Broker(open_store("sqlite:///{tmp_path / "b.db"}"), BrokerOptions(bind="127.0.0.1:0"))):
    print([name for name in sys.modules if name.startswith("opentelemetry")])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=True)
    assert done.stdout.strip() == "[]"


def test_without_the_extra_it_says_what_to_install(tmp_path: Path) -> None:
    program = f"""
import sys
sys.modules["opentelemetry"] = None
from jdbcstore import Broker, BrokerOptions, open_store
Broker(open_store("sqlite:///{tmp_path / "b.db"}"), BrokerOptions(tracing=True))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100, check=False)
    assert 'pip install "jdbcstore[otel]"' in done.stderr
