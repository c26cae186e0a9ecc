"""What a Java broker does to durable subscriptions, in SQL; between two of our own masterships."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, text

from jdbcstore.openwire import marshal
from jdbcstore.testing import text_message

__all__ = ["JavaBroker"]

_OF_SUBSCRIPTION = "CONTAINER = :container AND CLIENT_ID = :client_id AND SUB_NAME = :name"


class JavaBroker:
    """A Java broker with one topic and one subscriber.

    Args:
        connection: in autocommit mode.
        topic: its name.
        prioritized: whether the topic's policy asks for order by priority.
    """

    def __init__(
        self,
        connection: Connection,
        topic: str = "T",
        client_id: str = "ann",
        name: str = "news",
        *,
        prioritized: bool = False,
    ) -> None:
        self.connection = connection
        self.names = {"container": f"topic://{topic}", "client_id": client_id, "name": name}
        self.prioritized = prioritized

    def rows(self) -> list[tuple[Any, ...]]:
        """SUB_DEST, SELECTOR, LAST_ACKED_ID, PRIORITY and XID of the subscription, by PRIORITY."""
        columns = "SUB_DEST, SELECTOR, LAST_ACKED_ID, PRIORITY, XID"
        found = self._run(f"SELECT {columns} FROM ACTIVEMQ_ACKS WHERE {_OF_SUBSCRIPTION} ORDER BY PRIORITY")
        return [tuple(row) for row in found]

    def marks(self) -> list[int]:
        """LAST_ACKED_ID, by PRIORITY."""
        return [row[2] for row in self.rows()]

    def delivers(self) -> list[int]:
        """Ids of the messages that it would deliver."""
        level = " AND M.PRIORITY = D.PRIORITY" if self.prioritized else ""
        found = self._run(
            "SELECT M.ID FROM ACTIVEMQ_MSGS M, ACTIVEMQ_ACKS D WHERE D.CONTAINER = :container"
            " AND D.CLIENT_ID = :client_id AND D.SUB_NAME = :name AND M.CONTAINER = D.CONTAINER"
            f" AND M.ID > D.LAST_ACKED_ID AND M.XID IS NULL{level} ORDER BY M.ID"
        )
        return [id for (id,) in found]

    def acknowledges(self, id: int, priority: int = 0) -> None:
        """Its mark goes where the message is."""
        level = " AND PRIORITY = :priority" if self.prioritized else ""
        self._run(
            f"UPDATE ACTIVEMQ_ACKS SET LAST_ACKED_ID = :id, XID = NULL WHERE {_OF_SUBSCRIPTION}{level}",
            id=id,
            priority=priority,
        )

    def subscribes(self, *, retroactive: bool = False, selector: str | None = None) -> None:
        """Create the subscription."""
        last = -1 if retroactive else self._run("SELECT MAX(ID) FROM ACTIVEMQ_MSGS").scalar() or 0
        for priority in range(10 if self.prioritized else 1):
            self._run(
                "INSERT INTO ACTIVEMQ_ACKS"
                " (CONTAINER, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, SUB_DEST, PRIORITY)"
                " VALUES (:container, :client_id, :name, :selector, :last, :container, :priority)",
                selector=selector,
                last=last,
                priority=priority,
            )

    def unsubscribes(self) -> None:
        """Delete the subscription."""
        self._run(f"DELETE FROM ACTIVEMQ_ACKS WHERE {_OF_SUBSCRIPTION}")

    def sends(self, id: int, number: int, *, priority: int = 0, xid: str | None = None) -> None:
        """Store a message."""
        message = text_message(number, priority=priority)
        self._run(
            "INSERT INTO ACTIVEMQ_MSGS (ID, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG, XID)"
            " VALUES (:id, :producer, :number, :container, 0, :priority, :msg, :xid)",
            id=id,
            producer=str(message.producer_id),
            number=number,
            priority=priority if self.prioritized else 0,
            msg=marshal(message),
            xid=xid,
        )

    def removes(self, *ids: int) -> None:
        """An operator removes messages, or deletes the destination."""
        for id in ids:
            self._run("DELETE FROM ACTIVEMQ_MSGS WHERE ID = :id", id=id)

    def cleans_up(self) -> None:
        """Its cleanup, ten times."""
        for level in range(10):
            self._run(
                "DELETE FROM ACTIVEMQ_MSGS WHERE PRIORITY = :level AND ID <= (SELECT MIN(ACTIVEMQ_ACKS.LAST_ACKED_ID)"
                " FROM ACTIVEMQ_ACKS WHERE ACTIVEMQ_ACKS.CONTAINER = ACTIVEMQ_MSGS.CONTAINER"
                " AND ACTIVEMQ_ACKS.PRIORITY = :level)",
                level=level,
            )

    def ids(self) -> list[int]:
        """Ids of the topic's messages."""
        return [id for (id,) in self._run("SELECT ID FROM ACTIVEMQ_MSGS WHERE CONTAINER = :container ORDER BY ID")]

    def ranges(self) -> Sequence[tuple[int, int, int, int]]:
        """What it does not look at: PRIORITY, FIRST_ID, LAST_ID and MARK of our own rows."""
        found = self._run(
            "SELECT PRIORITY, FIRST_ID, LAST_ID, MARK FROM JDBCSTORE_ACKED"
            f" WHERE {_OF_SUBSCRIPTION} ORDER BY PRIORITY, FIRST_ID"
        )
        return [(priority, first, last, mark) for priority, first, last, mark in found]

    def _run(self, statement: str, **values: object) -> Any:
        return self.connection.execute(text(statement), {**self.names, **values})
