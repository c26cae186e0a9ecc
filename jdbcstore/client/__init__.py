"""A client inside the broker's process: no socket, no protocol, no server to run.

With threads::

    >>> import jdbcstore
    >>> with jdbcstore.connect("memory:") as connection:
    ...     message_id = connection.send("ORDERS", "three apples", properties={"customer": 7})
    ...     with connection.subscribe("ORDERS", selector="customer = 7") as orders:
    ...         message = orders.receive(timeout_s=30)
    ...         with connection.transaction() as transaction:
    ...             transaction.acknowledge(message)
    ...             message_id = transaction.send("INVOICES", f"for {message.body}")
    ...     print([invoice.body for invoice in connection.browse("INVOICES")])
    ['for three apples']

On asyncio::

    >>> import asyncio
    >>> async def main():
    ...     async with jdbcstore.connect_async("memory:") as connection:
    ...         await asyncio.gather(*(connection.send("ORDERS", f"order {n}") for n in range(3)))
    ...         async with await connection.subscribe("ORDERS", mode="auto") as orders:
    ...             print([(await orders.receive()).body for _ in range(3)])
    >>> asyncio.run(main())
    ['order 0', 'order 1', 'order 2']

``connect`` takes the URL of any store and keeps everything that the broker promises: what `send` has returned from is
committed, an acknowledgement is final when `acknowledge` returns, what was received and not acknowledged is delivered
again. docs/embedding.md has the rest.

==================== ===============================================================================================
`connector`          `jdbcstore.connect` and `jdbcstore.connect_async`, with a broker of their own where they get a URL
`async_connection`   connections, subscriptions, transactions for asyncio
`connection`         the same for threads
`thread_bridge`      from threads into the event loop
`replies`            requests and their answers
`port`               one client of the broker's face
`requests`           its requests: futures, in their order
`mailbox`            what was delivered and not received yet
`outgoing_message`   from the arguments of `send` to a message
`subscribe_options`  from the arguments of `subscribe` to what the broker is asked for
`received`           a message as its receiver sees it
==================== ===============================================================================================
"""
