"""The Celery application of the tests. Run by real workers.

``TEST_BROKER`` and ``TEST_RESULTS`` say where, ``TEST_HEARTBEAT_S`` how often a worker and its broker say something.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from celery import Celery

app = Celery("tests", broker=os.environ.get("TEST_BROKER"), backend=os.environ.get("TEST_RESULTS"))
app.conf.update(
    broker_heartbeat=float(os.environ.get("TEST_HEARTBEAT_S", "120")),
    task_acks_late=True,
    task_reject_on_worker_lost=True,
    worker_prefetch_multiplier=4,
    worker_cancel_long_running_tasks_on_connection_loss=False,
    broker_connection_max_retries=None,
    broker_connection_timeout=60,
    broker_connection_retry_on_startup=True,
    worker_send_task_events=True,
    task_send_sent_event=True,
)


@app.task
def add(x: int, y: int) -> int:
    """The sum."""
    return x + y


@app.task
def limited(x: int) -> int:
    """The same number; for who limits how often it runs."""
    return x


@app.task
def total(numbers: list[int]) -> int:
    """The sum of all."""
    return sum(numbers)


@app.task
def note(path: str, text: str, pause_s: float = 0.0) -> None:
    """Write a line when it begins, and another one when it is done."""
    with Path(path).open("a") as file:
        file.write(f"begin {text}\n")
    time.sleep(pause_s)
    with Path(path).open("a") as file:
        file.write(f"end {text}\n")


@app.task(bind=True, max_retries=3)
def second_try(self: Any) -> int:
    """Fails at first, and asks to be run again in a second."""
    if not self.request.retries:
        raise self.retry(countdown=1)
    return int(self.request.retries)
