"""How fast a LevelDB log is read and replayed, on one core: MB and records a second.

python -m benchmarks.leveldb_log [MESSAGES] [BODY_BYTES]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections import deque
from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.openwire import marshal
from jdbcstore.store.journal.leveldb.log import LogScan, content, log_files
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
        read_s = replay_s = float("inf")
        for _ in range(_REPEATS):
            began = time.process_time()
            for path in log_files(directory).values():
                with path.open("rb") as source:
                    deque(LogScan(content(source), 0).units(), maxlen=0)
            read_s = min(read_s, time.process_time() - began)
            began = time.process_time()
            found = recover(directory)
            replay_s = min(replay_s, time.process_time() - began)
        records = found.state.records + found.state.units
        print(
            f"body {body_bytes} B: {size / 1e6:.0f} MB, {records} records,"
            f" read {size / read_s / 1e6:.0f} MB/s ({records / read_s:,.0f} records/s),"
            f" replayed {size / replay_s / 1e6:.0f} MB/s ({records / replay_s:,.0f} records/s)"
        )
    finally:
        shutil.rmtree(directory)


if __name__ == "__main__":
    main()
