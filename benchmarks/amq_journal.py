"""How fast one core reads the journal of an AMQ store: ``python -m benchmarks.amq_journal``."""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

from jdbcstore.destination import Queue
from jdbcstore.openwire import marshal
from jdbcstore.openwire.commands import ACK_STANDARD, JournalQueueAck, MessageAck
from jdbcstore.store.journal.amq.encoding import marshal_message
from jdbcstore.store.journal.amq.journal import Journal, framed
from jdbcstore.store.journal.replay import replay
from jdbcstore.testing.messages import text_message

_REPEATS = 3


def written(directory: Path, messages: int, body_bytes: int) -> int:
    """A journal as brokers write it: messages, nine of ten of them acknowledged; its bytes."""
    queue, parts, number, total = Queue("Q"), [], 1, 0
    for n in range(messages):
        message = text_message(n, "x" * body_bytes)
        parts.append(framed(marshal_message(message, queue)))
        if n % 10:
            ack = MessageAck(
                destination=queue, ack_type=ACK_STANDARD, last_message_id=message.message_id, message_count=1
            )
            parts.append(framed(marshal(JournalQueueAck(destination=queue, message_ack=ack), 5)))
        if len(parts) % 20_000 == 0:
            total += (directory / f"data-{number}").write_bytes(b"".join(parts))
            parts, number = [], number + 1
    return total + (directory / f"data-{number}").write_bytes(b"".join(parts))


def main() -> None:
    """Prints a line for each size of message."""
    messages = int(sys.argv[1]) if len(sys.argv) > 1 else 50_000
    for body_bytes in (100, 1024, 4096, 16384):
        with tempfile.TemporaryDirectory() as folder:
            size = written(Path(folder), messages if body_bytes < 4096 else messages // 4, body_bytes)
            read_s = replay_s = float("inf")
            for _ in range(_REPEATS):
                began = time.process_time()
                records = sum(1 for _ in Journal(folder).records())
                read_s = min(read_s, time.process_time() - began)
                began = time.process_time()
                replay(Journal(folder))
                replay_s = min(replay_s, time.process_time() - began)
        print(
            f"body {body_bytes:>6} B: {size / 1e6:6.1f} MB, {records} records, read {size / 1e6 / read_s:6.1f} MB/s"
            f" ({records / read_s:,.0f} records/s), replayed {size / 1e6 / replay_s:6.1f} MB/s"
            f" ({records / replay_s:,.0f} records/s)"
        )


if __name__ == "__main__":
    main()
