"""A pool of threads that are there before they are needed.

A pool that makes its threads one by one may need the next one at a moment at which the system gives it none. Then the
call that it was for would be lost, and with it what waits for its answer: a page of a queue, or a login.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

__all__ = ["ReadyThreads"]


class ReadyThreads(ThreadPoolExecutor):
    """So many threads from the beginning to the end.

    Args:
        count: how many.
        name: what their names begin with.

    Raises:
        RuntimeError: the system does not give so many.
    """

    def __init__(self, count: int, name: str) -> None:
        super().__init__(count, thread_name_prefix=name)
        together = threading.Barrier(count)  # nobody takes two of these calls, so there is a thread for each
        try:
            for _ in range(count):
                self.submit(together.wait)
        except RuntimeError:
            together.abort()
            self.shutdown()
            raise
