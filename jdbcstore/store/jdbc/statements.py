"""Every SQL text of the store, one sentence each, named noun first.

Names are never quoted: PostgreSQL folds them to lower case, MySQL and MariaDB take them as they stand, SQLite does not
care; that is how ActiveMQ finds its tables too. ``:name`` marks a bound parameter. What differs between databases
lives in `dialect`.
"""

from __future__ import annotations

from typing import Final

from jdbcstore.store.jdbc.own_tables import (
    ACKED,
    LOAD_PARTS,
    LOADS,
    PREPARED_ACKS,
    PRODUCERS,
    SCHEDULED,
    STAGED,
    TERM,
)
from jdbcstore.store.jdbc.table_names import TableNames

__all__ = ["PAGE_INDEX", "Statements", "text_of"]

#: Our own index, (CONTAINER, PRIORITY DESC, ID); with it a page costs the same whatever lies around it.
PAGE_INDEX: Final = "JDBCSTORE_MSGS_PAGE"


def text_of(name: str | bytes) -> str:
    """A name that a statement has read: where names are compared bytewise they come as bytes."""
    return name if isinstance(name, str) else bytes(name).decode()


class Statements:
    """The texts for one set of tables.

    Args:
        names: of the tables, or the prefix of the usual ones.
        container: the CONTAINER column, or an expression over it where the column does not tell ``A`` from ``a``.
        epoch_ms: the database's clock at the start of a statement, as an expression.
        next_term: the term that follows TERM, as an expression; larger, and never given out before.
    """

    def __init__(
        self,
        names: TableNames | str,
        container: str = "CONTAINER",
        *,
        epoch_ms: str = "NULL",
        next_term: str = "TERM + 1",
    ) -> None:
        full = TableNames.of(names).full
        self.messages, self.acks, self.lock = full("ACTIVEMQ_MSGS"), full("ACTIVEMQ_ACKS"), full("ACTIVEMQ_LOCK")
        self.term = full(TERM.name)
        self.producers = full(PRODUCERS.name)
        self.acked = full(ACKED.name)
        self.scheduled = full(SCHEDULED.name)
        self.prepared_acks = full(PREPARED_ACKS.name)
        self.loads, self.load_parts, self.staged = full(LOADS.name), full(LOAD_PARTS.name), full(STAGED.name)
        self.page_index = full(PAGE_INDEX)
        # An index serves the bare column only; the expression then sorts out what the column's collation confused.
        same = "CONTAINER = :container" + ("" if container == "CONTAINER" else f" AND {container} = :container")
        self.same_container = same
        # For a row that is found by something else. In the usual wording a database that takes the queue for a short
        # one, its statistics being old, would read the whole queue to find the row.
        same_too = f"{'SUBSTR(CONTAINER, 1)' if container == 'CONTAINER' else container} = :container"

        self.container = container
        self.columns = "ID, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG"
        self.message_insert = f"INSERT INTO {self.messages} ({self.columns}) VALUES "
        # Rows in doubt belong to nobody. They are few, and their index must not lead to a row that is found otherwise.
        settled = "COALESCE(LENGTH(XID), 0) = 0"
        self.message_by_id = f"SELECT ID, MSG FROM {self.messages} WHERE ID = :id AND {same_too} AND {settled}"
        self.message_by_key = (
            f"SELECT ID, MSG FROM {self.messages} WHERE MSGID_PROD = :producer AND MSGID_SEQ = :sequence AND {same_too}"
            f" AND {settled}"
            " ORDER BY ID + 0 LIMIT 1"  # by the bare ID it may walk the primary key until it meets the row
        )
        self.message_id_by_key = (
            f"SELECT ID FROM {self.messages} WHERE MSGID_PROD = :producer AND MSGID_SEQ = :sequence AND {same_too}"
            f" AND {settled}"
        )
        self.message_blobs = f"SELECT ID, MSG FROM {self.messages} WHERE ID IN :ids"
        self.message_origin = f"SELECT MSGID_PROD, MSGID_SEQ, CONTAINER FROM {self.messages} WHERE ID = :id"
        self.message_ids_present = f"SELECT ID FROM {self.messages} WHERE ID IN :ids"
        self.messages_delete_all = f"DELETE FROM {self.messages}"
        self.acks_delete_all = f"DELETE FROM {self.acks}"
        self.containers_counted = (
            f"SELECT {container}, PRIORITY, COUNT(*) FROM {self.messages} GROUP BY {container}, PRIORITY"
            f" ORDER BY {container}, PRIORITY DESC"  # as the index: else MariaDB collects every row
        )
        self.containers_sized = (
            f"SELECT {container}, COUNT(*), SUM(LENGTH(MSG)) FROM {self.messages} GROUP BY {container}"
        )
        #: MSGID_PROD in the same way: where CONTAINER's collation confuses names, that one's does as well.
        self.producer = container.replace("CONTAINER", "MSGID_PROD")
        #: By the index of EXPIRATION, which on some databases has only rows with EXPIRATION > 0.
        self.expired_page = (
            f"SELECT ID, {container}, EXPIRATION, PRIORITY FROM {self.messages} WHERE EXPIRATION > 0"
            f" AND EXPIRATION >= :since AND EXPIRATION < :now AND (EXPIRATION > :since OR ID > :id) AND {settled}"
            " ORDER BY EXPIRATION, ID LIMIT :rows"
        )
        # Not grouped: for a grouping SQLite would walk all rows in the order of containers, past every body to XID.
        self.containers_in_doubt = f"SELECT {container}, 1 FROM {self.messages} WHERE XID IS NOT NULL"
        self.container_count = f"SELECT COUNT(*) FROM {self.messages} WHERE {same} AND XID IS NULL"
        self.sequence_last_of_messages = f"SELECT MAX(ID) FROM {self.messages}"
        self.sequence_last_of_acks = f"SELECT MAX(LAST_ACKED_ID) FROM {self.acks}"
        same_producer = "MSGID_PROD = :producer" + (
            "" if container == "CONTAINER" else f" AND {self.producer} = :producer"
        )
        self.producer_sequence_stored = f"SELECT MAX(MSGID_SEQ) FROM {self.messages} WHERE {same_producer}"
        self.producers_delete_all = f"DELETE FROM {self.producers}"
        self.producer_sequence_remembered = f"SELECT LAST_SEQ FROM {self.producers} WHERE PRODUCER = :producer"
        #: Some producers behind one, and for how long the database has not heard of them.
        self.producers_page = (
            f"SELECT PRODUCER, {epoch_ms} - LAST_USED_MS FROM {self.producers} WHERE PRODUCER > :after"
            " ORDER BY PRODUCER LIMIT :rows"
        )

        # The row of ACTIVEMQ_LOCK as ActiveMQ's lease locker uses it. One name at most needs not be waited for: that of
        # a dead one, or one's own after an answer that was lost. Never that of a load, whose processes all have it.
        self.lease_is_free = f"(TIME IS NULL OR TIME < {epoch_ms} OR BROKER_NAME = :former)"
        self.lease_end = f"{epoch_ms} + :lease_ms"
        self.lease_renew = (
            f"UPDATE {self.lock} SET TIME = {self.lease_end} WHERE ID = 1 AND BROKER_NAME = :holder"
            f" AND TIME >= {epoch_ms} AND (SELECT TERM FROM {self.term} WHERE ID = 1) = :term"
        )
        self.lease_release = (
            f"UPDATE {self.lock} SET BROKER_NAME = NULL, TIME = 0 WHERE ID = 1 AND BROKER_NAME = :holder"
        )
        self.lease_holder = (
            f"SELECT BROKER_NAME FROM {self.lock} WHERE ID = 1 AND BROKER_NAME IS NOT NULL AND TIME >= {epoch_ms}"
        )
        self.lock_status = (
            f"SELECT l.BROKER_NAME, l.TIME - {epoch_ms}, t.TERM, t.HOLDER"
            f" FROM {self.lock} l LEFT JOIN {self.term} t ON t.ID = l.ID WHERE l.ID = 1"
        )
        self.lock_row = f"SELECT BROKER_NAME, TIME - {epoch_ms} FROM {self.lock} WHERE ID = 1"
        self.term_row = f"SELECT TERM, HOLDER FROM {self.term} WHERE ID = 1"
        self.term_of_holder = f"SELECT TERM FROM {self.term} WHERE ID = 1 AND HOLDER = :holder"
        self.term_next = f"UPDATE {self.term} SET TERM = {next_term}, HOLDER = :holder WHERE ID = 1"
        #: Terms that were seen are not given out again, also when the database has forgotten them.
        self.term_raise = f"UPDATE {self.term} SET TERM = :term WHERE ID = 1 AND TERM < :term"
        self.clock = f"SELECT {epoch_ms}"

        # Durable subscriptions. What is sent with a batch has question marks for its values.
        self.subscriptions_all = (
            f"SELECT CONTAINER, SUB_DEST, CLIENT_ID, SUB_NAME, SELECTOR, LAST_ACKED_ID, PRIORITY FROM {self.acks}"
        )
        self.acked_all = (
            "SELECT a.CONTAINER, a.CLIENT_ID, a.SUB_NAME, a.PRIORITY, a.FIRST_ID, a.LAST_ID, a.MARK,"
            " a.MSGID_PROD, a.MSGID_SEQ, m.MSGID_PROD, m.MSGID_SEQ"
            f" FROM {self.acked} a LEFT JOIN {self.messages} m ON m.ID = a.LAST_ID ORDER BY a.FIRST_ID"
        )
        self.sequence_last_of_acked = f"SELECT MAX(LAST_ID) FROM {self.acked}"
        self.message_levels = f"SELECT ID, PRIORITY FROM {self.messages} WHERE ID IN :ids AND {same_too}"
        self.ids_in_doubt = f"SELECT ID, PRIORITY FROM {self.messages} WHERE XID IS NOT NULL AND {same_too}"
        key = ("CONTAINER", "CLIENT_ID", "SUB_NAME")
        of_subscription = " AND ".join(f"{name}=?" for name in key)
        # Where a collation confuses names, somebody else's row must not be taken for it.
        exactly = "".join(f" AND {container.replace('CONTAINER', name)}=?" for name in key if container != "CONTAINER")
        self.subscription_delete = f"DELETE FROM {self.acks} WHERE {of_subscription}{exactly}"
        #: Never back, also should somebody else have moved it meanwhile.
        self.mark_move = (
            f"UPDATE {self.acks} SET LAST_ACKED_ID=? WHERE {of_subscription} AND PRIORITY=?"
            " AND (LAST_ACKED_ID IS NULL OR LAST_ACKED_ID<?)"
        )
        self.acked_delete = f"DELETE FROM {self.acked} WHERE {of_subscription}"
        self.acked_delete_all = f"DELETE FROM {self.acked}"

        # Bulk loads.
        loads, staged = self.loads, self.staged
        self.load_ready = (
            f"SELECT JOB, ROWS_LOADED, ROWS_TAKEN, ROWS_REFUSED FROM {loads} WHERE STATE = 'ready'"
            " ORDER BY CHANGED_MS, JOB LIMIT 1"
        )
        #: Those that were refused have a part below 0.
        self.staged_page = (
            f"SELECT PART, NUMBER, MSG FROM {staged} WHERE JOB = :job AND PART >= 0 AND PART >= :part"
            " AND (PART > :part OR NUMBER > :number) ORDER BY PART, NUMBER LIMIT :rows"
        )
        #: The outbox is a load that is never complete. Its row is made by the first broker that takes it in.
        self.outbox_seed = (
            f"INSERT INTO {loads} (JOB,STATE,ROWS_LOADED,ROWS_TAKEN,ROWS_REFUSED,REBUILD,BEGUN_MS,CHANGED_MS)"
            f" SELECT ?,'outbox',0,0,0,0,{epoch_ms},{epoch_ms}"
            f" FROM (SELECT COUNT(*) AS N FROM {loads} WHERE JOB=?) found WHERE found.N=0"
        )
        self.outbox_progress = f"SELECT ROWS_TAKEN, ROWS_REFUSED FROM {loads} WHERE JOB = :job AND STATE = 'outbox'"
        self.staged_first = f"SELECT PART FROM {staged} WHERE JOB = :job AND PART >= 0 ORDER BY PART LIMIT 1"
        #: By the whole key: behind a range MySQL and MariaDB look at the next row, and would wait for an application.
        self.staged_delete_one = f"DELETE FROM {staged} WHERE JOB=? AND PART=? AND NUMBER=?"
        #: Fails, as `job_prove`, unless the load is ready, or the outbox, and has come that far.
        self.load_prove = (
            f"INSERT INTO {loads} (JOB,STATE,ROWS_LOADED,ROWS_TAKEN,ROWS_REFUSED,REBUILD,BEGUN_MS,CHANGED_MS)"
            " SELECT '','',0,0,0,0,0,0 FROM"
            f" (SELECT COUNT(*) AS N FROM {loads} WHERE JOB=? AND STATE IN ('ready','outbox')"
            " AND ROWS_TAKEN+ROWS_REFUSED=?) found"
            " CROSS JOIN (SELECT 1 AS M UNION ALL SELECT 2) twice WHERE found.N=0"
        )
        self.staged_delete = f"DELETE FROM {staged} WHERE JOB=? AND PART=? AND NUMBER BETWEEN ? AND ?"
        self.staged_refuse = f"UPDATE {staged} SET PART=? WHERE JOB=? AND PART=? AND NUMBER=?"
        refused = f"FROM {staged} WHERE JOB = :job AND PART < 0"
        #: The oldest has the highest part, and the first of its transaction the lowest number.
        self.refused_keys = (
            f"SELECT PART, NUMBER, CONTAINER, MSGID_PROD, MSGID_SEQ {refused} AND PART <= :part"
            " AND (PART < :part OR NUMBER > :number) ORDER BY PART DESC, NUMBER LIMIT :rows"
        )
        self.refused_message = f"SELECT MSG {refused} AND PART = :part AND NUMBER = :number"
        self.refused_release = (
            f"UPDATE {staged} SET PART = -1 - PART WHERE JOB = :job AND PART = :part AND NUMBER = :number"
        )
        self.refused_delete = f"DELETE {refused} AND PART = :part AND NUMBER = :number"
        self.load_advance = (
            f"UPDATE {loads} SET ROWS_TAKEN=?,ROWS_REFUSED=?,STATE=?,"
            f"CHANGED_MS=CASE ? WHEN 'ready' THEN CHANGED_MS ELSE {epoch_ms} END WHERE JOB=?"
        )
        self.load_trace = f"SELECT 1 FROM {loads} WHERE JOB = :job AND ROWS_TAKEN + ROWS_REFUSED >= :done"
        self.sequence_last_of_loads = f"SELECT MAX(LAST_ID) FROM {self.loads}"
        # Scheduled messages.
        jobs, columns = self.scheduled, SCHEDULED.column_names
        self.jobs_delete_all = f"DELETE FROM {jobs}"
        self.job_count = f"SELECT COUNT(*) FROM {jobs}"
        self.job_due_first = f"SELECT MIN(DUE_MS) FROM {jobs}"
        self.job_by_id = f"SELECT {columns} FROM {jobs} WHERE JOB_ID = :job_id"
        #: The places of jobs behind one, and how long their messages are. The first condition leads along the index.
        self.jobs_page = (
            f"SELECT DUE_MS, JOB_ID, LENGTH(MSG) FROM {jobs} WHERE DUE_MS >= :first AND DUE_MS <= :last"
            " AND (DUE_MS > :first OR JOB_ID > :after) ORDER BY DUE_MS, JOB_ID LIMIT :rows"
        )
        self.jobs_by_id = f"SELECT {columns} FROM {jobs} WHERE JOB_ID IN :job_ids"
        self.job_trace = f"SELECT 1 FROM {jobs} WHERE JOB_ID = :job_id"
        self.job_trace_due = f"SELECT 1 FROM {jobs} WHERE JOB_ID = :job_id AND DUE_MS = :due_ms"
        self.job_insert = f"INSERT INTO {jobs} ({columns}) VALUES (?,?,?,?,?,?,?)"
        #: Fails, and with it the transaction, unless the job is there and due at that time: no two rows have one key.
        self.job_prove = (
            f"INSERT INTO {jobs} ({columns}) SELECT '',0,0,0,0,NULL,NULL"
            f" FROM (SELECT COUNT(*) AS N FROM {jobs} WHERE JOB_ID=? AND DUE_MS=?) job"
            " CROSS JOIN (SELECT 1 AS M UNION ALL SELECT 2) twice WHERE job.N=0"
        )
        self.job_advance = f"UPDATE {jobs} SET DUE_MS=?,REPEATS=? WHERE JOB_ID=?"
        self.job_delete = f"DELETE FROM {jobs} WHERE JOB_ID=?"
        self.jobs_delete = f"DELETE FROM {jobs} WHERE DUE_MS>=? AND DUE_MS<=?"
        # Transactions in doubt.
        self.messages_in_doubt = f"SELECT ID, XID, CONTAINER, PRIORITY FROM {self.messages} WHERE XID IS NOT NULL"
        self.message_states = f"SELECT ID, XID, CONTAINER FROM {self.messages} WHERE ID IN :ids"
        self.message_origins = f"SELECT ID, MSGID_PROD, MSGID_SEQ FROM {self.messages} WHERE ID IN :ids"
        self.acks_in_doubt = (
            f"SELECT CONTAINER, CLIENT_ID, SUB_NAME, PRIORITY, XID FROM {self.acks} WHERE XID IS NOT NULL"
        )
        self.prepared_acks_all = (
            "SELECT p.XID, p.CONTAINER, p.CLIENT_ID, p.SUB_NAME, p.PRIORITY, p.FIRST_ID, p.LAST_ID, p.MARK, p.SHOWN,"
            f" m.PRIORITY, m.ID FROM {self.prepared_acks} p LEFT JOIN {self.messages} m ON m.ID = p.LAST_ID"
            " AND m.MSGID_PROD = p.MSGID_PROD AND m.MSGID_SEQ = p.MSGID_SEQ ORDER BY p.XID, p.NUMBER"
        )
        self.ack_in_doubt = f"UPDATE {self.acks} SET XID=? WHERE {of_subscription} AND PRIORITY=?"
        self.prepared_acks_delete = f"DELETE FROM {self.prepared_acks} WHERE XID=?"
        self.prepared_acks_of_subscription_delete = f"DELETE FROM {self.prepared_acks} WHERE {of_subscription}"
        self.prepared_acks_shown = (
            f"UPDATE {self.prepared_acks} SET SHOWN=1 WHERE XID=? AND {of_subscription} AND PRIORITY=?"
        )
        self.prepared_acks_delete_all = f"DELETE FROM {self.prepared_acks}"

    def subscriptions_insert(self, rows: int) -> str:
        """Insert so many rows of subscriptions."""
        values = ",".join(["(?,?,?,?,?,?,?)"] * rows)
        columns = "CONTAINER,SUB_DEST,CLIENT_ID,SUB_NAME,SELECTOR,LAST_ACKED_ID,PRIORITY"
        return f"INSERT INTO {self.acks} ({columns}) VALUES {values}"

    def put_in_doubt(self, rows: int) -> str:
        """Give an XID to so many messages: both kinds of doubt."""
        return f"UPDATE {self.messages} SET XID=? WHERE ID IN ({','.join('?' * rows)})"

    def out_of_doubt(self, rows: int) -> str:
        """Show so many messages again, where they were."""
        return f"UPDATE {self.messages} SET XID=NULL WHERE XID IS NOT NULL AND (ID IN ({','.join('?' * rows)}))"

    def out_of_doubt_anew(self, rows: int) -> str:
        """Show so many messages, each with another id: pairs of the old one and the new, then the old ones again."""
        cases = " WHEN ? THEN ?" * rows
        return (
            f"UPDATE {self.messages} SET XID=NULL, ID=CASE ID{cases} ELSE ID END"
            f" WHERE XID IS NOT NULL AND (ID IN ({','.join('?' * rows)}))"
        )

    def doubtful_delete(self, rows: int) -> str:
        """Delete so many messages that are in doubt. (In brackets, so that no dialect counts them as removed ones.)"""
        return f"DELETE FROM {self.messages} WHERE XID IS NOT NULL AND (ID IN ({','.join('?' * rows)}))"

    def prepared_acks_insert(self, ranges: int) -> str:
        """Insert so many acknowledgements: XID and names, then for each number, row, first id, last id, mark, shown."""
        given = " UNION ALL ".join(
            ["SELECT ? AS N,? AS P,? AS F,? AS L,? AS M,? AS S", *["SELECT ?,?,?,?,?,?"] * (ranges - 1)]
        )
        columns = "XID,CONTAINER,CLIENT_ID,SUB_NAME,NUMBER,PRIORITY,FIRST_ID,LAST_ID,MARK,SHOWN,MSGID_PROD,MSGID_SEQ"
        return (
            f"INSERT INTO {self.prepared_acks} ({columns})"
            " SELECT ?,?,?,?,g.N,g.P,g.F,g.L,g.M,g.S,m.MSGID_PROD,m.MSGID_SEQ"
            f" FROM ({given}) g LEFT JOIN {self.messages} m ON m.ID=g.L"
        )

    def staged_delete_some(self, rows: int) -> str:
        """Delete so many rows of a load: its job, then part and number of each."""
        return f"DELETE FROM {self.staged} WHERE JOB=? AND (PART,NUMBER) IN (VALUES {','.join(['(?,?)'] * rows)})"

    def acked_delete_some(self, ranges: int) -> str:
        """Delete so many ranges of one row, known by where they begin."""
        return f"{self.acked_delete} AND PRIORITY=? AND FIRST_ID IN ({','.join('?' * ranges)})"

    def acked_insert(self, ranges: int) -> str:
        """Insert so many ranges of one row: first id, last id, and the message whose origin is remembered with each."""
        given = " UNION ALL ".join(["SELECT ? AS F,? AS L,? AS O", *["SELECT ?,?,?"] * (ranges - 1)])
        columns = "CONTAINER,CLIENT_ID,SUB_NAME,PRIORITY,MARK,FIRST_ID,LAST_ID,MSGID_PROD,MSGID_SEQ"
        return (
            f"INSERT INTO {self.acked} ({columns}) SELECT ?,?,?,?,?,g.F,g.L,m.MSGID_PROD,m.MSGID_SEQ"
            f" FROM ({given}) g LEFT JOIN {self.messages} m ON m.ID=g.O"
        )
