"""Where the proof stands in what is sent: after work of unknown length, and in one packet with the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Self, cast

import pytest
from sqlalchemy.engine.interfaces import DBAPIConnection

from jdbcstore.store.completion import Completion
from jdbcstore.store.jdbc.dialect import Dialect, dialect_for
from jdbcstore.store.jdbc.fence import Fence
from jdbcstore.store.jdbc.options import JdbcOptions
from jdbcstore.store.jdbc.rows import ProducerRow, Purge
from jdbcstore.store.jdbc.statements import Statements
from jdbcstore.store.jdbc.writes import Batch, Write

FENCE = Fence("east-0123456789ab", 7, idle_ms=5000)
PROOF = re.compile(r"EXECUTE jdbcstore_fence|FOR SHARE|LOCK IN SHARE MODE")
PURGE = "DELETE FROM ACTIVEMQ_MSGS WHERE CONTAINER"


class Recorder:
    """As much of the drivers' connections and cursors as is used; keeps each packet as text."""

    rowcount = 0

    def __init__(self) -> None:
        self.packets: list[str] = []
        self.notices: list[str] = []  # psycopg2 keeps warnings of the server there
        self.has_prepared_add: bool | None = None
        self.is_broken = False

    def cursor(self) -> Self:
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def execute(self, statement: bytes) -> None:
        self.packets.append(statement.decode(errors="surrogateescape"))
        if self.is_broken:
            raise RuntimeError

    def copy_expert(self, statement: bytes, data: object, size: int) -> None:
        self.execute(statement)

    def query(self, statement: bytes) -> int:
        self.execute(statement)
        return 1

    def next_result(self) -> int:
        return 0


def packets(
    name: str, send: Callable[[Dialect, DBAPIConnection], object], recorder: Recorder | None = None
) -> list[str]:
    recorder = recorder or Recorder()
    send(dialect_for(name)(JdbcOptions(), Statements(""), has_page_index=True), cast(DBAPIConnection, recorder))
    return recorder.packets


def adds(first: int, rows: int, length: int = 100) -> Write:
    return Write.of_rows([(n, "ID:p", n, "queue://A", 0, 4, b"x" * length) for n in range(first, first + rows)])


def purge() -> Write:
    return Write(Completion(), purges=[Purge("queue://B", 77)])


BATCHES: dict[str, Sequence[Write]] = {
    "one add": [adds(1, 1)],
    "some adds": [adds(1, 5)],
    "many adds": [adds(1, 40)],
    "more than a packet": [adds(1, 3, 700_000)],
    "a remove": [Write(Completion(), removes=[3])],
    "adds and removes": [adds(1, 5), Write(Completion(), removes=[1000])],
    "many adds and removes": [adds(1, 40), Write(Completion(), removes=[1000])],
    "a mark and its add": [
        Write(Completion(), adds=[(1, "p", 1, "queue://A", 0, 4, b"x")], producers=[ProducerRow("p", 1)])
    ],
    "a mark": [Write(Completion(), producers=[ProducerRow("p", 1)])],
    "a forgotten producer": [Write(Completion(), forgets=["p"])],
    "an update": [Write(Completion(), updates=[(3, b"blob")])],
    "a purge": [purge()],
    "a purge and an add": [purge(), adds(1, 1)],
    "a purge and many adds": [purge(), adds(1, 40), Write(Completion(), removes=[1000])],
}


@pytest.mark.parametrize("batch", BATCHES)
@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_the_proof_of_every_batch_goes_out_in_one_packet_with_its_end(name: str, batch: str) -> None:
    sent = packets(name, lambda dialect, connection: dialect.write(connection, Batch(BATCHES[batch]), FENCE))
    assert [bool(PROOF.search(packet)) for packet in sent] == [False] * (len(sent) - 1) + [True]
    if name == "postgresql":
        assert "BEGIN" not in "".join(sent)  # a query of several statements is a transaction
    else:
        assert sent[-1].endswith(";COMMIT") or ";" not in sent[-1]  # one statement is one, too
    assert len(sent) == 1 or batch == "more than a packet"


def add_one(dialect: Dialect, connection: DBAPIConnection) -> None:
    dialect.write(connection, Batch([adds(1, 1)]), FENCE)


def test_a_lone_message_is_added_by_a_statement_that_is_prepared_with_the_first() -> None:
    recorder = Recorder()
    packets("postgresql", add_one, recorder)
    first, second = packets("postgresql", add_one, recorder)
    assert second.startswith("EXECUTE jdbcstore_add(1,'ID:p',1,'queue://A',0,4,'\\x78")
    assert second.endswith("78');EXECUTE jdbcstore_fence")
    columns = "(ID, MSGID_PROD, MSGID_SEQ, CONTAINER, EXPIRATION, PRIORITY, MSG)"
    insert = f"INSERT INTO ACTIVEMQ_MSGS {columns} VALUES ($1,$2,$3,$4,$5,$6,$7)"
    assert first == f"PREPARE jdbcstore_add AS {insert};{second}"


def test_after_a_failure_to_prepare_a_session_does_without() -> None:
    """Whether the server had prepared it when it failed is not known."""
    recorder = Recorder()
    recorder.is_broken = True
    with pytest.raises(RuntimeError):
        packets("postgresql", add_one, recorder)
    recorder.is_broken = False
    _, second = packets("postgresql", add_one, recorder)
    assert second.startswith("INSERT INTO ACTIVEMQ_MSGS ")
    assert second.endswith(";EXECUTE jdbcstore_fence")


@pytest.mark.parametrize("batch", [name for name in BATCHES if "purge" in name])
@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_nothing_is_proved_before_a_purge(name: str, batch: str) -> None:
    (sent,) = packets(name, lambda dialect, connection: dialect.write(connection, Batch(BATCHES[batch]), FENCE))
    proof = PROOF.search(sent)
    assert proof is not None
    assert sent.index(PURGE) < proof.start()


@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_deleting_everything_is_one_packet_with_the_proof_behind_the_work(name: str) -> None:
    (sent,) = packets(name, lambda dialect, connection: dialect.transact(connection, ["DELETE FROM X"], FENCE))
    proof = PROOF.search(sent)
    assert proof is not None
    assert sent.index("DELETE FROM X") < proof.start()


@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_without_a_fence_nothing_is_proved(name: str) -> None:
    def send(dialect: Any, connection: DBAPIConnection) -> None:
        dialect.transact(connection, ["DELETE FROM X"], None)
        for writes in BATCHES.values():
            dialect.write(connection, Batch(writes))

    assert not any(PROOF.search(packet) for packet in packets(name, send))


@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_a_holder_s_name_is_a_literal_whatever_is_in_it(name: str) -> None:
    odd = Fence("o'hara\\-1", 7, idle_ms=5000)
    (sent,) = packets(name, lambda dialect, connection: dialect.prove(connection, odd))
    assert ("'o''hara\\-1'" if name == "postgresql" else "'o\\'hara\\\\-1'") in sent


@pytest.mark.parametrize(
    ("lock_session", "row", "named"),
    [(None, "ACTIVEMQ_LOCK WHERE ID=1 ", "BROKER_NAME='east'"), (42, "JDBCSTORE_TERM WHERE ID=1 ", "HOLDER='east'")],
)
@pytest.mark.parametrize("name", ["postgresql", "mysql"])
def test_the_row_that_a_takeover_changes_is_asked(name: str, lock_session: int | None, row: str, named: str) -> None:
    fence = Fence("east", 7, idle_ms=5000, lock_session=lock_session)
    (sent,) = packets(name, lambda dialect, connection: dialect.prove(connection, fence))
    assert row in sent
    assert named in sent
