"""For authors of stores: the contract suites that every store of this package passes, and messages to feed them.

Subclass `DurablePersistenceAdapterContract`, `DurableTopicContract` for a store with topics and
`DurableScheduleContract` for one of scheduled messages,
`DurableTransactionContract` for one with transactions, in a test module and provide a fixture
``open_adapter``; `KilledStoreContract` for one that has a URL, with a fixture ``store_url``. Subclass
`ExclusiveLockerContract` for a locker of your own and provide a fixture ``open_locker``. Needs pytest: the extra
``jdbcstore[testing]``. docs/write-a-store.md shows a whole one.
"""

import pytest

# Before the modules are imported: a failed assertion tells its values.
pytest.register_assert_rewrite(
    *(
        f"{__name__}.{module}"
        for module in ("contract", "kill", "lockers", "schedule_contract", "topics", "transactions")
    )
)

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.kill import KilledStoreContract
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
    "KilledStoreContract",
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
