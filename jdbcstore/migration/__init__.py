"""Everything of a store into an empty one of any kind, and compared afterwards.

Read it in this order: `plan` (from the first check to the moment that brokers are let in, and what a way to copy is).

The way that this process takes: `contents` (what is in a store at one moment), `summary` (what that comes to), the
three that read it: `tables` (of a SQL store), `journals` (of KahaDB), `stores` (of any other, through the contract),
`target` (who may write to the new store) with `table_target` and `directories`, `contents_copy`, `contents_copier`,
`migration`.

The way of many machines, into tables: `locations`, `lease` (until when nobody else gets them), `rows`, `row_copier`,
and what it copies from: `table_rows` and `journal_rows`. `jdbcstore.pipeline.migrate` has Spark do it.
"""

from jdbcstore.migration.migrated import Migrated, Moved
from jdbcstore.migration.migration import migrate, migrate_contents
from jdbcstore.migration.progress import Showing

__all__ = ["Migrated", "Moved", "Showing", "migrate", "migrate_contents"]
