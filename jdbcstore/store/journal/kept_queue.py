"""A queue that is to be known although it is empty, such as one that a virtual topic sends to.

ActiveMQ's journal does not tell of a queue without messages; only the index of its broker does. Ours remarks it
(`jdbcstore.store.journal.remarks`). A broker that makes its index anew makes a queue of every message that it
reads, also of one whose transaction is rolled back: so such a one, without content, stands behind the remark.
"""

from __future__ import annotations

from typing import Final

from jdbcstore.destination import Destination
from jdbcstore.identifiers import ConnectionId, LocalTransactionId
from jdbcstore.store.journal import remarks
from jdbcstore.store.journal.commands import AddMessage, Command, Rollback
from jdbcstore.store.journal.known import destination_name

__all__ = ["KEEPING", "keeping"]

#: Whose messages are rolled back.
KEEPING: Final = LocalTransactionId(1, ConnectionId("jdbcstore"))
_MESSAGE_ID: Final = "jdbcstore:1:1:1"


def keeping(queue: Destination) -> list[Command]:
    """The records that make it known to ours and to a broker's rebuild. They belong into one batch."""
    add = AddMessage(KEEPING, queue, _MESSAGE_ID, b"", 4, False)
    return [remarks.known(destination_name(queue)), add, Rollback(KEEPING)]
