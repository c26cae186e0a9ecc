"""One producer, ten durable subscribers: how fast a topic with durable subscriptions is, next to ActiveMQ.

``python -m benchmarks.durable_fan_out [--database postgresql] [--messages 5000]`` starts on each database (all four
unless told) a real ActiveMQ and then our broker, on KahaDB where ours is on SQLite. The producer sends persistent
messages, each with a receipt, some of them in flight; every subscriber receives and acknowledges all of them. A line
for each broker says:

* **published**: receipts a second, and the time from a send to its receipt;
* **delivered**: deliveries a second to all subscribers together, and the time from a send to its delivery;
* **memory**: the most that the broker's process had.

A subscription that is slower than the producer makes the time of a delivery that of a growing backlog: with
``--in-flight 1`` it is that of the broker.
"""

from __future__ import annotations

import click

from benchmarks.contestants import DATABASES, opponents, peak_memory_mib, workshop
from benchmarks.load import Scenario, fan_out


@click.command(help=__doc__)
@click.option("--database", "databases", multiple=True, type=click.Choice(DATABASES), help="May be repeated.")
@click.option("--messages", default=5000, show_default=True, help="Sent by the producer.")
@click.option("--subscribers", default=10, show_default=True)
@click.option("--in-flight", default=100, show_default=True, help="Sends without a receipt at any moment.")
@click.option("--body-bytes", default=1024, show_default=True, type=click.IntRange(20), help="Bytes of each body.")
@click.option("--ack", default="client", show_default=True, type=click.Choice(["auto", "client", "client-individual"]))
def main(
    databases: tuple[str, ...], messages: int, subscribers: int, in_flight: int, body_bytes: int, ack: str
) -> None:
    """Measure and print."""
    scenario = Scenario("durable fan-out", "send", subscribers, in_flight, messages, 0)
    warm_up = Scenario("warm-up", "send", subscribers, in_flight, max(1, messages // 10), 0)
    with workshop() as shop:
        for contestant in opponents(databases):
            with contestant.running(shop.room(contestant.name), shop.class_path) as running:
                fan_out(shop.generator, running.port, "/topic/WARM", warm_up, body_bytes, ack, "warm")
                sent, delivered = fan_out(
                    shop.generator, running.port, "/topic/BENCH", scenario, body_bytes, ack, "bench"
                )
                mib = peak_memory_mib(running.pid)
            print(
                f"{contestant.name:<21} published {sent.described}  delivered {delivered.described}  {mib:5,.0f} MiB",
                flush=True,
            )


if __name__ == "__main__":
    main()
