"""Transactions of ten and of a hundred persistent sends through STOMP, next to ActiveMQ.

``python -m benchmarks.transactions [--database postgresql] [--messages 20000]`` starts on each database (all four
unless told) a real ActiveMQ and then our broker, on KahaDB where ours is on SQLite. One producer, and then sixteen at
the same time, send BEGIN, the messages and a COMMIT with a receipt, wait for that, and begin the next one. A line for
each says how many transactions and messages a second were committed, and how long a transaction took from its BEGIN
to the receipt.
"""

from __future__ import annotations

import click

from benchmarks.contestants import DATABASES, opponents, workshop
from benchmarks.load import Scenario, run

BATCHES = (10, 100)
PRODUCERS = (1, 16)


@click.command(help=__doc__)
@click.option("--database", "databases", multiple=True, type=click.Choice(DATABASES), help="May be repeated.")
@click.option("--messages", default=20_000, show_default=True, help="In each measurement, of all producers together.")
@click.option("--body-bytes", default=1024, show_default=True, help="Bytes of each body.")
def main(databases: tuple[str, ...], messages: int, body_bytes: int) -> None:
    """Measure and print."""
    with workshop() as shop:
        for contestant in opponents(databases):
            with contestant.running(shop.room(contestant.name), shop.class_path) as running:
                run(shop.generator, running.port, Scenario("warm-up", "tx", 4, 10, 50, 0), "/queue/WARM", body_bytes)
                for producers in PRODUCERS:
                    for batch in BATCHES:
                        each = max(1, messages // batch // producers)
                        scenario = Scenario("transactions", "tx", producers, batch, each, 0)
                        found = run(shop.generator, running.port, scenario, "/queue/BENCH", body_bytes)
                        what = f"{contestant.name:<21} {producers:>2} producers  batch {batch:>3}"
                        messages_s = found.rate * batch
                        print(f"{what}  commits {found.described}  {messages_s:>7,.0f} messages/s", flush=True)


if __name__ == "__main__":
    main()
