"""Message groups: messages with the same ``JMSXGroupID`` go to one consumer, in their order, as long as it is there.

The first message of a group that is delivered gives the group to the consumer that gets it; those that follow wait for
this consumer, also while others have nothing to do. Of the consumers that could have a new group that with the fewest
groups is asked first. A group ends

* with a message whose ``JMSXGroupSeq`` is below 0: the consumer still gets this one, the next one begins anew;
* when its consumer leaves;
* when it is the one that was not used for longest, and there are too many.

A message whose ``JMSXGroupSeq`` is 1 begins the group anew, with whoever takes it. All of this is ActiveMQ's. Ours is
one rule more: **a message of a group is never with two consumers, nor with one before the others are decided**. A group
whose consumer has left is nobody's (`Group.consumer` is None) until what that one had is given back or out of the
store, and only a group without anything under way is forgotten because there are too many. Without that the first
consumer's last acknowledgements, or the delay before a redelivery, would let later messages overtake.

What waits is where it was, in a window or among what was given back; `Group.waiting` only knows that it need not be
looked at. `jdbcstore.broker.selection` finds what a consumer may have.
"""

from __future__ import annotations

import zlib
from collections import OrderedDict
from collections.abc import Iterable
from typing import Final, TypeAlias

from jdbcstore.broker.delivery import Consumer, Delivery, Group

__all__ = ["MessageGroups"]

#: How many groups are looked at to find one that can be forgotten.
_LOOKED_AT_MAX: Final = 8

_Key: TypeAlias = str | int


class MessageGroups:
    """The groups of one queue.

    Args:
        kind: one of `jdbcstore.broker.destination_policy.GROUP_MAPS`.
        groups_max: how many groups, or buckets, are remembered; no matter if all of them are.
    """

    def __init__(self, kind: str, groups_max: int) -> None:
        self._buckets = groups_max if kind == "bucket" else 0
        self._groups_max = groups_max if kind == "cached" else 0
        #: The one used last is the last one.
        self._groups: OrderedDict[_Key, Group] = OrderedDict()
        self._of: dict[Consumer, dict[Group, None]] = {}
        #: Grows when consumers may have what they could not have before.
        self.changes = 0

    def __len__(self) -> int:
        return len(self._groups)

    def count(self, consumer: Consumer) -> int:
        """How many groups a consumer has."""
        return len(self._of.get(consumer, ()))

    def find(self, group_id: str) -> Group | None:
        """The group, if somebody has it."""
        return self._groups.get(self._key(group_id))

    def _key(self, group_id: str) -> _Key:
        if self._buckets:
            return zlib.crc32(group_id.encode("utf-8", "surrogatepass")) % self._buckets
        return group_id

    def group_of(self, delivery: Delivery) -> Group | None:
        """The group of a message, if it has one that somebody has."""
        message = delivery.message
        return None if message is None or message.group_id is None else self.find(message.group_id)

    def may_deliver(self, delivery: Delivery, consumer: Consumer) -> bool:
        """Whether a consumer may have a message as far as its group matters."""
        message = delivery.message
        group = self.group_of(delivery)
        if message is None or group is None or group.consumer is consumer:
            return True
        if message.group_sequence != 1 or group.consumer is None or group.waiting:
            return False
        return not (self._buckets and group.in_flight)  # others may be in the bucket, which do not begin anew

    def deliver(self, delivery: Delivery, consumer: Consumer) -> list[Delivery]:
        """A consumer is going to get a message that it may have.

        Returns:
            What does not have to wait any more.
        """
        message = delivery.message
        if message is None or message.group_id is None:
            return []
        freed: list[Delivery] = []
        group = self.find(message.group_id)
        if group is not None:
            group.waiting.pop(delivery, None)
        message.first_for_consumer = group is None or message.group_sequence == 1
        if group is None or (message.group_sequence == 1 and group.consumer is not consumer):
            if group is not None:
                freed += self._end(group)
            freed += self._forget_oldest()
            group = self._begin(self._key(message.group_id), consumer)
        elif message.group_sequence >= 0:
            self._groups.move_to_end(group.key)
        elif not self._buckets:
            freed += self._end(group)
        else:  # others of the bucket are under way
            self._take_from(consumer, group)
        group.in_flight += 1
        delivery.group = group
        return freed

    def done(self, deliveries: Iterable[Delivery]) -> list[Delivery]:
        """Messages are out of the store, or ready to be delivered again.

        Returns:
            What does not have to wait any more.
        """
        freed: list[Delivery] = []
        for delivery in deliveries:
            group, delivery.group = delivery.group, None
            if group is not None:
                group.in_flight -= 1
                if not group.in_flight and group.consumer is None and self._groups.get(group.key) is group:
                    freed += self._end(group)
        return freed

    def left(self, consumer: Consumer) -> list[Delivery]:
        """A consumer does not get anything any more.

        Returns:
            What does not have to wait any more.
        """
        freed: list[Delivery] = []
        for group in list(self._of.get(consumer, ())):
            if group.in_flight:
                self._take_from(consumer, group)
            else:
                freed += self._end(group)
        self.changes += 1
        return freed

    def forget_waiting(self) -> None:
        """The queue was emptied."""
        for group in self._groups.values():
            group.waiting.clear()

    def _begin(self, key: _Key, consumer: Consumer) -> Group:
        group = self._groups[key] = Group(key, consumer)
        self._of.setdefault(consumer, {})[group] = None
        return group

    def _end(self, group: Group) -> Iterable[Delivery]:
        """Whoever comes next has it. What its consumer was given before stays there."""
        if self._groups.get(group.key) is group:
            del self._groups[group.key]
        if group.consumer is not None:
            self._take_from(group.consumer, group)
        self.changes += 1
        waiting, group.waiting = group.waiting, {}
        return waiting

    def _take_from(self, consumer: Consumer, group: Group) -> None:
        group.consumer = None
        groups = self._of[consumer]
        del groups[group]
        if not groups:
            del self._of[consumer]

    def _forget_oldest(self) -> list[Delivery]:
        """Make room: of the groups with nothing under way those go that were not used for longest.

        Those that have something under way are bounded by what consumers may have, and used again.
        """
        freed: list[Delivery] = []
        if self._groups_max:
            for _ in range(_LOOKED_AT_MAX):
                if len(self._groups) < self._groups_max:
                    break
                key, oldest = next(iter(self._groups.items()))
                if oldest.in_flight:
                    self._groups.move_to_end(key)
                else:
                    freed += self._end(oldest)
        return freed
