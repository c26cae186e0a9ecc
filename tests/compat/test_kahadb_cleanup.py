"""What our cleanups and compactions leave behind is enough for a real ActiveMQ, which has to make its index anew."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from jdbcstore.destination import Queue, Topic
from jdbcstore.message import Message
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.kahadb.journal import Journal
from jdbcstore.store.journal.kahadb.options import KahaDBOptions
from jdbcstore.subscription import SubscriptionInfo, SubscriptionKey
from jdbcstore.testing.messages import text_message
from tests.compat.activemq import ActiveMQ

pytestmark = pytest.mark.timeout(300)

TINY = KahaDBOptions(journal_max_file_length_bytes=2048, cleanup_interval_ms=0, cleanup_on_stop=False)
QUEUE, TOPIC = Queue("Q"), Topic("T")
#: A subscription that is slow, one that is quick, and one that has had everything.
SLOW, QUICK, IDLE = (SubscriptionKey(name, "news") for name in ("slow", "quick", "idle"))


def numbered(number: int) -> Message:
    message = text_message(number)
    message.properties = {"number": number}
    return message


def test_activemq_delivers_exactly_what_is_pending(class_path: str, tmp_path: Path) -> None:
    chance = random.Random(7)
    directory = tmp_path / "kahadb"
    waiting: dict[object, list[int]] = {QUEUE: [], SLOW: [], QUICK: []}
    number, gone, compacted = 0, 0, 0
    with KahaDBPersistenceAdapter(directory, TINY) as adapter:
        queue, topic = adapter.queue_message_store(QUEUE), adapter.topic_message_store(TOPIC)
        for key in (SLOW, QUICK, IDLE):
            topic.add_subscription(SubscriptionInfo(key, TOPIC, TOPIC)).result()
        ids = {}
        for _ in range(30):
            for _ in range(chance.randrange(1, 9)):
                number += 1
                store = chance.choice([queue, topic])
                message = numbered(number)
                message.destination = store.destination
                store.add_message(message).result()
                assert message.message_id is not None
                ids[number] = message.message_id
                for holder in (QUEUE,) if store is queue else (SLOW, QUICK):
                    waiting[holder].append(number)
                if store is topic:
                    topic.acknowledge(IDLE, message.message_id).result()
            for one in chance.sample(waiting[QUEUE], len(waiting[QUEUE]) * 2 // 3):
                queue.remove_message(ids[one]).result()
                waiting[QUEUE].remove(one)
            for key, share in ((SLOW, 0.3), (QUICK, 0.9)):
                done = chance.sample(waiting[key], int(len(waiting[key]) * share))
                topic.acknowledge(key, *(ids[one] for one in done)).result()
                waiting[key] = [one for one in waiting[key] if one not in done]
            gone += len(adapter.remove_unneeded_files())
            while adapter.compact_acknowledgements() is not None:
                compacted += 1
                gone += len(adapter.remove_unneeded_files())
    assert gone > len(Journal(directory).files)
    assert compacted > 3
    with ActiveMQ(class_path, tmp_path, "kahadb") as activemq:
        found = [message["properties"]["number"][1] for message in activemq.consume(QUEUE.physical_name)]
        assert found == waiting[QUEUE]
        for key in (SLOW, QUICK):
            assert activemq.consume_durably(TOPIC.physical_name, key.client_id, key.subscription_name) == waiting[key]
        assert activemq.consume_durably(TOPIC.physical_name, IDLE.client_id, IDLE.subscription_name) == []
        activemq.stop()
    with KahaDBPersistenceAdapter(directory, TINY) as adapter:
        topic = adapter.topic_message_store(TOPIC)
        assert adapter.queue_message_store(QUEUE).message_count == 0
        assert {info.key: topic.subscription_message_count(info.key) for info in topic.all_subscriptions()} == {
            SLOW: 0,
            QUICK: 0,
            IDLE: 0,
        }
