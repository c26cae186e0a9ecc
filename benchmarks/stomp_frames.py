"""How fast STOMP frames are read and written, on one core: ``python benchmarks/stomp_frames.py``.

A SEND with six headers (one of them new in every frame, as receipts are) and a body of 1 KiB is read; a MESSAGE with
eight headers (three of them new in every frame) and the same body is written. Measured is processor time, so that a
busy machine does not change the result; the best of many rounds is shown. Exits with 1 when a goal is missed.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

from jdbcstore.stomp import FrameParser, StompConnection, serialise

FRAMES = 3000  # more than the number of header lines that are remembered
ROUNDS = 20
BODY = b"x" * 1024
READ_GOAL_US = 6.0
WRITE_GOAL_US = 5.0


def sends() -> list[bytes]:
    """SEND frames as a client writes them."""
    return [
        serialise(
            "SEND",
            {
                "destination": "/queue/orders",
                "persistent": "true",
                "content-type": "application/json",
                "priority": "4",
                "customer": "north",
                "receipt": f"receipt-{number}",
            },
            BODY,
        )
        for number in range(FRAMES)
    ]


def messages() -> list[dict[str, str]]:
    """Headers of MESSAGE frames as the broker fills them."""
    return [
        {
            "message-id": f"ID:broker-1795175458021-3:1:-1:1:{number}",
            "destination": "/queue/orders",
            "timestamp": str(1795175458021 + number),
            "expires": "0",
            "priority": "4",
            "persistent": "true",
            "subscription": "orders",
            "ack": f"ID:broker-1795175458021-4:{number}",
        }
        for number in range(FRAMES)
    ]


def connected() -> StompConnection:
    """A connection that speaks 1.2."""
    connection = StompConnection()
    connection.receive_data(b"CONNECT\naccept-version:1.2\n\n\0")
    connection.send_connected("benchmark", "benchmark", (0, 0))
    connection.data_to_send()
    return connection


def best_us(work: Callable[[], None]) -> float:
    """Processor time of one frame in µs; `work` handles `FRAMES` of them."""
    best = float("inf")
    for _ in range(ROUNDS):
        start = time.process_time_ns()
        work()
        best = min(best, time.process_time_ns() - start)
    return best / FRAMES / 1000


def main() -> int:
    """Measure, print, judge."""
    frames, headers = sends(), messages()
    stream = b"".join(frames)
    chunks = [stream[start : start + 65536] for start in range(0, len(stream), 65536)]
    connection = connected()

    def parse_one_by_one() -> None:
        parser = FrameParser()
        parser.speak("1.2")
        for frame in frames:
            parser.feed(frame)
            while parser.next_frame() is not None:
                pass

    def parse_chunks() -> None:
        parser = FrameParser()
        parser.speak("1.2")
        for chunk in chunks:
            parser.feed(chunk)
            while parser.next_frame() is not None:
                pass

    def receive() -> None:
        for chunk in chunks:
            connection.receive_data(chunk)

    def write_one_by_one() -> None:
        for header in headers:
            serialise("MESSAGE", header, BODY)

    def send() -> None:
        for header in headers:
            connection.send_message(header, BODY)
        connection.data_to_send()

    missed = 0
    for name, work, goal_us in (
        ("SEND, a frame per chunk", parse_one_by_one, READ_GOAL_US),
        ("SEND, chunks of 64 KiB", parse_chunks, READ_GOAL_US),
        ("SEND to event, 64 KiB", receive, READ_GOAL_US),
        ("MESSAGE, a frame at once", write_one_by_one, WRITE_GOAL_US),
        ("send_message", send, WRITE_GOAL_US),
    ):
        took_us = best_us(work)
        missed += took_us > goal_us
        print(f"{name:26} {took_us:6.2f} µs   goal {goal_us:.0f}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
