"""What a LevelDB directory holds, for comparisons."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from jdbcstore.identifiers import XATransactionId
from jdbcstore.openwire import unmarshal
from jdbcstore.store.journal.leveldb.message_reader import MessageReader
from jdbcstore.store.journal.leveldb.records import QUEUE, SUBSCRIPTION, TRANSACTION
from jdbcstore.store.journal.leveldb.recovery import Recovered, recover
from jdbcstore.store.journal.leveldb.state import Collection, is_pending

SAMPLE = Path(__file__).parents[2] / "vectors" / "leveldb" / "clean"


def contents(directory: Path, log_directory: Path | None = None) -> dict[str, Any]:
    """As an ``expected.json`` tells them: queues, what durable subscriptions receive, transactions in doubt."""
    return contents_of(recover(directory, log_directory))


def contents_of(found: Recovered) -> dict[str, Any]:
    """The same of what was recovered."""
    reader = MessageReader(found.log_directory, found.files)
    collections = found.state.collections

    def ids(one: Collection, wanted: list[int]) -> list[str]:
        return [str(reader.message(*one.entries[n], n).message_id) for n in sorted(wanted)]

    hidden = {
        (ack.collection, ack.sequence)
        for one in collections.values()
        for ack in one.acks.values()
        if ack.subscription < 0
    }
    out: dict[str, Any] = {"queues": {}, "durable_receive": {}, "xa": []}
    for one in collections.values():
        if one.type == QUEUE and one.entries:
            out["queues"][one.name] = ids(one, [n for n in one.entries if (one.key, n) not in hidden])
        elif one.type == SUBSCRIPTION:
            topic = collections[one.subscription.topic_key]
            pending = [n for n in topic.entries if is_pending(one, n)]
            out["durable_receive"][one.subscription.subscription_name] = ids(topic, pending)
        elif one.type == TRANSACTION:
            xid = unmarshal(one.meta)
            assert isinstance(xid, XATransactionId)
            out["xa"].append([xid.format_id, bytes(xid.global_transaction_id or b"").decode()])
    reader.close()
    return out
