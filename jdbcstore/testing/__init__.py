"""For authors of stores: the contract suites that every store of this package passes, and messages to feed them.

Subclass `DurablePersistenceAdapterContract` in a test module and provide a fixture ``open_adapter``; subclass
`ExclusiveLockerContract` for a locker of your own and provide a fixture ``open_locker``. Needs pytest.
"""

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.lockers import ExclusiveLockerContract, LockerContract, OpenLocker
from jdbcstore.testing.messages import text_message

__all__ = [
    "DurablePersistenceAdapterContract",
    "ExclusiveLockerContract",
    "LockerContract",
    "OpenAdapter",
    "OpenLocker",
    "PersistenceAdapterContract",
    "text_message",
]
