"""What an operator declares of virtual destinations: virtual topics, composites by configuration, mirrored queues.

Names are those of ActiveMQ's ``<destinationInterceptors>``. What becomes of a message is the business of
`jdbcstore.broker.interceptors`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from jdbcstore.destination import PATTERNS, Destination, Queue, Topic, has_control_characters
from jdbcstore.errors import ConfigurationError
from jdbcstore.message import Message
from jdbcstore.selector import Selector

__all__ = [
    "DEFAULT_VIRTUAL_TOPIC",
    "CompositeDestination",
    "ForwardTo",
    "MirroredQueue",
    "VirtualDestinations",
    "VirtualTopic",
]


def _check_name(name: Destination) -> None:
    """Raise ConfigurationError unless it is one destination, or a wildcard."""
    if name.is_composite or name.is_temporary:
        raise ConfigurationError(f"{name} cannot be declared: name one queue or topic, or a wildcard")


def _check_affix(what: str, text: str, beside: str) -> None:
    """Raise ConfigurationError unless a name may begin or end so; `beside` is the part that touches the topic's."""
    if ">" in text.split(".") or "," in text or "?" in text or text != text.strip() or has_control_characters(text):
        raise ConfigurationError(f"{what} is {text!r}: it is a part of names, with * for any element")
    if beside == "*":
        raise ConfigurationError(f"{what} is {text!r}: between * and the name of the topic there has to be a dot")


def _expression(text: str) -> str:
    return r"\.".join("[^.]+" if part == "*" else re.escape(part) for part in text.split("."))


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualTopic:
    """Topics whose messages are copied to queues: a queue for each group of consumers.

    Args:
        name: the topics, a name or a wildcard.
        prefix: how the names of their queues begin, before the topic's own. An element ``*`` is any.
        postfix: how they end.
        selector_aware: a queue gets a copy only if one of its consumers wants the message at that moment; what nobody
            wants who is there is not kept for who comes later.
        set_original_destination: copies tell the topic as their original destination.

    Raises:
        ConfigurationError: no queue can be called so.
    """

    name: Topic
    prefix: str = "Consumer.*."
    postfix: str = ""
    selector_aware: bool = False
    set_original_destination: bool = True
    _queues: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        _check_name(self.name)
        _check_affix(f"the prefix of the virtual topic {self.name}", self.prefix, self.prefix.rpartition(".")[2])
        _check_affix(f"the postfix of the virtual topic {self.name}", self.postfix, self.postfix.partition(".")[0])
        expression = f"{_expression(self.prefix)}(?P<topic>.+){_expression(self.postfix)}"
        object.__setattr__(self, "_queues", re.compile(expression, re.DOTALL))

    @property
    def queues(self) -> Queue:
        """A wildcard that covers all queues of its topics, and perhaps others."""
        return Queue(self.prefix + self.name.physical_name + self.postfix)

    def covers(self, topic: Destination) -> bool:
        """Whether it says something about a topic. Nobody gets copies of advisories."""
        return self.name.matches(topic) and not topic.is_advisory

    def topic_of(self, queue: Destination) -> Topic | None:
        """The topic whose copies a queue gets; None if there is none."""
        if not queue.is_queue or queue.is_temporary or queue.is_composite or queue.is_wildcard:
            return None
        found = self._queues.fullmatch(queue.physical_name)
        topic = None if found is None else Topic.decoded(found["topic"])
        return topic if topic is not None and self.covers(topic) else None

    def queue_of(self, topic: Destination, pattern: Destination) -> Queue | None:
        """The queue that a subscriber to a wildcard over queues means of a topic.

        Args:
            topic: one that is covered.
            pattern: what was subscribed to. It has to name what the prefix leaves open.

        Returns:
            None if there is none, or several.
        """
        prefix = self._filled_prefix(pattern)
        if prefix is None:
            return None
        queue = Queue.decoded(prefix + topic.physical_name + self.postfix)
        return queue if queue.is_storable and pattern.matches(queue) else None

    def is_named_by(self, pattern: Destination) -> bool:
        """Whether a wildcard over queues may name queues of its topics (`queue_of`)."""
        return self._filled_prefix(pattern) is not None

    def _filled_prefix(self, pattern: Destination) -> str | None:
        *heads, rest = self.prefix.split(".")
        names = pattern.physical_name.split(".")
        if len(names) <= len(heads) or not PATTERNS.isdisjoint(self.postfix.split(".")):
            return None
        for head, name in zip(heads, names, strict=False):
            if name in PATTERNS or head not in ("*", name):
                return None
        return ".".join([*names[: len(heads)], rest])


#: Composites behind one another.
_FORWARDS_MAX: Final = 100

#: What a broker has without declarations.
DEFAULT_VIRTUAL_TOPIC: Final = VirtualTopic(name=Topic("VirtualTopic.>"))


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardTo:
    """Where a composite forwards to.

    Args:
        destination: one queue or topic.
        selector: which messages; None is all.

    Raises:
        ConfigurationError: it is not one destination.
    """

    destination: Destination
    selector: Selector | None = None

    def __post_init__(self) -> None:
        if not self.destination.is_storable or self.destination.is_temporary:
            raise ConfigurationError(f"{self.destination} cannot be forwarded to: name one queue or topic")


@dataclass(frozen=True, slots=True, kw_only=True)
class CompositeDestination:
    """Queues or topics whose messages go to others.

    Args:
        name: a queue or topic, or a wildcard.
        forward_to: where its messages go.
        forward_only: whether they do not stay in the destination itself.
        send_when_not_matched: a message stays there if, and only if, it is not forwarded; `forward_only` says nothing
            then.

    Raises:
        ConfigurationError: it has no such name, or forwards nowhere.
    """

    name: Destination
    forward_to: tuple[ForwardTo, ...]
    forward_only: bool = True
    send_when_not_matched: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if not self.forward_to:
            raise ConfigurationError(f"the composite {self.name} forwards nowhere: name a queue or topic")

    @property
    def has_selectors(self) -> bool:
        """Whether what is forwarded depends on the message."""
        return any(to.selector is not None for to in self.forward_to)

    def forwards(self, message: Message) -> Iterator[Destination]:
        """Where a message goes."""
        for to in self.forward_to:
            if to.selector is None or to.selector.matches(message):
                yield to.destination

    def keeps(self, *, is_forwarded: bool) -> bool:
        """Whether a message stays in the destination itself."""
        return not is_forwarded if self.send_when_not_matched else not self.forward_only


@dataclass(frozen=True, slots=True, kw_only=True)
class MirroredQueue:
    """Every queue has a topic that gets copies of what is sent to the queue.

    Args:
        prefix, postfix: what the topic's name has besides the queue's.
        use_temp_mirrored_queues: whether temporary queues have one, too.

    Raises:
        ConfigurationError: no topic can be called so.
    """

    prefix: str = "VirtualTopic.Mirror."
    postfix: str = ""
    use_temp_mirrored_queues: bool = True

    def __post_init__(self) -> None:
        if not Topic.decoded(f"{self.prefix}A{self.postfix}").is_storable or "?" in self.prefix + self.postfix:
            raise ConfigurationError(
                f"the prefix of mirrored queues is {self.prefix!r}, their postfix {self.postfix!r}: no topic can be"
                " called so"
            )

    def topic_of(self, queue: Destination) -> Topic | None:
        """The topic of a queue; None if it has none."""
        if not queue.is_queue or (queue.is_temporary and not self.use_temp_mirrored_queues):
            return None
        topic = Topic.decoded(f"{self.prefix}{queue.physical_name}{self.postfix}")
        return topic if topic.is_storable else None  # what is sent must not be refused because of its copy


@dataclass(frozen=True, slots=True, kw_only=True)
class VirtualDestinations:
    """Everything that is declared.

    Args:
        virtual_topics: besides ActiveMQ's default, which is there if the broker's options say so; one of them that has
            its name, ``VirtualTopic.>``, takes its place.
        composites: which destinations forward.
        mirrored_queue: what topics queues have; None for none.

    Raises:
        ConfigurationError: a composite forwards to itself, by others perhaps, or by too many others.
    """

    virtual_topics: tuple[VirtualTopic, ...] = ()
    composites: tuple[CompositeDestination, ...] = ()
    mirrored_queue: MirroredQueue | None = None

    def __post_init__(self) -> None:
        known: dict[Destination, int] = {}
        for composite in self.composites:
            for to in composite.forward_to:
                self._follow(to.destination, [], known)

    def _follow(self, destination: Destination, path: list[Destination], known: dict[Destination, int]) -> int:
        """How many destinations a message comes to behind each other, from this one on."""
        if destination in path:
            names = " to ".join(map(str, [*path[path.index(destination) :], destination]))
            raise ConfigurationError(f"composite destinations forward in a circle: from {names}")
        if destination not in known:
            path = [*path, destination]
            composites = [composite for composite in self.composites if composite.name.matches(destination)]
            targets = [to.destination for composite in composites for to in composite.forward_to]
            is_deep = len(path) > _FORWARDS_MAX
            depth = 0 if is_deep else 1 + max((self._follow(target, path, known) for target in targets), default=0)
            if is_deep or depth > _FORWARDS_MAX:
                raise ConfigurationError(
                    f"composite destinations forward to one another more than {_FORWARDS_MAX} times: from {destination}"
                )
            known[destination] = depth
        return known[destination]

    def all_virtual_topics(self, *, has_default: bool) -> tuple[VirtualTopic, ...]:
        """The virtual topics, with ActiveMQ's default if that is wanted."""
        if not has_default or any(one.name == DEFAULT_VIRTUAL_TOPIC.name for one in self.virtual_topics):
            return self.virtual_topics
        return (DEFAULT_VIRTUAL_TOPIC, *self.virtual_topics)
