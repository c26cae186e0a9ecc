"""Spans of what is acknowledged, and answers that end spans."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from jdbcstore.broker.delivery import Answer, Delivery
from jdbcstore.broker.tracing import Span, Tracing

__all__ = ["acknowledgements", "ending"]


def acknowledgements(tracing: Tracing, deliveries: Iterable[Delivery], *, is_refused: bool) -> dict[Delivery, Span]:
    """The spans of what leaves a queue: of those messages that memory had room for."""
    return {
        delivery: tracing.acknowledge(delivery.message, is_refused=is_refused)
        for delivery in deliveries
        if delivery.message is not None and delivery.lane is not None
    }


def ending(answer: Answer, spans: Sequence[Span]) -> Answer:
    """An answer that ends spans, in their order, before it is told."""

    def answered(error: BaseException | None) -> None:
        for span in spans:
            span.end(error)
        answer(error)

    return answered
