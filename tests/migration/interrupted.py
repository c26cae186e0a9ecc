"""A migration that dies at a given point: ``python -m tests.migration.interrupted POINT before|after SIGNAL FROM TO``.

A point is a number, counted over everything that changes the target, from 1, or the name of such a function. A
migration that does not come to it is complete.
"""

from __future__ import annotations

import functools
import os
import signal
import sys
from collections.abc import Callable
from typing import Any

from jdbcstore.cli import run
from jdbcstore.migration import contents_copier, contents_copy, directories, table_target
from jdbcstore.store.jdbc.adapter import JdbcPersistenceAdapter
from jdbcstore.store.jdbc.topics import JdbcTopicMessageStore
from jdbcstore.store.jdbc.transactions import JdbcTransactionStore
from jdbcstore.store.journal.kahadb.adapter import KahaDBPersistenceAdapter
from jdbcstore.store.journal.topics import JournalTopicMessageStore
from jdbcstore.store.journal.transactions import JournalTransactionStore


def main() -> int:
    point, when, number = sys.argv[1], sys.argv[2], int(sys.argv[3])
    signal.signal(signal.SIGINT, signal.default_int_handler)  # who starts us in the background lets us ignore it
    contents_copy._BATCH_MESSAGES = 7  # type: ignore[misc]
    passed = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def wrapper(*arguments: Any, **named: Any) -> Any:
            nonlocal passed
            passed += 1
            is_here = point in (str(passed), function.__name__)
            if is_here and when == "before":
                os.kill(os.getpid(), number)
            found = function(*arguments, **named)
            if is_here and when == "after":  # what was begun is perhaps done, perhaps not
                os.kill(os.getpid(), number)
            return found

        return wrapper

    for owner, name in (
        (JdbcPersistenceAdapter, "commit_together"),
        (JdbcPersistenceAdapter, "queue_message_store"),
        (JdbcPersistenceAdapter, "stop"),
        (JdbcTopicMessageStore, "add_subscription"),
        (JdbcTransactionStore, "_prepare"),
        (KahaDBPersistenceAdapter, "commit_together"),
        (KahaDBPersistenceAdapter, "queue_message_store"),
        (KahaDBPersistenceAdapter, "stop"),
        (JournalTopicMessageStore, "add_subscription"),
        (JournalTransactionStore, "_prepare"),
        (directories, "_name"),
        (table_target, "hold"),
        (table_target, "release"),
        (contents_copier, "_differences"),
    ):
        setattr(owner, name, counted(getattr(owner, name)))
    code = run(["migrate", "--quiet", "--json", *sys.argv[4:]])
    print(passed, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
