"""``<destinationInterceptors>``: virtual topics, composites by configuration, mirrored queues."""

from __future__ import annotations

from typing import Final

from jdbcstore.config.activemq_xml.vocabulary.entry import Kind, boolean, ignored, refused, text, used

__all__ = ["INTERCEPTOR_KINDS"]

_VIRTUAL: Final = "org.apache.activemq.broker.region.virtual."
_TOGETHER: Final = "all that becomes of a message is stored in one transaction"
_COPIES: Final = "each destination gets a copy of its own"

_COMPOSITE: Final = {
    "name": used("which destinations: a name, or a wildcard"),
    "forwardTo": used("a list of queue, topic and filteredDestination"),
    "forwardOnly": used(
        "`forward_only`: nothing stays in the destination itself", "true", option="composite.forward_only", read=boolean
    ),
    "sendWhenNotMatched": used(
        "`send_when_not_matched`: what is not forwarded stays, and only that; forwardOnly says nothing then",
        "false",
        option="composite.send_when_not_matched",
        read=boolean,
    ),
    "copyMessage": ignored(_COPIES, "true", "true"),
    "concurrentSend": ignored(_TOGETHER, "false", "false"),
}

INTERCEPTOR_KINDS: Final = (
    Kind(
        "virtualDestinationInterceptor",
        "Virtual topics and composites. ActiveMQ's default, `VirtualTopic.>`, is there only if it is among them.",
        {"virtualDestinations": used("a list of virtualTopic, compositeQueue and compositeTopic")},
        (_VIRTUAL + "VirtualDestinationInterceptor",),
        where="interceptors",
    ),
    Kind(
        "virtualTopic",
        "What is published to a topic also goes to the queues that are called so: prefix, the topic's name, postfix.",
        {
            "name": used("which topics: a name, or a wildcard", ">"),
            "prefix": used(
                "`prefix` of the queues; an element `*` is any", "Consumer.*.", option="virtual_topic.prefix", read=text
            ),
            "postfix": used("`postfix` of the queues", "empty", option="virtual_topic.postfix", read=text),
            "selectorAware": used(
                "`selector_aware`: a queue gets what one of its consumers wants at that moment",
                "false",
                option="virtual_topic.selector_aware",
                read=boolean,
            ),
            "setOriginalDestination": used(
                "`set_original_destination`: copies tell the topic as their original destination",
                "true",
                option="virtual_topic.set_original_destination",
                read=boolean,
            ),
            "local": ignored("no network of brokers", "false", "false"),
            "concurrentSend": ignored(_TOGETHER, "false", "false"),
            "transactedSend": ignored(_TOGETHER, "false", "true"),
            "dropOnResourceLimit": ignored("senders are held back, and no copy is dropped", "false", "false"),
        },
        (_VIRTUAL + "VirtualTopic",),
        where="interceptors",
    ),
    Kind(
        "compositeQueue",
        "What is sent to a queue goes to other queues and topics.",
        _COMPOSITE,
        (_VIRTUAL + "CompositeQueue",),
        where="interceptors",
    ),
    Kind(
        "compositeTopic",
        "What is published to a topic goes to other queues and topics.",
        _COMPOSITE,
        (_VIRTUAL + "CompositeTopic",),
        where="interceptors",
    ),
    Kind(
        "filteredDestination",
        "Where a composite forwards what a selector matches.",
        {
            "selector": used("the selector; without one it is an error"),
            "queue": used("a queue's name"),
            "topic": used("a topic's name"),
            "destination": used("a queue or topic as an element"),
            "filter": refused("no Java objects are run: write selector"),
        },
        (_VIRTUAL + "FilteredDestination",),
        where="interceptors",
    ),
    Kind(
        "mirroredQueue",
        "What is sent to a queue is also published to a topic that is called so: prefix, the queue's name, postfix. "
        "Stands behind virtualDestinationInterceptor.",
        {
            "prefix": used("`prefix` of the topics", "VirtualTopic.Mirror.", option="mirrored_queue.prefix", read=text),
            "postfix": used("`postfix` of the topics", "empty", option="mirrored_queue.postfix", read=text),
            "copyMessage": ignored(_COPIES, "true", "true"),
            "brokerService": ignored("there is one broker"),
        },
        (_VIRTUAL + "MirroredQueue",),
        where="interceptors",
    ),
)
