"""How fast a KahaDB journal of 100 MB is read on one core: walked with checksums, decoded, replayed.

Two journals: one of a broker with many producers (1 KiB text messages, 64 records in a batch, four of five messages
consumed), one of a single producer that waits for each receipt (a batch for each record). A real directory may be given
instead. Files are read once before, so that the disk is not measured.

    python -m benchmarks.kahadb_journal [--json] [DIRECTORY]
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterable
from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId, ProducerId
from jdbcstore.message import TextMessage
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import ACK_STANDARD, MessageAck
from jdbcstore.primitives import Long
from jdbcstore.store.journal.commands import AddMessage, Command, RemoveMessage
from jdbcstore.store.journal.kahadb.journal import Journal, JournalFile
from jdbcstore.store.journal.replay import replay
from tests.unit.kahadb.journals import END, batch

JOURNAL_BYTES = 100_000_000
FILE_BYTES = 32 << 20
ROUNDS = 5


def commands() -> Iterable[Command]:
    """Messages of fifty producers to ten queues, and acknowledgements of four in five, a while later."""
    producers = [ProducerId(f"ID:host.example-40001-1700000000000-1:{i}", 1, 1) for i in range(50)]
    queues = [Queue(f"ORDERS.EUROPE.{i}") for i in range(10)]
    waiting: deque[Command] = deque()
    number = 0
    while True:
        producer, queue = producers[number % 50], queues[number % 10]
        message = TextMessage(
            producer_id=producer,
            destination=queue,
            message_id=MessageId(producer, number, number),
            timestamp=1_700_000_000_000 + number,
            broker_in_time=1_700_000_000_001 + number,
        )
        message.text = (f"order {number} " * 128)[:1024]
        message.properties = {"customer": f"C{number}", "region": "EU", "attempt": 1, "placed": Long(1_700_000_000)}
        yield AddMessage(None, queue, str(message.message_id), marshal(message), 4, False)
        if number % 5:
            ack = MessageAck(
                destination=queue,
                ack_type=ACK_STANDARD,
                first_message_id=message.message_id,
                last_message_id=message.message_id,
                message_count=1,
            )
            waiting.append(RemoveMessage(None, queue, str(message.message_id), marshal(ack)))
        if len(waiting) > 1000:
            yield waiting.popleft()
        number += 1


def write(folder: Path, records_per_batch: int, journal_bytes: int = JOURNAL_BYTES) -> None:
    """A journal in files of `FILE_BYTES`."""
    source = iter(commands())
    written, number, data = 0, 1, bytearray()
    while written + len(data) < journal_bytes:
        data += batch(*(next(source) for _ in range(records_per_batch)))
        if len(data) > FILE_BYTES:
            (folder / f"db-{number}.log").write_bytes(data + END)
            written, number, data = written + len(data), number + 1, bytearray()
    (folder / f"db-{number}.log").write_bytes(data + END)


def walk(folder: Path) -> None:
    """All batches with their checksums."""
    for number, path in Journal(folder).files.items():
        with path.open("rb") as source:
            deque(JournalFile(source, number).batches(), maxlen=0)


def decode(folder: Path) -> None:
    """All records, walked, too."""
    deque(Journal(folder).records(), maxlen=0)


def measure(folder: Path) -> dict[str, float]:
    """MB a second by what is done, and records a second of the replay; of the best round, the others were disturbed."""
    size = sum(path.stat().st_size for path in Journal(folder).files.values())
    records = sum(1 for _ in Journal(folder).records())
    steps: dict[str, Callable[[], object]] = {
        "walked with checksums, MB/s": lambda: walk(folder),
        "decoded, MB/s": lambda: decode(folder),
        "replayed, MB/s": lambda: replay(Journal(folder)),
    }
    found = {name: size / 1e6 / min(_seconds(step) for _ in range(ROUNDS)) for name, step in steps.items()}
    found["replayed, records/s"] = found["replayed, MB/s"] * 1e6 / size * records
    return {name: round(rate) for name, rate in found.items()}


def _seconds(call: Callable[[], object]) -> float:
    start = time.process_time()
    call()
    return time.process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="for machines")
    parser.add_argument("directory", type=Path, nargs="?", help="a KahaDB directory, instead of those that are made")
    arguments = parser.parse_args()
    results = {}
    if arguments.directory is not None:
        results[str(arguments.directory)] = measure(arguments.directory)
    else:
        for name, records_per_batch in (("64 records a batch", 64), ("1 record a batch", 1)):
            with tempfile.TemporaryDirectory(prefix="jdbcstore-benchmark-") as folder:
                write(Path(folder), records_per_batch)
                results[name] = measure(Path(folder))
    if arguments.json:
        print(json.dumps(results))
        return
    for name, rates in results.items():
        print(name)
        for what, rate in rates.items():
            print(f"  {what:<30}{rate:>12,}")


if __name__ == "__main__":
    main()
