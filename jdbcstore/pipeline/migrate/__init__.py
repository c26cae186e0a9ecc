"""Everything of a store into an empty one, byte for byte, and compared afterwards.

Read it in this order: `jdbcstore.migration.rows` (what one task does at a time), `jdbcstore.migration.holding` (who may
write to the new store, and until when nobody else may), `bulk` (rows into a database), `stores` (from a SQL store),
`journals` (from KahaDB), `making`.
"""

from jdbcstore.pipeline.migrate.making import Migrated, migrate

__all__ = ["Migrated", "migrate"]
