"""For authors of stores: the contract suite that every store of this package passes, and messages to feed it.

Subclass `DurablePersistenceAdapterContract` in a test module and provide a fixture ``open_adapter``. Needs pytest.
"""

from jdbcstore.testing.contract import DurablePersistenceAdapterContract, OpenAdapter, PersistenceAdapterContract
from jdbcstore.testing.messages import text_message

__all__ = ["DurablePersistenceAdapterContract", "OpenAdapter", "PersistenceAdapterContract", "text_message"]
