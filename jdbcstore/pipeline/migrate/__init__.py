"""Everything of a store into an empty one, byte for byte, and compared afterwards.

Read it in this order: `ranges` (what one task does at a time), `target` (who may write to the new store, and until when
nobody else may), `bulk` (rows into a database), `stores` (from a SQL store), `journals` (from KahaDB), `making`.
"""

from jdbcstore.pipeline.migrate.making import Migrated, migrate

__all__ = ["Migrated", "migrate"]
