"""What an advisory tells of is written as the command that ActiveMQ has for it, in every layout."""

from __future__ import annotations

import pytest

from jdbcstore.advisory import (
    ConnectionSubject,
    ConsumerSubject,
    DestinationSubject,
    ProducerSubject,
    RemovalSubject,
    Subject,
    SubscriptionRemovalSubject,
)
from jdbcstore.destination import Queue, Topic
from jdbcstore.identifiers import ConnectionId, ConsumerId, ProducerId
from jdbcstore.message import Message
from jdbcstore.openwire import marshal, unmarshal_message
from jdbcstore.openwire.commands import (
    BaseCommand,
    ConnectionInfo,
    ConsumerInfo,
    DestinationInfo,
    ProducerInfo,
    RemoveInfo,
    RemoveSubscriptionInfo,
)
from jdbcstore.openwire.connection_codec import ConnectionCodec
from jdbcstore.openwire.encoding import Encoding

CONNECTION = ConnectionId("ID:here-1")
CONSUMER = ConsumerId("ID:here-1", 2, 3)
PRODUCER = ProducerId("ID:here-1", 2, 3)
CONSUMER_FACTS = {"consumer_id": CONSUMER, "client_id": "me", "destination": Queue("A"), "priority": 5}

SUBJECTS: list[tuple[Subject, BaseCommand]] = [
    (DestinationSubject(Queue("A"), None, False), DestinationInfo(destination=Queue("A"), operation_type=0)),
    (
        DestinationSubject(Topic("T"), CONNECTION, True),
        DestinationInfo(connection_id=CONNECTION, destination=Topic("T"), operation_type=1),
    ),
    (
        ConnectionSubject(CONNECTION, "me", "bob", "10.0.0.1:5"),
        ConnectionInfo(
            connection_id=CONNECTION, client_id="me", user_name="bob", password="", client_ip="tcp://10.0.0.1:5"
        ),
    ),
    (
        ConsumerSubject(
            **CONSUMER_FACTS,  # type: ignore[arg-type]
            prefetch=7,
            selector="n > 2",
            subscription_name="news",
            is_browser=True,
            is_exclusive=True,
            is_no_local=True,
            is_retroactive=True,
        ),
        ConsumerInfo(
            **CONSUMER_FACTS,  # type: ignore[arg-type]
            prefetch_size=7,
            selector="n > 2",
            subscription_name="news",
            browser=True,
            exclusive=True,
            no_local=True,
            retroactive=True,
        ),
    ),
    (ProducerSubject(PRODUCER, Queue("A")), ProducerInfo(producer_id=PRODUCER, destination=Queue("A"))),
    (
        ProducerSubject(PRODUCER, Queue("A"), ProducerInfo(window_size=7)),
        ProducerInfo(producer_id=PRODUCER, destination=Queue("A"), window_size=7),
    ),
    *((RemovalSubject(id), RemoveInfo(object_id=id)) for id in (CONNECTION, CONSUMER, PRODUCER)),
    *(
        (
            SubscriptionRemovalSubject("me", "news", by),
            RemoveSubscriptionInfo(connection_id=by, client_id="me", subscription_name="news"),
        )
        for by in (CONNECTION, None)
    ),
]


@pytest.mark.parametrize(("subject", "command"), SUBJECTS)
def test_a_subject_is_written_as_its_command(subject: Subject, command: BaseCommand) -> None:
    told, wanted = Message(data_structure=subject), Message(data_structure=command)
    for version in range(1, 13):
        stored = marshal(told, version)
        assert stored == marshal(wanted, version)
        for tight in (True, False):
            codecs = [ConnectionCodec(Encoding(version, tight=tight)) for _ in range(2)]
            assert codecs[0].marshal(told) == codecs[1].marshal(wanted)
    assert unmarshal_message(marshal(told)).data_structure == command
