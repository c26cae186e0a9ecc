"""Celery on a SQLite file: no server to install, and tasks that survive a crash.

As a program of its own it runs tasks in a worker beside it::

    python examples/celery_orders.py

With workers in processes of their own, on the same file::

    BROKER=jdbcstore+sqlite:///orders.db celery -A examples.celery_orders worker
"""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

from celery import Celery, chord
from celery.contrib.testing.worker import start_worker

FILE = Path(tempfile.gettempdir()) / f"orders-{os.getpid()}.db"

app = Celery("orders", broker=os.environ.get("BROKER", f"jdbcstore+sqlite:///{FILE}"), backend="cache+memory://")
app.conf.task_acks_late = True  # a task whose worker dies runs again


@app.task
def price(order: str, apples: int) -> int:
    """What an order costs."""
    return apples * 120


@app.task
def invoice(prices: list[int]) -> str:
    """All orders together."""
    return f"{sum(prices) / 100:.2f}"


def main() -> None:
    """Price three orders, one of them in a second, and write one invoice."""
    with start_worker(app, perform_ping_check=False):
        orders = [price.s("A-1", 3), price.s("A-2", 5), price.s("A-3", 2).set(countdown=1)]
        print("invoice:", chord(orders, invoice.s()).apply_async().get(timeout=30))


if __name__ == "__main__":
    main()
