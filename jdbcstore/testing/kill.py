"""kill -9, as tests: what a store has told to be stored survives the death of its process.

The store is opened by its URL in a process of its own (``python -m jdbcstore.testing.kill URL``), which adds and
removes messages and tells what has succeeded, until it is killed in the middle of that.
"""

from __future__ import annotations

import subprocess
import sys
from collections import deque
from typing import Final

import pytest

import jdbcstore
from jdbcstore.destination import Queue
from jdbcstore.identifiers import MessageId
from jdbcstore.store.completion import Completion
from jdbcstore.store.contract import MessageStore
from jdbcstore.testing.messages import PRODUCER, text_message

__all__ = ["KilledStoreContract"]

_QUEUE: Final = Queue("KILLED")
#: How many writes are under way at a time, and every how many messages one is removed.
_UNDER_WAY: Final = 20
_REMOVED_EVERY: Final = 3
_KILLS: Final = 3
_TOLD_BEFORE_KILL: Final = 150


class KilledStoreContract:
    """The suite for a store that has a URL, as `jdbcstore.open_store` takes it.

    The fixture ``store_url`` gives one of an empty store. Its lock, if it has one, must not outlive its process by more
    than a few seconds.
    """

    @pytest.fixture
    def store_url(self) -> str:
        raise NotImplementedError("provide a fixture store_url")

    def test_what_was_told_survives_kill_9(self, store_url: str) -> None:
        added: set[int] = set()
        removed: set[int] = set()
        for _ in range(_KILLS):
            first = max(added, default=0) + _UNDER_WAY + 1
            for verb, number in _told_by_a_process_that_is_killed(store_url, first):
                (added if verb == "added" else removed).add(number)
            with jdbcstore.open_store(store_url) as adapter:
                stored = _numbers(adapter.queue_message_store(_QUEUE))
                last = adapter.last_message_broker_sequence_id()
                assert stored == sorted(set(stored)), "messages are in the order in which they were added, each once"
                assert not (added - removed) - set(stored) - _perhaps_removed(added, removed), "what was told is there"
                assert not removed & set(stored), "what was removed does not come back"
                assert last >= len(stored), "sequences are not given out twice"
        assert len(added) >= _KILLS * _TOLD_BEFORE_KILL / 2


def _perhaps_removed(added: set[int], removed: set[int]) -> set[int]:
    """What may be removed although nobody was told: its removal was under way."""
    return {number for number in added - removed if number % _REMOVED_EVERY == 0}


def _told_by_a_process_that_is_killed(url: str, first: int) -> list[tuple[str, int]]:
    """What it has told until then."""
    told: list[tuple[str, int]] = []
    command = [sys.executable, "-m", "jdbcstore.testing.kill", url, str(first)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            if line.endswith("\n"):  # else it was killed while it said that
                verb, number = line.split()
                told.append((verb, int(number)))
            if len(told) == _TOLD_BEFORE_KILL:
                process.kill()
    assert len(told) >= _TOLD_BEFORE_KILL, f"the process ended with {process.returncode} before it was killed"
    return told


def _numbers(store: MessageStore) -> list[int]:
    return [message.message_id.producer_sequence_id for message in store.recover() if message.message_id is not None]


def _write_until_killed(url: str, first: int) -> None:
    with jdbcstore.open_store(url) as adapter:
        store = adapter.queue_message_store(_QUEUE)
        under_way: deque[tuple[str, int, Completion[int] | Completion[None]]] = deque()
        for number in range(first, first + 1_000_000):
            under_way.append(("added", number, store.add_message(text_message(number, destination=_QUEUE))))
            earlier = number - _UNDER_WAY
            if earlier >= first and earlier % _REMOVED_EVERY == 0:
                under_way.append(("removed", earlier, store.remove_message(MessageId(PRODUCER, earlier))))
            while len(under_way) >= _UNDER_WAY:
                verb, done, completion = under_way.popleft()
                completion.result(60.0)
                print(verb, done, flush=True)


if __name__ == "__main__":
    _write_until_killed(sys.argv[1], int(sys.argv[2]))
