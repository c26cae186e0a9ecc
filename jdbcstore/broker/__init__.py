"""The broker: destinations, subscriptions, transactions and mastership on one asyncio loop, over any
`PersistenceAdapter`. Knows no protocol and no sockets of clients: transports bring them."""
