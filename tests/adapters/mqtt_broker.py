"""amqtt's broker with our plug-in, in a process of its own: ``python -m tests.adapters.mqtt_broker URL PORT``.

On SIGUSR1 it prints how many messages are committed: sessions, retained, queued.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from typing import Any

from amqtt.broker import Broker
from amqtt.plugins.base import BaseAuthPlugin

from jdbcstore import Queue
from jdbcstore.adapters.amqtt import JdbcSessionPlugin

__all__ = ["AnyName", "Observed"]


class AnyName(BaseAuthPlugin):
    """Lets everybody in who has a name; that is not the same to amqtt as letting in nobody."""

    async def authenticate(self, *, session: Any) -> bool:
        """Whether there is a name."""
        return session.username is not None


class Observed(JdbcSessionPlugin):
    """Our plug-in, and what it has stored."""

    def __init__(self, context: Any) -> None:
        super().__init__(context)
        stores = [self._adapter.queue_message_store(Queue(f"amqtt.{kind}")) for kind in KINDS]
        asyncio.get_running_loop().add_signal_handler(
            signal.SIGUSR1, lambda: print("committed", *(store.message_count for store in stores), flush=True)
        )


KINDS = ("sessions", "retained", "queued")


async def main(url: str, port: int) -> None:
    """Run until SIGTERM."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    names = f"{Observed.__module__}.{AnyName.__name__}", f"{Observed.__module__}.{Observed.__name__}"
    broker = Broker(
        {
            "listeners": {"default": {"type": "tcp", "bind": f"127.0.0.1:{port}"}},
            "plugins": {names[0]: {}, names[1]: {"url": url}},
        }
    )
    await broker.start()
    print("ready", flush=True)
    await stopping.wait()
    await broker.shutdown()


if __name__ == "__main__":
    from tests.adapters import mqtt_broker  # the classes that amqtt finds by name, not those of __main__

    asyncio.run(mqtt_broker.main(sys.argv[1], int(sys.argv[2])))
