"""For authors of stores: the contract suite that every store of this package passes, and messages to feed it.

Subclass `DurablePersistenceAdapterContract`, and `DurableTopicContract` for a store with topics, in a test module and
provide a fixture ``open_adapter``. Needs pytest.
"""

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.messages import text_message
from jdbcstore.testing.topics import DurableTopicContract, TopicContract

__all__ = [
    "DurablePersistenceAdapterContract",
    "DurableTopicContract",
    "OpenAdapter",
    "PersistenceAdapterContract",
    "TopicContract",
    "text_message",
]
