"""Metrics for Prometheus: numbers that the broker keeps anyway, put into words when somebody scrapes them.

docs/metrics.md lists them. Names of destinations are labels, which cost the one who stores them: those with the most in
them come first, up to `DESTINATIONS_MAX`, and how many were left out is a metric, too. Sums are over all of them.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterable, Iterator, Sequence
from heapq import nlargest
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from jdbcstore.broker.lifecycle import State
from jdbcstore.management.desk import Desk
from jdbcstore.management.views import DestinationView, SubscriptionView
from jdbcstore.store.commit_numbers import CountsCommits
from jdbcstore.store.histogram import Histogram
from jdbcstore.store.lease import FOREVER_NS, boot_time_ns
from jdbcstore.version import VERSION

__all__ = ["DESTINATIONS_MAX", "Metrics"]

#: Destinations, and subscriptions, that have labels.
DESTINATIONS_MAX: Final = 1000
#: How long counts of durable subscriptions are good for: they may have to be asked for.
_SUBSCRIPTIONS_S: Final = 15.0


class Metrics:
    """The metrics of one broker.

    Args:
        desk: whose numbers.
    """

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._registry = CollectorRegistry(auto_describe=False)
        self._collector = _Numbers(desk)
        self._registry.register(self._collector)
        self._asked_s = -_SUBSCRIPTIONS_S

    async def exposed(self, accept: str) -> tuple[str, bytes]:
        """What a scrape gets: content type and body, in the form that it accepts."""
        broker = self._desk.broker
        now_s = broker.loop.time()
        if broker.is_running and now_s - self._asked_s >= _SUBSCRIPTIONS_S:
            self._asked_s = now_s
            views = await self._desk.inspection.subscriptions()
            self._collector.subscriptions = [view for view in views if view.kind == "durable"]
        encoder, content_type = choose_encoder(accept)
        body: bytes = await broker.loop.run_in_executor(None, encoder, self._registry)
        return content_type, body


class _Numbers(Collector):
    """Collects when it is asked, in a thread; what it reads are single numbers, and lists that nobody changes."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk
        self._broker = desk.broker
        self.subscriptions: Sequence[SubscriptionView] = ()

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        yield InfoMetricFamily(
            "jdbcstore_build", "The program.", {"version": VERSION, "broker": self._broker.options.broker_name}
        )
        yield from self._life()
        yield from self._destinations()
        yield from self._subscriptions()
        yield from self._clients()
        yield from self._store()
        yield from self._process()

    # -- mastership ------------------------------------------------------------------------------------------------

    def _life(self) -> Iterator[Metric]:
        broker = self._broker
        state = broker.lifecycle.state
        role = GaugeMetricFamily("jdbcstore_state", "1 for the state that the broker is in.", labels=["state"])
        for one in State:
            role.add_metric([one.value], one is state)
        yield role
        yield _gauge("jdbcstore_master", "Whether this broker is master.", state is State.MASTER)
        yield _gauge(
            "jdbcstore_term", "The term of its mastership; 0 while it has none.", broker.lifecycle.status.term or 0
        )
        trusted_ns = broker.trusted_until_ns
        if 0 < trusted_ns < FOREVER_NS:
            left_s = max(trusted_ns - boot_time_ns(), 0) / 1e9
            yield _gauge("jdbcstore_lease_left_seconds", "For how long the broker may trust its lease.", left_s)
        yield _gauge("jdbcstore_draining", "Whether nothing is taken, for a hand-over.", broker.gate.is_draining)

    # -- destinations ----------------------------------------------------------------------------------------------

    def _destinations(self) -> Iterator[Metric]:
        views = [view for view in self._desk.observation.destinations.values() if not view.is_temporary]
        shown = views
        if len(views) > DESTINATIONS_MAX:
            shown = nlargest(DESTINATIONS_MAX, views, key=lambda view: (view.depth, view.enqueued))
        now_ms = time.time_ns() // 1_000_000
        names = ["destination"]
        depth = GaugeMetricFamily("jdbcstore_destination_depth", "Messages that nobody has acknowledged.", labels=names)
        in_flight = GaugeMetricFamily("jdbcstore_destination_in_flight", "Messages with consumers.", labels=names)
        consumers = GaugeMetricFamily("jdbcstore_destination_consumers", "Who gets messages now.", labels=names)
        oldest = GaugeMetricFamily(
            "jdbcstore_destination_oldest_age_seconds", "For how long the first message has been waiting.", labels=names
        )
        memory = GaugeMetricFamily(
            "jdbcstore_destination_memory_bytes", "What its messages take in memory.", labels=names
        )
        paused = GaugeMetricFamily(
            "jdbcstore_destination_paused", "1 if an operator has paused it.", labels=[*names, "side"]
        )
        counters = [
            CounterMetricFamily(f"jdbcstore_destination_{name}", text, labels=names)
            for name, text in (
                ("enqueued", "Messages taken."),
                ("dequeued", "Messages that left: acknowledged, moved, expired."),
                ("expired", "Messages that expired."),
                ("dead_lettered", "Messages that became dead letters."),
            )
        ]
        for view in shown:
            label = [view.name]
            if view.kind == "queue":
                depth.add_metric(label, view.depth)
                in_flight.add_metric(label, view.in_flight)
                memory.add_metric(label, view.memory_bytes)
                oldest.add_metric(label, _age_s(view, now_ms))
            consumers.add_metric(label, view.consumers)
            if view.is_paused:
                paused.add_metric([view.name, "consumers"], 1)
            if view.is_closed:
                paused.add_metric([view.name, "producers"], 1)
            for counter, value in zip(
                counters, (view.enqueued, view.dequeued, view.expired, view.dead_lettered), strict=True
            ):
                counter.add_metric(label, value)
        yield from (depth, in_flight, consumers, oldest, memory, paused, *counters)
        queues = [view for view in views if view.kind == "queue"]
        yield _gauge("jdbcstore_queues", "Queues.", len(queues))
        yield _gauge("jdbcstore_topics", "Topics.", len(views) - len(queues))
        waiting = [view for view in queues if not view.is_dead_letter_queue]
        yield _gauge("jdbcstore_depth", "Messages in all queues but dead letters.", sum(view.depth for view in waiting))
        dead = sum(view.depth for view in queues if view.is_dead_letter_queue)
        yield _gauge("jdbcstore_dead_letters", "Messages in dead-letter queues.", dead)
        ages = max((_age_s(view, now_ms) for view in waiting), default=0.0)
        yield _gauge("jdbcstore_oldest_age_seconds", "For how long the oldest message has been waiting.", ages)
        yield _gauge(
            "jdbcstore_destinations_without_labels", "Destinations beyond the limit on labels.", len(views) - len(shown)
        )

    def _subscriptions(self) -> Iterator[Metric]:
        names = ["client_id", "subscription", "destination"]
        lag = GaugeMetricFamily(
            "jdbcstore_subscription_lag", "Messages that wait for a durable subscription.", labels=names
        )
        active = GaugeMetricFamily(
            "jdbcstore_subscription_active", "Whether somebody uses a durable subscription.", labels=names
        )
        for view in nlargest(DESTINATIONS_MAX, self.subscriptions, key=lambda view: view.lag or 0):
            label = [view.client_id or "", view.name or "", view.destination]
            lag.add_metric(label, view.lag or 0)
            active.add_metric(label, view.connection_id is not None)
        yield lag
        yield active

    # -- clients and memory ----------------------------------------------------------------------------------------

    def _clients(self) -> Iterator[Metric]:
        broker = self._broker
        yield _gauge("jdbcstore_connections", "Clients.", len(broker.clients))
        yield _gauge("jdbcstore_subscriptions", "Subscriptions of clients.", broker.memory.consumers)
        refused = 0 if broker.authentication is None else broker.authentication.refused
        yield CounterMetricFamily("jdbcstore_logins_refused", "Logins that were refused.", refused)
        memory = broker.memory
        parts = GaugeMetricFamily("jdbcstore_memory_bytes", "The account of memory, by part.", labels=["part"])
        limits = GaugeMetricFamily("jdbcstore_memory_limit_bytes", "What a part may take.", labels=["part"])
        for part, used, limit in (
            ("messages", memory.used, memory.messages_max),
            ("kept", memory.kept, memory.kept_max),
            ("uncommitted", memory.uncommitted, memory.uncommitted_max),
        ):
            parts.add_metric([part], used)
            limits.add_metric([part], limit)
        yield parts
        yield limits
        yield _histogram(
            "jdbcstore_send_to_receipt_seconds",
            "From a message's arrival until its sender is answered.",
            broker.latencies.send,
        )
        yield _histogram(
            "jdbcstore_time_in_queue_seconds", "From a message's arrival until it is delivered.", broker.latencies.queue
        )

    # -- store -----------------------------------------------------------------------------------------------------

    def _store(self) -> Iterator[Metric]:
        adapter = self._broker.adapter
        if not isinstance(adapter, CountsCommits) or (numbers := adapter.commit_numbers) is None:
            return
        yield _histogram("jdbcstore_commit_seconds", "How long commits took.", numbers.seconds)
        yield _histogram("jdbcstore_commit_writes", "Writes in a commit.", numbers.writes)
        yield CounterMetricFamily("jdbcstore_commit_failures", "Batches that could not be committed.", numbers.failures)
        yield _gauge("jdbcstore_writes_waiting", "Writes that no commit has taken up yet.", adapter.writes_waiting)

    def _process(self) -> Iterator[Metric]:
        observation = self._desk.observation
        yield _gauge("jdbcstore_event_loop_lag_seconds", "How late the event loop is.", observation.loop_lag_ms / 1000)
        times = os.times()
        yield CounterMetricFamily(
            "jdbcstore_processor_seconds", "Processor time of the process.", times.user + times.system
        )
        yield _gauge("jdbcstore_start_time_seconds", "When the broker was started.", observation.started_ms / 1000)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, float(value))


def _histogram(name: str, text: str, histogram: Histogram) -> HistogramMetricFamily:
    seen, buckets = 0, []
    counts = list(histogram.counts)
    for bound, count in zip((*map(str, histogram.bounds), "+Inf"), counts, strict=True):
        seen += count
        buckets.append((bound, float(seen)))
    return HistogramMetricFamily(name, text, buckets=buckets, sum_value=histogram.total)


def _age_s(view: DestinationView, now_ms: int) -> float:
    return 0.0 if view.oldest_ms is None else max(now_ms - view.oldest_ms, 0) / 1000
