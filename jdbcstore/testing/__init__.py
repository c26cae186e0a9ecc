"""For authors of stores: the contract suites that every store of this package passes, and messages to feed them.

Subclass `DurablePersistenceAdapterContract`, `DurableTopicContract` for a store with topics and
`DurableScheduleContract` for one of scheduled messages,
`DurableTransactionContract` for one with transactions, in a test module and provide a fixture
``open_adapter``; subclass `ExclusiveLockerContract` for a locker of your own and provide a fixture
``open_locker``. Needs pytest.
"""

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.lockers import ExclusiveLockerContract, LeaseLockerContract, LockerContract, OpenLocker
from jdbcstore.testing.messages import text_message
from jdbcstore.testing.schedule_contract import DurableScheduleContract, ScheduleContract
from jdbcstore.testing.topics import DurableTopicContract, TopicContract
from jdbcstore.testing.transactions import DurableTransactionContract, TransactionContract

__all__ = [
    "DurablePersistenceAdapterContract",
    "DurableScheduleContract",
    "DurableTopicContract",
    "DurableTransactionContract",
    "ExclusiveLockerContract",
    "LeaseLockerContract",
    "LockerContract",
    "OpenAdapter",
    "OpenLocker",
    "PersistenceAdapterContract",
    "ScheduleContract",
    "TopicContract",
    "TransactionContract",
    "text_message",
]
