"""What an ActiveMQ 5.3 makes of an AMQ store when it starts, written from its rules and not from this project's reader.

It replays because the reference store says that it is not clean; it stops at the first zeros and fails at an empty
file or a record that it cannot read. Of `jdbcstore` only OpenWire is used.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from jdbcstore.message import Message
from jdbcstore.openwire import unmarshal

#: Where a java.util.concurrent.atomic.AtomicBoolean has its value, behind its class and field.
_BOOLEAN = b"\x49\x00\x05value" + b"xp"


class OldBroker:
    """The state after a start.

    Args:
        directory: of the store.
    """

    def __init__(self, directory: Path) -> None:
        self.queues: dict[str, dict[str, Message]] = {}
        self.topics: dict[str, dict[str, set[tuple[str, str]]]] = {}
        self.subscriptions: dict[str, dict[tuple[str, str], str | None]] = {}
        self.in_flight: dict[Any, list[Any]] = {}
        self.prepared: dict[Any, list[Any]] = {}
        assert not _is_clean(directory / "kr-store" / "state")
        for value in _records(directory / "journal"):
            self._replay(value)

    def _replay(self, value: Any) -> None:
        kind = type(value).__name__
        if isinstance(value, Message):
            self._known(value.destination)
            if value.transaction_id is not None:
                self.in_flight.setdefault(value.transaction_id, []).append(value)
            else:
                self._apply(value)
        elif kind == "JournalQueueAck":
            self._known(value.destination)
            transaction = value.message_ack.transaction_id
            if transaction is not None:
                self.in_flight.setdefault(transaction, []).append(value)
            else:
                self._apply(value)
        elif kind == "JournalTopicAck":
            self._known(value.destination)
            if value.transaction_id is not None:
                self.in_flight.setdefault(value.transaction_id, []).append(value)
            else:
                self._apply(value)
        elif kind == "JournalTransaction":
            self._end(value)
        elif kind == "SubscriptionInfo":
            self._known(value.destination)
            key = value.client_id, value.subscription_name
            self.subscriptions[str(value.destination)][key] = value.selector
        else:
            assert kind == "JournalTrace", kind

    def _end(self, value: Any) -> None:
        xid = value.transaction_id
        if value.type == 1:
            if xid in self.in_flight:
                self.prepared[xid] = self.in_flight.pop(xid)
        elif value.type in (2, 4):
            for one in (self.prepared if value.was_prepared else self.in_flight).pop(xid, []):
                self._apply(one)
        elif self.in_flight.pop(xid, None) is not None:
            self.prepared.pop(xid, None)

    def _known(self, destination: Any) -> None:
        name = str(destination)
        if destination.is_topic:
            self.topics.setdefault(name, {})
            self.subscriptions.setdefault(name, {})
        else:
            self.queues.setdefault(name, {})

    def _apply(self, value: Any) -> None:
        kind, name = type(value).__name__, str(value.destination)
        if isinstance(value, Message):
            message_id = str(value.message_id)
            assert value.destination is not None
            if not value.destination.is_topic:
                self.queues[name].setdefault(message_id, value)
            elif self.subscriptions[name]:
                self.topics[name].setdefault(message_id, set(self.subscriptions[name]))
        elif kind == "JournalQueueAck":
            message_id = str(value.message_ack.last_message_id)
            (self.topics if value.destination.is_topic else self.queues)[name].pop(message_id, None)
        else:
            waiting = self.topics[name].get(str(value.message_id))
            if waiting is not None:
                waiting.discard((value.client_id, value.subscription_name))
                if not waiting:
                    del self.topics[name][str(value.message_id)]

    def queue(self, name: str) -> list[str]:
        """The ids in a queue, in order, those that a transaction in doubt has acknowledged left out."""
        hidden = {
            str(one.message_ack.last_message_id)
            for operations in self.prepared.values()
            for one in operations
            if type(one).__name__ == "JournalQueueAck" and str(one.destination) == name
        }
        return [one for one in self.queues.get(name, {}) if one not in hidden]

    def pending(self, topic: str, client_id: str, name: str) -> list[str]:
        """What a subscription has not acknowledged."""
        return [one for one, waiting in self.topics.get(topic, {}).items() if (client_id, name) in waiting]


def _is_clean(state: Path) -> bool:
    index = (state / "index-store-state").read_bytes()
    offset, clean = struct.unpack_from(">q", index, 11)[0], True
    while offset != -1:
        magic, used, _, behind, _, key_at, key_size, number, value_at, value_size = struct.unpack_from(
            ">2sbqqiqiiqi", index, offset
        )
        assert (magic, used) == (b"zU", 1)
        data = (state / f"data-store-state-{number}").read_bytes()
        if data[key_at + 5 : key_at + 5 + key_size].endswith(b"store-state"):
            value = data[value_at + 5 : value_at + 5 + value_size]
            assert _BOOLEAN in value
            clean = value[-1] == 1
        offset = behind
    return clean


def _records(journal: Path) -> list[Any]:
    control = (journal / "data-control").read_bytes()
    assert control[8:14] == b"\x00\x00\x00\x02\x00\x00"  # neither a mark nor a last record
    names = sorted((int(path.name[5:]), path) for path in journal.glob("data-*") if path.name[5:].isdecimal())
    found = []
    for number, path in names:
        data = path.read_bytes()
        is_last = number == names[-1][0]
        o = 0
        while o < len(data):
            if o + 5 > len(data):
                assert is_last, f"{path}: ends within a record"
                break
            size, kind = struct.unpack_from(">ib", data, o)
            good = size > 31 and data[o + 26 : o + 29] == b"SOR" and data[o + size - 3 : o + size] == b"EOR"
            if is_last and not good:
                break  # cut off
            assert kind != 0, f"{path}: zeros at {o}: nothing behind is read"
            assert good
            if kind > 0:
                found.append(unmarshal(data[o + 29 : o + size - 3], 5))
            o += size
        assert data, f"{path} is empty: the broker does not start"
    return found
