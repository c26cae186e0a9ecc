"""A queue store for CoilMQ, chosen in its configuration file::

[coilmq]
qstore.factory = jdbcstore.adapters.coilmq.make_jdbcstore
qstore.jdbcstore.url = sqlite:///data/coilmq.db
"""

from __future__ import annotations

from jdbcstore.adapters.coilmq.queue_store import JdbcQueueStore, make_jdbcstore

__all__ = ["JdbcQueueStore", "make_jdbcstore"]
