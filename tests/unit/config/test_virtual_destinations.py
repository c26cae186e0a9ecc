"""Virtual destinations in ``activemq.xml`` and in TOML."""

from __future__ import annotations

from pathlib import Path

import pytest

from jdbcstore.broker.virtual_destinations import (
    CompositeDestination,
    ForwardTo,
    MirroredQueue,
    VirtualDestinations,
    VirtualTopic,
)
from jdbcstore.config.build import build_broker
from jdbcstore.config.configuration import read_configuration
from jdbcstore.destination import Queue, Topic
from jdbcstore.errors import ConfigurationError
from jdbcstore.selector import Selector
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from tests.unit.config.written import document, errors, options, read, warnings

DECLARED = VirtualDestinations(
    virtual_topics=(VirtualTopic(name=Topic("ORDERS.>"), prefix="V.*.", postfix=".Q", selector_aware=True),),
    composites=(
        CompositeDestination(
            name=Queue("IN.>"),
            forward_to=(
                ForwardTo(destination=Queue("A")),
                ForwardTo(destination=Topic("B")),
                ForwardTo(destination=Queue("C"), selector=Selector.parse("x > 1")),
                ForwardTo(destination=Topic("D"), selector=Selector.parse("x > 2")),
            ),
            forward_only=False,
            send_when_not_matched=True,
        ),
    ),
    mirrored_queue=MirroredQueue(prefix="M.", postfix=".m"),
)
XML = """<destinationInterceptors>
<virtualDestinationInterceptor><virtualDestinations>
<virtualTopic name="ORDERS.>" prefix="V.*." postfix=".Q" selectorAware="true"/>
<compositeQueue name="IN.>" forwardOnly="false" sendWhenNotMatched="true"><forwardTo>
<queue physicalName="A"/><bean xmlns="http://www.springframework.org/schema/beans"
  class="org.apache.activemq.command.ActiveMQTopic"><property name="physicalName" value="B"/></bean>
<filteredDestination queue="C" selector="x &gt; 1"/>
<filteredDestination selector="x &gt; 2"><destination><topic physicalName="D"/></destination></filteredDestination>
</forwardTo></compositeQueue>
</virtualDestinations></virtualDestinationInterceptor>
<mirroredQueue prefix="M." postfix=".m"/>
</destinationInterceptors>"""
TOML = """
[store]
url = "sqlite:///{folder}/store.db"
[virtual_topics."ORDERS.>"]
prefix = "V.*."
postfix = ".Q"
selector_aware = true
[composites."queue://IN.>"]
forward_to = [
  "queue://A", "topic://B",
  {{ destination = "queue://C", selector = "x > 1" }}, {{ destination = "topic://D", selector = "x > 2" }}
]
forward_only = false
send_when_not_matched = true
[mirrored_queue]
prefix = "M."
postfix = ".m"
"""


def test_interceptors_are_read(tmp_path: Path) -> None:
    xml = read(tmp_path, document(XML))
    shown = options(xml)
    assert xml.configuration.virtual_destinations == DECLARED
    assert not xml.configuration.broker.use_virtual_topics
    assert not warnings(xml)
    assert shown["composites"] == "queue://IN.> to queue://A, topic://B, queue://C, topic://D"
    assert shown["virtual_topics"] == "topic://ORDERS.>, queue://V.*.ORDERS.>.Q"
    assert shown["mirrored_queue"] == "topics M.*.m"


@pytest.mark.parametrize("has_temporary", [True, False])
def test_queues_are_mirrored_by_an_attribute(tmp_path: Path, has_temporary: bool) -> None:
    attributes = 'useMirroredQueues="true"' + ("" if has_temporary else ' useTempMirroredQueues="false"')
    configuration = read(tmp_path, document(attributes=attributes)).configuration
    mirrored = MirroredQueue(use_temp_mirrored_queues=has_temporary)
    assert configuration.virtual_destinations == VirtualDestinations(mirrored_queue=mirrored)
    assert configuration.broker.use_virtual_topics


def composite(inside: str, attributes: str = 'name="A"') -> str:
    return virtual(f"<compositeQueue {attributes}><forwardTo>{inside}</forwardTo></compositeQueue>")


def virtual(inside: str) -> str:
    return f"""<virtualDestinationInterceptor><virtualDestinations>{inside}
    </virtualDestinations></virtualDestinationInterceptor>"""


CACHE = "<plugins><virtualSelectorCacheBrokerPlugin/></plugins>"


@pytest.mark.parametrize(
    ("inside", "complaint"),
    [
        (composite('<queue physicalName="A"/>'), "in a circle: from queue://A to queue://A"),
        (composite('<queue physicalName="B.*"/>'), "queue://B.* cannot be forwarded to"),
        (composite('<queue physicalName="B"/>', ""), "<compositeQueue> has no name"),
        (composite("<queue/>"), "<queue> has no physicalName"),
        (composite('<filteredDestination queue="B"/>'), "needs a selector"),
        (composite('<filteredDestination queue="B" topic="B" selector="TRUE"/>'), "not both"),
        (composite('<filteredDestination queue="B" selector="x >"/>'), "the selector for queue://B: "),
        (composite("<tempQueue/>"), "<tempQueue> is not known here"),
        (virtual('<virtualTopic name="T" prefix="A.*"/>'), "there has to be a dot"),
        (virtual('<virtualTopic name="T" color="red"/>'), "<virtualTopic> has no color"),
        ("<mirroredQueue/><mirroredQueue/>", "queues are mirrored already"),
        (f"<mirroredQueue/>{virtual('')}", "write it before <mirroredQueue>"),
        (virtual('<virtualTopic name="T" selectorAware="true"/>'), "selectors of consumers that are away"),
    ],
)
def test_what_is_wrong_with_them_is_an_error(tmp_path: Path, inside: str, complaint: str) -> None:
    plugins = CACHE if "selectorAware" in inside else ""
    xml = read(tmp_path, document(f"<destinationInterceptors>{inside}</destinationInterceptors>{plugins}"))
    assert complaint in errors(xml)[0]


def test_tables_are_read_and_given_to_the_broker_and_its_store(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(TOML.format(folder=tmp_path))
    configuration = read_configuration(tmp_path / "broker.toml")
    assert configuration.virtual_destinations == DECLARED
    broker = build_broker(configuration)
    assert broker.virtual_topics.feeds(Queue("V.A.ORDERS.x.Q"))
    assert broker.virtual_topics.feeds(Queue("Consumer.A.VirtualTopic.x"))
    assert isinstance(broker.adapter, JdbcPersistenceAdapter)
    assert broker.adapter.options.virtual_topic_consumers == "Consumer.*.VirtualTopic.>,V.*.ORDERS.>.Q"


def test_the_usual_virtual_topic_may_be_another(tmp_path: Path) -> None:
    (tmp_path / "broker.toml").write_text(
        '[store]\nurl = "memory:"\n[virtual_topics."VirtualTopic.>"]\nprefix = "V.*."'
    )
    topics = build_broker(read_configuration(tmp_path / "broker.toml")).virtual_topics
    assert (topics.feeds(Queue("V.A.VirtualTopic.x")), topics.feeds(Queue("Consumer.A.VirtualTopic.x"))) == (
        True,
        False,
    )


@pytest.mark.parametrize(
    ("toml", "complaint"),
    [
        ('[virtual_topics."queue://A"]', "write the name of a topic"),
        ('[virtual_topics."A"]\nprefixes = "B"', "did you mean prefix"),
        ('[virtual_topics."A"]\nselector_aware = 1', "must be true or false"),
        ('[composites."A"]\nforward_to = ["queue://B"]', 'write "queue://…" or "topic://…", got \'A\''),
        ('[composites."queue://A"]', "forwards nowhere"),
        ('[composites."queue://A"]\nforward_to = ["B"]', 'write "queue://…" or "topic://…", got \'B\''),
        ('[composites."queue://A"]\nforward_to = [{ selector = "x" }]', "needs a destination"),
        ('[composites."queue://A"]\nforward_to = "queue://B"', "must be a list"),
        ('[mirrored_queue]\nprefix = ","', "no topic can be called so"),
        ("[composites]\nx = 3", "must be a table"),
    ],
)
def test_what_is_wrong_in_a_table_is_told(tmp_path: Path, toml: str, complaint: str) -> None:
    (tmp_path / "broker.toml").write_text(toml)
    with pytest.raises(ConfigurationError, match=complaint):
        read_configuration(tmp_path / "broker.toml")
