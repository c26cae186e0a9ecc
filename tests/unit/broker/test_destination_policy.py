"""Which policy counts for a destination."""

from __future__ import annotations

import itertools

import pytest

from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, PolicyMap, RedeliveryPolicy
from jdbcstore.destination import Destination, Queue, TempQueue, Topic
from jdbcstore.errors import ConfigurationError

DEFAULT = DestinationPolicy()


def policy(pattern: Destination) -> DestinationPolicy:
    return DestinationPolicy(pattern=pattern)


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("ORDERS.EU.NEW", "ORDERS.EU.NEW"),
        ("ORDERS.EU.OLD", "ORDERS.EU.*"),
        ("ORDERS.US.OLD", "ORDERS.*.OLD"),
        ("ORDERS.US.NEW", "ORDERS.>"),
        ("ORDERS", "ORDERS.>"),
        ("OTHER", ">"),
    ],
)
def test_the_most_specific_pattern_counts_whatever_the_order(name: str, expected: str) -> None:
    patterns = [">", "ORDERS.>", "ORDERS.*.OLD", "ORDERS.EU.*", "ORDERS.EU.NEW"]
    for order in itertools.permutations(patterns):
        found = PolicyMap([policy(Queue(pattern)) for pattern in order], DEFAULT).find(Queue(name))
        assert found.pattern == Queue(expected)


def test_kinds_do_not_mix() -> None:
    policies = PolicyMap([policy(Queue("A")), policy(Topic("B"))], DEFAULT)
    assert policies.find(Queue("B")) is policies.find(Topic("A")) is policies.find(TempQueue("A")) is DEFAULT


def test_the_later_of_equal_patterns_counts_and_one_without_pattern_is_for_the_rest() -> None:
    first, second = DestinationPolicy(pattern=Queue("A"), queue_prefetch=1), DestinationPolicy(pattern=Queue("A"))
    rest = DestinationPolicy(queue_prefetch=7)
    policies = PolicyMap([first, second, rest], DEFAULT)
    assert policies.find(Queue("A")) is second
    assert policies.find(Queue("B")) is rest


def test_a_composite_is_a_pattern_for_each() -> None:
    policies = PolicyMap([policy(Queue("A,topic://B.*"))], DEFAULT)
    assert policies.find(Queue("A")) is policies.find(Topic("B.C")) is not DEFAULT


def test_the_wait_before_a_redelivery() -> None:
    policy = RedeliveryPolicy(
        initial_redelivery_delay_ms=5, redelivery_delay_ms=100, back_off_multiplier=3, maximum_redelivery_delay_ms=1000
    )
    assert [policy.delay_ms(count) for count in (1, 2, 3, 4, 5, 5000)] == [5, 100, 300, 900, 1000, 1000]
    assert RedeliveryPolicy(redelivery_delay_ms=100).delay_ms(1) == 0
    assert RedeliveryPolicy(redelivery_delay_ms=1000, back_off_multiplier=1e300).delay_ms(10**9) == 365 * 86_400_000


def test_nonsense_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="max_expire_page_size"):
        DestinationPolicy(max_expire_page_size=-1)
    with pytest.raises(ConfigurationError, match="back_off_multiplier"):
        RedeliveryPolicy(back_off_multiplier=0.5)
    with pytest.raises(ConfigurationError, match="shared, individual, discarding"):
        DeadLetterStrategy(kind="none")
    for several in ("A,B", "DLQ.>", "x" * 300):
        with pytest.raises(ConfigurationError, match="dead_letter_queue has to be one queue"):
            DeadLetterStrategy(dead_letter_queue=several)
