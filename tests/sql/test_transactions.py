"""Transactions in the SQL store: rows as ActiveMQ has them, commits that are cut off, and Java brokers in between."""

from __future__ import annotations

import json
import random
from base64 import b64decode, b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import pytest
from sqlalchemy import Connection, text

from jdbcstore import faults
from jdbcstore.cli import run as jdbcstore
from jdbcstore.config.urls import open_engine, open_store
from jdbcstore.destination import Queue
from jdbcstore.errors import LeaseLost, OutcomeUnknown, SchemaMismatch, StoreError, StoreUnavailable, UnknownTransaction
from jdbcstore.identifiers import MessageId, XATransactionId, xid_text
from jdbcstore.store.contract import MessageStore, PreparedTransaction, TopicMessageStore, TransactionStore
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.schema import inspect_schema, upgrade_schema
from jdbcstore.store.jdbc.xid import ack_xid, added_xid, plain_xid, read_ack_xid, removed_xid
from jdbcstore.subscription import SubscriptionKey
from jdbcstore.testing import text_message
from tests.servers.proxy import Proxy
from tests.sql.java import JavaBroker
from tests.sql.test_topics import ANN, BOB, TOPIC, acknowledge, left, subscribe, through
from tests.sql.test_writer import WAIT_S, execute, numbers, one_batch, refuse_thirteen

pytestmark = pytest.mark.has_tables

ONE = XATransactionId(55, b"GLOBAL-1", b"BR")
TWO = XATransactionId(55, b"GLOBAL-2", b"BR")


class Opened:
    """A started store: a queue, a topic, transactions."""

    def __init__(self, adapter: JdbcPersistenceAdapter, *, prioritized: bool) -> None:
        self.adapter = adapter
        self.queue: MessageStore = adapter.queue_message_store(Queue("TEST"))
        self.topic: TopicMessageStore = adapter.topic_message_store(TOPIC, prioritized=prioritized)
        self.transactions: TransactionStore = adapter.transaction_store()

    def prepared(self) -> dict[XATransactionId, PreparedTransaction]:
        return {one.transaction_id: one for one in self.transactions.prepared_transactions()}

    def prepare(
        self,
        xid: XATransactionId,
        adds: tuple[int, ...] = (),
        publishes: tuple[int, ...] = (),
        removes: tuple[int, ...] = (),
        acknowledges: tuple[int, ...] = (),
        key: SubscriptionKey = ANN,
    ) -> Any:
        """Ask for it; what is added has numbers, the rest ids."""
        transaction = self.transactions.begin(xid)
        for number in adds:
            transaction.add_message(self.queue, text_message(number))
        for number in publishes:
            transaction.add_message(self.topic, text_message(number))
        for id in removes:
            transaction.remove_message(self.queue, MessageId(None, 0, id))
        for id in acknowledges:
            transaction.acknowledge(self.topic, key, MessageId(None, 0, id))
        return transaction.prepare()

    def commit(self, xid: XATransactionId) -> None:
        self.transactions.commit_prepared(xid).result(WAIT_S)

    def roll_back(self, xid: XATransactionId) -> None:
        self.transactions.rollback_prepared(xid).result(WAIT_S)


@contextmanager
def opened(url: str, *, prioritized: bool = False, **options: object) -> Iterator[Opened]:
    chosen = JdbcOptions(**{"locker": "none", "cleanup_period_ms": 0, **options})  # type: ignore[arg-type]  # by name
    adapter = open_store(url, chosen)
    assert isinstance(adapter, JdbcPersistenceAdapter)
    with adapter:
        yield Opened(adapter, prioritized=prioritized)


@pytest.fixture
def connection(database_url: str) -> Iterator[Connection]:
    """A connection to a new, empty schema."""
    engine = open_engine(database_url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@pytest.fixture
def java(connection: Connection) -> JavaBroker:
    """A Java broker with subscriber ann."""
    return JavaBroker(connection)


def add(store: MessageStore, *numbers: int) -> list[int]:
    """Add messages; their ids."""
    return [one.result(WAIT_S) for one in [store.add_message(text_message(n)) for n in numbers]]


def messages(connection: Connection) -> list[tuple[int, str | None]]:
    """ID and XID of all messages."""
    return [(id, xid) for id, xid in connection.execute(text("SELECT ID, XID FROM ACTIVEMQ_MSGS ORDER BY ID"))]


def columns(java: JavaBroker) -> list[tuple[XATransactionId, int, int] | None]:
    """Column XID of the subscription's rows."""
    return [None if row[4] is None else tuple(read_ack_xid(row[4])) for row in java.rows()]  # type: ignore[misc]  # three


def ours(connection: Connection) -> list[tuple[str, int, int]]:
    """XID, LAST_ID and SHOWN of our own rows."""
    found = connection.execute(text("SELECT XID, LAST_ID, SHOWN FROM JDBCSTORE_PREPARED_ACKS ORDER BY XID, NUMBER"))
    return [(xid, last, shown) for xid, last, shown in found]


# -- rows as ActiveMQ's ----------------------------------------------------------------------------------------------


def test_rows_in_doubt_are_as_activemq_writes_them(database_url: str, connection: Connection) -> None:
    with opened(database_url) as store:
        removed, kept = add(store.queue, 1, 2)
        store.prepare(ONE, adds=(3, 4), removes=(removed,)).result(WAIT_S)
        plus, minus = "KwAAAAAAAAAAAAAAADcACEdMT0JBTC0xQlI=", "LQAAAAAAAAAAAAAAADcACEdMT0JBTC0xQlI="
        assert messages(connection) == [(1, minus), (2, None), (3, plus), (4, plus)]
        store.commit(ONE)
        assert messages(connection) == [(kept, None), (5, None), (6, None)]
        store.prepare(TWO, adds=(5,), removes=(kept,)).result(WAIT_S)
        store.roll_back(TWO)
        assert messages(connection) == [(kept, None), (5, None), (6, None)]


def test_a_prepared_acknowledgement_is_as_activemq_writes_it(database_url: str, connection: Connection) -> None:
    java = JavaBroker(connection, prioritized=True)
    with opened(database_url, prioritized=True) as store:
        subscribe(store.topic, ANN)
        for number in range(6):
            store.topic.add_message(text_message(number)).result(WAIT_S)  # all of priority 4
        store.prepare(TWO, acknowledges=tuple(range(1, 7))).result(WAIT_S)
        assert [row[4] for row in java.rows()] == [None] * 4 + ["AAAAAAAAAAAGBAAAADcACEdMT0JBTC0yQlI="] + [None] * 5
        store.commit(TWO)
        assert [row[4] for row in java.rows()] == [None] * 10
        assert java.marks() == [0, 0, 0, 0, 6, 0, 0, 0, 0, 0]


def test_the_column_of_a_topic_with_priorities_says_what_holds_for_all_rows(
    database_url: str, connection: Connection
) -> None:
    java = JavaBroker(connection, prioritized=True)
    with opened(database_url, prioritized=True) as store:
        subscribe(store.topic, ANN)
        ids = [store.topic.add_message(text_message(n, priority=9 - n)).result(WAIT_S) for n in (0, 1, 8, 2)]
        store.prepare(ONE, acknowledges=(ids[0], ids[1], ids[3])).result(WAIT_S)
        assert [None if one is None else one[1] for one in columns(java)] == [None] * 7 + [ids[1]] * 3
        with one_batch():
            pending: list[Any] = [store.topic.add_message(text_message(5, priority=5))]
            pending.append(store.topic.acknowledge(ANN, MessageId(None, 0, ids[2])))
        for completion in pending:
            completion.result(WAIT_S)
        assert [None if one is None else one[1] for one in columns(java)] == [None] * 7 + [ids[3]] * 3


def test_the_row_of_a_topic_without_priorities_is_named_by_its_own(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, 1, 2)
        store.prepare(ONE, acknowledges=(ids[0],)).result(WAIT_S)
        assert columns(java) == [(ONE, ids[0], 0)]  # with 4, a Java broker's rollback would not find it
        store.roll_back(ONE)
        assert columns(java) == [None]


def test_the_column_says_no_more_than_is_true(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, *range(6))
        store.prepare(ONE, acknowledges=(ids[0], ids[1], ids[4])).result(WAIT_S)
        assert columns(java) == [(ONE, ids[1], 0)]
        acknowledge(store.topic, ids[2])  # with the transaction this makes one stretch
        assert columns(java) == [(ONE, ids[2], 0)]
        acknowledge(store.topic, ids[3])
        assert columns(java) == [(ONE, ids[4], 0)]
        assert java.marks() == [0]
        store.commit(ONE)
        assert (columns(java), java.marks()) == ([None], [ids[4]])


def test_one_column_shows_one_transaction_after_the_other(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, *range(4))
        store.prepare(ONE, acknowledges=(ids[0],)).result(WAIT_S)
        store.prepare(TWO, acknowledges=(ids[1], ids[3])).result(WAIT_S)
        assert columns(java) == [(ONE, ids[0], 0)]
        assert ours(java.connection) == [
            (plain_xid(ONE), ids[0], 1),
            (plain_xid(TWO), ids[1], 0),
            (plain_xid(TWO), ids[3], 0),
        ]
        store.commit(ONE)
        assert (columns(java), java.marks()) == ([(TWO, ids[1], 0)], [ids[0]])
        assert ours(java.connection) == [(plain_xid(TWO), ids[1], 1), (plain_xid(TWO), ids[3], 1)]
        store.roll_back(TWO)
        assert (columns(java), ours(java.connection), left(store.topic)) == ([None], [], ids[1:])


def test_a_policy_that_changes_while_something_is_in_doubt(database_url: str) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN, BOB)
        ids = [store.topic.add_message(text_message(n, priority=n)).result(WAIT_S) for n in range(5)]
        store.prepare(ONE, acknowledges=(ids[1], ids[3])).result(WAIT_S)
    for _ in range(2):
        with opened(database_url, prioritized=True) as store:
            assert sorted(left(store.topic)) == [ids[0], ids[2], ids[4]]
            assert store.topic.subscription_message_count(ANN) == 3
            store.topic.add_message(text_message(9, priority=9)).result(WAIT_S)
            acknowledge(store.topic, *left(store.topic)[:1])
    with opened(database_url, prioritized=True) as store:
        store.roll_back(ONE)
        assert sorted(left(store.topic))[:5] == ids


# -- commits that fail or are cut off --------------------------------------------------------------------------------


@pytest.mark.parametrize("step", ["prepare", "commit", "rollback"])
@pytest.mark.parametrize("delivered", [True, False])
@pytest.mark.parametrize("locker", ["none", "lease"])
@pytest.mark.parametrize("what", ["messages", "acknowledgements"])
def test_a_commit_that_is_cut_off_is_looked_up(
    sql_server_url: str, step: str, delivered: bool, locker: str, what: str
) -> None:
    port = int(sql_server_url.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy, opened(through(proxy, sql_server_url), locker=locker) as store:
        subscribe(store.topic, ANN)
        ids, (removed, *_) = add(store.topic, 1, 2, 3), add(store.queue, 4, 5)
        cut = {
            "prepare": b"SET XID='",
            "commit": b"XID=NULL, ID=CASE",
            "rollback": b"DELETE FROM ACTIVEMQ_MSGS WHERE XID",
        }
        work: dict[str, Any] = {"adds": (6, 7), "publishes": (8,), "removes": (removed,)}
        if what == "acknowledgements":
            cut = {"prepare": b"INSERT INTO JDBCSTORE_PREP", "commit": b"DELETE FROM JDBCSTORE_PREP"}
            cut["rollback"] = cut["commit"]
            work = {"acknowledges": (ids[0], ids[2])}
        trap = proxy.cut_at(cut[step], deliver=delivered)
        store.prepare(ONE, **work).result(WAIT_S)
        in_doubt = ([5], ids) if what == "messages" else ([4, 5], [ids[1]])
        assert (numbers(store.queue), left(store.topic)) == in_doubt
        assert store.queue.message_count == len(in_doubt[0])
        if step == "rollback":
            store.roll_back(ONE)
            assert (numbers(store.queue), left(store.topic)) == ([4, 5], ids)
        else:
            store.commit(ONE)
            assert numbers(store.queue) == ([5, 6, 7] if what == "messages" else [4, 5])
            assert left(store.topic)[:3] == (ids if what == "messages" else [ids[1]])
            assert len(left(store.topic)) == (4 if what == "messages" else 1)
        assert trap.is_set()
        assert store.prepared() == {}
        assert store.queue.message_count == len(numbers(store.queue))
        assert store.topic.subscription_message_count(ANN) == len(left(store.topic))


@pytest.mark.parametrize("delivered", [True, False])
def test_an_unknown_outcome_is_decided_later(sql_server_url: str, delivered: bool) -> None:
    port = int(sql_server_url.rpartition(":")[2].partition("/")[0])
    with Proxy(port) as proxy, opened(through(proxy, sql_server_url), retry_s=0) as store:
        subscribe(store.topic, ANN)
        ids, (removed,) = add(store.topic, 1, 2, 3), add(store.queue, 4)

        def cut_off(pattern: bytes, work: Any) -> None:
            trap = proxy.cut_at(pattern, deliver=delivered, everywhere=True)
            answer = work()
            assert trap.wait(WAIT_S)
            assert isinstance(answer.exception(WAIT_S), OutcomeUnknown)
            proxy.resume()

        cut_off(
            b"SET XID='",
            lambda: store.prepare(ONE, adds=(5,), publishes=(6,), removes=(removed,), acknowledges=(ids[0],)),
        )
        with pytest.raises(StoreError, match="already"):
            store.transactions.begin(ONE)
        if delivered:
            assert set(store.prepared()) == {ONE}
            store.queue.add_message(text_message(7)).result(WAIT_S)  # the line is there again
            cut_off(b"XID=NULL, ID=CASE", lambda: store.transactions.commit_prepared(ONE))
        while (error := store.transactions.commit_prepared(ONE).exception(WAIT_S)) is not None:
            assert isinstance(error, StoreUnavailable)  # that was a line from before the cut
        assert store.prepared() == {}
        assert numbers(store.queue) == ([7, 5] if delivered else [4])
        assert store.queue.message_count == len(numbers(store.queue))
        # What it has told is as true as before; memory learns of the rest with the next start.
        assert set(left(store.topic)) >= {*ids[1:]}
        with pytest.raises(UnknownTransaction):
            store.transactions.commit_prepared(ONE)
    with opened(sql_server_url) as store:
        assert store.prepared() == {}
        assert numbers(store.queue) == ([7, 5] if delivered else [4])
        assert (len(left(store.topic)), left(store.topic)[:2]) == ((3, ids[1:]) if delivered else (3, ids[:2]))
        assert store.topic.subscription_message_count(ANN) == 3


def test_who_is_not_master_prepares_and_decides_nothing(database_url: str, connection: Connection) -> None:
    with opened(database_url, locker="lease") as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, 1)
        store.prepare(ONE, adds=(2,)).result(WAIT_S)
        before = messages(connection)
        execute(database_url, "UPDATE ACTIVEMQ_LOCK SET BROKER_NAME = 'another'")
        answers = [
            store.prepare(TWO, adds=(3,), acknowledges=(ids[0],)),
            store.transactions.commit_prepared(ONE),
        ]
        assert [type(answer.exception(WAIT_S)) for answer in answers] == [LeaseLost, LeaseLost]
        assert messages(connection) == before
        assert ours(connection) == []
        assert set(store.prepared()) == {ONE}


@pytest.mark.parametrize("step", ["prepare", "commit", "rollback"])
def test_a_step_that_the_database_refuses_may_be_done_again(database_url: str, step: str) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids, (removed,) = add(store.topic, 1, 2), add(store.queue, 3)
        transaction = store.transactions.begin(ONE)
        transaction.add_message(store.queue, text_message(4))
        transaction.remove_message(store.queue, MessageId(None, 0, removed))
        transaction.acknowledge(store.topic, ANN, MessageId(None, 0, ids[0]))
        if step != "prepare":
            transaction.prepare().result(WAIT_S)

        def refuse() -> None:
            raise StoreError("not now")

        last = {"prepare": transaction.prepare, "commit": transaction.commit, "rollback": transaction.rollback}[step]
        for _ in range(3):
            with faults.inject("writer.before_commit", refuse), pytest.raises(StoreError, match="not now"):
                last().result(WAIT_S)
        last().result(WAIT_S)
        expected = {"prepare": ([], ids[1:]), "commit": ([4], ids[1:]), "rollback": ([3], ids)}[step]
        assert (numbers(store.queue), left(store.topic)) == expected
        assert store.queue.message_count == len(expected[0])
        assert set(store.prepared()) == ({ONE} if step == "prepare" else set())


def test_a_local_commit_that_fails_changes_nothing_and_may_be_done_again(database_url: str) -> None:
    with opened(database_url) as store:
        add(store.queue, *range(10))
        for number in range(10):
            transaction = store.transactions.begin(XATransactionId(1, str(number).encode(), b""))
            transaction.remove_message(store.queue, MessageId(text_message(0).producer_id, number))

            def refuse() -> None:
                raise StoreError("not now")

            with faults.inject("writer.before_commit", refuse), pytest.raises(StoreError, match="not now"):
                transaction.commit().result(WAIT_S)
            assert len(numbers(store.queue)) == 10 - number
            transaction.commit().result(WAIT_S)
        assert (numbers(store.queue), store.queue.message_count) == ([], 0)


def test_a_commit_of_sends_that_fails_stores_none_of_them(database_url: str) -> None:
    with opened(database_url) as store:
        refuse_thirteen(database_url)
        add(store.queue, 1)
        transaction = store.transactions.begin(ONE)
        for number in (12, 13):
            transaction.add_message(store.queue, text_message(number))
        for step in (transaction.commit, transaction.prepare):
            assert isinstance(step().exception(WAIT_S), StoreError)
            assert (numbers(store.queue), store.queue.message_count, store.prepared()) == ([1], 1, {})
        transaction.rollback().result(WAIT_S)
        again = store.transactions.begin(ONE)
        for number in (2, 3):
            again.add_message(store.queue, text_message(number))
        again.commit().result(WAIT_S)
        assert numbers(store.queue) == [1, 2, 3]


def test_errors_at_any_step_lose_and_double_nothing(database_url: str) -> None:
    chance = random.Random(database_url.partition(":")[0])
    with opened(database_url) as store:

        def refuse() -> None:
            if chance.random() < 0.4:
                raise StoreError("not now")

        with faults.inject("writer.before_commit", refuse):
            for number in range(10):
                transaction = store.transactions.begin(xid := XATransactionId(1, bytes([number]), b""))
                transaction.add_message(store.queue, text_message(number))
                while transaction.prepare().exception(WAIT_S) is not None:
                    assert xid not in store.prepared()
                while store.transactions.commit_prepared(xid).exception(WAIT_S) is not None:
                    assert xid in store.prepared()
        assert (numbers(store.queue), store.queue.message_count) == (list(range(10)), 10)
    with opened(database_url) as store:
        assert (numbers(store.queue), store.prepared()) == (list(range(10)), {})


def test_a_small_pool_is_enough(database_url: str) -> None:
    with opened(database_url, pool_size=1) as store:
        subscribe(store.topic, ANN)

        def work(thread: int) -> None:
            for turn in range(10):
                xid = XATransactionId(thread, bytes([turn]), b"")
                store.prepare(xid, adds=(turn,), publishes=(turn,)).result(WAIT_S)
                assert xid in store.prepared()
                store.commit(xid)

        with ThreadPoolExecutor(4) as pool:
            working = [pool.submit(work, thread) for thread in range(3)]
            while not all(one.done() for one in working):
                store.adapter.clean_up()
            for one in working:
                one.result()
        assert (store.queue.message_count, store.topic.subscription_message_count(ANN)) == (30, 30)


def test_a_transaction_shares_the_queue_of_writes_and_keeps_its_place(database_url: str) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        with one_batch():
            pending: list[Any] = [store.queue.add_message(text_message(1))]
            pending.append(store.prepare(ONE, adds=(2,)))
            pending.append(store.queue.add_message(text_message(3)))
            pending.append(store.prepare(TWO, removes=(1,)))
            pending.append(store.queue.add_message(text_message(4)))
        for completion in pending:
            completion.result(WAIT_S)
        assert numbers(store.queue) == [3, 4]
        with one_batch():
            pending = [store.transactions.commit_prepared(ONE), store.queue.add_message(text_message(5))]
            pending.append(store.transactions.rollback_prepared(TWO))
        for completion in pending:
            completion.result(WAIT_S)
        assert numbers(store.queue) == [1, 3, 4, 2, 5]
        assert store.queue.message_count == 5


def test_what_waits_behind_a_transaction_is_told_when_the_store_is_abandoned(database_url: str) -> None:
    with opened(database_url) as store, one_batch():
        pending = [store.prepare(ONE, adds=(1,)), store.prepare(TWO, adds=(2,))]
        pending.append(store.queue.add_message(text_message(3)))
        store.adapter.abandon()
        assert all(completion.exception(WAIT_S) is not None for completion in pending)
    with opened(database_url) as store:
        assert store.prepared() == {}


# -- limits and schemas ----------------------------------------------------------------------------------------------


def test_a_transaction_is_bounded(database_url: str) -> None:
    with opened(database_url, transaction_messages_max=3, transaction_bytes_max=10_000) as store:
        subscribe(store.topic, ANN)
        transaction = store.transactions.begin(ONE)
        transaction.add_message(store.queue, text_message(1))
        with pytest.raises(StoreError, match="transaction_bytes_max, 10000 bytes"):
            transaction.add_message(store.queue, text_message(2, "x" * 10_000))
        transaction.remove_message(store.queue, MessageId(None, 0, 77))
        transaction.acknowledge(store.topic, ANN, MessageId(None, 0, 77))
        with pytest.raises(StoreError, match="transaction_messages_max, 3 messages"):
            transaction.add_message(store.queue, text_message(2))
        with pytest.raises(StoreError, match="transaction_messages_max, 3 messages"):
            transaction.remove_message(store.queue, MessageId(None, 0, 78))
        with pytest.raises(StoreError, match="transaction_messages_max, 3 messages"):
            transaction.acknowledge(store.topic, ANN, MessageId(None, 0, 78))
        transaction.commit().result(WAIT_S)
        assert numbers(store.queue) == [1]


def test_without_our_table_no_topic_messages_are_acknowledged_in_doubt(database_url: str) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        (acked,) = add(store.topic, 1)
    execute(database_url, "DROP TABLE JDBCSTORE_PREPARED_ACKS")
    with opened(database_url, create_tables_on_startup=False) as store:
        with pytest.raises(SchemaMismatch, match="schema upgrade"):
            store.prepare(ONE, acknowledges=(acked,))
        store.prepare(TWO, adds=(2,), publishes=(3,)).result(WAIT_S)
        store.commit(TWO)
        assert (numbers(store.queue), len(left(store.topic))) == ([2], 2)
        store.topic.delete_subscription(ANN).result(WAIT_S)
        store.adapter.delete_all_messages()
    engine = open_engine(database_url)
    with engine.connect() as connection:
        assert [one.name for one in inspect_schema(connection).findings()] == ["prepared_acks"]
    assert upgrade_schema(engine).has_prepared_acks
    engine.dispose()


def test_an_id_that_is_too_long_is_refused(database_url: str) -> None:
    with opened(database_url) as store, pytest.raises(StoreError, match="65 bytes"):
        store.transactions.begin(XATransactionId(1, b"x" * 65, b""))


# -- Java brokers in between -----------------------------------------------------------------------------------------


def test_left_over_bytes_are_not_trusted(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, 1, 2, 3)
        store.prepare(ONE, adds=(4,)).result(WAIT_S)
        (removed,) = add(store.queue, 5)
    # The array of another transaction, filled again and again.
    execute(
        database_url,
        f"UPDATE ACTIVEMQ_MSGS SET XID = '{_with_head(added_xid(TWO), b'+', 77)}' WHERE XID IS NOT NULL",
        f"UPDATE ACTIVEMQ_MSGS SET XID = '{_with_head(removed_xid(TWO), b'?', 78)}' WHERE ID = {removed}",
        f"UPDATE ACTIVEMQ_ACKS SET XID = '{_with_head(ack_xid(TWO, 0, 0), b'-', ids[1])}'",
    )
    with opened(database_url) as store:
        found = store.prepared()
        assert [m.message_id.producer_sequence_id for m in found[ONE].added if m.message_id] == [4]
        assert [one.broker_sequence_id for _, one in found[TWO].removed] == [removed]
        assert [one.broker_sequence_id for _, _, one in found[TWO].acknowledged] == [ids[1]]
        assert (numbers(store.queue), left(store.topic)) == ([], ids[2:])
        store.commit(TWO)
        store.commit(ONE)
        assert (numbers(store.queue), left(store.topic), java.marks()) == ([4], ids[2:], [ids[1]])


def _with_head(column: str, kind: bytes, number: int) -> str:
    return b64encode(kind + number.to_bytes(8, "big") + b"\x04" + b64decode(column)[10:]).decode()


def test_what_nobody_can_read_stays_hidden(database_url: str, connection: Connection) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        add(store.queue, 1, 2)
    execute(
        database_url,
        "UPDATE ACTIVEMQ_MSGS SET XID = 'nonsense' WHERE ID = 1",
        "UPDATE ACTIVEMQ_ACKS SET XID = 'nonsense'",
    )
    with opened(database_url) as store:
        assert store.prepared() == {}
        assert (numbers(store.queue), store.queue.message_count) == ([2], 1)
        store.queue.remove_all_messages().result(WAIT_S)
    assert messages(connection) == [(1, "nonsense")]


@pytest.mark.parametrize("commits", [True, False])
def test_a_java_broker_decided_about_what_the_column_shows(database_url: str, java: JavaBroker, commits: bool) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, *range(6))
        store.prepare(ONE, acknowledges=(ids[0], ids[1], ids[4])).result(WAIT_S)
    (column,) = columns(java)
    assert column is not None
    if commits:
        java.acknowledges(column[1])
    else:
        execute(database_url, "UPDATE ACTIVEMQ_ACKS SET XID = NULL")
    with opened(database_url) as store:
        assert store.prepared() == {}
        assert left(store.topic) == (ids[2:] if commits else ids)
        store.prepare(ONE, acknowledges=(ids[5],)).result(WAIT_S)  # what is left of it does not matter
        assert left(store.topic) == (ids[2:5] if commits else ids[:5])
        assert ours(java.connection) == [(plain_xid(ONE), ids[5], 1)]


def test_a_java_broker_put_another_transaction_over_it(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, *range(6))
        store.prepare(ONE, adds=(9,), acknowledges=(ids[0], ids[4])).result(WAIT_S)
    execute(database_url, f"UPDATE ACTIVEMQ_ACKS SET XID = '{ack_xid(TWO, ids[1], 4)}'")
    with opened(database_url) as store:
        assert set(store.prepared()) == {ONE, TWO}
        assert left(store.topic) == ids[2:]
        store.commit(ONE)
        assert (numbers(store.queue), left(store.topic)) == ([9], ids[2:])
        store.roll_back(TWO)
        assert (left(store.topic), columns(java)) == (ids, [None])


def test_a_subscription_that_a_java_broker_made_anew_inherits_no_doubt(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, BOB, ANN)
        ids = add(store.topic, *range(4))
        acknowledge(store.topic, ids[0])
        store.prepare(ONE, acknowledges=(ids[1],)).result(WAIT_S)
        store.prepare(TWO, acknowledges=(ids[2],)).result(WAIT_S)
    java.unsubscribes()
    java.subscribes(retroactive=True)
    with opened(database_url) as store:
        assert store.prepared() == {}
        assert left(store.topic) == ids


def test_ids_that_were_given_out_again_are_not_in_doubt(database_url: str, java: JavaBroker) -> None:
    with opened(database_url) as store:
        subscribe(store.topic, ANN)
        ids = add(store.topic, 1, 2, 3)
        store.prepare(ONE, acknowledges=(ids[0],)).result(WAIT_S)
        store.prepare(TWO, acknowledges=(ids[1],)).result(WAIT_S)
    java.removes(*ids)
    java.sends(ids[1], 77)
    with opened(database_url) as store:
        assert left(store.topic) == [ids[1]]
        assert set(store.prepared()) == {ONE}, "by the column; nothing is left of the other"


# -- the command -----------------------------------------------------------------------------------------------------


def test_an_operator_decides(database_url: str, capsys: pytest.CaptureFixture[str]) -> None:
    with opened(database_url, locker="lease") as store:
        subscribe(store.topic, ANN)
        ids, (removed,) = add(store.topic, 1, 2), add(store.queue, 3)
        store.prepare(ONE, adds=(4, 5), removes=(removed,), acknowledges=(ids[0],)).result(WAIT_S)
        store.prepare(TWO, adds=(6,)).result(WAIT_S)
        assert jdbcstore(["transactions", "list", database_url, "--json"]) == 0
        found = {one["xid"]: one for one in json.loads(capsys.readouterr().out)}
        assert set(found) == {xid_text(ONE), xid_text(TWO)}
        assert found[xid_text(ONE)] == {
            "xid": "55:474c4f42414c2d31:4252",
            "adds": {"queue://TEST": 2},
            "removes": {"queue://TEST": 1},
            "acknowledges": {"topic://T of ann/news": 1},
        }
        assert jdbcstore(["transactions", "commit", database_url, xid_text(ONE), "--yes"]) == 3
        assert "master" in capsys.readouterr().err
        assert set(store.prepared()) == {ONE, TWO}
    assert jdbcstore(["transactions", "commit", database_url, xid_text(ONE), "--yes"]) == 0
    assert jdbcstore(["transactions", "rollback", database_url, xid_text(TWO), "--yes"]) == 0
    assert jdbcstore(["transactions", "rollback", database_url, xid_text(TWO), "--yes"]) == 1
    assert "not in doubt" in capsys.readouterr().err
    assert jdbcstore(["transactions", "commit", database_url, "nonsense", "--yes"]) == 2
    assert jdbcstore(["transactions", "list", database_url]) == 0
    assert "nothing is in doubt" in capsys.readouterr().out
    with opened(database_url) as store:
        assert (numbers(store.queue), left(store.topic)) == ([4, 5], ids[1:])
