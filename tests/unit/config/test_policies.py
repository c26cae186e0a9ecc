"""Policies for destinations in a TOML file."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.broker.destination_policy import DeadLetterStrategy, DestinationPolicy, RedeliveryPolicy
from jdbcstore.config.build import build_broker
from jdbcstore.config.configuration import read_configuration
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError

TOML = """
[broker]
prefetch_queue = 7
[store]
url = "memory:"
[policies."queue://ORDERS.>"]
prioritized_messages = true
[policies."queue://ORDERS.>".dead_letter]
kind = "individual"
queue_prefix = "DLQ."
[policies."queue://ORDERS.>".redelivery]
maximum_redeliveries = 3
schedule_refused = true
[policies."topic://PRICES.*"]
durable_topic_prefetch = 9
[policies.default]
expire_messages_period_ms = 0
"""


def test_policies_are_read_and_given_to_the_broker(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(TOML)
    configuration = read_configuration(tmp_path / "broker.toml")
    orders = DestinationPolicy(
        pattern=Queue("ORDERS.>"),
        queue_prefetch=7,  # what a policy leaves out is the broker's
        prioritized_messages=True,
        dead_letter_strategy=DeadLetterStrategy(kind="individual", queue_prefix="DLQ."),
    )
    limit = RedeliveryPolicy(pattern=Queue("ORDERS.>"), maximum_redeliveries=3, schedule_refused=True)
    broker = build_broker(configuration)
    assert broker.policy_for(Queue("ORDERS.NEW")) == orders
    assert broker.redelivery_policy_for(Queue("ORDERS.NEW")) == limit
    assert broker.policy_for(Topic("PRICES.X")).durable_topic_prefetch == 9
    assert broker.policy_for(Queue("OTHER")).expire_messages_period_ms == 0
    assert broker.redelivery_policy_for(Queue("OTHER")).maximum_redeliveries == -1


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ('[policies."ORDERS"]', 'write "queue://…"'),
        ('[policies."queue://A"]\nprioritised = true', "unknown option"),
        ('[policies."queue://A"]\nprioritized_messages = 1', "true or false"),
        ('[policies."queue://A"]\nmax_expire_page_size = -1', "at least 0"),
        ('[policies."queue://A".dead_letter]\nkind = "none"', "shared, individual"),
        ('[policies."queue://A"]\nredelivery = 3', "must be a table"),
        ("[policies]\ndefault = 3", "must be a table"),
    ],
)
def test_what_is_wrong_is_told(tmp_path: Path, toml: str, complaint: str) -> None:
    (tmp_path / "broker.toml").write_text(toml)
    with pytest.raises(ConfigurationError, match=complaint):
        read_configuration(tmp_path / "broker.toml")
