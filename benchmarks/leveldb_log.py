"""How fast a LevelDB log is read and replayed, on one core: MB and records a second.

python benchmarks/leveldb_log.py [MESSAGES] [BODY_BYTES]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.openwire import marshal
from jdbcstore.store.journal.leveldb.records import (
    ADD_COLLECTION,
    ADD_ENTRY,
    DATA,
    QUEUE,
    REMOVE_ENTRY,
    SEQUENCE,
    UNIT_END,
    CollectionRecord,
    EntryRecord,
    framed,
)
from jdbcstore.store.journal.leveldb.recovery import recover
from jdbcstore.testing.messages import text_message

_REPEATS = 5


def write(directory: Path, messages: int, body_bytes: int) -> int:
    """A log as ActiveMQ writes it: each message and each acknowledgement is a unit of work. Returns its bytes."""
    data = marshal(text_message(1, "x" * body_bytes, destination=Queue("Q")))
    out = bytearray()

    def unit(*records: bytes) -> None:
        position = len(out)
        out.extend(b"".join(records) + framed(UNIT_END, SEQUENCE.pack(position)))

    unit(framed(ADD_COLLECTION, CollectionRecord(1, QUEUE, b"queue://Q").written()))
    record = framed(DATA, data)
    for n in range(1, messages + 1):
        location = len(out)
        unit(record, framed(ADD_ENTRY, EntryRecord(1, SEQUENCE.pack(n), location, len(data)).written()))
        if n % 2:
            unit(framed(REMOVE_ENTRY, EntryRecord(1, SEQUENCE.pack(n), location).written()))
    (directory / "0000000000000000.log").write_bytes(out)
    return len(out)


def main() -> None:
    """Measure and print."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    body_bytes = int(sys.argv[2]) if len(sys.argv) > 2 else 1024
    directory = Path(tempfile.mkdtemp())
    try:
        size = write(directory, messages, body_bytes)
        best_s = float("inf")
        for _ in range(_REPEATS):
            began = time.process_time()
            found = recover(directory)
            best_s = min(best_s, time.process_time() - began)
        records = found.state.records + found.state.units
        print(
            f"{size / 1e6:.0f} MB, {records} records: {size / best_s / 1e6:.0f} MB/s, {records / best_s:.0f} records/s"
        )
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
