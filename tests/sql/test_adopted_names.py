"""Tables that a Java broker made, adopted or not: names are told apart whatever the collation, odd rows stop nobody."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Event
from typing import NamedTuple

import pytest
from sqlalchemy import Connection, insert, text

from jdbcstore.config.urls import open_engine, open_store, store_url
from jdbcstore.console.stats import collect
from jdbcstore.destination import Queue
from jdbcstore.errors import CodecError, StoreError
from jdbcstore.faults import inject
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import Message, TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.pipeline.report.stores import counted, counting, producers
from jdbcstore.store.contract import Cursor, MessageStore, PersistenceAdapter
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.schema import upgrade_schema
from jdbcstore.store.jdbc.statements import text_of
from jdbcstore.store.jdbc.tables import Tables
from jdbcstore.testing import DurablePersistenceAdapterContract, OpenAdapter, text_message
from jdbcstore.testing.messages import PRODUCER
from tests.conftest import fresh_database
from tests.migrations.activemq import start_java_broker
from tests.sql.captured import captured
from tests.sql.examining import Examined, examine
from tests.sql.loading import load

pytestmark = pytest.mark.variants(4)

WAIT_S = 90.0
ROOMY_BYTES = 1 << 30


class Schema(NamedTuple):
    """Where a Java broker has made its tables, with which collation, and whether they were adopted afterwards."""

    server: str
    collation: str | None
    is_adopted: bool

    def __str__(self) -> str:
        return f"{self.server}-{self.collation or 'default'}-{'adopted' if self.is_adopted else 'as it was'}"


COLLATIONS: Mapping[str, Sequence[str | None]] = {
    "sqlite": [None],
    "postgresql15": [None],
    "postgresql18": [None],
    "mariadb": ["latin1_swedish_ci", "utf8mb3_general_ci", "utf8mb4_general_ci"],
    "mysql": ["latin1_swedish_ci", "utf8mb3_general_ci", "utf8mb4_general_ci", "utf8mb4_0900_ai_ci"],
}
SCHEMAS = [
    Schema(server, collation, is_adopted)
    for server, collations in COLLATIONS.items()
    for collation in collations
    for is_adopted in (False, True)
]


#: What differs from one of the others in nothing that a test here touches, but the letters that are the same to it.
ALIKE = {
    schema
    for schema in SCHEMAS
    if schema.server == "postgresql18"
    or schema.collation == "utf8mb3_general_ci"
    or (schema.server, schema.collation) in (("mysql", "latin1_swedish_ci"), ("mysql", "utf8mb4_general_ci"))
}


def on(schemas: Iterable[Schema]) -> pytest.MarkDecorator:
    """Run a test or a class on each of these."""
    chosen = [
        pytest.param(schema, marks=[pytest.mark.exhaustive] if schema in ALIKE else [], id=str(schema))
        for schema in schemas
    ]
    return pytest.mark.parametrize("made_url", chosen, indirect=True)


@pytest.fixture(scope="module")
def made_url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A database with a Java broker's tables, one for all tests of this module."""
    schema: Schema = request.param
    if schema.server == "sqlite":
        urls = iter([f"sqlite:///{tmp_path_factory.mktemp('adopted') / 'adopted.db'}"])
    else:
        urls = fresh_database(request, schema.server)
    for url in urls:
        engine = open_engine(url)
        with engine.connect() as connection:
            if schema.collation is not None:
                charset = schema.collation.partition("_")[0]
                connection.execute(text(f"ALTER DATABASE CHARACTER SET {charset} COLLATE {schema.collation}"))
        engine.dispose()  # the next session starts with the new collation
        start_java_broker(engine)
        if schema.is_adopted:
            upgrade_schema(engine)
        engine.dispose()
        yield url


@pytest.fixture
def url(made_url: str) -> Iterator[str]:
    """That database, empty."""
    yield made_url
    engine = open_engine(made_url)
    with engine.connect() as connection:
        connection.execute(text("DELETE FROM ACTIVEMQ_MSGS"))
    engine.dispose()


@pytest.fixture
def open_adapter(url: str) -> OpenAdapter:
    """A new store on it, as the contract suite wants it."""
    return lambda: open_store(url)


@pytest.fixture
def adapter(open_adapter: OpenAdapter) -> Iterator[PersistenceAdapter]:
    """A started store on it."""
    with open_adapter() as adapter:
        yield adapter


@pytest.fixture
def store(adapter: PersistenceAdapter) -> MessageStore:
    """The store of queue TEST."""
    return adapter.queue_message_store(Queue("TEST"))


@pytest.fixture
def connection(url: str) -> Iterator[Connection]:
    """A connection beside the store."""
    engine = open_engine(url)
    with engine.connect() as connection:
        yield connection
    engine.dispose()


@on(schema for schema in SCHEMAS if not schema.is_adopted)
class TestContract:
    """What of the contract suite depends on tables, names and indexes."""

    suite = DurablePersistenceAdapterContract
    test_bytes = suite.test_an_added_message_comes_back_byte_for_byte
    test_get = suite.test_get_by_sequence_and_by_producer
    test_get_of_another = suite.test_get_does_not_see_another_queues_copy
    test_remove = suite.test_remove_by_producer
    test_remove_all = suite.test_remove_all_takes_what_was_added_before_and_nothing_else
    test_pages = suite.test_pages_follow_one_another_without_gap_or_overlap
    test_long_messages = suite.test_a_page_of_long_and_short_messages_keeps_the_order
    test_priorities = suite.test_a_prioritised_queue_pages_from_the_highest_down
    test_destinations = suite.test_destinations_are_those_with_messages
    test_case = suite.test_names_that_differ_in_case_only_are_two_queues
    test_quotes = suite.test_a_name_with_quotes_is_a_name
    test_move = suite.test_a_move_is_one_step
    test_restart = suite.test_everything_is_there_after_a_restart
    del suite


@on(schema for schema in SCHEMAS if schema.collation is not None)
class TestNames:
    """Queues whose names the collation takes for one."""

    NAMES = ("Case", "case", "CASE", "casé", "cäse")

    @pytest.fixture
    def stores(self, adapter: PersistenceAdapter) -> list[MessageStore]:
        """A store for each name, with one message, numbered from 0 on."""
        stores = [adapter.queue_message_store(Queue(name)) for name in self.NAMES]
        for n, store in enumerate(stores):
            store.add_message(text_message(n)).result(WAIT_S)
        return stores

    def test_a_page_has_its_own(self, stores: list[MessageStore]) -> None:
        assert [texts(store) for store in stores] == [[f"message {n}"] for n in range(len(stores))]

    def test_a_sequence_of_another_finds_nothing(self, stores: list[MessageStore]) -> None:
        sequences = [sequence(next(store.recover())) for store in stores]
        found = [[store.get_message(MessageId(PRODUCER, 0, id)) is not None for id in sequences] for store in stores]
        assert found == [[store is other for other in stores] for store in stores]

    def test_a_producer_sequence_of_another_finds_nothing(self, stores: list[MessageStore]) -> None:
        numbers = range(len(stores))
        found = [[store.get_message(MessageId(PRODUCER, n)) is not None for n in numbers] for store in stores]
        assert found == [[store is other for other in stores] for store in stores]

    def test_removing_by_producer_takes_its_own(self, stores: list[MessageStore]) -> None:
        for n in range(len(stores)):
            stores[1].remove_message(MessageId(PRODUCER, n)).result(WAIT_S)
        assert [store.message_count for store in stores] == [1, 0, 1, 1, 1]
        assert [len(texts(store)) for store in stores] == [1, 0, 1, 1, 1]

    def test_removing_all_takes_its_own(self, stores: list[MessageStore]) -> None:
        stores[0].remove_all_messages().result(WAIT_S)
        assert [store.message_count for store in stores] == [0, 1, 1, 1, 1]
        assert [len(texts(store)) for store in stores] == [0, 1, 1, 1, 1]

    def test_each_is_counted_after_a_restart(self, open_adapter: OpenAdapter) -> None:
        with open_adapter() as adapter:
            for n, name in enumerate(self.NAMES):
                store = adapter.queue_message_store(Queue(name))
                for completion in [store.add_message(text_message(m)) for m in range(n + 1)]:
                    completion.result(WAIT_S)
        with open_adapter() as adapter:
            stores = [adapter.queue_message_store(Queue(name)) for name in self.NAMES]
            assert [store.message_count for store in stores] == [1, 2, 3, 4, 5]
            assert adapter.destinations() == {Queue(name) for name in self.NAMES}

    def test_a_blank_at_the_end_makes_another_name(self, url: str, connection: Connection) -> None:
        messages = Tables.on(connection, "").messages
        for id, name in enumerate(["queue://case", "queue://case ", "queue://case"], 1):
            values = {"ID": id, "CONTAINER": name, "MSG": marshal(text_message(id)), "PRIORITY": 0}
            connection.execute(insert(messages).values(values))
        with open_store(url) as adapter:
            store = adapter.queue_message_store(Queue("case"))
            assert [sequence(message) for message in store.recover()] == [1, 3]
            assert store.message_count == 2

    def test_messages_in_doubt_count_for_their_own(self, url: str, connection: Connection) -> None:
        messages = Tables.on(connection, "").messages
        for id, (name, xid) in enumerate([("Case", None), ("case", "xid"), ("case", None)], 1):
            values = {"ID": id, "CONTAINER": f"queue://{name}", "MSG": b"", "PRIORITY": 0, "XID": xid}
            connection.execute(insert(messages).values(values))
        with open_store(url) as adapter:
            stores = [adapter.queue_message_store(Queue(name)) for name in ("Case", "case")]
            assert [store.message_count for store in stores] == [1, 1]


@on(schema for schema in SCHEMAS if schema.is_adopted)
@pytest.mark.parametrize("name", ["plain", "größe", "naïve.café"])
def test_an_adopted_table_has_pages_that_touch_what_they_return(url: str, connection: Connection, name: str) -> None:
    found = examined_page(url, connection, name)
    assert any(index.endswith("jdbcstore_msgs_page") for index in found.indexes), found.plan
    assert found.effort <= found.effort_max, found.plan


@on(schema for schema in SCHEMAS if not schema.is_adopted)
def test_a_page_does_not_walk_through_a_priority(url: str, connection: Connection) -> None:
    found = examined_page(url, connection, "plain")
    assert not any(index.endswith("pidx") for index in found.indexes), found.plan


def examined_page(url: str, connection: Connection, name: str) -> Examined:
    """What a page of 50 of a queue of 100 costs beside one of 2 000."""
    tables = Tables.on(connection, "")
    load(connection, tables, 2_000, CONTAINER="queue://OTHER")
    load(connection, tables, 100, 3_000, CONTAINER=f"queue://{name}")
    if connection.dialect.name == "postgresql":  # it may have looked at the ten rows of another test, and plan for ten
        connection.exec_driver_sql("ANALYZE activemq_msgs")
    with JdbcPersistenceAdapter(store_url(url)) as adapter:
        store = adapter.queue_message_store(Queue(name))
        with captured() as sent:
            assert len(store.recover_next_messages(Cursor(), 50, ROOMY_BYTES).messages) == 50
    (page,) = sent
    return examine(connection, page)


@on(schema for schema in SCHEMAS if schema.collation in (None, "utf8mb4_general_ci"))
class TestOddRows:
    """Rows that no broker of today writes."""

    GOOD = marshal(text_message(1))
    BAD = (
        None,
        b"",
        b"\0",
        b"no frame at all",
        GOOD[:-1],
        GOOD + b"\0",
        b"\0\0\0\1\x01",
        b"\xff" * 40,
        GOOD[:4] + bytes(len(GOOD) - 4),
    )

    def test_a_page_returns_the_good_and_lists_the_bad(self, url: str, connection: Connection) -> None:
        blobs: list[bytes | None] = [self.GOOD]
        for bad in self.BAD:
            blobs += [bad, self.GOOD]
        add_rows(connection, *blobs)
        with open_store(url) as adapter:
            page = adapter.queue_message_store(Queue("TEST")).recover_next_messages(Cursor(), 100, ROOMY_BYTES)
        assert [sequence(message) for message in page.messages] == list(range(1, len(blobs) + 1, 2))
        assert [id for id, _ in page.unreadable] == list(range(2, len(blobs), 2))
        assert all(isinstance(error, CodecError) for _, error in page.unreadable)
        assert page.cursor == Cursor.after(len(blobs))

    @pytest.mark.parametrize("bad", [None, b"no frame at all", b"x" * 200_000], ids=["null", "short", "long"])
    def test_reading_moves_past_more_bad_rows_than_fit_a_page(
        self, url: str, connection: Connection, bad: bytes | None
    ) -> None:
        add_rows(connection, self.GOOD, bad, bad, bad, bad, bad, self.GOOD)
        with open_store(url) as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            assert [sequence(message) for message in store.recover(2)] == [1, 7]
            assert store.message_count == 7

    def test_a_bad_row_is_an_error_when_asked_for_and_can_be_removed(self, url: str, connection: Connection) -> None:
        add_rows(connection, None, b"no frame at all", self.GOOD)
        with open_store(url) as adapter:
            store = adapter.queue_message_store(Queue("TEST"))
            for id in (1, 2):
                with pytest.raises(CodecError):
                    store.get_message(MessageId(PRODUCER, 0, id))
                store.remove_message(MessageId(PRODUCER, 0, id)).result(WAIT_S)
            assert [sequence(message) for message in store.recover()] == [3]
            assert store.message_count == 1

    @pytest.mark.parametrize("prioritized", [False, True])
    def test_rows_without_a_priority_count_as_the_lowest(
        self, url: str, connection: Connection, prioritized: bool
    ) -> None:
        add_rows(connection, *[self.GOOD] * 6, priorities=(None, 0, None, 0, 0, None))
        with open_store(url) as adapter:
            store = adapter.queue_message_store(Queue("TEST"), prioritized=prioritized)
            store.add_message(text_message(7, priority=0)).result(WAIT_S)
            assert [sequence(message) for message in store.recover(2)] == [1, 2, 3, 4, 5, 6, 7]


@on(schema for schema in SCHEMAS if schema.collation in ("latin1_swedish_ci", "utf8mb3_general_ci"))
class TestNamesThatTheTableCannotHold:
    """Old character sets lack most of the world's letters."""

    @pytest.fixture
    def impossible(self, adapter: PersistenceAdapter) -> MessageStore:
        """The store of a queue with such a name."""
        return adapter.queue_message_store(Queue("\N{GRINNING FACE}"))

    def test_reading_finds_nothing(self, impossible: MessageStore) -> None:
        assert list(impossible.recover()) == []
        assert impossible.get_message(MessageId(PRODUCER, 1)) is None
        assert impossible.message_count == 0

    def test_writing_fails_and_says_so(self, impossible: MessageStore) -> None:
        with pytest.raises(StoreError):
            impossible.add_message(text_message(1)).result(WAIT_S)
        with pytest.raises(StoreError):
            impossible.remove_all_messages().result(WAIT_S)
        assert impossible.message_count == 0

    def test_writing_fails_alone(self, impossible: MessageStore, store: MessageStore) -> None:
        let_go = Event()
        with inject("writer.before_commit", let_go.wait):  # all but the first will be one batch
            pending = [store.add_message(text_message(1))]
            pending.append(store.add_message(text_message(2)))
            refused_add = impossible.add_message(text_message(3))
            refused_purge = impossible.remove_all_messages()
            nothing = impossible.remove_message(MessageId(PRODUCER, 77))
            pending.append(store.add_message(text_message(4)))
            let_go.set()
            for completion in pending:
                completion.result(WAIT_S)
            assert isinstance(refused_add.exception(WAIT_S), StoreError)
            assert isinstance(refused_purge.exception(WAIT_S), StoreError)
            nothing.result(WAIT_S)
        assert texts(store) == ["message 1", "message 2", "message 4"]
        assert store.message_count == 3


def add_rows(connection: Connection, *blobs: bytes | None, priorities: Sequence[int | None] = ()) -> None:
    """Rows of queue TEST with ids from 1 on."""
    messages = Tables.on(connection, "").messages
    for id, blob in enumerate(blobs, 1):
        connection.execute(
            insert(messages).values(
                ID=id,
                CONTAINER="queue://TEST",
                MSGID_PROD=str(PRODUCER),
                MSGID_SEQ=id,
                EXPIRATION=0,
                MSG=blob,
                PRIORITY=priorities[id - 1] if priorities else 0,
            )
        )


def texts(store: MessageStore) -> list[str | None]:
    """The bodies of everything in a queue."""
    return [message.text for message in store.recover() if isinstance(message, TextMessage)]


def sequence(message: Message) -> int:
    """The id of a message's row."""
    assert message.message_id is not None
    return message.message_id.broker_sequence_id


@on(schema for schema in SCHEMAS if schema.collation in ("latin1_swedish_ci", "utf8mb4_general_ci"))
def test_tools_count_names_apart_that_a_collation_confuses(url: str) -> None:
    producers_of = {"Case": ProducerId("ID:App-1-1-1:1", 1, 1), "case": ProducerId("ID:app-1-1-1:1", 1, 1)}
    with open_store(url) as adapter:
        for name, count in (("Case", 2), ("case", 3)):
            for number in range(1, count + 1):
                message = text_message(number, destination=Queue(name))
                message.producer_id = producers_of[name]
                message.message_id = MessageId(producers_of[name], number)
                adapter.queue_message_store(Queue(name)).add_message(message).result(WAIT_S)
    expected = {"queue://Case": 2, "queue://case": 3}
    assert {row.destination: row.depth for row in collect(url)} == expected
    with counting(url) as (connection, statements):
        assert {row["destination"]: row["depth"] for row in counted(connection, statements)} == expected
        found = {row["client"]: row["messages"] for row in producers(connection, statements)}
        assert found == {"ID:App-1-1-1": 2, "ID:app-1-1-1": 3}
        sized = connection.execute(text(statements.containers_sized))
        assert {text_of(name): count for name, count, _ in sized} == expected
