"""For authors of stores: the contract suites that every store of this package passes, and messages to feed them.

Subclass `DurablePersistenceAdapterContract`, and `DurableTopicContract` for a store with topics, in a test module and
provide a fixture ``open_adapter``; subclass `ExclusiveLockerContract` for a locker of your own and provide a fixture
``open_locker``. Needs pytest.
"""

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.lockers import ExclusiveLockerContract, LockerContract, OpenLocker
from jdbcstore.testing.messages import text_message
from jdbcstore.testing.topics import DurableTopicContract, TopicContract

__all__ = [
    "DurablePersistenceAdapterContract",
    "DurableTopicContract",
    "ExclusiveLockerContract",
    "LockerContract",
    "OpenAdapter",
    "OpenLocker",
    "PersistenceAdapterContract",
    "TopicContract",
    "text_message",
]
