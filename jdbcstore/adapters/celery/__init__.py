"""A transport for kombu, and so for Celery: the broker of `jdbcstore`, over STOMP.

``import jdbcstore.adapters.celery`` makes the scheme ``jdbcstore`` known to kombu. Celery needs no import: kombu's
entry points do it. The URLs are told in `jdbcstore.adapters.celery.urls`.

============== ====================================================================================
`urls`         makes the scheme known, and the URLs readable for kombu
`transport`    one connection: connecting, delivering, kombu's event loop
`channel`      what kombu asks for: declare, bind, publish, consume, acknowledge
`consumption`  a queue that is consumed from: subscriptions of the broker, and what is not settled
`bindings`     which queues an exchange has: kept in a queue of the broker, for all who publish
`envelope`     kombu's messages ↔ STOMP frames
`wakeup`       what ends the wait of kombu's event loop
`embedded`     a broker inside of the program, on the URL of a store
============== ====================================================================================
"""

from __future__ import annotations

from jdbcstore.adapters.celery.urls import SERIALIZER, register

__all__ = ["SERIALIZER", "register"]

register()
