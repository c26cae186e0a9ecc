"""The broker host: sockets, sessions, queues and topics on one asyncio loop, over any `PersistenceAdapter`."""
